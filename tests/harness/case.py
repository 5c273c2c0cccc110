"""A case: one operation on one set of inputs, with a numpy function that computes the expected results.

Inputs of dtype float64 or int64 are "typed": a test converts them to the dtype under test and adds imaginary parts if
that is complex. All other inputs, such as bool predicates and int32 indices, keep their dtype. The tests of values,
types, shapes and derivatives all use the same cases, one list for each operation family, in tests/cases.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

FLOATS = ("float32", "float16", "bfloat16", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTEGERS
COMPLEX = ("complex64", "complex128")
ANALYTIC = FLOATS + COMPLEX
ALGEBRAIC = NUMBERS + COMPLEX
ORDERED = (*NUMBERS, "bool")
ANY = (*ORDERED, *COMPLEX)


@dataclass(frozen=True, eq=False)
class Case:
    """An operation with inputs and attributes whose results must equal oracle(*inputs, **attributes)."""

    operation: str
    inputs: Sequence[np.ndarray]
    oracle: Callable[..., Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    # Maps (graph, *tensors, **attributes) to tensors. Defaults to the graph method.
    build: Callable[..., Any] | None = None
    label: str = ""
    dtypes: tuple[str, ...] = FLOATS  # All dtypes that the operation accepts for typed inputs, and no others.
    elementwise: bool = False  # Inputs are pools of valid values, which tests may reshape.
    gradient: bool = True  # Compare derivatives with finite differences. False only at kinks or for special values.
    # Inputs that share axis 0 as a batch. None selects all typed inputs that have the length of the first.
    batch: tuple[int, ...] | None = None
    unranked: bool = True  # Can be built from placeholders of unknown rank.
    late: bool = False  # Result shapes depend on values and are known only after a run.
    tolerance: float = 1.0  # Factor on the tolerance of the dtype, for long sums and cancellation.
    exact: bool = False  # Only moves or compares elements, without any rounding.

    @property
    def id(self) -> str:
        return f"{self.operation}-{self.label}" if self.label else self.operation

    def tensors(self, graph: Any, *operands: Any) -> list[Any]:
        """Build the operation in a graph and return the list of its results."""
        build = self.build or getattr(type(graph), method_name(self.operation))
        result = build(graph, *operands, **self.attributes)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    def expected(self, *arrays: np.ndarray) -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            result = self.oracle(*arrays, **self.attributes)
        return [np.asarray(r) for r in result] if isinstance(result, (list, tuple)) else [np.asarray(result)]

    @property
    def exact_dtypes(self) -> list[str]:
        """The dtypes in which derivatives are compared with finite differences."""
        return [d for d in ("float64", "complex128") if d in self.dtypes]

    def float_inputs(self) -> list[int]:
        """Return the positions of the typed inputs that have derivatives."""
        return [i for i, x in enumerate(self.inputs) if x.dtype == np.float64]

    def batched(self) -> tuple[int, ...]:
        if self.batch is not None:
            return self.batch
        if not self.elementwise or self.inputs[0].ndim == 0:
            return ()
        rank, length = self.inputs[0].ndim, self.inputs[0].shape[0]
        return tuple(i for i, x in enumerate(self.inputs) if x.ndim == rank and x.shape[0] == length)


def method_name(kind: str) -> str:
    """Return the Graph method for an operation kind. Python keywords get a trailing underscore."""
    return kind + "_" if keyword.iskeyword(kind) else kind


def typed(array: np.ndarray) -> bool:
    return array.dtype in (np.float64, np.int64)


def values(*shape: int, seed: int = 0, low: float = -3.0, high: float = 3.0) -> np.ndarray:
    """Return reproducible random values, uniform in [low, high)."""
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape)


def apart(*shape: int, seed: int = 0, distance: float = 0.25) -> np.ndarray:
    """Return distinct, shuffled values around 0, at least `distance` apart and at least half of it away from 0."""
    count = int(np.prod(shape))
    numbers = (np.arange(count) - count // 2 + 0.5) * distance
    return np.random.default_rng([seed, *shape]).permutation(numbers).reshape(shape)


def off_zero(*shape: int, seed: int = 0, least: float = 0.5, most: float = 3.0) -> np.ndarray:
    """Return values of both signs whose absolute value is in [least, most)."""
    rng = np.random.default_rng([seed, 7, *shape])
    return rng.uniform(least, most, shape) * rng.choice([-1.0, 1.0], shape)
