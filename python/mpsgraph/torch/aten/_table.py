"""The table of ATen's operations, and a call of one as its function sees it.

`@aten("relu")` enters a function that makes a graph's operations of a call, for all overloads of that name. It gets the
call and the arguments as PyTorch's schema has them, with tensors of the graph for PyTorch's. What it cannot say it
refuses with `Call.refuse`, so that the call falls to PyTorch or is named in an error.
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


def aten(*names: str) -> Callable[[Function], Function]:
    """Enters the function of one operation or of several, without their namespace."""

    def enter(function: Function) -> Function:
        for name in names:
            _FUNCTIONS[name] = function
        return function

    return enter


def prims(*names: str) -> Callable[[Function], Function]:
    """The same for operations of the namespace prims, which PyTorch's decompositions are made of."""

    def enter(function: Function) -> Function:
        for name in names:
            _PRIMITIVES[name] = function
        return function

    return enter


def own(name: str) -> Callable[[Function], Function]:
    """The same for one of ours, of the namespace mpsgraph: `torch/recurrent.py` defines them."""

    def enter(function: Function) -> Function:
        _OWN[name] = function
        return function

    return enter


def composed(*names: str) -> Callable[[Function], Function]:
    """Enters a function that is written in PyTorch's own language: a call is traced, and its operations are added."""

    def enter(function: Function) -> Function:
        def translated(call: Call, *arguments: Any, **named: Any) -> Any:
            return call.traced(function, *arguments, **named)

        for name in names:
            _FUNCTIONS[name] = translated
        return function

    return enter


def function_of(target: Any) -> Function | None:
    """The function of an operation's overload; None where there is none. Those that write into a result have none."""
    if target is torch.ops.higher_order.with_effects:
        return _FUNCTIONS["with_effects"]
    if not isinstance(target, torch._ops.OpOverload) or "out" in target._overloadname:
        return None
    namespace, _, name = target._schema.name.partition("::")
    if namespace in ("prims", "mpsgraph"):
        return (_PRIMITIVES if namespace == "prims" else _OWN).get(name)
    return _FUNCTIONS.get(name) if namespace == "aten" else None


def known_operations() -> list[str]:
    """The names of all operations that are in the table.

    >>> "addmm" in mg.torch.known_operations()
    True
    """
    return sorted(_FUNCTIONS)


def dtype_of(dtype: Any) -> DType:
    """PyTorch's element type as ours. DTypeError for one that this package has not."""
    return as_dtype(str(dtype).removeprefix("torch."))


@dataclass
class Call:
    """One call: the graph that its operations go to, what PyTorch says of its arguments and of what it gives."""

    g: Graph
    name: str
    result: Any
    """A meta tensor, or several: shapes and element types of what the call gives."""
    arguments: tuple[Any, ...]
    """As the call has them, with meta tensors for tensors."""
    differentiated: bool = False
    """Whether the graph derives gradients through it, or PyTorch has derived them."""
    trace: Callable[[Call, Function, tuple[Any, ...], dict[str, Any]], Any] | None = None
    """Adds the operations that a function of PyTorch's calls: the importer's, which stands above this table."""
    picked: set[Any] | None = None
    """Which of several results are read; None where that is not known."""

    @property
    def dtype(self) -> DType:
        return dtype_of(self.result.dtype)

    @property
    def shape(self) -> list[int]:
        return [int(size) for size in self.result.shape]

    def refuse(self, why: str) -> NoReturn:
        raise UnsupportedError(f"aten.{self.name} {why}")

    def cast(self, x: Any, dtype: DType) -> Any:
        """A tensor in a dtype; numbers become constants."""
        if not isinstance(x, Tensor):
            return self.number(x, (), dtype)
        return x if x.dtype == dtype else self.g.cast(x, dtype)

    def number(self, value: Any, shape: Sequence[int], dtype: DType) -> Tensor:
        """A constant, which truth values and integers are converted to as PyTorch does."""
        if dtype.is_complex:
            return self.g.constant(np.full(tuple(shape), value, dtype.numpy))
        kind = float if dtype.is_float else bool if str(dtype) == "bool" else int
        return self.g.constant(kind(value), tuple(shape), dtype)

    def promoted(self, *values: Any) -> list[Any]:
        """Operands in the element type that PyTorch computes them in: that of all arguments together."""
        given = [v for v in self.arguments if isinstance(v, (torch.Tensor, bool, int, float, complex))]
        kind = torch._prims_common.ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
        _, common = torch._prims_common.elementwise_dtypes(*given, type_promotion_kind=kind)
        return [self.cast(v, dtype_of(common)) for v in values]

    def traced(self, function: Function, *arguments: Any, **named: Any) -> Any:
        """What a function of PyTorch's gives for these arguments, tensors of the graph among them: it is traced, and
        the operations that it calls are added."""
        if self.trace is None:
            self.refuse("cannot be traced here")
        return self.trace(self, function, arguments, named)

    def derived(self, forward: Function, incoming: Tensor, *operands: Tensor) -> list[Tensor]:
        """The gradients of forward(*operands) with respect to each operand, for a gradient that arrives.

        Operands may depend on each other: what is derived are copies, which do not.
        """
        copies = [self.g.identity(x) for x in operands]
        found = self.g.gradients(forward(*copies), copies, start=incoming)
        return [found[x] for x in copies]

    def gives(self, place: int) -> bool:
        """Whether somebody reads this one of several results."""
        return self.picked is None or place in self.picked

    def axis(self, axis: int, rank: int) -> int:
        return axis % max(rank, 1)


def shape_of(x: Tensor) -> list[int]:
    """The sizes of a tensor, all of which are known: graphs of PyTorch are specialised by shape."""
    return list(x.shape or ())


def pair(values: int | Sequence[int], count: int = 2) -> list[int]:
    """One int for all windowed axes, or one each, or none given."""
    if isinstance(values, int):
        return [values] * count
    found = list(values)
    return found * count if len(found) == 1 else found


def stopped(call: Call, x: Tensor) -> Tensor:
    """The same numbers, through which no gradient goes: truncation has none, and a large power of two before it keeps
    every digit of a number above 2^-76 (2^-847 in float64); below, it is zero."""
    if not call.differentiated:
        return x
    g, dtype = call.g, x.dtype
    if dtype.itemsize == 2:
        x = g.cast(x, float32)
    power = 2.0 ** (900 if dtype.itemsize == 8 else 100)
    whole = g.less_than(g.absolute(x), 2.0 ** (53 if dtype.itemsize == 8 else 24))
    bounded = g.select(whole, x, call.cast(0.0, x.dtype))
    return call.cast(g.select(whole, g.truncate(bounded * power) * (1.0 / power), g.truncate(x)), dtype)
