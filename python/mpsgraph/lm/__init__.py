"""Language models: load, generate, serve, and save checkpoints of the common families.

`load` reads a checkpoint, `generate` and `stream` continue a prompt, `create` makes a model to train, and `quantize`
packs the weights at 2 to 8 bits. The families are mappings to two models, `Decoder` and `Encoder`
(docs/language_models.md).
"""

from __future__ import annotations

from .adapters import adapter_names, add_adapters, merge_adapters, remove_adapters, select_adapters
from .architecture import Architecture, Rotary
from .datasets import TokenBatches, chat_dataset, completion_dataset, text_dataset
from .decoder import Decoder, Encoder, LanguageModel
from .files import create, load, save
from .generation import Piece, generate, stream
from .peft import load_adapters, save_adapters
from .prompt_cache import PromptCache
from .quantization import quantize
from .sampling import Sampler
from .server import Server
from .tokenizer import Tokenizer

__all__ = [
    "Architecture",
    "Decoder",
    "Encoder",
    "LanguageModel",
    "Piece",
    "PromptCache",
    "Rotary",
    "Sampler",
    "Server",
    "TokenBatches",
    "Tokenizer",
    "adapter_names",
    "add_adapters",
    "chat_dataset",
    "completion_dataset",
    "create",
    "generate",
    "load",
    "load_adapters",
    "merge_adapters",
    "quantize",
    "remove_adapters",
    "save",
    "save_adapters",
    "select_adapters",
    "stream",
    "text_dataset",
]
