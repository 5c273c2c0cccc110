"""Shapes as an importer's functions ask for them: sizes that are known as ints, those of a run as tensors.

A function that cannot do without a size which only a run knows raises DataDependent through `data_dependent_shape`.
"""

from __future__ import annotations

from collections.abc import Iterable

from .._core import Tensor, int64
from ..errors import ShapeError
from ..graph import Graph
from .data_dependent import DataDependent


class Sizes:
    """What a node, a call or a layer may ask about the shapes of its operands."""

    g: Graph

    def data_dependent_shape(self, x: Tensor) -> DataDependent:
        """The exception for a tensor whose shape has to be known."""
        raise NotImplementedError

    def dims(self, x: Tensor) -> tuple[int, ...]:
        """x's sizes, -1 where one is not known. DataDependent when not even the rank is."""
        if x.shape is None:
            raise self.data_dependent_shape(x)
        return x.shape

    def rank(self, x: Tensor) -> int:
        """How many axes x has. DataDependent when that is not known yet."""
        return len(self.dims(x))

    def shape(self, x: Tensor) -> tuple[int, ...]:
        """x's shape, all of it known. DataDependent when it is not."""
        if x.shape is None or min(x.shape, default=0) < 0:
            raise self.data_dependent_shape(x)
        return x.shape

    def dim(self, x: Tensor, axis: int) -> int | Tensor:
        """x's size along an axis; as an int64 tensor of one element and rank 1 when only a run knows it."""
        axis = self.axis(x, axis)
        known = self.dims(x)[axis]
        return known if known >= 0 else self.g.cast(self.g.slice(self.g.shape_of(x), [axis], [axis + 1]), int64)

    def joined(self, sizes: Iterable[int | Tensor]) -> list[int] | Tensor:
        """A shape of ints and of tensors as `dim` gives them, for operations that take either."""
        parts = list(sizes)
        known = [part for part in parts if not isinstance(part, Tensor)]
        if len(known) == len(parts):
            return known
        made = [part if isinstance(part, Tensor) else self.g.constant([part], dtype=int64) for part in parts]
        return self.g.concat(made, 0)

    def reshape(self, x: Tensor, sizes: Iterable[int | Tensor]) -> Tensor:
        """x in a shape as `joined` takes it, of which one may be -1."""
        parts = list(sizes)
        unknown = [i for i, part in enumerate(parts) if isinstance(part, Tensor)]
        if len(unknown) == 1 and not any(isinstance(part, int) and part == -1 for part in parts):
            parts[unknown[0]] = -1  # what is left
        return self.g.reshape(x, self.joined(parts))

    def product(self, sizes: Iterable[int | Tensor]) -> int | Tensor:
        """Sizes multiplied."""
        result: int | Tensor = 1
        for size in sizes:
            if isinstance(result, int) and isinstance(size, int):
                result *= size
            else:
                first = result if isinstance(result, Tensor) else self.g.constant([result], dtype=int64)
                result = self.g.multiplication(first, size)
        return result

    def size(self, x: Tensor, axis: int) -> int:
        """x's size along an axis, known. DataDependent when it is not."""
        dims = self.dims(x)
        if not -len(dims) <= axis < len(dims):
            raise ShapeError(f"axis {axis} must lie in {-len(dims)}..{len(dims) - 1}: the operand is {dims}")
        if dims[axis] < 0:
            raise self.data_dependent_shape(x)
        return dims[axis]

    def axis(self, x: Tensor, axis: int) -> int:
        """An axis counted from the front. ShapeError when x has no such axis."""
        rank = self.rank(x)
        if not -rank <= axis < max(rank, 1):
            raise ShapeError(f"axis {axis} must lie in {-rank}..{rank - 1}: the operand is {x.shape}")
        return axis % rank if rank else 0

    def axes(self, x: Tensor, axes: Iterable[int]) -> list[int]:
        """Axes counted from the front, each once."""
        result = [self.axis(x, a) for a in axes]
        if len(set(result)) != len(result):
            raise ShapeError(f"an axis stands twice in {tuple(axes)}")
        return result
