"""The registry of ATen translations, and the view of a call that each translation receives.

`@aten("relu")` registers a translation for all overloads of an operation. The translation receives the call, and the
arguments of the ATen schema with graph tensors in place of PyTorch tensors. It rejects arguments that it does not
support with `Call.refuse`. torch.compile then runs the call in PyTorch; `Trainer` and `compile_step` raise the error.

Operations of other libraries are registered with the library's name as the domain. The domain "prims" has the
primitives into which PyTorch decomposes other operations, and "mpsgraph" the operations of torch/recurrent.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from ..._core import DType, Tensor, float32
from ..._dtypes import as_dtype
from ...graph import Graph
from ...interchange.node_view import SizedNode
from ...interchange.registry import Registry

Function = Callable[..., Any]
aten: Registry[Function] = Registry("ATen operation")
prims = partial(aten, domain="prims")


def composed(*names: str) -> Callable[[Function], Function]:
    """Return a decorator that registers a translation written in PyTorch.

    PyTorch traces each call, and the operations that it executes are added to the graph.
    """

    def enter(function: Function) -> Function:
        aten(*names)(lambda call, *arguments, **named: call.traced(function, *arguments, **named))
        return function

    return enter


def function_of(target: Any) -> Function | None:
    """Return the translation of an operator overload, or None if there is none.

    Overloads with an out= argument have no translation.
    """
    if target is torch.ops.higher_order.with_effects:
        return aten.get("with_effects")
    if not isinstance(target, torch._ops.OpOverload) or "out" in target._overloadname:
        return None
    domain, _, name = target._schema.name.partition("::")
    return aten.get(name, "" if domain == "aten" else domain)


def known_operations() -> list[str]:
    """Return the sorted names of all ATen operations that mpsgraph.torch supports.

    Returns:
        Names without their namespace, such as "addmm".

    Example:
        >>> "addmm" in mg.torch.known_operations()
        True
    """
    return aten.known()


def dtype_of(dtype: Any) -> DType:
    """Return the mpsgraph dtype of a PyTorch dtype; raise DTypeError if there is none."""
    return as_dtype(str(dtype).removeprefix("torch."))


class Call(SizedNode):
    """A call of an ATen operation, as passed to its translation, with the target graph and PyTorch's metadata.

    Attributes:
        result: Result of the call as PyTorch predicts it: a meta tensor with its shape and dtype, or a sequence of meta
            tensors.
        arguments: Arguments of the call, with a meta tensor (shape and dtype only) in place of each tensor.
        differentiated: Whether the graph computes the gradients of this call. False if PyTorch has already derived
            them.
    """

    prefix = "aten."

    def __init__(
        self,
        g: Graph,
        name: str,
        result: Any,
        arguments: tuple[Any, ...],
        differentiated: bool = False,
        trace: Callable[[Call, Function, tuple[Any, ...], dict[str, Any]], Any] | None = None,
        picked: set[Any] | None = None,
    ) -> None:
        """Create a view. The importer passes `trace`, because this module cannot import it: the function that traces a
        PyTorch function and adds the operations it executes. `picked` are the indices of the results that are used, or
        None if unknown.
        """
        super().__init__(g, name)
        self.result, self.arguments, self.differentiated = result, arguments, differentiated
        self._trace, self._picked = trace, picked

    @property
    def results(self) -> list[Any]:
        """The meta tensors of all results."""
        return list(self.result) if isinstance(self.result, (tuple, list)) else [self.result]

    @property
    def dtype(self) -> DType:
        return dtype_of(self.result.dtype)

    @property
    def sizes(self) -> list[int]:
        """The shape of the result."""
        return [int(size) for size in self.result.shape]

    def cast(self, x: Any, dtype: DType | str) -> Any:
        """Return x converted to a dtype; a Python number becomes a constant."""
        return super().cast(x, dtype) if isinstance(x, Tensor) else self.constant(x, dtype)

    def casts(self, *values: Any) -> list[Any]:
        """Convert operands to the dtype of the result."""
        return [self.cast(v, self.dtype) for v in values]

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
        if self._trace is None:
            self.refuse("this operation needs to be traced by PyTorch, which is not possible here")
        return self._trace(self, function, arguments, named)

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
        return self._picked is None or place in self._picked


def shape_of(x: Tensor) -> list[int]:
    """Return the sizes of a tensor. All are static, because imported PyTorch graphs are specialized by shape."""
    return list(x.shape or ())


def pair(values: int | Sequence[int], count: int = 2) -> list[int]:
    """Return one value for each of `count` windowed axes.

    An int, or a sequence of one value, applies to all axes. Any other sequence is returned as a list.
    """
    found = [values] if isinstance(values, int) else list(values)
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
