"""python_operation: a function of numpy arrays as an operation, for prototypes."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import _core
from .._checks import checked
from .._display import shown
from ..errors import DTypeError, GraphError
from .operation import (
    _NAME,
    CustomOperation,
    DTypes,
    _derivative,
    _lists,
    attribute_specs,
    dtype_lists,
)
from .sites import inference, user_attributes


@checked
def python_operation(
    name: str,
    function: Callable[..., Any],
    *,
    infer: Callable[..., Any] | None = None,
    gradient: Callable[..., Any] | CustomOperation | None = None,
    attributes: Mapping[str, Any] | None = None,
    dtypes: DTypes = ("float32",),
    effect: bool = False,
    version: str | None = None,
) -> CustomOperation:
    """A function from numpy arrays to numpy arrays as an operation: slow, and the quickest to write.

    It runs on both devices, by one thread at a time, with operands that are copies; on device metal the command buffer
    ends there, and the host waits for it.

    Args: name, infer, gradient, attributes, dtypes, effect as `custom_operation`; function, of the operands' arrays
    and, by name, the attributes: an array, or a list of several results', of the inferred shapes and element types;
    version, what packages compare to know the code, by default a digest of the function's source. Result: a
    CustomOperation. Errors: as custom_operation; what the function raises is raised by the run; ShapeError, DTypeError
    for arrays that are none of the inferred types. Gradient: as given. Source: ours, as PyTorch's custom_op.

    >>> median = mg.python_operation("median", lambda x: np.median(x, axis=-1).astype(np.float32),
    ...                              infer=lambda x: mg.TensorType(x.dtype, x.shape[:-1]))
    >>> g = mg.Graph()
    >>> x = g.placeholder((-1, 3))
    >>> g.run({x: np.float32([[3, 1, 2], [9, 9, 0]])}, median(x)).tolist()
    [2.0, 9.0]
    """
    front = f"python_operation '{name}':"
    if not _NAME.fullmatch(name):
        raise GraphError(
            f"python_operation: a name is letters, digits and underscores, parts with dots, got {shown(name)}"
        )

    def called(arrays: list[Any], given: dict[str, Any], types: list[Any], where: str) -> list[Any]:
        results = function(*arrays, **user_attributes(given))
        several = list(results) if isinstance(results, (tuple, list)) else [results]
        made = [np.asarray(one) for one in several]
        for i, (array, dtype) in enumerate(zip(made, types, strict=False)):
            if array.dtype != dtype:
                raise DTypeError(
                    f"[{name}] the function of {where} gives result {i} as {array.dtype}, and {dtype} was inferred: "
                    f"convert it with .astype"
                )
        return made

    specs, lists = attribute_specs(front, attributes or {}), dtype_lists(front, dtypes)
    key = version or "python-" + hashlib.sha256(_text(function).encode()).hexdigest()[:16]
    asked = None if infer is None else inference(name, infer)
    _core.register_custom_operation(
        *(name, key, specs, lists, len(lists) if _lists(dtypes) else -1, effect),
        *(asked, _derivative(name, gradient), None, None, "", called),
    )
    return CustomOperation(name, key, infer)


def _text(function: Callable[..., Any]) -> str:
    """What tells a function from others: its source, and the names and numbers in it, for two in one line."""
    code = getattr(function, "__code__", None)
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):  # made by exec, or in a shell
        text = code.co_code.hex() if code else repr(function)
    words = (code.co_names, [one for one in code.co_consts if not inspect.iscode(one)]) if code else ()
    return text + repr(words)
