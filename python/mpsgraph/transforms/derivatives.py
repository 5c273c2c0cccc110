"""grad, value_and_grad, stop_gradient, and custom_gradient."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .._checks import checked
from .._core import NDArray, Tensor
from .._display import shown
from ..errors import DTypeError, GraphError, ShapeError
from ..numpy._creation import asarray
from ..numpy._gradients import blocked, with_gradient
from ..ops.control_flow import is_in_block
from ._structures import flattened, is_array, mapped, rebuilt
from .tracing import as_tensor, graph_for, jit


def _differentiated(
    function: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool, name: str, only: bool
) -> Callable[..., Any]:
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def symbolic(*arguments: Any, **named: Any) -> Any:
        every: list[Any] = []
        flattened((arguments, named), every)
        g = graph_for(every)
        assert g is not None
        if any(not -len(arguments) <= p < len(arguments) for p in positions):
            raise GraphError(f"{name}: argnums {argnums} is out of range for {len(arguments)} positional arguments")
        leaves: list[Any] = []
        forms, filled = {}, list(arguments)
        for p in {p % len(arguments) for p in positions}:
            own: list[Any] = []
            form = flattened(arguments[p], own)
            # The gradient is with respect to copies, because the function may use the same tensors in another way.
            copies = [g.identity(_inexact(as_tensor(g, x), name)) for x in own]
            filled[p] = rebuilt(form, iter(copies), arguments[p])
            forms[p] = (form, len(leaves), len(copies))
            leaves += copies
        value = function(*filled, **named)
        auxiliary = None
        if has_aux:
            if not isinstance(value, tuple) or len(value) != 2:
                raise GraphError(f"{name}: with has_aux, the function must return (value, other), got {shown(value)}")
            value, auxiliary = value
        if not is_array(value):
            raise GraphError(f"{name}: the function must return a tensor of rank 0, got {shown(value)}")
        value = _inexact(as_tensor(g, value), name)
        if value.shape not in ((), (1,) * len(value.shape or ())):
            raise ShapeError(
                f"{name}: the function must return a tensor of rank 0, got shape {value.shape}: reduce it with .sum() "
                "or .mean()"
            )
        if value.dtype.is_complex:
            raise DTypeError(f"{name}: the function must return a real tensor, got {value.dtype}: use real or abs")
        found = g.gradients(value, leaves)
        slopes = []
        for p in positions:
            form, first, count = forms[p % len(arguments)]
            own = [found[x] for x in leaves[first : first + count]]
            slopes.append(rebuilt(form, iter(own), arguments[p]))
        gradient = slopes[0] if isinstance(argnums, int) else tuple(slopes)
        if only:
            return (gradient, auxiliary) if has_aux else gradient
        return ((value, auxiliary) if has_aux else value), gradient

    compiled = jit(symbolic)

    @functools.wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        return compiled(*arguments, **named)

    return called


def _inexact(x: Tensor, name: str) -> Tensor:
    if not (x.dtype.is_float or x.dtype.is_complex):
        raise DTypeError(f"{name}: gradients require floating-point numbers, got {x.dtype}: convert with astype first")
    return x


@checked
def grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the gradient of a scalar function.

    The returned function is compiled as by `jit`. It can be differentiated again, and called by other traced functions.

    Args:
        function: Function that returns a floating-point tensor of one element.
        argnums: Position of the argument to differentiate with respect to, or several. Each can be an array or a nested
            structure of arrays. Defaults to 0.
        has_aux: Whether the function returns (value, other), of which only the value is differentiated. Defaults to
            False.

    Returns:
        A function with the same arguments. It returns the gradient in the structure of the argument, a tuple of
        gradients for several positions, or (gradient, other) with has_aux.

    Raises:
        ShapeError: From a call, if the result of the function has more than one element.
        DTypeError: From a call, if the argument or the result is not floating-point.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> cube = lambda x: x * x * x
        >>> mg.grad(cube)(2.0).item(), mg.grad(mg.grad(cube))(2.0).item()
        (12.0, 12.0)
    """
    return _differentiated(function, argnums, has_aux, "grad", True)


