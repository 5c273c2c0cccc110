"""Mixed precision: an autocast scope for building graphs, and a global policy for layers.

Inside `autocast`, the operands of operations are cast according to one table (docs/mixed_precision.md): matrix products
and convolutions compute in the lower precision; sums, losses, and functions that magnify errors compute in float32.
Variables stay float32 and are cast where they are used, and gradients with respect to variables are float32. float16
also needs loss scaling: see `loss_scaling`.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ContextDecorator, nullcontext
from typing import Any, TypeVar

from .._checks import checked
from .._core import DType, Tensor, bfloat16, float16, float32
from .._display import shown
from .._dtypes import DTypeLike, as_dtype
from ..errors import DTypeError, GraphError

POLICIES: dict[str, DType | None] = {"float32": None, "mixed_bfloat16": bfloat16, "mixed_float16": float16}
Function = TypeVar("Function", bound=Callable[..., Any])


class _Scopes(threading.local):
    """Per-thread stack of open autocast scopes, innermost last. None is a scope with enabled=False."""

    def __init__(self) -> None:
        self.open: list[DType | None] = []


_scopes = _Scopes()
_policy = "float32"


@checked
class autocast(ContextDecorator):
    """Context manager and decorator that casts the operands of new operations for mixed precision.

    The casts apply to operations that are built inside the scope, in any graph. Scopes can be nested, and the innermost
    one applies; each thread has its own scopes. Gradients need no scope, because a gradient operation has the precision
    of the operation that it differentiates.

    Args:
        dtype: "bfloat16" (the default), "float16", or "float32", which casts operands of lower precision to float32.
        enabled: False disables casts inside the scope. Defaults to True.

    Raises:
        DTypeError: If dtype is not one of these three.

    Example:
        >>> g = mg.Graph()
        >>> x, w = g.placeholder((-1, 4)), g.variable(np.ones((4, 2), np.float32))
        >>> with mg.autocast("bfloat16"):
        ...     y = x @ w
        ...     total = g.reduction_sum(y)
        >>> y.dtype, total.dtype, g.gradients(total, w)[w].dtype
        (bfloat16, float32, float32)
    """

    def __init__(self, dtype: DTypeLike = "bfloat16", enabled: bool = True) -> None:
        self.dtype, self.enabled = as_dtype(dtype), enabled
        if self.dtype not in (bfloat16, float16, float32):
            raise DTypeError(f"autocast: dtype must be bfloat16, float16 or float32, got {self.dtype}")

    def __enter__(self) -> autocast:
        _scopes.open.append(self.dtype if self.enabled else None)
        return self

    def __exit__(self, *_: object) -> None:
        _scopes.open.pop()


def autocast_dtype() -> DType | None:
    """Return the dtype in which a matrix product that is built now computes under autocast.

    Returns:
        The dtype of the innermost autocast scope, or None outside autocast and where it is disabled.

    Example:
        >>> with mg.autocast("float16"):
        ...     print(mg.mixed_precision.autocast_dtype())
        float16
    """
    return _scopes.open[-1] if _scopes.open else None


@checked
def set_global_policy(policy: str) -> None:
    """Set the precision of layers that are called outside any autocast scope.

    The policy applies to modules that are called and trainers that are created after this call. The function
    corresponds to Keras's mixed_precision.set_global_policy.

    Args:
        policy: "float32", "mixed_bfloat16", or "mixed_float16".

    Raises:
        GraphError: If policy has an unknown value.

    Example:
        >>> mg.mixed_precision.set_global_policy("mixed_bfloat16")
        >>> mg.nn.Linear(2)(mg.Graph().placeholder((-1, 3))).dtype
        bfloat16
        >>> mg.mixed_precision.set_global_policy("float32")
    """
    global _policy
    if policy not in POLICIES:
        raise GraphError(f"policy must be one of {', '.join(POLICIES)}, got {shown(policy)}")
    _policy = policy


def global_policy() -> str:
    """Return the policy set by set_global_policy, initially "float32".

    Returns:
        The name of the policy.

    Example:
        >>> mg.mixed_precision.global_policy()
        'float32'
    """
    return _policy


def layer_scope(precision: str | None) -> AbstractContextManager[Any]:
    """Return the scope in which a module is called: the module's precision if set, else the open autocast scope, else
    the policy.

    Args:
        precision: Precision of the module, or None.

    Returns:
        A context manager.

    Example:
        >>> with mg.mixed_precision.layer_scope("bfloat16"):
        ...     print(mg.mixed_precision.autocast_dtype())
        bfloat16
    """
    if precision is not None:
        return autocast(precision)
    low = POLICIES[_policy]
    return nullcontext() if _scopes.open or low is None else autocast(low)


def is_mixed() -> bool:
    """Return whether operations that are built now, or layers that are called now, use mixed precision.

    Returns:
        True inside an autocast scope with a lower precision, or if the global policy is a mixed one.

    Example:
        >>> with mg.autocast("bfloat16"):
        ...     print(mg.mixed_precision.is_mixed())
        True
    """
    return bool(autocast_dtype() if _scopes.open else POLICIES[_policy])


def _widened(x: Any) -> Any:
    half = isinstance(x, Tensor) and x.dtype in (bfloat16, float16)
    return x.graph.cast(x, float32) if half else x


def rounded_once(function: Function) -> Function:
    """Decorate a composition of operations so that it computes in float32 and rounds its result once.

    bfloat16 and float16 operands are cast to float32, and the result is cast to the dtype of the first such operand.
    Inside the function, autocast is disabled.

    Args:
        function: Function of tensors that builds the composition.

    Returns:
        The decorated function.

    Example:
        >>> @mg.mixed_precision.rounded_once
        ... def square_sum(x):
        ...     return x.graph.reduction_sum(x * x)
        >>> x = mg.Graph().constant([300.0, 400.0], dtype="float16")
        >>> x.graph.run({}, square_sum(x / 1000.0)).dtype
        float16
    """

    @functools.wraps(function)
    def wide(*operands: Any, **options: Any) -> Any:
        given = (*operands, *options.values())
        half = next((x.dtype for x in given if isinstance(x, Tensor) and x.dtype in (bfloat16, float16)), None)
        if half is None:
            return function(*operands, **options)
        with autocast(enabled=False):
            result = function(*map(_widened, operands), **{name: _widened(x) for name, x in options.items()})
            return result.graph.cast(result, half)

    return wide  # type: ignore[return-value]


def in_float32(function: Function) -> Function:
    """Decorate a loss so that it is computed in float32 if its operands are bfloat16 or float16.

    Under mixed precision the result stays float32; otherwise it is rounded to the dtype of the operands. Inside the
    function, autocast is disabled.

    Args:
        function: Function of tensors that builds the loss.

    Returns:
        The decorated function.

    Example:
        >>> @mg.mixed_precision.in_float32
        ... def total(x, y):
        ...     return x.graph.reduction_sum(x * y)
        >>> x = mg.Graph().constant([1.0, 2.0], dtype="float16")
        >>> total(x, x).dtype
        float16
    """
    rounded = rounded_once(function)

    @functools.wraps(function)
    def wide(*operands: Any, **options: Any) -> Any:
        if not is_mixed():
            return rounded(*operands, **options)
        with autocast(enabled=False):
            return function(*map(_widened, operands), **{name: _widened(x) for name, x in options.items()})

    return wide  # type: ignore[return-value]
