"""Methods and attributes that tensors and arrays have in common, and the operators of arrays.

Each calls a function of `mpsgraph.numpy`, which is imported on first use. Importing this module adds nothing; `install`
adds the functions to `_core.Tensor` and `_core.NDArray`. The operators of tensors, which add one operation of the graph
without type promotion, are in tensor.py.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from ._core import Device, NDArray, Tensor
from ._names import BINARY, COMPARISONS
from .errors import DTypeError, ShapeError, UnsupportedError

_SCALARS = (bool, int, float, complex)
_namespace: Any = None


def _numpy() -> Any:
    global _namespace
    if _namespace is None:
        _namespace = import_module("mpsgraph.numpy")
    return _namespace


# --- reductions ------------------------------------------------------------------------------------------------------
def _sum(self: Any, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Any:
    """Compute the sum of elements along axes; see `mpsgraph.numpy.sum`."""
    return _numpy().sum(self, axis=axis, dtype=dtype, keepdims=keepdims)


def _prod(self: Any, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Any:
    """Compute the product of elements along axes; see `mpsgraph.numpy.prod`."""
    return _numpy().prod(self, axis=axis, dtype=dtype, keepdims=keepdims)


def _mean(self: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Compute the mean of elements along axes; see `mpsgraph.numpy.mean`."""
    return _numpy().mean(self, axis=axis, keepdims=keepdims)


