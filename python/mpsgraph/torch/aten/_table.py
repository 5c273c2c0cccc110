"""The table of ATen translations, and the view of a call that each translation receives.

`@aten("relu")` registers a translation for all overloads of an operation. The translation receives the call, and the
arguments of the ATen schema with graph tensors in place of PyTorch tensors. It rejects arguments that it does not
support with `Call.refuse`. torch.compile then runs the call in PyTorch; `Trainer` and `compile_step` raise the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch

from ..._core import DType, Tensor, float32
from ..._dtypes import as_dtype
from ...errors import UnsupportedError
from ...graph import Graph

Function = Callable[..., Any]
_FUNCTIONS: dict[str, Function] = {}
_PRIMITIVES: dict[str, Function] = {}
_OWN: dict[str, Function] = {}
_LIBRARIES: dict[str, Function] = {}


def aten(*names: str) -> Callable[[Function], Function]:
    """Return a decorator that registers the translation of ATen operations, named without their namespace."""

    def enter(function: Function) -> Function:
        for name in names:
            _FUNCTIONS[name] = function
        return function

    return enter


def prims(*names: str) -> Callable[[Function], Function]:
    """Return a decorator that registers the translation of operations in PyTorch's prims namespace."""

    def enter(function: Function) -> Function:
        for name in names:
            _PRIMITIVES[name] = function
        return function

    return enter


def own(name: str) -> Callable[[Function], Function]:
    """Return a decorator that registers the translation of an operation that torch/recurrent.py defines in PyTorch."""

    def enter(function: Function) -> Function:
        _OWN[name] = function
        return function

    return enter


def library(name: str) -> Callable[[Function], Function]:
    """Return a decorator that registers the translation of another library's operation, named with its namespace."""

    def enter(function: Function) -> Function:
        _LIBRARIES[name] = function
        return function

    return enter


def composed(*names: str) -> Callable[[Function], Function]:
    """Return a decorator that registers a translation written in PyTorch.

    PyTorch traces each call, and the operations that it executes are added to the graph.
    """

    def enter(function: Function) -> Function:
        def translated(call: Call, *arguments: Any, **named: Any) -> Any:
            return call.traced(function, *arguments, **named)

        for name in names:
            _FUNCTIONS[name] = translated
        return function

    return enter


def function_of(target: Any) -> Function | None:
    """Return the translation of an operator overload, or None if there is none.

    Overloads with an out= argument have no translation.
    """
    if target is torch.ops.higher_order.with_effects:
        return _FUNCTIONS["with_effects"]
    if not isinstance(target, torch._ops.OpOverload) or "out" in target._overloadname:
        return None
    namespace, _, name = target._schema.name.partition("::")
    if namespace in ("prims", "mpsgraph"):
        return (_PRIMITIVES if namespace == "prims" else _OWN).get(name)
    return _FUNCTIONS.get(name) if namespace == "aten" else _LIBRARIES.get(target._schema.name)


def known_operations() -> list[str]:
    """Return the sorted names of all ATen operations that mpsgraph.torch supports.

    Returns:
        Names without their namespace, such as "addmm".

    Example:
        >>> "addmm" in mg.torch.known_operations()
        True
    """
    return sorted(_FUNCTIONS)


def dtype_of(dtype: Any) -> DType:
    """Return the mpsgraph dtype of a PyTorch dtype; raise DTypeError if there is none."""
    return as_dtype(str(dtype).removeprefix("torch."))


