"""Python's operators on tensors: `x * 2 + y`, `a @ b`, `x[1:, None]`, `x < y`.

Each operator adds one operation with numpy's broadcasting to the tensor's graph; importing this module adds them to
`_core.Tensor`. A tensor is a symbol without a value, so truth tests, iteration, and conversion to an array raise errors
that suggest an alternative. `==` compares elements, like `<`. Tensors can nevertheless be keys of dicts of feeds,
results, and gradients, where they are distinguished by identity: dicts and sets compare hashes first, and two different
tensors never have the same hash.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ._core import Tensor, bool_
from .errors import DTypeError, GraphError, ShapeError
from .ops._family import Number, TensorLike, as_index

if TYPE_CHECKING:
    from .graph import Graph

# Annotations are objects, not strings, because the stub of _core is generated from them.
Operator = Callable[[Tensor, TensorLike], Tensor]


def _graph(x: Tensor) -> "Graph":
    return x.graph  # type: ignore[return-value]


def _is_operand(value: Any) -> bool:
    """Return whether an operator should handle `value`: compute with `value`, or raise an error that explains the
    problem.

    The operator returns NotImplemented for all other values. These are values of third-party classes, which may define
    the operator themselves. Lists, strings, and arrays are rejected later, in the code that converts numbers to
    constants.
    """
    kind = type(value)
    return isinstance(value, (Tensor, *Number, np.ndarray)) or kind.__module__ in ("builtins", "types")


def _pair(apply: "Callable[[Graph, Any, Any, Tensor], Tensor]") -> tuple[Operator, Operator]:
    """Return an operator and its reflected form, such as __add__ and __radd__.

    Both call apply(graph, left, right, tensor), in which `tensor` is the operand that is a tensor.
    """

    def forward(self: Tensor, other: TensorLike) -> Tensor:
        return apply(_graph(self), self, other, self) if _is_operand(other) else NotImplemented

    def reflected(self: Tensor, other: TensorLike) -> Tensor:
        return apply(_graph(self), other, self, self) if _is_operand(other) else NotImplemented

    return forward, reflected


def _method(name: str) -> tuple[Operator, Operator]:
    """Return the operator that calls a method of Graph, and its reflected form."""
    return _pair(lambda g, left, right, _: getattr(g, name)(left, right))


def _logical_or_bitwise(name: str) -> tuple[Operator, Operator]:
    """Return `&`, `|`, or `^` and its reflected form: logical for bool tensors, bitwise for integer tensors."""

    def apply(g: "Graph", left: Any, right: Any, asked: Tensor) -> Tensor:
        prefix = "logical" if asked.dtype == bool_ else "bitwise"
        return getattr(g, f"{prefix}_{name}")(left, right)  # type: ignore[no-any-return]

    return _pair(apply)


def _true_division(g: "Graph", left: Any, right: Any, asked: Tensor) -> Tensor:
    if asked.dtype.is_integer:
        raise DTypeError(
            f"/ is not defined for {asked.dtype} tensors, because quotients are not integers in general: use //, "
            "g.division (which rounds toward zero), or cast to float32 first"
        )
    return g.division(left, right)


def _floor_division(g: "Graph", left: Any, right: Any, asked: Tensor) -> Tensor:
    if asked.dtype.is_integer:  # Without the remainder, the division is exact.
        return g.division(g.subtraction(left, g.floor_modulo(left, right)), right)
    return g.floor(g.division(left, right))


def _negative(self: Tensor) -> Tensor:
    return _graph(self).negative(self)


def _positive(self: Tensor) -> Tensor:
    return self


def _absolute(self: Tensor) -> Tensor:
    return _graph(self).absolute(self)


def _invert(self: Tensor) -> Tensor:
    return _graph(self).not_(self) if self.dtype == bool_ else _graph(self).bitwise_not(self)


def _get_item(self: Tensor, key: Any) -> Tensor:
    """Apply numpy's basic indexing with ints, slices, `...`, and None. Use `g.gather` for index arrays."""
    shape = self.shape
    if shape is None:
        raise ShapeError(f"indexing requires a tensor of known rank, but the rank of {self.name} is unknown")
    keys = list(key) if isinstance(key, tuple) else [key]
    if sum(k is Ellipsis for k in keys) > 1:
        raise ShapeError("an index must contain at most one ... (Ellipsis), got several")
    if not any(k is Ellipsis for k in keys):
        keys.append(Ellipsis)
    position = next(i for i, k in enumerate(keys) if k is Ellipsis)
    missing = len(shape) - sum(k is not None and k is not Ellipsis for k in keys)
    if missing < 0:
        raise ShapeError(
            f"an index of {self.name} {shape} must have at most {len(shape)} entries, got {len(shape) - missing}"
        )
    keys[position : position + 1] = [slice(None)] * missing

    starts: list[int] = []
    ends: list[int] = []
    strides: list[int] = []
    new_axes: list[int] = []
    start_mask = end_mask = squeeze_mask = result_axes = 0
    for k in keys:
        if k is None:
            new_axes.append(result_axes)
            result_axes += 1
            continue
        axis = len(starts)
        if isinstance(k, slice):
            start, end, stride = (None if v is None else _integer(v) for v in (k.start, k.stop, k.step))
            start_mask |= (start is None) << axis
            end_mask |= (end is None) << axis
            result_axes += 1
        else:
            start, stride = _integer(k), 1
            end = start + 1
            if shape[axis] >= 0 and not -shape[axis] <= start < shape[axis]:
                raise ShapeError(f"index {start} is out of range for axis {axis} of {self.name} {shape}")
            end_mask |= (start == -1) << axis
            squeeze_mask |= 1 << axis
        starts.append(start or 0)
        ends.append(end or 0)
        strides.append(1 if stride is None else stride)

    g, whole, result = _graph(self), (1 << len(shape)) - 1, self
    if squeeze_mask or start_mask & end_mask != whole or any(stride != 1 for stride in strides):
        result = g.slice(self, starts, ends, strides, start_mask, end_mask, squeeze_mask)
    return g.expand_dims(result, new_axes) if new_axes else result


