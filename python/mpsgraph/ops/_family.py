"""What the families of operations share: how a method becomes an operation of the graph.

Every public method of the families is a line or two over `_tensor` or `_tensors`: operands are checked and
Python numbers become constants, the place in the user's code is noted, and the core infers the result.
Nothing here knows a single operation.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Mapping, Sequence
from os.path import basename, dirname, sep
from typing import Any, TypeAlias

import numpy as np

from .. import _core
from .._checks import check_methods
from .._core import Block, DType, Operation, Tensor
from .._display import shown
from .._dtypes import DTypeLike, as_dtype, constant_data, dtype_for, dtype_of_number, fits
from ..errors import DTypeError, GraphError, ShapeError
from ..precision.mixed_precision import autocast_dtype

TensorLike: TypeAlias = Tensor | bool | int | float | complex | np.generic
ShapeLike: TypeAlias = Tensor | Sequence[int]
Axes: TypeAlias = int | Sequence[int] | None
AttributeLike: TypeAlias = Tensor | int | Sequence[int]  # an attribute that may be known only when the graph runs
Number = (bool, int, float, complex, np.generic)
_OPERATIONS = __name__.rsplit(".", 1)[0] + "."
_PACKAGE = dirname(dirname(__file__)) + sep
_DEMO = _PACKAGE + "demo" + sep


def user_location() -> str:
    """The first frame outside this package as "model.py:41"; the demos count as outside."""
    frame = sys._getframe(1)
    while True:
        path = frame.f_code.co_filename
        if not path.startswith(_PACKAGE) or path.startswith(_DEMO):
            return f"{basename(path)}:{frame.f_lineno}"
        if frame.f_back is None:
            return ""
        frame = frame.f_back


def ints(values: int | Sequence[int], what: str, count: int | None = None) -> list[int]:
    """`values` as a list of ints; one int stands for `count` equal ones. ShapeError when the count is wrong."""
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
        raise ShapeError(f"{what} must be of 64 bits, got {shown(tuple(result))}")
    if count is not None and len(result) != count:
        raise ShapeError(f"{what} must have {count} elements, got {len(result)}: {shown(tuple(result))}")
    return result


def as_index(value: Any) -> int:
    """An integer that is no bool; TypeError for anything else."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError("bool is not a size")
    return operator.index(value)


def _one(value: Any, what: str) -> int:
    try:
        return as_index(value)
    except TypeError:
        raise ShapeError(f"{what} must be an int, got {shown(value)}") from None


def axes_attribute(axes: Axes, kind: str) -> list[int]:
    """The `axes` attribute: [] in the core means all axes, so None becomes [], and an empty sequence is an error."""
    if axes is None:
        return []
    result = ints(axes, f"[{kind}] axes")
    if not result:
        raise ShapeError(f"[{kind}] axes is empty, which would reduce nothing: pass None for all axes")
    return result


class Family(_core.Graph):
    """The common base of the families; `mpsgraph.Graph` inherits from all of them."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith(_OPERATIONS):
            check_methods(cls)

    _place: str | None = None

    @property
    def place(self) -> str | None:
        """Where operations are said to be built; None: at the first frame outside this package."""
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
        """Notes the place of what is created next. Result: how its operands are cast."""
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
        """Numbers among tensors become rank-0 constants of the last tensor's dtype; alone, as dtype_of_number says."""
        for value in values:
            if type(value) is not Tensor:
                break
        else:
            return values  # type: ignore[return-value]
        like = next((value.dtype for value in reversed(values) if isinstance(value, Tensor)), None)
        return [value if isinstance(value, Tensor) else self._number(kind, value, like) for value in values]

    def _number(self, kind: str, value: Any, dtype: DType | None) -> Tensor:
        if not isinstance(value, Number):
            raise DTypeError(
                f"[{kind}] takes tensors and numbers, got {shown(value)}: "
                "make a tensor of an array with g.constant(array)"
            )
        number: bool | int | float | complex = value.item() if isinstance(value, np.generic) else value
        if dtype is None:
            dtype = dtype_of_number(number)
            if not fits(number, dtype):
                raise DTypeError(f"[{kind}] the number {shown(number)} does not fit into {dtype}")
        elif not fits(number, dtype):
            raise DTypeError(
                f"[{kind}] the number {shown(number)} cannot stand beside a tensor of {dtype}: "
                f"cast the tensor with g.cast(x, mg.{dtype_for(number)}) first, or write the number as {dtype}"
            )
        if dtype.is_float and dtype.itemsize == 2 and autocast_dtype() is not None:
            dtype = _core.float32  # autocast decides what it becomes
        value = constant_data(number, (), dtype) if dtype == _core.bfloat16 else np.array(number, dtype.numpy)
        return self._tensor("constant", (), value=value)

    def _tensor_attributes(self, kind: str, **values: AttributeLike) -> tuple[list[Tensor], dict[str, Any]]:
        """Attributes that integer tensors may give: operands if any of the values is a tensor, else attributes."""
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
        """A shape as ints or as an int32/int64 tensor of rank 1."""
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
