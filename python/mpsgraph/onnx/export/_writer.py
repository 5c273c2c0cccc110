"""The table of writers, and the file that they write into.

`@writes("relu")` enters the function that makes ONNX nodes of an operation; `Writer` has the names of tensors, the
nodes, and what is written for numbers and shapes. Nothing here knows a single operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, helper

from ..._core import DType, Operation, Tensor
from ...interchange.export import Unsaid, known_array, required_shape
from .._files import type_of

Names: TypeAlias = "str | list[str]"
WriteFunction: TypeAlias = "Callable[[Writer, Operation], Names]"
_WRITERS: dict[str, WriteFunction] = {}

NO_WORD = {
    **dict.fromkeys(("real_part", "imaginary_part", "conjugate", "complex_tensor"), "ONNX has no complex numbers"),
    **dict.fromkeys(
        ("fast_fourier_transform", "real_to_hermitean_fft", "hermitean_to_real_fft"),
        "ONNX has no complex numbers; its DFT has pairs of real ones",
    ),
    **dict.fromkeys(("check", "check_indices"), "ONNX has no errors of a run: export what does not depend on it"),
    **dict.fromkeys(("history_push", "history_pop", "history_empty"), "what a loop keeps for its gradient"),
    "matrix_inverse": "ONNX has determinants and no inverses",
    "bitwise_population_count": "ONNX does not count bits",
    "reinterpret_cast": "ONNX casts numbers, not bits",
    "hamming_distance": "ONNX does not count bits",
}
"""Reasons why kinds of operations cannot be written, where more can be said than that there is no operator."""


def writes(*kinds: str) -> Callable[[WriteFunction], WriteFunction]:
    """Enters the function that writes one kind of operation or several."""

    def enter(function: WriteFunction) -> WriteFunction:
        for kind in kinds:
            _WRITERS[kind] = function
        return function

    return enter


def writer_of(kind: str) -> WriteFunction | None:
    """The function for a kind of operation; None when there is none."""
    return _WRITERS.get(kind)


def written_kinds() -> list[str]:
    """The kinds of operations that can be exported."""
    return sorted(_WRITERS)


def type_number(dtype: DType) -> int:
    """ONNX's number of an element type. Unsaid for those that it has not."""
    number = type_of(dtype)
    if number is None:
        raise Unsaid(f"ONNX's operators do not take {dtype}")
    return number