def _integer(value: Any) -> int:
    try:
        return as_index(value)
    except TypeError:
        kind = type(value).__name__
        raise DTypeError(
            f"tensor indices must be ints, slices, ... or None, got {kind}: use g.gather for index arrays"
        ) from None


def _equality(name: str) -> Callable[[Tensor, Any], Any]:
    """Return the element-wise operator for `==` or `!=`. A tensor does not equal other objects, such as None."""

    def compare(self: Tensor, other: Any) -> Any:
        is_array = hasattr(other, "__array__") or hasattr(other, "__dlpack__")
        if is_array or isinstance(other, (Tensor, *Number, list, tuple)):
            return getattr(_graph(self), name)(self, other)
        return NotImplemented

    return compare


def _no_truth(self: Tensor) -> NoReturn:
    raise DTypeError(
        f"{self.name} has no truth value until the graph runs: use g.if_ or g.select to choose by it, or g.run to "
        "fetch its value; to test whether two tensors are the same object, use `a is b`, and to find one in a list "
        "any(t is a for t in tensors)"
    )


def _no_iteration(self: Tensor) -> NoReturn:
    raise DTypeError(f"{self.name} is not iterable: use g.split, or index it with x[i]")


def _no_number(self: Tensor) -> NoReturn:
    _no_array(self)


def _no_array(self: Tensor, dtype: Any = None, copy: Any = None) -> NoReturn:
    raise DTypeError(f"{self.name} has no value until the graph runs: fetch it with g.run(feeds, {self.name})")


def _no_copy(self: Tensor, protocol: Any) -> NoReturn:
    raise GraphError(
        f"{self.name} is a symbol of its graph and cannot be pickled or copied alone: pickle its graph, Model, or "
        "module, or fetch its value with g.run"
    )


def install() -> None:
    """Add the operators to _core.Tensor. The package calls this once, on import."""
    arithmetic = {
        "add": "addition",
        "sub": "subtraction",
        "mul": "multiplication",
        "mod": "floor_modulo",
        "pow": "power",
        "matmul": "matrix_multiplication",
        "lshift": "bitwise_left_shift",
        "rshift": "bitwise_right_shift",
    }
    pairs = {name: _method(method) for name, method in arithmetic.items()}
    pairs |= {name: _logical_or_bitwise(name) for name in ("and", "or", "xor")}
    pairs |= {"truediv": _pair(_true_division), "floordiv": _pair(_floor_division)}
    operators: dict[str, Any] = {}
    for name, (forward, reflected) in pairs.items():
        operators[f"__{name}__"], operators[f"__r{name}__"] = forward, reflected
    comparisons = {"lt": "less_than", "le": "less_than_or_equal_to"}
    comparisons |= {"gt": "greater_than", "ge": "greater_than_or_equal_to"}
    operators |= {f"__{name}__": _method(method)[0] for name, method in comparisons.items()}
    operators |= {
        "__eq__": _equality("equal"),
        "__ne__": _equality("not_equal"),
        "__neg__": _negative,
        "__pos__": _positive,
        "__abs__": _absolute,
        "__invert__": _invert,
        "__getitem__": _get_item,
        "__bool__": _no_truth,
        "__iter__": _no_iteration,
        "__float__": _no_number,
        "__int__": _no_number,
        "__array__": _no_array,
        "__reduce_ex__": _no_copy,
        "__array_ufunc__": None,  # Numpy scalars on the left defer to the reflected operator.
    }
    # setattr keeps __hash__; only a class body that defines __eq__ removes it.
    for name, function in operators.items():
        setattr(Tensor, name, function)
