"""Shape queries for `einsum` and importers, which return static sizes as ints and dynamic sizes as tensors.

If a translation needs the value of a dynamic size, it raises the exception that `data_dependent_shape` returns.
"""

from __future__ import annotations

from collections.abc import Iterable

from .._core import Tensor, int64
from ..errors import ShapeError
from ..graph import Graph


class Sizes:
    """Shape queries for the operands of a function, ONNX node, MIL operation, or neural-network layer."""

    g: Graph

    def data_dependent_shape(self, x: Tensor) -> Exception:
        """Return the exception for a shape that is not known. Importers name the inputs that determine the shape."""
        return ShapeError(f"the rank of {x.name} and the sizes of its repeated axes must be known, got {x.shape}")

    def dims(self, x: Tensor) -> tuple[int, ...]:
        """Return the shape of x, with -1 for dynamic dimensions, or raise an exception if its rank is unknown."""
        if x.shape is None:
            raise self.data_dependent_shape(x)
        return x.shape

    def rank(self, x: Tensor) -> int:
        """Return the rank of x, or raise an exception if it is unknown."""
        return len(self.dims(x))

    def shape(self, x: Tensor) -> tuple[int, ...]:
        """Return the shape of x, or raise an exception if any dimension is dynamic."""
        if x.shape is None or min(x.shape, default=0) < 0:
            raise self.data_dependent_shape(x)
        return x.shape

    def dim(self, x: Tensor, axis: int) -> int | Tensor:
        """Return the size of an axis of x, as an int if it is known and as an int64 tensor of shape (1,) otherwise."""
        axis = self.axis(x, axis)
        known = self.dims(x)[axis]
        return known if known >= 0 else self.g.cast(self.g.slice(self.g.shape_of(x), [axis], [axis + 1]), int64)

    def joined(self, sizes: Iterable[int | Tensor]) -> list[int] | Tensor:
        """Combine sizes, as returned by `dim`, into a shape: a list if all are ints, and a 1-D tensor otherwise."""
        parts = list(sizes)
        known = [part for part in parts if not isinstance(part, Tensor)]
        if len(known) == len(parts):
            return known
        made = [part if isinstance(part, Tensor) else self.g.constant([part], dtype=int64) for part in parts]
        return self.g.concat(made, 0)

    def reshape(self, x: Tensor, sizes: Iterable[int | Tensor]) -> Tensor:
        """Reshape x to sizes that are ints or, as returned by `dim`, tensors. One of the sizes may be -1."""
        parts = list(sizes)
        unknown = [i for i, part in enumerate(parts) if isinstance(part, Tensor)]
        if len(unknown) == 1 and not any(isinstance(part, int) and part == -1 for part in parts):
            parts[unknown[0]] = -1  # If a single size is dynamic, reshape can infer it.
        return self.g.reshape(x, self.joined(parts))

    def product(self, sizes: Iterable[int | Tensor]) -> int | Tensor:
        """Return the product of sizes that are ints or, as returned by `dim`, tensors."""
        result: int | Tensor = 1
        for size in sizes:
            if isinstance(result, int) and isinstance(size, int):
                result *= size
            else:
                first = result if isinstance(result, Tensor) else self.g.constant([result], dtype=int64)
                result = self.g.multiplication(first, size)
        return result

    def size(self, x: Tensor, axis: int) -> int:
        """Return the size of an axis of x, or raise an exception if it is dynamic."""
        dims = self.dims(x)
        if not -len(dims) <= axis < len(dims):
            raise ShapeError(f"axis must be between {-len(dims)} and {len(dims) - 1} for shape {dims}, got {axis}")
        if dims[axis] < 0:
            raise self.data_dependent_shape(x)
        return dims[axis]

    def axis(self, x: Tensor, axis: int) -> int:
        """Return the non-negative index of an axis of x, or raise ShapeError if it is out of range."""
        rank = self.rank(x)
        if not -rank <= axis < max(rank, 1):
            raise ShapeError(f"axis must be between {-rank} and {rank - 1} for shape {x.shape}, got {axis}")
        return axis % rank if rank else 0

    def axes(self, x: Tensor, axes: Iterable[int]) -> list[int]:
        """Return the non-negative indices of axes of x, or raise ShapeError if one is out of range or repeated."""
        result = [self.axis(x, a) for a in axes]
        if len(set(result)) != len(result):
            raise ShapeError(f"axes must be distinct, got {tuple(axes)}")
        return result
