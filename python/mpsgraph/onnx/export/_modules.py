"""Conversion of a module to a model: rebuilt in a new graph, in inference mode, for the given inputs.

Inputs are passed to the method as positional arguments in order, except those that have the name of an optional
argument, such as `lengths`, `mask`, or `cache`, which are passed by keyword.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..._core import Tensor, int32
from ..._display import shown
from ..._dtypes import as_dtype
from ...errors import GraphError
from ...graph import Graph
from ...model import Model
from ...nn.key_value_cache import KeyValueCache
from ...nn.module import Module, mode_of, unbuilt_copy
from ...nn.parts import is_built

_RESULT = "output"


def module_as_model(module: Module, inputs: Mapping[str, Any] | None, method: str) -> Model:
    """Return a model that computes one method of a module, with the module's parameters."""
    if not inputs:
        raise GraphError('[onnx.export] exporting a Module needs inputs={"x": shape}; use -1 for dynamic dimensions')
    if not callable(getattr(module, method, None)):
        raise GraphError(f"[onnx.export] {type(module).__name__} has no method '{method}'")
    graph, copy = Graph(), unbuilt_copy(module)
    if is_built(module):
        copy.load_state_dict(module.state_dict())
    call: Callable[..., Any] = copy if method == "forward" else getattr(copy, method)
    keywords = _keywords(getattr(copy, method))
    placeholders: dict[str, Tensor] = {}
    given = {name: _argument(graph, name, like, placeholders) for name, like in inputs.items()}
    with mode_of(copy, False):
        result = call(
            *(argument for name, argument in given.items() if name not in keywords),
            **{name: argument for name, argument in given.items() if name in keywords},
        )
    outputs: dict[str, Tensor] = {}
    _enter_results(_RESULT, result, outputs)
    return Model(graph, placeholders, outputs)


def _keywords(call: Callable[..., Any]) -> set[str]:
    """Return the names of a method's arguments that are passed by keyword: keyword-only arguments and those with a
    default.
    """
    parameters = inspect.signature(call).parameters.values()
    return {
        p.name
        for p in parameters
        if p.kind is p.KEYWORD_ONLY or (p.default is not p.empty and p.kind is not p.VAR_POSITIONAL)
    }


def _argument(graph: Graph, name: str, like: Any, placeholders: dict[str, Tensor]) -> Any:
    """Create placeholders for one argument of a module's method, and return the argument.

    `like` describes the argument: a shape, a tensor, a KeyValueCache, or a sequence of these. The argument is
    accordingly a placeholder, a tuple of placeholders, or a KeyValueCache whose position is a placeholder. The
    placeholders are also added to the dict `placeholders`, keyed by name.
    """
    if isinstance(like, KeyValueCache):
        placeholders["position"] = position = graph.placeholder((1,), int32, "position")
        return KeyValueCache(like.rows, like.max_length, position)
    if isinstance(like, Tensor):
        placeholders[name] = graph.placeholder(like.shape, like.dtype, name)
        return placeholders[name]
    if not isinstance(like, Sequence) or isinstance(like, str):
        raise GraphError(
            f"[onnx.export] input '{name}' must be a shape, a (shape, dtype) pair, a tensor, a KeyValueCache, or "
            f"a tuple of these, got {shown(like)}"
        )
    if len(like) == 2 and isinstance(like[0], Sequence) and not _is_shaped(like[1]):
        placeholders[name] = graph.placeholder(tuple(like[0]), as_dtype(like[1]), name)
        return placeholders[name]
    if like and all(_is_shaped(one) for one in like):
        return tuple(_argument(graph, f"{name}_{i}", one, placeholders) for i, one in enumerate(like))
    placeholders[name] = graph.placeholder(tuple(like), "float32", name)
    return placeholders[name]


def _is_shaped(like: Any) -> bool:
    return isinstance(like, Tensor) or (isinstance(like, Sequence) and not isinstance(like, str))


def _enter_results(name: str, result: Any, outputs: dict[str, Tensor]) -> None:
    """Add the tensors in a result to the outputs.

    A tensor is named `name`, an entry of a mapping is named like its key, and the elements of a sequence are named
    NAME_0, NAME_1, and so on.
    """
    if isinstance(result, Tensor):
        outputs[name] = result
    elif isinstance(result, Mapping):
        for key, one in result.items():
            _enter_results(str(key), one, outputs)
    elif isinstance(result, Sequence):
        for i, one in enumerate(result):
            _enter_results(f"{name}_{i}", one, outputs)
    else:
        raise GraphError(
            f"[onnx.export] result '{name}' must be a tensor, or a mapping or sequence of tensors, got {shown(result)}"
        )
