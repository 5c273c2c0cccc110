"""Train small models of torchvision and transformers with random weights, and compare their losses with PyTorch's.

Both packages are optional; models of a missing package are skipped. torchvision's wheels on PyPI contain kernels for
one version of PyTorch; where they do not load, its Python part runs without them.

    python tests/pytorch/models.py             train all models, with the backend and compile_step; print differences
    python tests/pytorch/models.py --only bert
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import re
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import mpsgraph as mg
import numpy as np
import torch

STEPS = 5
TOLERANCE = 1e-3
"""Relative tolerance of losses."""

Made = tuple[torch.nn.Module, Callable[..., Any], tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]
"""A module, its loss (outputs, *labels), its inputs, and its labels."""

MODELS: dict[str, Callable[[], Made]] = {}


def model(name: str) -> Callable[[Callable[[], Made]], Callable[[], Made]]:
    def enter(make: Callable[[], Made]) -> Callable[[], Made]:
        MODELS[name] = make
        return make

    return enter


# --- torchvision ------------------------------------------------------------------------------------------------------
_library: Any = None


def torchvision() -> Any:
    """Import torchvision, declaring two operators by hand where its compiled part does not load."""
    global _library
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import torchvision as found
        except RuntimeError:
            # Declaring these operators in advance would end the process if the compiled part declares them as well.
            for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
                del sys.modules[name]
            _library = torch.library.Library("torchvision", "FRAGMENT")
            _library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            _library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            import torchvision as found
    return found


def transformers() -> Any:
    """Import transformers, which imports torchvision if that is installed."""
    with contextlib.suppress(ImportError):
        torchvision()
    import transformers as found

    return found


def classified(size: int, classes: int = 10, batch: int = 4) -> tuple[Any, Any, Any]:
    images = torch.randn(batch, 3, size, size)
    return torch.nn.functional.cross_entropy, (images,), (torch.randint(0, classes, (batch,)),)


def vision(name: str, size: int, **options: Any) -> None:
    @model(name)
    def make() -> Made:
        module = getattr(torchvision().models, name)(num_classes=10, **options)
        for part in module.modules():  # Dropout is disabled because its random numbers differ from PyTorch's.
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
            if type(part).__name__ == "StochasticDepth":
                part.p = 0.0
        # In float32, the gradients of a batch this small differ from float64 by several percent, in PyTorch as well.
        loss, (images,), labels = classified(size)
        return module.double(), loss, (images.double(),), labels


vision("resnet18", 64)
vision("mobilenet_v3_small", 64)
vision("efficientnet_b0", 64)
vision("densenet121", 64)
vision("vit_b_16", 32, image_size=32)
vision("swin_t", 64)
vision("convnext_tiny", 64)


class Detector(torch.nn.Module):
    """RetinaNet's network: features of several sizes, and the classes and boxes of the anchors at each position.

    Assigning anchors to objects depends on values, so the data provides labels for each anchor instead.
    """

    def __init__(self) -> None:
        super().__init__()
        detection = torchvision().models.detection
        whole = detection.retinanet_resnet50_fpn(weights=None, weights_backbone=None, num_classes=5)
        self.backbone, self.head = whole.backbone, whole.head

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = self.head(list(self.backbone(images).values()))
        return found["cls_logits"], found["bbox_regression"]


@model("retinanet")
def retinanet() -> Made:
    module, images = Detector(), torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        scores, boxes = module(images)
    present = (torch.rand(scores.shape) < 0.05).float()

    def loss(outputs: Any, present: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        logits, boxes = outputs
        focal = torchvision().ops.sigmoid_focal_loss(logits, present, reduction="mean")
        return focal * 100 + torch.nn.functional.smooth_l1_loss(boxes, wanted)

    return module.double(), loss, (images.double(),), (present.double(), torch.randn(boxes.shape).double())


# --- transformers -----------------------------------------------------------------------------------------------------
class Model(torch.nn.Module):
    """A transformers model as a module that takes its named inputs as tensors and returns its loss."""

    def __init__(self, inner: torch.nn.Module, names: tuple[str, ...], **fixed: Any) -> None:
        super().__init__()
        self.inner, self.names, self.fixed = inner, names, fixed

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return self.inner(**dict(zip(self.names, tensors, strict=True)), **self.fixed).loss


def itself(loss: torch.Tensor) -> torch.Tensor:
    return loss


def words(batch: int = 2, length: int = 12, count: int = 64) -> torch.Tensor:
    return torch.randint(2, count, (batch, length))


SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@model("bert")
def bert() -> Made:
    t = transformers()
    x, mask = words(), torch.ones(2, 12, dtype=torch.int64)
    mask[1, 9:] = 0
    inner = t.BertForMaskedLM(t.BertConfig(vocab_size=64, **SMALL, **STILL))
    return Model(inner, ("input_ids", "attention_mask", "labels")), itself, (x, mask, words()), ()


@model("gpt2")
def gpt2() -> Made:
    t = transformers()
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    inner = t.GPT2LMHeadModel(t.GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=4, **still))
    x = words()
    return Model(inner, ("input_ids", "labels"), use_cache=False), itself, (x, x.clone()), ()


@model("llama")
def llama() -> Made:
    t = transformers()
    inner = t.LlamaForCausalLM(t.LlamaConfig(vocab_size=64, num_key_value_heads=2, max_position_embeddings=32, **SMALL))
    x = words()
    return Model(inner, ("input_ids", "labels"), use_cache=False), itself, (x, x.clone()), ()


@model("t5")
def t5() -> Made:
    t = transformers()
    config = t.T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0)
    config.decoder_start_token_id = 0
    names = ("input_ids", "labels")
    return Model(t.T5ForConditionalGeneration(config), names, use_cache=False), itself, (words(), words(length=8)), ()


@model("whisper")
def whisper() -> Made:
    t = transformers()
    sizes = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    still = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    config = t.WhisperConfig(
        vocab_size=64, d_model=32, encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=8, max_source_positions=20,
        max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        **sizes, **still,
    )  # fmt: skip
    inner = t.WhisperForConditionalGeneration(config)
    names = ("input_features", "labels")
    return Model(inner, names, use_cache=False), itself, (torch.randn(2, 8, 40), words(length=8)), ()


@model("vit")
def vit() -> Made:
    t = transformers()
    inner = t.ViTForImageClassification(t.ViTConfig(image_size=16, patch_size=4, num_labels=5, **SMALL, **STILL))
    images, labels = torch.randn(2, 3, 16, 16), torch.randint(0, 5, (2,))
    return Model(inner, ("pixel_values", "labels")), itself, (images, labels), ()


@model("clip")
def clip() -> Made:
    t = transformers()
    text = {**SMALL, "vocab_size": 64, "max_position_embeddings": 16, "projection_dim": 16, "eos_token_id": 1}
    image = {**SMALL, "image_size": 16, "patch_size": 4, "projection_dim": 16}
    inner = t.CLIPModel(t.CLIPConfig(text_config=text, vision_config=image, projection_dim=16))
    names = ("input_ids", "pixel_values")
    return Model(inner, names, return_loss=True), itself, (words(length=8), torch.randn(2, 3, 16, 16)), ()


# --- training ---------------------------------------------------------------------------------------------------------
def eager(module: Any, loss: Any, optimizer: Any, inputs: Any, labels: Any) -> list[float]:
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        found = loss(module(*inputs), *labels)
        found.backward()
        optimizer.step()
        losses.append(float(found.detach()))
    return losses


def made(name: str) -> Made:
    torch.manual_seed(0)
    return MODELS[name]()


def optimizer_of(module: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), lr=1e-3)


def trained(name: str) -> dict[str, Any]:
    """Train the model in eager mode, with the backend, and with compile_step.

    Returns:
        The losses by mode, the calls that fell back to PyTorch and why, the number of graphs, and the time in seconds.
    """
    module, loss, inputs, labels = made(name)
    module.train()
    by_backend, by_step = copy.deepcopy(module), copy.deepcopy(module)
    found: dict[str, Any] = {"eager": eager(module, loss, optimizer_of(module), inputs, labels)}
    torch._dynamo.reset()
    began = time.monotonic()
    with mg.torch.explaining() as seen:
        compiled = mg.torch.compile(by_backend)
        found["backend"] = eager(compiled, loss, optimizer_of(by_backend), inputs, labels)
    found["seconds"] = time.monotonic() - began
    found["fallen"], found["graphs"] = dict(seen.fallen), seen.graphs
    found["reasons"] = seen.reasons
    try:
        step = mg.torch.compile_step(by_step, loss, optimizer_of(by_step))
        found["step"] = [float(step(inputs, *labels)) for _ in range(STEPS)]
    except mg.UnsupportedError as error:
        found["refused"] = str(error).splitlines()[0]
    return found


def differs(found: dict[str, Any]) -> str:
    """Return what differs from eager mode or fell back to PyTorch, or "" if nothing did."""
    parts = []
    for side in ("backend", "step"):
        if side in found and not np.allclose(found[side], found["eager"], rtol=TOLERANCE, atol=0):
            parts.append(f"{side} {found[side]}, eager {found['eager']}")
    if found["fallen"]:
        parts.append(f"fallen {found['fallen']} {found['reasons']}")
    if "refused" in found:
        parts.append(f"compile_step: {found['refused']}")
    return "; ".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="train only models whose name matches this regular expression")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    bad = 0
    for name in MODELS:
        if not re.search(options.only, name):
            continue
        try:
            found = trained(name)
            why = differs(found)
        except Exception as error:
            cause = getattr(error, "inner_exception", error)
            found, why = {}, f"{type(cause).__name__}: {str(cause)[:600]}"
        bad += bool(why)
        shown = " ".join(f"{loss:.5f}" for loss in found.get("eager", []))
        how = f"{found.get('graphs')} graphs, {found.get('seconds', 0):.0f} s"
        print(f"{name}: {why or 'equal'}; losses {shown}; {how}", flush=True)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
