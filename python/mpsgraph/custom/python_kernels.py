"""Custom operations whose kernel is a function of numpy arrays: python_operation."""

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
    """Create an operation from a function of numpy arrays, which is slow but quick to write.

    The operation runs on all devices. The function receives copies of the operands and is called by one thread at a
    time. On the Metal device, the command buffer ends at the operation, and the CPU waits for it.

    Args:
        name: Letters, digits, and underscores; parts may be separated by dots. An existing operation with the same name
            and code is replaced.
        function: Function of the operands' arrays and, as keyword arguments, the attributes. It returns an array, or a
            list of arrays for several results, with the inferred shapes and dtypes.
        infer: Function that computes the result types from the operands' TensorTypes and, as keyword arguments, the
            attributes. It returns a TensorType, or a list of TensorTypes for several results. None (the default) means
            one result with the type of the first operand.
        gradient: Function that takes a CustomGradient and returns a tensor or None for each operand; or another custom
            operation, which is called with the incoming gradients followed by the operands. None (the default) means
            that the operation is not differentiable.
        attributes: Default values of the attributes by name (bool, int, float, str, or tuple of ints), or types for
            attributes without a default. None (the default) means no attributes.
        dtypes: dtypes that the function accepts: a list for all operands, or a list of lists, one for each operand.
            Defaults to ("float32",).
        effect: Whether the operation has side effects, so that equal operations are never merged. Defaults to False.
        version: Identifier that packages use to recognize the code. None (the default) means a digest of the function's
            source.

    Returns:
        A CustomOperation, which is called with tensors and attributes.

    Raises:
        GraphError: If a name or an attribute is invalid.
        DTypeError: If dtypes is empty or contains an unknown dtype. A run raises it if the dtype of an array that the
            function returns differs from the inferred dtype.
        ShapeError: From a run, if the shape of an array that the function returns differs from the inferred shape.

    If the function raises another exception, the run raises the same exception.

    Gradient: given by the argument gradient.
    Source: this package, after PyTorch's custom_op.

    Example:
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
            "python_operation: name must consist of letters, digits and underscores, optionally in parts separated by "
            f"dots, got {shown(name)}"
        )

    def called(arrays: list[Any], given: dict[str, Any], types: list[Any], where: str) -> list[Any]:
        results = function(*arrays, **user_attributes(given))
        several = list(results) if isinstance(results, (tuple, list)) else [results]
        made = [np.asarray(one) for one in several]
        for i, (array, dtype) in enumerate(zip(made, types, strict=False)):
            if array.dtype != dtype:
                raise DTypeError(
                    f"[{name}] expected result {i} of the function to have the inferred dtype {dtype}, got "
                    f"{array.dtype} in {where}; convert it with .astype"
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
    """Return a string that identifies a function: its source, names, and constants.

    The source alone is not enough, because several lambdas may be on the same line.
    """
    code = getattr(function, "__code__", None)
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):  # The function was defined by exec or in an interactive shell.
        text = code.co_code.hex() if code else repr(function)
    words = (code.co_names, [one for one in code.co_consts if not inspect.iscode(one)]) if code else ()
    return text + repr(words)
