"""Models of Hugging Face's transformers with random weights, written as checkpoints, and the logits of our models."""

import json
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest

from harness.language_models import CONFIGURATIONS, ENCODERS

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()


def tokens_of(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return random tokens, without those that have a special meaning."""
    return np.random.default_rng(seed).integers(4, 96, shape).astype(np.int32)


def class_of(name: str) -> type:
    return transformers.AutoModelForMaskedLM if name in ENCODERS else transformers.AutoModelForCausalLM


def written(folder: Path, name: str, scale: float = 0.1, **more: object):
    """Write a checkpoint with transformers, with random weights, and return the model and the published entries.

    Args:
        folder: Folder to write.
        name: Name of the configuration.
        scale: Standard deviation of the matrices.
        **more: Entries that replace published ones.
    """
    entries = {**CONFIGURATIONS[name], **more}
    (folder / "config.json").write_text(json.dumps(entries))
    torch.manual_seed(0)
    configuration = transformers.AutoConfig.from_pretrained(folder)
    model = class_of(name).from_config(configuration, attn_implementation="eager", dtype=torch.float32).eval()
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            # Small embeddings: a model with a tied head and large ones would only repeat its input.
            own = 0.1 if "embed" in path or "wte" in path else scale if parameter.ndim > 1 else 0.2
            parameter.add_(torch.randn_like(parameter) * own)
    model.save_pretrained(folder)
    return model, entries


def logits_of(model: mg.lm.LanguageModel, tokens: np.ndarray, **more: np.ndarray) -> np.ndarray:
    g = model.embedding.weight.graph
    x = g.placeholder((-1, -1), mg.int32)
    fed = {key: g.placeholder(value.shape, value.dtype) for key, value in more.items()}
    y = model(x, **fed)
    return g.run({x: tokens, **{fed[key]: value for key, value in more.items()}}, y).numpy()
