"""Base class of the operation families: turns a method call into an operation of the graph.

Every public method of a family is a line or two on top of `_tensor` or `_tensors`, which check the operands, turn
Python numbers into constants, record the location in the user's code, and let the core infer the result. Nothing in
this file is specific to one operation.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Mapping, Sequence
from os.path import basename, dirname, sep
from types import FrameType
from typing import Any, TypeAlias

import numpy as np

from .. import _core
from .._checks import check_methods
from .._core import Block, DType, Operation, Tensor
from .._display import shown
from .._dtypes import DTypeLike, as_dtype, constant_data, constant_of_array, dtype_for, dtype_of_number, fits
from ..errors import DTypeError, GraphError, ShapeError
from ..precision.mixed_precision import autocast_dtype

TensorLike: TypeAlias = Tensor | bool | int | float | complex | np.generic | np.ndarray | _core.NDArray | Sequence[Any]
ShapeLike: TypeAlias = Tensor | Sequence[int]
Axes: TypeAlias = int | Sequence[int] | None
# An attribute whose value may be known only when the graph runs.
AttributeLike: TypeAlias = Tensor | int | Sequence[int]
Number = (bool, int, float, complex, np.generic)
_OPERATIONS = __name__.rsplit(".", 1)[0] + "."
_PACKAGE = dirname(dirname(__file__)) + sep
_DEMO = _PACKAGE + "demo" + sep


@functools.cache
def _shown_file(path: str) -> str | None:
    """Return the name of a file as locations show it, or None for files of this package."""
    return None if path.startswith(_PACKAGE) and not path.startswith(_DEMO) else basename(path)


def user_location() -> str:
    """Return the first stack frame outside this package, as "model.py:41".

    The bundled demos count as outside the package.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = _shown_file(frame.f_code.co_filename)
        if file is not None:
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def ints(values: int | Sequence[int], what: str, count: int | None = None) -> list[int]:
    """Return `values` as a list of ints, repeating a single int `count` times.

    Raise ShapeError if a value is not an int or the number of values is not `count`.
    """
    try:
        if type(values) in (list, tuple):
            result = [v if type(v) is int else as_index(v) for v in values]  # type: ignore[union-attr]
        elif isinstance(values, (str, bytes, Mapping, set)):
            raise TypeError
        elif isinstance(values, (int, np.integer)):
            result = [as_index(values)] * (count or 1)
        else:
            result = [as_index(v) for v in values]
    except TypeError:
        raise ShapeError(f"{what} must be an int or a sequence of ints, got {shown(values)}") from None
    if result and not (-(2**63) <= min(result) and max(result) < 2**63):
        raise ShapeError(f"{what} must fit in 64-bit integers, got {shown(tuple(result))}")
    if count is not None and len(result) != count:
        raise ShapeError(f"{what} must have {count} elements, got {len(result)}: {shown(tuple(result))}")
    return result