@checked
def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the value of a scalar function together with its gradient.

    Args:
        function: Function that returns a floating-point tensor of one element.
        argnums: Position of the argument to differentiate with respect to, or several. Defaults to 0.
        has_aux: Whether the function returns (value, other), of which only the value is differentiated. Defaults to
            False.

    Returns:
        A function with the same arguments, which returns (value, gradient), or ((value, other), gradient) with has_aux.

    Raises:
        ShapeError: From a call, if the result of the function has more than one element.
        DTypeError: From a call, if the argument or the result is not floating-point.

    Example:
        >>> loss = lambda w, x: ((w["scale"] * x) ** 2).sum()
        >>> value, gradient = mg.value_and_grad(loss)({"scale": 3.0}, np.float32([1, 2]))
        >>> value.item(), gradient["scale"].item()
        (45.0, 30.0)
    """
    return _differentiated(function, argnums, has_aux, "value_and_grad", False)


def stop_gradient(x: Any) -> Any:
    """Return a value through which no gradient flows.

    Args:
        x: A tensor or an array, or a nested structure of them.

    Returns:
        The same values. Arrays, and tensors that are not floating-point, are returned as they are.

    Raises:
        GraphError: If the tensor belongs to a graph that is no longer being built.

    Example:
        >>> mg.grad(lambda x: x * mg.stop_gradient(x))(3.0).item()
        3.0
    """
    return mapped(_stopped, x)


def _stopped(x: Any) -> Any:
    if not isinstance(x, Tensor) or not (x.dtype.is_float or x.dtype.is_complex):
        return x
    return blocked(x, None)


def custom_gradient(function: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose gradient is computed by another function.

    Both functions apply operations to tensors, and `backward` can be differentiated again.

    Args:
        function: Function of tensors that returns a tensor, or a tuple of tensors.
        backward: Function of the gradient of the result (a tuple for several results) and the operands. It returns the
            gradient of each operand, or None for operands without a gradient: a tensor for one operand, and otherwise a
            tuple.

    Returns:
        A function of tensors, arrays, and numbers. Called with arrays alone, it is compiled as by `jit`.

    Raises:
        GraphError: From a call inside the block of a loop or a conditional, or if `backward` returns a wrong number of
            gradients.
        DTypeError: If a gradient has another dtype than its operand.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> rounded = mg.custom_gradient(mnp.round, lambda incoming, x: incoming)
        >>> value, gradient = mg.value_and_grad(lambda x: 3 * rounded(x))(1.7)
        >>> value.item(), gradient.item()
        (6.0, 3.0)
    """
    for what, given in (("function", function), ("backward", backward)):
        if not callable(given):
            raise GraphError(f"custom_gradient: {what} must be callable, got {shown(given)}")

    def symbolic(*operands: Any) -> Any:
        g = graph_for(operands)
        assert g is not None
        if is_in_block(g):
            raise GraphError("custom_gradient is not supported inside the block of a loop or a conditional")
        tensors = [as_tensor(g, x) for x in operands]
        made = function(*tensors)
        results = list(made) if isinstance(made, (tuple, list)) else [made]
        if not results or not all(isinstance(r, Tensor) for r in results):
            raise GraphError(f"custom_gradient: the function must return tensors, got {shown(made)}")
        found = with_gradient(g, tensors, results, backward)
        return tuple(found) if isinstance(made, (tuple, list)) else found[0]

    compiled = jit(symbolic)

    @functools.wraps(function)
    def called(*operands: Any) -> Any:
        return compiled(*(x if isinstance(x, (Tensor, NDArray)) else asarray(x) for x in operands))

    return called


__all__ = ["custom_gradient", "grad", "stop_gradient", "value_and_grad"]
