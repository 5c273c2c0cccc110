"""Checkpoints quantized by GPTQ and AWQ, in the form of the packages AutoGPTQ, GPTQModel, and AutoAWQ.

A quantized layer has the tensors qweight, qzeros, scales, and, in GPTQ's form, g_idx. Its weights are
scale * (q - zero), with one scale and one zero point per group of inputs and per output. GPTQ packs the q of an output
along the inputs, as Graph.dequantize_packed does, and AWQ packs them along the outputs, in another order. The weights
become packed weights with the bias -zero * scale, in float32, so that no weight changes.

Source: https://github.com/ModelCloud/GPTQModel and https://github.com/casper-hansen/AutoAWQ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._core import float32, uint32
from .._display import shown
from ..errors import CheckpointError, UnsupportedError
from ..nn.quantized import pack, unpack
from ..nn.state import Value, value_of

METHODS = ("gptq", "awq")
_PARTS = ("qweight", "qzeros", "scales", "g_idx")
_AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # the output at each position of a word, from the lowest bits


def method_of(entries: Mapping[str, Any]) -> str | None:
    """Return which of METHODS a config.json names, or None."""
    given = entries.get("quantization_config")
    method = given.get("quant_method") if isinstance(given, Mapping) else None
    return method if method in METHODS else None


def packed_checkpoint(
    entries: Mapping[str, Any], state: Mapping[str, Any], where: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Convert a checkpoint that was quantized by one of METHODS to packed weights.

    Args:
        entries: Entries of its config.json.
        state: Its tensors, keyed by name.
        where: The file, for error messages.

    Returns:
        The entries, with MLX's form of quantization, and the tensors.

    Raises:
        CheckpointError: If entries or tensors are missing, or do not fit together.
        UnsupportedError: If the weights are packed in another form.
    """
    rest = dict(entries)
    given = rest.pop("quantization_config")
    bits, group = given.get("bits"), given.get("group_size")
    if not (isinstance(bits, int) and isinstance(group, int)):
        raise CheckpointError(
            f"{where}: quantization_config must have the integers bits and group_size, got {shown(bits)} and "
            f"{shown(group)}"
        )
    is_awq, form = given["quant_method"] == "awq", given.get("checkpoint_format", "gptq")
    if is_awq and (bits != 4 or str(given.get("version", "gemm")).lower() != "gemm"):
        raise UnsupportedError(
            f"{where}: AWQ is supported only with bits=4 and version='gemm', got {shown(dict(given))}"
        )
    if not is_awq and form not in ("gptq", "gptq_v2"):
        raise UnsupportedError(f"{where}: checkpoint_format {shown(form)} is not supported, only gptq and gptq_v2")
    found: dict[str, Any] = {}
    for name, value in state.items():
        base, _, part = name.rpartition(".")
        if part not in _PARTS or f"{base}.qweight" not in state:
            found[name] = value
        elif part == "qweight":
            tensors = _tensors(state, base, where)
            elements, zeros = _awq(tensors) if is_awq else _gptq(tensors, bits, form)
            scales = np.ascontiguousarray(tensors["scales"].T, np.float32)
            if zeros.shape != scales.shape or elements.shape != (len(scales), scales.shape[1] * group):
                raise CheckpointError(
                    f"{where}: the tensors of '{base}' do not fit together, or to group_size={group}: "
                    f"{ {part: tensor.shape for part, tensor in tensors.items()} }"
                )
            _require_order(tensors, group, base, where)
            found[f"{base}.weight"] = Value(pack(elements, bits), uint32)
            found[f"{base}.scales"] = Value(scales, float32)
            found[f"{base}.biases"] = Value(-zeros.astype(np.float32) * scales, float32)
    return rest | {"quantization": {"bits": bits, "group_size": group}}, found


def _tensors(state: Mapping[str, Any], base: str, where: str) -> dict[str, np.ndarray]:
    """Return the tensors of a layer, of which g_idx may be missing."""
    found = {part: value_of(state[f"{base}.{part}"]) for part in _PARTS if f"{base}.{part}" in state}
    if missing := [part for part in _PARTS[:3] if part not in found]:
        raise CheckpointError(f"{where} has '{base}.qweight', but lacks '{base}.{missing[0]}'")
    if any(value.array.ndim != 2 for part, value in found.items() if part != "g_idx"):
        raise CheckpointError(f"{where}: qweight, qzeros, and scales of '{base}' must be matrices")
    if str(found["scales"].dtype) == "bfloat16":
        found["scales"] = Value((found["scales"].array.astype(np.uint32) << 16).view(np.float32), float32)
    return {part: value.array for part, value in found.items()}


def _gptq(tensors: Mapping[str, np.ndarray], bits: int, form: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the elements (outputs, inputs) and the zero points (outputs, groups)."""
    elements = unpack(np.ascontiguousarray(tensors["qweight"].T).view(np.uint32), bits)
    zeros = unpack(np.ascontiguousarray(tensors["qzeros"]).view(np.uint32), bits).T
    return elements, zeros.astype(np.int32) + (form == "gptq")  # The first form stores zero points minus 1.


def _awq(tensors: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the elements (outputs, inputs) and the zero points (outputs, groups)."""
    places = np.argsort(_AWQ_ORDER)

    def ordered(words: np.ndarray) -> np.ndarray:
        each = unpack(np.ascontiguousarray(words).view(np.uint32), 4)
        return np.ascontiguousarray(each.reshape(len(each), -1, 8)[:, :, places].reshape(each.shape).T)

    return ordered(tensors["qweight"]), ordered(tensors["qzeros"])


def _require_order(tensors: Mapping[str, np.ndarray], group: int, base: str, where: str) -> None:
    """Raise UnsupportedError if groups do not consist of consecutive inputs."""
    index = tensors.get("g_idx")
    if index is not None and not np.array_equal(index, np.arange(index.size) // group):
        raise UnsupportedError(
            f"{where}: the inputs of '{base}' are reordered (g_idx), which is not supported: "
            "quantize with desc_act=False"
        )
