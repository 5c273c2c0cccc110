"""quantize: replaces the matrices of a language model by packed ones; and the files of quantized models.

Files have MLX's form: config.json has an entry "quantization" with bits and group_size, and a quantized layer has the
tensors weight (packed words), scales, and biases. A layer without scales is not quantized.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from .._checks import checked
from .._core import Tensor, bfloat16, int32
from .._display import shown
from ..errors import CheckpointError, GraphError, ShapeError, UnsupportedError
from ..graph import Graph
from ..nn.embedding import Embedding
from ..nn.initialisers import zeros
from ..nn.layers import Linear
from ..nn.module import Module
from ..nn.parts import all_variables, graph_of, is_built
from ..nn.quantized import QuantizedEmbedding, QuantizedLinear, check_format, quantized, quantized_like
from ..nn.state import value_of, wide_of
from .blocks import Experts
from .decoder import LanguageModel
from .weights import Arrays, Rule, Shapes

_PARTS = ("weight", "scales", "biases")
_KINDS = (QuantizedLinear, QuantizedEmbedding)
Formats = dict[str, tuple[int, int]]
"""Bits and group size of each quantized layer, keyed by its path."""


@checked
def quantize(model: LanguageModel, bits: int = 4, group_size: int = 64, *, skip: Sequence[str] = ()) -> None:
    """Quantize the weights of a language model in place.

    The matrices of all linear layers and embeddings, including the head, are packed, with a scale and a bias for each
    group of inputs. Biases, normalizations, and activations keep their dtype. The model gets a new graph, so quantize
    it before creating a trainer or adding adapters. `lm.save` and `lm.load` keep the packed weights.

    Args:
        model: Model that `lm.load` or `lm.create` returned.
        bits: Number of bits of a weight: 2, 3, 4, 5, 6, or 8. Defaults to 4.
        group_size: Number of inputs that share a scale and a bias: 32, 64, or 128. Defaults to 64.
        skip: Patterns of the paths of layers to leave as they are, such as "head" or "layers.*.attention.value".

    Raises:
        GraphError: If bits or group_size has another value, a pattern matches no layer, or the model is already
            quantized or has adapters.
        ShapeError: If the number of inputs of a layer is not a multiple of group_size.
        UnsupportedError: If the model has experts that are not skipped.

    Example:
        >>> sizes = {"vocab_size": 50, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
        >>> more = {"num_attention_heads": 2, "max_position_embeddings": 64}
        >>> model = mg.lm.create({"model_type": "llama", **sizes, **more})
        >>> mg.lm.quantize(model, bits=4, group_size=32)
        >>> model.layers[0].feed_forward.down.weight
        <Tensor layers.0.feed_forward.down.weight: uint32[64,16]>
    """
    check_format("lm.quantize", bits, group_size)
    layers = _layers_to_quantize(model, skip)
    fresh = _unbuilt_like(model)
    wrong = []
    for path, layer in layers.items():
        shape = layer.weight.shape or ()
        inputs = int(shape[0] if isinstance(layer, Linear) else shape[1])
        if inputs % group_size:
            wrong.append(f"{path} ({inputs})")
    if wrong:
        raise ShapeError(
            f"lm.quantize: the number of inputs must be a multiple of group_size={group_size}, but is not in "
            f"{', '.join(wrong[:10])}: pass a smaller group_size, or these layers as skip"
        )
    replace_layers(fresh, dict.fromkeys(layers, (bits, group_size)))
    fresh(Graph().placeholder((-1, -1), int32, "tokens"))
    before, after = all_variables(model), all_variables(fresh)
    graph, values = graph_of(model.embedding.weight), dict[Tensor, np.ndarray]()
    packed = {f"{path}.weight": layer for path, layer in layers.items()}
    for path, variable in before.items():
        value = value_of(graph.variable_values([variable])[0])
        if path not in packed:
            values[after[path]] = value.array
            continue
        matrix = wide_of(value.array) if value.dtype == bfloat16 else value.array
        matrix = matrix.T if isinstance(packed[path], Linear) else matrix
        scales = after[path.removesuffix("weight") + "scales"]
        parts = quantized(np.ascontiguousarray(matrix), bits, group_size, scales.dtype)
        for part, array in zip(_PARTS, parts, strict=True):
            values[after[path.removesuffix("weight") + part]] = array
    graph_of(fresh.embedding.weight).set_variables(values)
    _copy_state(model, fresh)
    if model.configuration:
        fresh.configuration = {**model.configuration, "quantization": {"group_size": group_size, "bits": bits}}
    vars(model).clear()
    vars(model).update(vars(fresh))


def _layers_to_quantize(model: LanguageModel, skip: Sequence[str]) -> dict[str, Linear | Embedding]:
    """Return the layers to quantize, keyed by path."""
    modules = dict(model.named_modules())
    if quantized_formats(model):
        raise GraphError("lm.quantize: the model is already quantized: load the original checkpoint instead")
    if not is_built(model):
        raise GraphError("lm.quantize: the model has no variables yet: call it with a tensor of tokens first")
    kinds = {path: part for path, part in modules.items() if isinstance(part, (Linear, Embedding, Experts))}
    for pattern in skip:
        if not any(fnmatchcase(path, pattern) for path in kinds):
            raise GraphError(f"lm.quantize: skip contains {shown(pattern)}, which matches no layer of the model")
    kept = {p: part for p, part in kinds.items() if not any(fnmatchcase(p, pattern) for pattern in skip)}
    experts = [path for path, part in kept.items() if isinstance(part, Experts)]
    if experts:
        raise UnsupportedError(
            f"lm.quantize: the experts in {experts[0]} cannot be quantized; to quantize all other layers, pass "
            'skip=("layers.*.feed_forward*",)'
        )
    return {path: part for path, part in kept.items() if isinstance(part, (Linear, Embedding))}


def _unbuilt_like(model: LanguageModel) -> LanguageModel:
    """Return a model of the same architecture without variables."""
    fresh = type(model)(model.architecture, zeros, model.embedding.dtype)
    if [(p, type(m)) for p, m in fresh.named_modules()] != [(p, type(m)) for p, m in model.named_modules()]:
        raise GraphError(
            "lm.quantize: layers of the model have been replaced, for example by adapters: quantize the model first"
        )
    return fresh


def _copy_state(model: LanguageModel, fresh: LanguageModel) -> None:
    """Copy what users set on the modules of a model."""
    own = dict(fresh.named_modules())
    for path, module in model.named_modules():
        for name in ("training", "precision", "frozen"):
            if name in vars(module):
                setattr(own[path], name, vars(module)[name])
    fresh.configuration = model.configuration


def replace_layers(model: LanguageModel, formats: Formats) -> None:
    """Replace layers of a model without variables by quantized ones."""
    modules = dict(model.named_modules())
    for path, (bits, group_size) in formats.items():
        parent, _, name = path.rpartition(".")
        setattr(modules[parent], name, quantized_like(modules[path], bits, group_size))


def quantized_formats(model: Module) -> Formats:
    """Return the formats of the quantized layers of a model."""
    return {p: (m.bits, m.group_size) for p, m in model.named_modules() if isinstance(m, _KINDS)}


# --- files ----------------------------------------------------------------------------------------------------------


def packed_rules(rules: Sequence[Rule], layers: Collection[str]) -> list[Rule]:
    """Return the rules of a model in which the given layers are quantized.

    A matrix that is divided among several layers is divided along its first axis, that of the outputs.
    """
    result = []
    for rule in rules:
        paths = [path.removesuffix(".weight") for path in rule.ours]
        if not any(path in layers for path in paths):
            result.append(rule)
            continue
        if not all(path in layers for path in paths):
            raise UnsupportedError(
                f"{', '.join(paths)} form one tensor of the checkpoint, so all of them or none must be quantized"
            )
        base = rule.theirs[0].removesuffix(".weight")
        for part in _PARTS:
            ours = tuple(f"{path}.{part}" for path in paths)
            result.append(Rule((f"{base}.{part}",), ours, _divided, lambda a: [np.concatenate(a)]))
    return result


def _divided(arrays: Arrays, shapes: Shapes) -> Arrays:
    if sum(shape[0] for shape in shapes) != len(arrays[0]):
        return [arrays[0]] * len(shapes)  # The check of shapes reports the mismatch.
    return np.split(arrays[0], np.cumsum([shape[0] for shape in shapes])[:-1])


def without_quantization(entries: Mapping[str, Any], where: str) -> tuple[dict[str, Any], Mapping[str, Any] | None]:
    """Divide the entries of a config.json into those of the model and that of the quantization, if there is one.

    Raises:
        CheckpointError: If the entry is malformed.
        UnsupportedError: If it describes another kind of quantization.
    """
    rest = dict(entries)
    ours, others = rest.pop("quantization", None), rest.pop("quantization_config", None)
    given = others if ours is None else ours
    if given is None:
        return rest, None
    if not isinstance(given, Mapping):
        raise CheckpointError(f"{where}: quantization must be an object, got {shown(given)}")
    if others is not None and "quant_method" in others:
        raise UnsupportedError(
            f"{where}: checkpoints quantized by {shown(others['quant_method'])} are not supported; supported are gptq, "
            'awq, and MLX\'s form, with "quantization": {"bits", "group_size"}'
        )
    if given.get("mode", "affine") != "affine":
        raise UnsupportedError(f"{where}: quantization mode {shown(given['mode'])} is not supported, only affine")
    return rest, given


def formats_of(quantization: Mapping[str, Any], rules: Sequence[Rule], names: Collection[str], where: str) -> Formats:
    """Return which layers of a checkpoint are quantized, from the names of its tensors."""
    formats: Formats = {}
    for rule in rules:
        base = rule.theirs[0].removesuffix(".weight")
        if f"{base}.scales" not in names:
            continue
        own = quantization.get(base)
        given = own if isinstance(own, Mapping) else quantization
        bits, group_size = given.get("bits"), given.get("group_size")
        if not (isinstance(bits, int) and isinstance(group_size, int)):
            raise CheckpointError(
                f"{where}: quantization must have the integers bits and group_size, got {shown(bits)} and "
                f"{shown(group_size)}"
            )
        check_format(f"{where}: quantization", bits, group_size)
        for path in rule.ours:
            formats[path.removesuffix(".weight")] = (bits, group_size)
    return formats
