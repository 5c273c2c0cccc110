"""Case: one operation on one set of inputs, with the numpy function that says what must come out.

Inputs of dtype float64 or int64 are "typed": a test converts them to the element type it is about, and gives them an
imaginary part when that is complex. All others (bool predicates, int32 indices) stay as they are. One list of cases a
family, in tests/cases, drives every test of values, types, shapes and derivatives.
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
    """operation on inputs(attributes) must give oracle(*inputs, **attributes)."""

    operation: str
    inputs: Sequence[np.ndarray]
    oracle: Callable[..., Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    build: Callable[..., Any] | None = None  # (graph, *tensors, **attributes) -> tensors; default: the method
    label: str = ""
    dtypes: tuple[str, ...] = FLOATS  # of the typed inputs: all that the operation takes, and no others
    elementwise: bool = False  # inputs are pools of valid values: variants take any shape of them
    gradient: bool = True  # compare derivatives with differences; False only at kinks or for special values
    batch: tuple[int, ...] | None = (
        None  # inputs whose axis 0 is one batch; None: all typed inputs of the first's length
    )
    unranked: bool = True  # can be built from placeholders of unknown rank
    late: bool = False  # shapes of results depend on values: they are known when it has run
    tolerance: float = 1.0  # multiplies that of the element type, for long sums and cancellation
    exact: bool = False  # only moves or compares elements: no rounding at all

    @property
    def id(self) -> str:
        return f"{self.operation}-{self.label}" if self.label else self.operation

    def tensors(self, graph: Any, *operands: Any) -> list[Any]:
        """The operation in a graph; always a list of its results."""
        build = self.build or getattr(type(graph), method_name(self.operation))
        result = build(graph, *operands, **self.attributes)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    def expected(self, *arrays: np.ndarray) -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            result = self.oracle(*arrays, **self.attributes)
        return [np.asarray(r) for r in result] if isinstance(result, (list, tuple)) else [np.asarray(result)]

    @property
    def exact_dtypes(self) -> list[str]:
        """The element types in which derivatives are compared with differences."""
        return [d for d in ("float64", "complex128") if d in self.dtypes]

    def float_inputs(self) -> list[int]:
        """Positions of the typed inputs that have derivatives."""
        return [i for i, x in enumerate(self.inputs) if x.dtype == np.float64]

    def batched(self) -> tuple[int, ...]:
        if self.batch is not None:
            return self.batch
        if not self.elementwise or self.inputs[0].ndim == 0:
            return ()
        rank, length = self.inputs[0].ndim, self.inputs[0].shape[0]
        return tuple(i for i, x in enumerate(self.inputs) if x.ndim == rank and x.shape[0] == length)


def method_name(kind: str) -> str:
    """The method of Graph for a kind: Python's keywords get a trailing underscore."""
    return kind + "_" if keyword.iskeyword(kind) else kind


def typed(array: np.ndarray) -> bool:
    return array.dtype in (np.float64, np.int64)


def values(*shape: int, seed: int = 0, low: float = -3.0, high: float = 3.0) -> np.ndarray:
    """Numbers that repeat: uniform in [low, high)."""
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape)


def apart(*shape: int, seed: int = 0, distance: float = 0.25) -> np.ndarray:
    """Distinct numbers around 0, at least `distance` from one another and half of it from 0, shuffled: no ties."""
    count = int(np.prod(shape))
    numbers = (np.arange(count) - count // 2 + 0.5) * distance
    return np.random.default_rng([seed, *shape]).permutation(numbers).reshape(shape)


def off_zero(*shape: int, seed: int = 0, least: float = 0.5, most: float = 3.0) -> np.ndarray:
    """Numbers of both signs whose absolute value lies in [least, most)."""
    rng = np.random.default_rng([seed, 7, *shape])
    return rng.uniform(least, most, shape) * rng.choice([-1.0, 1.0], shape)
