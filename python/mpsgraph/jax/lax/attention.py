"""Lowerings of attention to jax.nn.dot_product_attention, which does not store the scores on GPUs.

They apply only to the attention that Program keeps: half precision, without a mask operand or dropout. Other attention
is composite.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._table import Step, Value, lowers


def _attended(step: Step, query: Value, key: Value, value: Value) -> tuple[Value, Any]:
    """Return the result of attention, (batch, heads, queries, features), and the function that returns its gradients.

    The function is remembered by the result's tensor, so that the gradient does not compute attention again.
    """

    def attention(*operands: Value) -> Value:
        swapped = (jnp.swapaxes(operand, 1, 2) for operand in operands)  # In JAX, the heads follow the positions.
        result = jax.nn.dot_product_attention(
            *swapped, scale=step["scale"], is_causal=step["causal"], implementation=step.trace.attention
        )
        return jnp.swapaxes(result, 1, 2)

    return jax.vjp(attention, query, key, value)


@lowers("scaled_dot_product_attention")
def scaled_dot_product_attention(step: Step, query: Value, key: Value, value: Value) -> Value:
    """Compute attention. The statistics, a second result, are NaN: only the gradient below takes them, and ignores
    them.
    """
    result, step.trace.pullbacks[step.outputs[0]] = _attended(step, query, key, value)
    if not step["training"]:
        return result
    return result, jnp.full(tuple(step.outputs[1].shape or ()), np.nan, np.float32)


@lowers("scaled_dot_product_attention_gradient")
def scaled_dot_product_attention_gradient(
    step: Step, query: Value, key: Value, value: Value, incoming: Value, result: Value, statistics: Value
) -> tuple[Value, ...]:
    """Compute the gradients of query, key, and value."""
    pullback = step.trace.pullbacks.get(step.inputs[4])
    if pullback is None:  # The attention is in another block.
        pullback = _attended(step, query, key, value)[1]
    return tuple(pullback(incoming))
