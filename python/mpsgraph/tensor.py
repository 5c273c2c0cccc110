"""Python's operators on tensors: `x * 2 + y`, `a @ b`, `x[1:, None]`, `x < y`.

Each operator adds one operation with numpy's broadcasting to the tensor's graph; importing this module adds them to
`_core.Tensor`. Numbers, lists, and arrays become constants with the dtype of the tensor. A tensor is a symbol without a
value, so truth tests, iteration, and conversion to an array raise errors that suggest an alternative. `==` compares
elements, like `<`. Tensors can nevertheless be keys of dicts of feeds, results, and gradients, where they are
distinguished by identity: dicts and sets compare hashes first, and two different tensors never have the same hash.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ._core import NDArray, Tensor, bool_
from ._names import BINARY, COMPARISONS
from .errors import DTypeError, GraphError, ShapeError
from .graph import Graph, promotes
from .ops._family import Number, TensorLike, as_index, operands_of

# Annotations are objects, not strings, because the stub of _core is generated from them.
Operator = Callable[[Tensor, TensorLike], Tensor]


def _graph(x: Tensor) -> "Graph":
    return x.graph  # type: ignore[return-value]


def _is_operand(value: Any) -> bool:
    """Return whether an operator should handle `value`: compute with `value`, or raise an error that explains the
    problem.

    The operator returns NotImplemented for all other values. These are values of third-party classes, which may define
    the operator themselves. Numbers, lists, and arrays become constants with the dtype of the tensor; strings and other
    values are rejected by the code that converts them.
    """
    kind = type(value)
    return isinstance(value, (Tensor, *Number, np.ndarray, NDArray)) or kind.__module__ in ("builtins", "types")


def _pair(operator: str, apply: "Callable[[Graph, Any, Any, Tensor], Tensor]") -> tuple[Operator, Operator]:
    """Return an operator and its reflected form, such as __add__ and __radd__.

    Both call apply(graph, left, right, tensor), in which `tensor` is the operand that is a tensor. In a graph that
    traces a function of arrays, they call the operator's function of mpsgraph.numpy, which promotes dtypes.
    """

    def forward(self: Tensor, other: TensorLike) -> Tensor:
        if not _is_operand(other):
            return NotImplemented  # type: ignore[no-any-return]
        g = _graph(self)
        return _promoted(operator, self, other) if promotes(g) else apply(g, self, other, self)

    def reflected(self: Tensor, other: TensorLike) -> Tensor:
        if not _is_operand(other):
            return NotImplemented  # type: ignore[no-any-return]
        g = _graph(self)
        return _promoted(operator, other, self) if promotes(g) else apply(g, other, self, self)

    return forward, reflected


def _promoted(operator: str, left: Any, right: Any) -> Tensor:
    from . import numpy

    return getattr(numpy, (BINARY | COMPARISONS)[operator])(left, right)  # type: ignore[no-any-return]


def _method(operator: str, name: str) -> tuple[Operator, Operator]:
    """Return the operator that calls a method of Graph, and its reflected form."""
    return _pair(operator, lambda g, left, right, _: getattr(g, name)(left, right))


def _matmul(g: "Graph", left: Any, right: Any, asked: Tensor) -> Tensor:
    """Apply `@`. As in numpy, a vector is a row on the left and a column on the right."""
    kinds = (Tensor, np.ndarray, NDArray, list, tuple, *Number)
    if isinstance(left, kinds) and isinstance(right, kinds):
        left, right = operands_of(g, "matrix_multiplication", [left, right])
        if any(x.shape is not None and len(x.shape) < 2 for x in (left, right)):
            from .numpy._products import product

            return product(left, right)
    return g.matrix_multiplication(left, right)


def _logical_or_bitwise(name: str) -> tuple[Operator, Operator]:
    """Return `&`, `|`, or `^` and its reflected form: logical for bool tensors, bitwise for integer tensors."""

    def apply(g: "Graph", left: Any, right: Any, asked: Tensor) -> Tensor:
        prefix = "logical" if asked.dtype == bool_ else "bitwise"
        return getattr(g, f"{prefix}_{name}")(left, right)  # type: ignore[no-any-return]

    return _pair(name, apply)


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
    """Apply numpy's indexing with ints, slices, `...`, None, integer arrays and tensors, and one mask."""
    if _has_array(key):
        from .numpy._indexing import index_tensor

        return index_tensor(self, key if isinstance(key, tuple) else (key,))
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


