"""Python's operators on tensors: `x * 2 + y`, `a @ b`, `x[1:, None]`, `x < y`.

Each is one operation of the tensor's graph with numpy's broadcasting; importing this module puts them on
`_core.Tensor`. A tensor is a symbol without a value, so truth, iteration and conversion to an array are errors that say
what to do instead. `==` compares elements, like `<`; as keys of feeds, results and gradients tensors are told apart by
identity, because dictionaries and sets compare hashes first, and these are of the object.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ._core import Tensor, bool_
from .errors import DTypeError, GraphError, ShapeError
from .ops._family import Number, TensorLike, as_index

if TYPE_CHECKING:
    from .graph import Graph

# Annotations are objects here, not strings, because the stub of _core is generated from them.
Operator = Callable[[Tensor, TensorLike], Tensor]


def _graph(x: Tensor) -> "Graph":
    return x.graph  # type: ignore[return-value]


def _is_operand(value: Any) -> bool:
    """Whether the operator is ours to apply or to refuse: all but values of somebody else's classes, which may have an
    operator of their own. Lists, strings and arrays are refused where numbers become constants."""
    kind = type(value)
    return isinstance(value, (Tensor, *Number, np.ndarray)) or kind.__module__ in ("builtins", "types")


def _pair(apply: "Callable[[Graph, Any, Any, Tensor], Tensor]") -> tuple[Operator, Operator]:
    """An operator and its reflection from apply(graph, left, right, the tensor that was asked)."""

    def forward(self: Tensor, other: TensorLike) -> Tensor:
        return apply(_graph(self), self, other, self) if _is_operand(other) else NotImplemented

    def reflected(self: Tensor, other: TensorLike) -> Tensor:
        return apply(_graph(self), other, self, self) if _is_operand(other) else NotImplemented

    return forward, reflected


def _method(name: str) -> tuple[Operator, Operator]:
    """The operator that is one method of Graph."""
    return _pair(lambda g, left, right, _: getattr(g, name)(left, right))


def _logical_or_bitwise(name: str) -> tuple[Operator, Operator]:
    """`&`, `|`, `^`: logical on bool tensors, on bits of integer tensors."""

    def apply(g: "Graph", left: Any, right: Any, asked: Tensor) -> Tensor:
        prefix = "logical" if asked.dtype == bool_ else "bitwise"
        return getattr(g, f"{prefix}_{name}")(left, right)  # type: ignore[no-any-return]

    return _pair(apply)


def _true_division(g: "Graph", left: Any, right: Any, asked: Tensor) -> Tensor:
    if asked.dtype.is_integer:
        raise DTypeError(
            f"/ of {asked.dtype} tensors is not a whole number in general: use //, g.division (toward zero), "
            "or cast to float32 first"
        )
    return g.division(left, right)


def _floor_division(g: "Graph", left: Any, right: Any, asked: Tensor) -> Tensor:
    if asked.dtype.is_integer:  # the division is exact once the remainder is gone
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
    """numpy's basic indexing: ints, slices, `...` and None. For index arrays there is `g.gather`."""
    shape = self.shape
    if shape is None:
        raise ShapeError(f"indexing needs a known rank, {self.name} has none")
    keys = list(key) if isinstance(key, tuple) else [key]
    if sum(k is Ellipsis for k in keys) > 1:
        raise ShapeError("an index holds at most one ...")
    if not any(k is Ellipsis for k in keys):
        keys.append(Ellipsis)
    position = next(i for i, k in enumerate(keys) if k is Ellipsis)
    missing = len(shape) - sum(k is not None and k is not Ellipsis for k in keys)
    if missing < 0:
        raise ShapeError(f"{len(shape) - missing} indices for a tensor of rank {len(shape)}: {self.name} {shape}")
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
                raise ShapeError(f"index {start} is outside axis {axis} of {self.name} {shape}")
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
        raise DTypeError(f"a tensor is indexed by ints, slices, ... and None, not by {kind}: use g.gather") from None


def _equality(name: str) -> Callable[[Tensor, Any], Any]:
    """`==` or `!=`, element by element. What is no number, array or list is no tensor's equal, as None."""

    def compare(self: Tensor, other: Any) -> Any:
        is_array = hasattr(other, "__array__") or hasattr(other, "__dlpack__")
        if is_array or isinstance(other, (Tensor, *Number, list, tuple)):
            return getattr(_graph(self), name)(self, other)
        return NotImplemented

    return compare


def _no_truth(self: Tensor) -> NoReturn:
    raise DTypeError(
        f"{self.name} is a symbol without a value until the graph runs: use g.if_ or g.select to choose by it, g.run "
        "to fetch its value; whether two tensors are the same one says `a is b`, whether one is in a list "
        "any(t is a for t in tensors)"
    )


def _no_iteration(self: Tensor) -> NoReturn:
    raise DTypeError(f"{self.name} cannot be iterated: use g.split, or index it with x[i]")


def _no_number(self: Tensor) -> NoReturn:
    _no_array(self)


def _no_array(self: Tensor, dtype: Any = None, copy: Any = None) -> NoReturn:
    raise DTypeError(f"{self.name} has no value until the graph runs: fetch it with g.run(feeds, {self.name})")


def _no_copy(self: Tensor, protocol: Any) -> NoReturn:
    raise GraphError(
        f"{self.name} is a symbol of its graph, and cannot be pickled or copied alone: pickle the graph, the Model or "
        "the module that it belongs to, or fetch its value with g.run"
    )


def install() -> None:
    """Puts the operators on _core.Tensor; the package does so once, when it is imported."""
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
        "__array_ufunc__": None,  # numpy scalars on the left leave the operator to us
    }
    for name, function in operators.items():  # hashes stay: only the body of a class loses them with __eq__
        setattr(Tensor, name, function)