def as_index(value: Any) -> int:
    """Return `value` as an int. Raise TypeError if it is a bool or not an integer."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError("expected an integer, got a bool")
    return operator.index(value)


def _one(value: Any, what: str) -> int:
    try:
        return as_index(value)
    except TypeError:
        raise ShapeError(f"{what} must be an int, got {shown(value)}") from None


def axes_attribute(axes: Axes, kind: str) -> list[int]:
    """Convert the argument `axes` to the attribute of an operation, in which [] means all axes.

    None becomes []. An empty sequence raises ShapeError, because reducing no axes is most likely a mistake.
    """
    if axes is None:
        return []
    result = ints(axes, f"[{kind}] axes")
    if not result:
        raise ShapeError(f"[{kind}] axes must not be empty: pass axes=None to use all axes")
    return result


class Family(_core.Graph):
    """Base class of the classes that define the operations of `mpsgraph.Graph`."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith(_OPERATIONS):
            check_methods(cls)

    _place: str | None = None

    @property
    def place(self) -> str | None:
        """The source location that new operations record, such as "model.py:41".

        None means the first stack frame outside this package.
        """
        return self._place

    @place.setter
    def place(self, place: str | None) -> None:
        self._place = place
        if place is not None:
            self.set_location(place)

    def _operation(
        self,
        kind: str,
        inputs: Sequence[Tensor],
        attributes: Mapping[str, Any] | None = None,
        name: str | None = None,
        blocks: Sequence[Block] = (),
    ) -> Operation:
        return self.create(kind, inputs, dict(attributes or {}), name, blocks, self._noted())

    def _noted(self) -> _core.Autocast | None:
        """Record the caller's source location for the next operation. Return the active autocast, or None."""
        if self._place is None:
            self.set_location(user_location())
        low = autocast_dtype()
        return None if low is None else self._autocast_to(low)

    def _autocast_to(self, low: DType) -> _core.Autocast:
        made: dict[DType, _core.Autocast] = vars(self).setdefault("_autocasts", {})
        if low not in made:
            made[low] = _core.Autocast(self, low)
        return made[low]

    def _tensor(self, kind: str, inputs: Sequence[TensorLike], name: str | None = None, **attributes: Any) -> Tensor:
        return self.create_tensor(kind, self._operands(kind, inputs), attributes, name, self._noted())

    def _tensors(
        self, kind: str, inputs: Sequence[TensorLike], name: str | None = None, **attributes: Any
    ) -> list[Tensor]:
        return list(self._operation(kind, self._operands(kind, inputs), attributes, name).outputs)

    def _operands(self, kind: str, values: Sequence[TensorLike]) -> list[Tensor]:
        """Return `values` with each number, list, and array replaced by a constant.

        Constants have the dtype of the last tensor in `values`. If `values` contains no tensor, an array keeps its
        dtype, and a number gets the dtype that `dtype_of_number` returns.
        """
        for value in values:
            if type(value) is not Tensor:
                break
        else:
            return values  # type: ignore[return-value]
        like = next((value.dtype for value in reversed(values) if isinstance(value, Tensor)), None)
        return [value if isinstance(value, Tensor) else self._number(kind, value, like) for value in values]

    def _number(self, kind: str, value: Any, dtype: DType | None) -> Tensor:
        if isinstance(value, (np.ndarray, _core.NDArray, list, tuple)):
            return self._tensor("constant", (), value=constant_of_array(kind, value, dtype))
        if not isinstance(value, Number):
            raise DTypeError(f"[{kind}] operands must be tensors, numbers, lists, or arrays, got {shown(value)}")
        number: bool | int | float | complex = value.item() if isinstance(value, np.generic) else value
        if dtype is None:
            dtype = dtype_of_number(number)
            if not fits(number, dtype):
                raise DTypeError(f"[{kind}] the number {shown(number)} cannot be represented in {dtype}")
        elif not fits(number, dtype):
            raise DTypeError(
                f"[{kind}] the number {shown(number)} cannot be represented in {dtype}, the dtype of the tensor "
                f"operand: cast the tensor first with g.cast(x, mg.{dtype_for(number)}), or change the number"
            )
        if dtype.is_float and dtype.itemsize == 2 and autocast_dtype() is not None:
            dtype = _core.float32  # Autocast determines the final dtype.
        value = constant_data(number, (), dtype) if dtype == _core.bfloat16 else np.array(number, dtype.numpy)
        return self._tensor("constant", (), value=value)

    def _tensor_attributes(self, kind: str, **values: AttributeLike) -> tuple[list[Tensor], dict[str, Any]]:
        """Return (operands, attributes) for attributes that may be integer tensors.

        If any value is a tensor, all values become operands; otherwise all values stay attributes.
        """
        numbers = {
            key: _one(value, f"[{kind}] {key}") if np.ndim(value) == 0 else ints(value, f"[{kind}] {key}")
            for key, value in values.items()
            if not isinstance(value, Tensor)
        }
        if len(numbers) == len(values):
            return [], numbers
        operands = []
        for key, value in values.items():
            operands.append(value if isinstance(value, Tensor) else self._integers(numbers[key]))
        return operands, {}

    def _integers(self, values: int | list[int]) -> Tensor:
        return self._tensor("constant", (), value=np.array(values, np.int64))

    def _shape_operand(self, shape: ShapeLike, kind: str) -> Tensor:
        """Return a shape as a tensor: an int32 or int64 tensor of rank 1 as it is, ints as a constant."""
        if isinstance(shape, Tensor):
            return shape
        return self._integers(ints(shape, f"[{kind}] shape"))


__all__ = [
    "AttributeLike",
    "Axes",
    "Block",
    "DType",
    "DTypeLike",
    "Family",
    "GraphError",
    "Operation",
    "ShapeError",
    "ShapeLike",
    "Tensor",
    "TensorLike",
    "as_index",
    "as_dtype",
    "axes_attribute",
    "constant_data",
    "ints",
    "user_location",
]


# --- functions for modules that add operations without a public method of Graph ---------------------------------------
operands_of = Family._operands
"""Return values as tensors of a graph, with constants in place of numbers, lists, and arrays."""
shape_operand = Family._shape_operand
tensor_attributes = Family._tensor_attributes
noted = Family._noted
add_operation = Family._operation
add_tensors = Family._tensors