def _var(self: Any, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Any:
    """Compute the variance of elements along axes; see `mpsgraph.numpy.var`."""
    return _numpy().var(self, axis=axis, correction=correction, keepdims=keepdims)


def _std(self: Any, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Any:
    """Compute the standard deviation of elements along axes; see `mpsgraph.numpy.std`."""
    return _numpy().std(self, axis=axis, correction=correction, keepdims=keepdims)


def _max(self: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Return the largest elements along axes; see `mpsgraph.numpy.max`."""
    return _numpy().max(self, axis=axis, keepdims=keepdims)


def _min(self: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Return the smallest elements along axes; see `mpsgraph.numpy.min`."""
    return _numpy().min(self, axis=axis, keepdims=keepdims)


def _all(self: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Test whether all elements along axes are true; see `mpsgraph.numpy.all`."""
    return _numpy().all(self, axis=axis, keepdims=keepdims)


def _any(self: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Test whether any element along axes is true; see `mpsgraph.numpy.any`."""
    return _numpy().any(self, axis=axis, keepdims=keepdims)


def _argmax(self: Any, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """Return the index of the largest element; see `mpsgraph.numpy.argmax`."""
    return _numpy().argmax(self, axis=axis, keepdims=keepdims)


def _argmin(self: Any, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """Return the index of the smallest element; see `mpsgraph.numpy.argmin`."""
    return _numpy().argmin(self, axis=axis, keepdims=keepdims)


def _cumsum(self: Any, axis: int | None = None, *, dtype: Any = None) -> Any:
    """Compute running sums along an axis; see `mpsgraph.numpy.cumulative_sum`."""
    return _numpy().cumulative_sum(self, axis=axis, dtype=dtype)


# --- shapes, dtypes, and order ---------------------------------------------------------------------------------------
def _reshape(self: Any, *shape: Any) -> Any:
    """Return the elements in another shape, given as sizes or as one sequence; see `mpsgraph.numpy.reshape`."""
    return _numpy().reshape(self, shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)


def _transpose(self: Any, *axes: Any) -> Any:
    """Permute the axes, given as ints or as one sequence, or reverse them; see `mpsgraph.numpy.permute_dims`."""
    order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
    return _numpy().permute_dims(self, tuple(order) if order else tuple(range(_ndim(self)))[::-1])


def _flatten(self: Any) -> Any:
    """Return the elements as an array of rank 1."""
    return _numpy().reshape(self, (-1,))


def _squeeze(self: Any, axis: Any = None) -> Any:
    """Remove axes of size 1: the given ones, or all of them; see `mpsgraph.numpy.squeeze`."""
    if axis is None:
        axis = tuple(i for i, size in enumerate(self.shape) if size == 1)
    return _numpy().squeeze(self, axis)


def _astype(self: Any, dtype: Any, *, copy: bool = True) -> Any:
    """Convert to another dtype; see `mpsgraph.numpy.astype`."""
    return _numpy().astype(self, dtype, copy=copy)


def _clip(self: Any, min: Any = None, max: Any = None) -> Any:
    """Limit each element to a range; see `mpsgraph.numpy.clip`."""
    return _numpy().clip(self, min, max)


def _round(self: Any) -> Any:
    """Round each element to the nearest integer, and ties to even; see `mpsgraph.numpy.round`."""
    return _numpy().round(self)


def _conj(self: Any) -> Any:
    """Return the complex conjugate of each element; see `mpsgraph.numpy.conj`."""
    return _numpy().conj(self)


def _sort(self: Any, axis: int = -1, *, descending: bool = False) -> Any:
    """Return the sorted elements; see `mpsgraph.numpy.sort`. The array itself does not change."""
    return _numpy().sort(self, axis=axis, descending=descending)


def _argsort(self: Any, axis: int = -1, *, descending: bool = False) -> Any:
    """Return the indices that sort the elements; see `mpsgraph.numpy.argsort`."""
    return _numpy().argsort(self, axis=axis, descending=descending)


def _take(self: Any, indices: Any, axis: int | None = None) -> Any:
    """Return the elements at indices along an axis; see `mpsgraph.numpy.take`."""
    return _numpy().take(self, indices, axis=axis)


def _repeat(self: Any, repeats: Any, axis: int | None = None) -> Any:
    """Repeat each element; see `mpsgraph.numpy.repeat`."""
    return _numpy().repeat(self, repeats, axis=axis)


def _ndim(self: Any) -> int:
    """The number of axes."""
    if self.shape is None:
        raise ShapeError(f"the rank of {self.name} is unknown")
    return len(self.shape)


def _size(self: Any) -> int | None:
    """The number of elements, or None if a size is unknown."""
    if self.shape is None or -1 in self.shape:
        return None
    return int(np.prod(self.shape, dtype=np.int64))


def _transposed(self: Any) -> Any:
    """The matrix transpose. The rank must be 2."""
    if _ndim(self) != 2:
        raise ShapeError(f"T requires rank 2, got rank {_ndim(self)}: use mT for stacks of matrices, or transpose()")
    return _numpy().matrix_transpose(self)


def _matrices_transposed(self: Any) -> Any:
    """The array with the last two axes exchanged. The rank must be 2 or higher."""
    return _numpy().matrix_transpose(self)


def _device(self: Any) -> Device:
    """The device on which operations run eagerly: the default device. Arrays are in memory that all devices share."""
    return Device.default()


def _to_device(self: Any, device: Any, /, *, stream: Any = None) -> Any:
    """Return the array itself, because devices share its memory. The device must be the default device."""
    import_module("mpsgraph.numpy._promotion").check_device(device)
    if stream is not None:
        raise UnsupportedError("to_device: stream must be None, because devices have command queues instead")
    return self


def _array_namespace(self: Any, /, *, api_version: str | None = None) -> Any:
    """Return the module `mpsgraph.numpy`, an implementation of the Python array API standard."""
    if api_version is not None and api_version not in ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12"):
        raise UnsupportedError(f"api_version must be None or a version up to 2025.12, got {api_version!r}")
    return _numpy()


def _detach(self: Any) -> Any:
    """Return the same value, through which no gradient flows; see `mpsgraph.stop_gradient`."""
    return import_module("mpsgraph.transforms").stop_gradient(self)


# --- operators of arrays ---------------------------------------------------------------------------------------------
def _is_operand(value: Any) -> bool:
    return isinstance(value, (NDArray, np.ndarray, np.generic, list, tuple, *_SCALARS))


def _forward(name: str) -> Callable[[NDArray, Any], Any]:
    """Return an operator that calls a function of the namespace. A tensor's reflected operator takes precedence."""
    function: Any = None

    def operator(self: NDArray, other: Any, /) -> Any:
        nonlocal function
        if type(other) is not NDArray and not _is_operand(other):
            return NotImplemented
        if function is None:
            function = getattr(_numpy(), name)
        return function(self, other)

    return operator


def _reflected(name: str) -> Callable[[NDArray, Any], Any]:
    def operator(self: NDArray, other: Any, /) -> Any:
        if not _is_operand(other):
            return NotImplemented
        return getattr(_numpy(), name)(other, self)

    return operator


def _unary(name: str) -> Callable[[NDArray], Any]:
    def operator(self: NDArray, /) -> Any:
        return getattr(_numpy(), name)(self)

    return operator


def _get_item(self: NDArray, key: Any, /) -> Any:
    """Return a view for ints, slices, `...` and None, and a copy for index arrays and masks."""
    _numpy()
    return import_module("mpsgraph.numpy._indexing").index_array(self, key)


def _set_item(self: NDArray, key: Any, value: Any, /) -> None:
    """Assign to the elements that a key selects."""
    _numpy()
    import_module("mpsgraph.numpy._indexing").set_array(self, key, value)


def _contains(self: NDArray, value: Any, /) -> bool:
    return bool(_numpy().any(_numpy().equal(self, value)))


def _index(self: NDArray, /) -> int:
    if not self.dtype.is_integer or self.size != 1:
        raise DTypeError(f"only an integer array of one element is an index, got {self.dtype} of shape {self.shape}")
    return int(self)


def _format(self: NDArray, specification: str, /) -> str:
    """Format the element of an array of rank 0 as a Python number, and any other array as its repr."""
    return format(self.item(), specification) if self.ndim == 0 else format(repr(self), specification)


def _no_attribute(self: NDArray, name: str) -> Any:
    hint = ""
    if not name.startswith("_"):
        from ._names import tensor_hint

        hint = tensor_hint(name, dir(NDArray))
    raise AttributeError(f"'NDArray' object has no attribute '{name}'{hint}")


SHARED: dict[str, Any] = {
    "sum": _sum,
    "prod": _prod,
    "mean": _mean,
    "var": _var,
    "std": _std,
    "max": _max,
    "min": _min,
    "all": _all,
    "any": _any,
    "argmax": _argmax,
    "argmin": _argmin,
    "cumsum": _cumsum,
    "reshape": _reshape,
    "transpose": _transpose,
    "flatten": _flatten,
    "squeeze": _squeeze,
    "astype": _astype,
    "clip": _clip,
    "round": _round,
    "conj": _conj,
    "sort": _sort,
    "argsort": _argsort,
    "take": _take,
    "repeat": _repeat,
    "detach": _detach,
    "T": property(_transposed),
    "mT": property(_matrices_transposed),
    "device": property(_device),
    "to_device": _to_device,
    "__array_namespace__": _array_namespace,
}


_PARAMETERS = {
    "axis": "The axis or axes. None means all, or the flattened array.",
    "copy": "Whether to copy an array that already has the dtype. Defaults to True.",
    "correction": "Number that is subtracted from the number of elements. Defaults to 0.",
    "descending": "Whether the order is descending. Defaults to False.",
    "device": "The default device.",
    "dtype": "dtype of the result. None means that of the array, and at least 32 bits for sums of integers.",
    "indices": "Integer array or tensor.",
    "keepdims": "Whether the reduced axes stay, with size 1. Defaults to False.",
    "max": "Upper limit, or None (the default).",
    "min": "Lower limit, or None (the default).",
    "repeats": "Number of repetitions, or an array with a number for each element.",
    "stream": "None.",
    "api_version": "Version of the standard, or None (the default).",
    "key": "Ints, slices, `...`, None, and integer or bool arrays.",
    "value": "An array, or a number.",
    "axes": "For each axis of the result, the axis of the array. None means the reverse order.",
    "shape": "Sizes of the result. One of them may be -1 and is then inferred.",
}


def _describe(function: Any) -> None:
    """Add the section about parameters to the docstring of a method."""
    code = function.__code__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4)]
    lines = [f"    {'*' if n in ('axes', 'shape') else ''}{n}: {_PARAMETERS[n]}" for n in names if n in _PARAMETERS]
    if lines:
        function.__doc__ += "\n\nArgs:\n" + "\n".join(lines) + "\n"


def _array_function(self: NDArray, function: Any, types: Any, arguments: Any, named: Any) -> Any:
    """Run a function of numpy on numpy's views of arrays, and return its result, as for lists (NEP 18)."""
    return function(*_plain(arguments), **{name: _plain(value) for name, value in named.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, NDArray):
        return np.asarray(value)
    return type(value)(map(_plain, value)) if type(value) in (list, tuple) else value


def install() -> None:
    """Add the methods to tensors and arrays. The package calls this once, on import."""
    for function in (_get_item, _set_item):
        _describe(function)
    for name, function in SHARED.items():
        if not isinstance(function, property):
            function.__name__ = function.__qualname__ = name
            _describe(function)
        setattr(Tensor, name, function)
        setattr(NDArray, name, function)
    for name, attribute in (("ndim", property(_ndim)), ("size", property(_size))):
        setattr(Tensor, name, attribute)
    operators: dict[str, Any] = {f"__{name}__": _forward(to) for name, to in (BINARY | COMPARISONS).items()}
    operators |= {f"__r{name}__": _reflected(to) for name, to in BINARY.items()}
    operators |= {"__neg__": _unary("negative"), "__pos__": _unary("positive"), "__abs__": _unary("abs")}
    operators |= {"__invert__": _unary("bitwise_invert"), "__index__": _index, "__format__": _format}
    operators["__contains__"] = _contains
    # Numpy arrays and scalars on the left defer to the reflected operator.
    operators |= {"__getitem__": _get_item, "__setitem__": _set_item, "__array_priority__": 1000}
    operators |= {"__array_function__": _array_function, "__getattr__": _no_attribute}
    # setattr keeps __hash__; only a class body that defines __eq__ removes it.
    for name, function in operators.items():
        setattr(NDArray, name, function)