def _has_array(key: Any) -> bool:
    arrays = (Tensor, NDArray, np.ndarray, list)
    return isinstance(key, arrays) or isinstance(key, tuple) and any(isinstance(k, arrays) for k in key)


def _integer(value: Any) -> int:
    try:
        return as_index(value)
    except TypeError:
        kind = type(value).__name__
        raise DTypeError(
            f"tensor indices must be ints, slices, ..., None, or integer or bool arrays, got {kind}"
        ) from None


def _equality(operator: str, name: str) -> Callable[[Tensor, Any], Any]:
    """Return the element-wise operator for `==` or `!=`. A tensor does not equal other objects, such as None."""

    def compare(self: Tensor, other: Any) -> Any:
        is_array = hasattr(other, "__array__") or hasattr(other, "__dlpack__")
        if is_array or isinstance(other, (Tensor, *Number, list, tuple)):
            g = _graph(self)
            return _promoted(operator, self, other) if promotes(g) else getattr(g, name)(self, other)
        return NotImplemented

    return compare


_TRACED = (
    "has no value while a function is traced by jit, grad, or vmap: use functions of mpsgraph.numpy, choose by values "
    "with mpsgraph.numpy.where, and pass sizes and options as static arguments of jit"
)


def _no_truth(self: Tensor) -> NoReturn:
    if promotes(_graph(self)):
        raise DTypeError(f"{self.name} {_TRACED}")
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
    if promotes(_graph(self)):
        raise DTypeError(f"{self.name} {_TRACED}")
    raise DTypeError(f"{self.name} has no value until the graph runs: fetch it with g.run(feeds, {self.name})")


def _ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """Apply the operators that numpy's arrays and scalars on the left delegate. Refuse numpy's other functions."""
    name = _UFUNCS.get(ufunc.__name__)
    if name is None or method != "__call__" or options:
        from ._names import numpy_function

        raise DTypeError(
            f"numpy.{ufunc.__name__} cannot be applied to {self.name}, which has no value until the graph runs: use "
            f"{numpy_function(ufunc.__name__)}"
        )
    left, right = inputs
    if isinstance(left, Tensor):
        return getattr(left, f"__{name}__")(right)
    return getattr(right, f"__{_MIRRORED.get(name, f'r{name}')}__")(left)


_UFUNCS = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "truediv",
    "true_divide": "truediv",
    "floor_divide": "floordiv",
    "remainder": "mod",
    "power": "pow",
    "matmul": "matmul",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "left_shift": "lshift",
    "right_shift": "rshift",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "equal": "eq",
    "not_equal": "ne",
}
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def _no_attribute(self: Tensor, name: str) -> NoReturn:
    hint = ""
    if not name.startswith("_"):
        from ._names import tensor_hint

        hint = tensor_hint(name, dir(Tensor))
    raise AttributeError(f"'Tensor' object has no attribute '{name}'{hint}")


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
        "lshift": "bitwise_left_shift",
        "rshift": "bitwise_right_shift",
    }
    pairs = {name: _method(name, method) for name, method in arithmetic.items()}
    pairs |= {name: _logical_or_bitwise(name) for name in ("and", "or", "xor")}
    pairs |= {"matmul": _pair("matmul", _matmul)}
    pairs |= {"truediv": _pair("truediv", _true_division), "floordiv": _pair("floordiv", _floor_division)}
    operators: dict[str, Any] = {}
    for name, (forward, reflected) in pairs.items():
        operators[f"__{name}__"], operators[f"__r{name}__"] = forward, reflected
    comparisons = {"lt": "less_than", "le": "less_than_or_equal_to"}
    comparisons |= {"gt": "greater_than", "ge": "greater_than_or_equal_to"}
    operators |= {f"__{name}__": _method(name, method)[0] for name, method in comparisons.items()}
    operators |= {
        "__eq__": _equality("eq", "equal"),
        "__ne__": _equality("ne", "not_equal"),
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
        "__getattr__": _no_attribute,
        "__reduce_ex__": _no_copy,
        "__array_ufunc__": _ufunc,
    }
    # setattr keeps __hash__; only a class body that defines __eq__ removes it.
    for name, function in operators.items():
        setattr(Tensor, name, function)
