"""Translations of calls: nested functions, custom derivatives, and checkpoints, whose jaxprs are inlined."""

from __future__ import annotations

from typing import Any

from ..._core import Tensor
from ._table import Equation, primitive


@primitive("jit", "pjit", "closed_call", "core_call", "custom_vjp_call_jaxpr", "core_closed_call", "xla_call")
def jit(equation: Equation, *operands: Tensor, jaxpr: Any = None, call_jaxpr: Any = None, **_: Any) -> Any:
    return equation.build(_closed(jaxpr if jaxpr is not None else call_jaxpr), operands)


@primitive("remat2", "checkpoint", "remat")
def checkpoint(equation: Equation, *operands: Tensor, jaxpr: Any, **_: Any) -> Any:
    return equation.build(_closed(jaxpr), operands)


@primitive("custom_jvp_call", "custom_vjp_call")
def custom(equation: Equation, *operands: Tensor, call_jaxpr: Any = None, fun_jaxpr: Any = None, **_: Any) -> Any:
    return equation.build(_closed(call_jaxpr if call_jaxpr is not None else fun_jaxpr), operands)


@primitive("composite")
def composite(equation: Equation, *operands: Tensor, jaxpr: Any, **_: Any) -> Any:
    return equation.build(_closed(jaxpr), operands)


@primitive("linear_call")
def linear_call(equation: Equation, *operands: Tensor, callee: Any, **_: Any) -> Any:
    return equation.build(_closed(callee), operands)


@primitive("custom_linear_solve")
def custom_linear_solve(equation: Equation, *operands: Tensor, const_lengths: Any, jaxprs: Any, **_: Any) -> Any:
    """Translate custom_linear_solve by inlining its `solve` function. Its other functions are needed only for
    derivatives.
    """
    before = const_lengths.matvec + const_lengths.vecmat
    constants = operands[before : before + const_lengths.solve]
    right_sides = operands[sum(const_lengths) :]
    return equation.build(jaxprs.solve, [*constants, *right_sides])


@primitive("stop_gradient", "optimization_barrier", "name", "device_put", "copy", "copy_p", "sharding_constraint",
           "layout_constraint", "reshard", "pvary", "reduce_precision_barrier", "random_clone", "tie",
           "mesh_cast")  # fmt: skip
def same(equation: Equation, *operands: Tensor, **_: Any) -> Any:
    if equation.name == "tie":
        return operands[-1]
    return list(operands)


def _closed(jaxpr: Any) -> Any:
    """Return a jaxpr as a closed jaxpr, which has its constants attached. The jaxpr must not need constants."""
    from jax.extend import core

    return jaxpr if isinstance(jaxpr, core.ClosedJaxpr) else core.ClosedJaxpr(jaxpr, ())
