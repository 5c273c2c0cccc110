"""checkpoint: a function whose intermediate values the backward pass computes again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .._checks import checked
from .._recomputation import recomputed
from ._structures import flattened
from .tracing import graph_for


@checked
def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose intermediate values gradients compute again instead of keeping them in memory.

    Memory holds only the arguments and results of the function between the forward and the backward pass, and the
    function is computed twice. Values and gradients are the same. For modules, use `mpsgraph.nn.checkpoint`.

    Args:
        function: Function of tensors and nested structures of them.

    Returns:
        A function with the same arguments and results. Called with arrays outside of traced functions, it calls
        `function`.

    Source: Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016; jax.checkpoint.

    Example:
        >>> from mpsgraph.transforms import checkpoint
        >>> layer = lambda x: mg.numpy.tanh(mg.numpy.exp(x) * x)
        >>> checkpointed = checkpoint(layer)
        >>> gradient = mg.grad(lambda x: checkpointed(checkpointed(x)))
        >>> gradient(0.5).item() == mg.grad(lambda x: layer(layer(x)))(0.5).item()
        True
    """

    @functools.wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        leaves: list[Any] = []
        flattened((arguments, named), leaves)
        graph = graph_for(leaves)
        if graph is None:
            return function(*arguments, **named)
        with recomputed(graph):
            return function(*arguments, **named)

    return called


__all__ = ["checkpoint"]