class Writer:
    """The nodes of one graph (or branch), and the names in it."""

    def __init__(self, opset: int, outer: Writer | None = None) -> None:
        self.opset, self._outer = opset, outer
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = outer.initializers if outer else []
        self._names: dict[Tensor, str] = dict(outer._names) if outer else {}
        self._used: set[str] = outer._used if outer else set()
        self._constants: dict[tuple[Any, ...], str] = outer._constants if outer else {}
        self.value_of: Callable[[Tensor], np.ndarray] | None = outer.value_of if outer else None
        self.problems: list[tuple[Operation, str]] = outer.problems if outer else []
        self.users: dict[Tensor, list[Operation]] = outer.users if outer else {}
        self.results: frozenset[Tensor] = outer.results if outer else frozenset()  # what the model gives
        self.weights: dict[Tensor, str] = outer.weights if outer else {}
        self.states: dict[Tensor, str] = outer.states if outer else {}  # variables that are assigned: what they become
        # by symbol, what is called: a model, and the names that its variables have
        self.callables: dict[str, tuple[Any, dict[Tensor, str]]] = outer.callables if outer else {}
        self._turned: dict[str, tuple[str, tuple[int, ...]]] = {}  # a Transpose's result: its operand, permutation

    # --- names -----------------------------------------------------------------------------------------------------

    def fresh(self, hint: str) -> str:
        """A name that nothing has yet: the hint, or the hint with a number."""
        name, number = hint, 0
        while name in self._used:
            number += 1
            name = f"{hint}_{number}"
        self._used.add(name)
        return name

    def name(self, tensor: Tensor) -> str:
        """The name of a tensor that has been written."""
        return self._names[tensor]

    def is_named(self, tensor: Tensor) -> bool:
        """Has the tensor been written?"""
        return tensor in self._names

    def give(self, tensor: Tensor, name: str) -> None:
        """The tensor is what the name stands for."""
        self._names[tensor] = name

    def inputs(self, operation: Operation) -> list[str]:
        """The names of all operands."""
        return [self.name(tensor) for tensor in operation.inputs]

    @property
    def is_branch(self) -> bool:
        """Is it a branch, or what a loop repeats?"""
        return self._outer is not None

    # --- nodes -----------------------------------------------------------------------------------------------------

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node with one result: its name."""
        return self.add_several(kind, inputs, 1, **attributes)[0]

    def add_several(self, kind: str, inputs: Iterable[str], count: int, **attributes: Any) -> list[str]:
        """A node with several results: their names."""
        outputs = [self.fresh(kind.lower()) for _ in range(count)]
        given = {key: value for key, value in attributes.items() if value is not None}
        node = helper.make_node(kind, list(inputs), outputs, name=self.fresh(f"{kind}:{outputs[0]}"))
        for key, value in given.items():
            if isinstance(value, list) and not value:
                node.attribute.append(helper.make_attribute(key, value, attr_type=AttributeProto.INTS))
            else:
                node.attribute.append(helper.make_attribute(key, value))
        self.nodes.append(node)
        return outputs

    def identity(self, name: str) -> str:
        """Another name for the same."""
        return self.add("Identity", name)

    def ints(self, values: Sequence[int] | int) -> str:
        """An int64 constant: sizes, axes, places."""
        return self.constant(np.asarray(values, np.int64))

    def number(self, value: float, dtype: DType) -> str:
        """A constant of rank 0 of an element type."""
        if str(dtype) == "bfloat16":
            return self.add("Cast", self.constant(np.asarray(value, np.float32)), to=type_number(dtype))
        return self.constant(np.asarray(value, dtype.numpy))

    def constant(self, value: np.ndarray) -> str:
        """A small constant of the export's own; each stands in the file once."""
        key = (value.dtype.str, value.shape, value.tobytes())
        if key not in self._constants:
            self._constants[key] = name = self.fresh("constant")
            proto = _tensor_proto(name, value, None)
            if value.dtype.kind == "f" and value.ndim:  # an initialiser would be taken for weights
                self._outermost().nodes.append(helper.make_node("Constant", [], [name], value=proto))
            else:
                self.initializers.append(proto)
        return self._constants[key]

    def _outermost(self) -> Writer:
        return self._outer._outermost() if self._outer else self

    def initializer(self, name: str, value: np.ndarray, dtype: DType) -> str:
        """Weights, under a name of their own."""
        name = self.fresh(name)
        self.initializers.append(_tensor_proto(name, value, type_number(dtype)))
        return name

    def variable(self, tensor: Tensor, name: str, value: np.ndarray) -> str:
        """Weights, which stay in the file also where nothing needs them."""
        self.weights[tensor] = name = self.initializer(name, value, tensor.dtype)
        return name

    def constant_node(self, value: np.ndarray, dtype: DType, name: str) -> str:
        """A Constant node, which on import stays a constant."""
        name = self.fresh(name)
        proto = _tensor_proto(name, value, type_number(dtype))
        self.nodes.append(helper.make_node("Constant", [], [name], name=self.fresh(f"Constant:{name}"), value=proto))
        return name

    # --- what many writers need ------------------------------------------------------------------------------------

    def transpose(self, name: str, permutation: Sequence[int]) -> str:
        """Axes in another order; what turns back what was turned is the operand itself."""
        permutation = tuple(permutation)
        source, before = self._turned.get(name, (name, tuple(range(len(permutation)))))
        both = tuple(before[axis] for axis in permutation)
        if both == tuple(range(len(both))):
            return source
        result = self.add("Transpose", source, perm=list(both))
        self._turned[result] = source, both
        return result

    def cast(self, name: str, dtype: DType) -> str:
        """Another element type."""
        return self.add("Cast", name, to=type_number(dtype))

    def shape_operand(self, tensor: Tensor) -> str:
        """An int tensor as ONNX takes shapes, in int64."""
        known = known_array(tensor)
        if known is not None:
            return self.ints(known.reshape(-1).tolist())
        if str(tensor.dtype) == "int64":
            return self.name(tensor)
        return self.add("Cast", self.name(tensor), to=TensorProto.INT64)

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        """Another shape, in which 0 keeps a size and -1 follows."""
        return self.add("Reshape", name, self.ints(list(shape)))

    def sizes(self, *parts: int | tuple[Tensor, int]) -> str:
        """Sizes side by side, int64: known ones, and those of a tensor's axis, which only a run may know."""
        known = [part if isinstance(part, int) else required_shape(part[0])[part[1]] for part in parts]
        if min(known, default=0) >= 0 or all(isinstance(part, int) for part in parts):
            return self.ints(known)
        names = [
            self.ints([size]) if size >= 0 or isinstance(part, int) else self._size(*part)
            for part, size in zip(parts, known, strict=True)
        ]
        return names[0] if len(names) == 1 else self.add("Concat", *names, axis=0)

    def _size(self, tensor: Tensor, axis: int) -> str:
        return self.add("Shape", self.name(tensor), start=axis, end=axis + 1)


def _tensor_proto(name: str, value: np.ndarray, number: int | None) -> TensorProto:
    value = np.asarray(value)
    number = helper.np_dtype_to_tensor_dtype(value.dtype) if number is None else number
    little = value.astype(value.dtype.newbyteorder("<"), copy=False)
    return helper.make_tensor(name, number, value.shape, little.tobytes(), raw=True)
