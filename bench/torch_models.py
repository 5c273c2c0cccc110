"""PyTorch programs for bench/torch_programs.py: six plain ones, and models from torchvision and transformers.

They have moderate sizes, random float32 weights, and no dropout. tests/pytorch/models.py has the wrappers that map
tensors to a loss. Programs whose package is not installed are skipped.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Made = tuple[Any, Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]
"""A module, its loss function (outputs, *labels), its inputs, and its labels."""

PROGRAMS: dict[str, tuple[str, Callable[[], Made]]] = {}
"""Dict from program names to the package that a program needs and the function that builds the program."""


def program(name: str, package: str = "torch") -> Callable[[Callable[[], Made]], Callable[[], Made]]:
    def enter(make: Callable[[], Made]) -> Callable[[], Made]:
        PROGRAMS[name] = package, make
        return make

    return enter


def available() -> list[str]:
    return [name for name, (package, _) in PROGRAMS.items() if importlib.util.find_spec(package)]


def made(name: str) -> Made:
    """Build a program, always with the same weights and the same batch."""
    import torch

    torch.manual_seed(0)
    return PROGRAMS[name][1]()


# --- plain programs ---------------------------------------------------------------------------------------------------
@program("perceptron")
def perceptron() -> Made:
    import torch
    from torch import nn

    layers = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)]
    return nn.Sequential(*layers), nn.functional.cross_entropy, (torch.randn(64, 784),), (torch.arange(64) % 10,)


@program("convolutions")
def convolutions() -> Made:
    import torch
    from torch import nn

    layers: list[Any] = []
    for inner, outer in ((1, 32), (32, 64)):
        layers += [nn.Conv2d(inner, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Flatten(), nn.Linear(64 * 49, 10)]
    return nn.Sequential(*layers), nn.functional.cross_entropy, (torch.randn(32, 1, 28, 28),), (torch.arange(32) % 10,)


@program("transformer")
def transformer() -> Made:
    import torch
    from torch import nn

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(256, 128), nn.Embedding(64, 128)
            block = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, activation="gelu", batch_first=True)
            self.blocks, self.head = nn.TransformerEncoder(block, 4, enable_nested_tensor=False), nn.Linear(128, 256)
            self.register_buffer("mask", torch.triu(torch.full((64, 64), -math.inf), 1))

        def forward(self, x: Any) -> Any:
            y = self.words(x) + self.places(torch.arange(x.shape[1]))
            return self.head(self.blocks(y, self.mask, is_causal=True)).transpose(1, 2)

    words = torch.randint(0, 256, (4, 64)), torch.randint(0, 256, (4, 64))
    return Words(), nn.functional.cross_entropy, words[:1], words[1:]


@program("LSTM")
def sequences() -> Made:
    import torch
    from torch import nn

    class Sequences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.recurrent, self.head = nn.LSTM(32, 64, batch_first=True), nn.Linear(64, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.recurrent(x)[0][:, -1])

    return Sequences(), nn.functional.cross_entropy, (torch.randn(32, 16, 32),), (torch.arange(32) % 10,)


@program("volumes")
def volumes() -> Made:
    import torch
    from torch import nn

    layers: list[Any] = []
    for inner, outer, stride in ((3, 32, 1), (32, 64, 2), (64, 64, 1)):
        layers += [nn.Conv3d(inner, outer, 3, stride, padding=1), nn.BatchNorm3d(outer), nn.ReLU()]
    layers += [nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(64, 10)]
    return nn.Sequential(*layers), nn.functional.cross_entropy, (torch.randn(4, 3, 16, 32, 32),), (torch.arange(4),)


@program("LSTM of words")
def sequences_of_words() -> Made:
    import torch
    from torch import nn

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.recurrent = nn.Embedding(1000, 512), nn.LSTM(512, 512, batch_first=True)
            self.head = nn.Linear(512, 1000)

        def forward(self, x: Any) -> Any:
            return self.head(self.recurrent(self.words(x))[0]).transpose(1, 2)

    words = torch.randint(0, 1000, (32, 64)), torch.randint(0, 1000, (32, 64))
    return Words(), nn.functional.cross_entropy, words[:1], words[1:]


# --- torchvision and transformers -------------------------------------------------------------------------------------
def wrappers() -> Any:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from pytorch import models

    return models


def vision(name: str, size: int, batch: int, **options: Any) -> None:
    @program(name, "torchvision")
    def make() -> Made:
        import torch

        module = getattr(wrappers().torchvision().models, name)(num_classes=10, **options)
        for part in module.modules():
            if isinstance(part, torch.nn.Dropout) or type(part).__name__ == "StochasticDepth":
                part.p = 0.0
        images, labels = torch.randn(batch, 3, size, size), torch.arange(batch) % 10
        return module, torch.nn.functional.cross_entropy, (images,), (labels,)


vision("resnet18", 64, 16)
vision("mobilenet_v2", 32, 32)
vision("mobilenet_v3_small", 64, 16)
vision("efficientnet_b0", 64, 8)
vision("densenet121", 64, 8)
vision("convnext_tiny", 64, 4)
vision("swin_t", 64, 4)


SIZES = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 512}


def words() -> Any:
    import torch

    return torch.randint(2, 512, (4, 64))


def language(name: str, make: Callable[[Any, Any], tuple[Any, tuple[str, ...], tuple[Any, ...]]]) -> None:
    @program(name, "transformers")
    def whole() -> Made:
        models = wrappers()
        inner, names, inputs = make(models, models.transformers())
        fixed = {} if name in ("bert", "vit") else {"use_cache": False}
        return models.Model(inner, names, **fixed), models.itself, inputs, ()


def bert(models: Any, t: Any) -> Any:
    inner = t.BertForMaskedLM(t.BertConfig(vocab_size=512, **SIZES, **models.STILL))
    return inner, ("input_ids", "labels"), (words(), words())


def gpt2(models: Any, t: Any) -> Any:
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": 1}
    config = t.GPT2Config(vocab_size=512, n_positions=64, n_embd=128, n_layer=2, n_head=4, **still)
    x = words()
    return t.GPT2LMHeadModel(config), ("input_ids", "labels"), (x, x.clone())


def llama(models: Any, t: Any) -> Any:
    config = t.LlamaConfig(vocab_size=512, num_key_value_heads=2, max_position_embeddings=64, **SIZES)
    x = words()
    return t.LlamaForCausalLM(config), ("input_ids", "labels"), (x, x.clone())


def t5(models: Any, t: Any) -> Any:
    config = t.T5Config(vocab_size=512, d_model=128, d_kv=32, d_ff=512, num_layers=2, num_heads=4, dropout_rate=0.0)
    config.decoder_start_token_id = 0
    return t.T5ForConditionalGeneration(config), ("input_ids", "labels"), (words(), words())


def vit(models: Any, t: Any) -> Any:
    import torch

    inner = t.ViTForImageClassification(
        t.ViTConfig(image_size=32, patch_size=4, num_labels=10, **SIZES, **models.STILL)
    )
    return inner, ("pixel_values", "labels"), (torch.randn(8, 3, 32, 32), torch.arange(8))


for _name, _make in (("bert", bert), ("gpt2", gpt2), ("llama", llama), ("t5", t5), ("vit", vit)):
    language(_name, _make)