@dataclass
class Call:
    """A call of an ATen operation, as passed to its translation, with the target graph and PyTorch's metadata."""

    g: Graph
    name: str
    result: Any
    """Result of the call as PyTorch predicts it: a meta tensor with its shape and dtype, or a sequence of meta
    tensors.
    """
    arguments: tuple[Any, ...]
    """Arguments of the call, with a meta tensor (shape and dtype only) in place of each tensor."""
    differentiated: bool = False
    """Whether the graph computes the gradients of this call. False if PyTorch has already derived them."""
    trace: Callable[[Call, Function, tuple[Any, ...], dict[str, Any]], Any] | None = None
    """Function that traces a PyTorch function and adds the operations it executes to the graph.

    The importer sets it, because this module cannot import the importer.
    """
    picked: set[Any] | None = None
    """Indices of the results that are used, or None if unknown."""

    @property
    def dtype(self) -> DType:
        return dtype_of(self.result.dtype)

    @property
    def shape(self) -> list[int]:
        return [int(size) for size in self.result.shape]

    def refuse(self, why: str) -> NoReturn:
        raise UnsupportedError(f"aten.{self.name}: {why}")

    def cast(self, x: Any, dtype: DType) -> Any:
        """Return x converted to a dtype; a Python number becomes a constant."""
        if not isinstance(x, Tensor):
            return self.number(x, (), dtype)
        return x if x.dtype == dtype else self.g.cast(x, dtype)

    def number(self, value: Any, shape: Sequence[int], dtype: DType) -> Tensor:
        """Return a constant of the given shape and dtype, filled with a Python number."""
        if dtype.is_complex:
            return self.g.constant(np.full(tuple(shape), value, dtype.numpy))
        kind = float if dtype.is_float else bool if str(dtype) == "bool" else int
        return self.g.constant(kind(value), tuple(shape), dtype)

    def promoted(self, *values: Any) -> list[Any]:
        """Convert operands to the common dtype that PyTorch's type promotion determines from all arguments of the
        call.
        """
        given = [v for v in self.arguments if isinstance(v, (torch.Tensor, bool, int, float, complex))]
        kind = torch._prims_common.ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
        _, common = torch._prims_common.elementwise_dtypes(*given, type_promotion_kind=kind)
        return [self.cast(v, dtype_of(common)) for v in values]

    def traced(self, function: Function, *arguments: Any, **named: Any) -> Any:
        """Trace a PyTorch function called with graph tensors, add the operations it executes, and return its
        results.
        """
        if self.trace is None:
            self.refuse("this operation needs to be traced by PyTorch, which is not possible here")
        return self.trace(self, function, arguments, named)

    def derived(self, forward: Function, incoming: Tensor, *operands: Tensor) -> list[Tensor]:
        """Return the gradients of forward(*operands) with respect to each operand, given the gradient of the result.

        The gradients are derived for independent copies of the operands, because some operands may be computed from
        others.
        """
        copies = [self.g.identity(x) for x in operands]
        found = self.g.gradients(forward(*copies), copies, start=incoming)
        return [found[x] for x in copies]

    def gives(self, place: int) -> bool:
        """Return whether the result at an index is used."""
        return self.picked is None or place in self.picked

    def axis(self, axis: int, rank: int) -> int:
        return axis % max(rank, 1)


def shape_of(x: Tensor) -> list[int]:
    """Return the sizes of a tensor. All are static, because imported PyTorch graphs are specialized by shape."""
    return list(x.shape or ())


def pair(values: int | Sequence[int], count: int = 2) -> list[int]:
    """Return one value for each of `count` windowed axes.

    An int, or a sequence of one value, applies to all axes. Any other sequence is returned as a list.
    """
    if isinstance(values, int):
        return [values] * count
    found = list(values)
    return found * count if len(found) == 1 else found


def stopped(call: Call, x: Tensor) -> Tensor:
    """Return x, with its gradient blocked if the graph differentiates the call.

    The gradient is blocked by truncation, which has no gradient. Before the truncation, x is multiplied by a large
    power of two, which preserves every digit of numbers above 2^-76 (2^-847 in float64). Smaller numbers become zero.
    """
    if not call.differentiated:
        return x
    g, dtype = call.g, x.dtype
    if dtype.itemsize == 2:
        x = g.cast(x, float32)
    power = 2.0 ** (900 if dtype.itemsize == 8 else 100)
    whole = g.less_than(g.absolute(x), 2.0 ** (53 if dtype.itemsize == 8 else 24))
    bounded = g.select(whole, x, call.cast(0.0, x.dtype))
    return call.cast(g.select(whole, g.truncate(bounded * power) * (1.0 / power), g.truncate(x)), dtype)
