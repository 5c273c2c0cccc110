"""Mixed precision: autocast around the building of a graph, and a policy for all layers.

While `autocast` is open, operations that are built have their operands cast by one table (docs/mixed_precision.md):
products in the low type, sums, losses and functions that magnify errors in float32. Variables stay float32 and are cast
where they are used; gradients reach them in float32. float16 needs a scaled loss besides: see `loss_scaling`.
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
    """The autocast scopes that a thread has open, the innermost last; None stands for a disabled one."""

    def __init__(self) -> None:
        self.open: list[DType | None] = []


_scopes = _Scopes()
_policy = "float32"


@checked
class autocast(ContextDecorator):
    """Operations that are built meanwhile, in any graph, have their operands cast by the rules of mixed precision.

    Scopes nest, the innermost counts; each thread has its own. Derivatives need none: they follow the operations that
    they are of. Args: dtype, "bfloat16", "float16", or "float32", which brings what is lower back up; enabled, False
    for a part that shall be built as it is written. Also a decorator. Errors: DTypeError for another dtype.

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
            raise DTypeError(f"autocast is to bfloat16, float16 or float32, got {self.dtype}")

    def __enter__(self) -> autocast:
        _scopes.open.append(self.dtype if self.enabled else None)
        return self

    def __exit__(self, *_: object) -> None:
        _scopes.open.pop()


def autocast_dtype() -> DType | None:
    """The type that products have in what is built now; None outside autocast, and where it is disabled.

    >>> with mg.autocast("float16"):
    ...     print(mg.mixed_precision.autocast_dtype())
    float16
    """
    return _scopes.open[-1] if _scopes.open else None


@checked
def set_global_policy(policy: str) -> None:
    """What layers compute in where no autocast is open.

    Args: policy, "float32", "mixed_bfloat16" or "mixed_float16"; it counts for modules that are called, and for
    trainers that are made, from now on. Keras's mixed_precision.set_global_policy. Errors: GraphError.

    >>> mg.mixed_precision.set_global_policy("mixed_bfloat16")
    >>> mg.nn.Linear(2)(mg.Graph().placeholder((-1, 3))).dtype
    bfloat16
    >>> mg.mixed_precision.set_global_policy("float32")
    """
    global _policy
    if policy not in POLICIES:
        raise GraphError(f"a policy is one of {', '.join(POLICIES)}, got {shown(policy)}")
    _policy = policy


def global_policy() -> str:
    """The policy that set_global_policy chose; "float32" at first.

    >>> mg.mixed_precision.global_policy()
    'float32'
    """
    return _policy


def layer_scope(precision: str | None) -> AbstractContextManager[Any]:
    """What a module's call happens in: its own precision, else the open autocast, else the policy.

    >>> with mg.mixed_precision.layer_scope("bfloat16"):
    ...     print(mg.mixed_precision.autocast_dtype())
    bfloat16
    """
    if precision is not None:
        return autocast(precision)
    low = POLICIES[_policy]
    return nullcontext() if _scopes.open or low is None else autocast(low)


def is_mixed() -> bool:
    """Is what is built now, or what layers build, of mixed precision?

    >>> with mg.autocast("bfloat16"):
    ...     print(mg.mixed_precision.is_mixed())
    True
    """
    return bool(autocast_dtype() if _scopes.open else POLICIES[_policy])


def _widened(x: Any) -> Any:
    half = isinstance(x, Tensor) and x.dtype in (bfloat16, float16)
    return x.graph.cast(x, float32) if half else x


def rounded_once(function: Function) -> Function:
    """A composition whose bfloat16 and float16 operands are computed with in float32, and whose result is rounded once.

    It is built as it is written; the result has the type of the first operand that is half as wide.

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
    """A loss that is computed in float32 where its operands are bfloat16 or float16, and is built as it is written.

    Under mixed precision it stays float32; else it is rounded to the operands' type at the end.

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
