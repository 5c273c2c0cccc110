"""The registry of operation writers, and the ONNX graph that the writers add nodes to.

`@writes("relu")` registers the function that writes ONNX nodes for an operation. `Writer` collects the nodes, maps
tensors to names, and creates constants and shapes. Nothing in this file is specific to an operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, helper

from ..._core import DType, Operation, Tensor
from ...interchange.export import NotExpressible, known_array, required_shape
from ...interchange.export import Writer as BaseWriter
from ...interchange.registry import Registry
from ..reading.files import type_of

Names: TypeAlias = "str | list[str]"
WriteFunction: TypeAlias = "Callable[[Writer, Operation], Names]"
writes: Registry[WriteFunction] = Registry("writer of the kind")

NO_WORD = {
    **dict.fromkeys(
        ("real_part", "imaginary_part", "conjugate", "complex_tensor"), "ONNX operators do not support complex numbers"
    ),
    **dict.fromkeys(
        ("fast_fourier_transform", "real_to_hermitean_fft", "hermitean_to_real_fft"),
        "ONNX operators do not support complex numbers; DFT represents them as pairs of real numbers",
    ),
    **dict.fromkeys(
        ("check", "check_indices"), "ONNX has no runtime checks: choose outputs that do not depend on this check"
    ),
    **dict.fromkeys(
        ("history_push", "history_pop", "history_empty"),
        "the operation stores intermediate values for the gradient of a loop, which ONNX cannot express",
    ),
    "matrix_inverse": "ONNX has an operator for determinants, but none for inverses",
    "bitwise_population_count": "ONNX has no operator that counts bits",
    "reinterpret_cast": "ONNX can convert values, but not reinterpret their bits",
    "hamming_distance": "ONNX has no operator that counts bits, which the Hamming distance needs",
}
"""Reasons why operations cannot be exported, keyed by operation kind, for kinds whose reason the default message
lacks.
"""


def written_kinds() -> list[str]:
    """Return the operation kinds that can be exported."""
    return writes.known()


def type_number(dtype: DType) -> int:
    """Return ONNX's element type for a dtype, or raise NotExpressible if ONNX does not have it."""
    number = type_of(dtype)
    if number is None:
        raise NotExpressible(f"ONNX operators do not support {dtype}")
    return number


class Writer(BaseWriter[str]):
    """Collects the nodes of a graph or subgraph and maps tensors to their ONNX names."""

    def __init__(self, opset: int, outer: Writer | None = None) -> None:
        super().__init__()
        self.opset, self._outer = opset, outer
        self.narrow: bool = outer.narrow if outer else False  # Whether packed weights are stored as 4-bit integers.
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = outer.initializers if outer else []
        if outer:
            self._values, self._used = dict(outer._values), outer._used
        self._constants: dict[tuple[Any, ...], str] = outer._constants if outer else {}
        self.value_of: Callable[[Tensor], np.ndarray] | None = outer.value_of if outer else None
        self.problems: list[tuple[Operation, str]] = outer.problems if outer else []
        self.users: dict[Tensor, list[Operation]] = outer.users if outer else {}
        self.results: frozenset[Tensor] = outer.results if outer else frozenset()  # The outputs of the exported model.
        self.weights: dict[Tensor, str] = outer.weights if outer else {}
        # Maps each assigned variable to the name of its new value.
        self.states: dict[Tensor, str] = outer.states if outer else {}
        # Maps each symbol to the model to call and the names of the model's variables.
        self.callables: dict[str, tuple[Any, dict[Tensor, str]]] = outer.callables if outer else {}
        # Maps the result of each Transpose to its operand and permutation.
        self._turned: dict[str, tuple[str, tuple[int, ...]]] = {}

    # --- names -----------------------------------------------------------------------------------------------------

    def name(self, tensor: Tensor) -> str:
        """Return the ONNX name of a tensor that has been written."""
        return self[tensor]

    @property
    def is_branch(self) -> bool:
        """Whether this writer writes a subgraph, the branch of an If or the body of a loop."""
        return self._outer is not None

    # --- nodes -----------------------------------------------------------------------------------------------------

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one result to the ONNX graph and return the result's name."""
        return self.add_several(kind, inputs, 1, **attributes)[0]

    def add_several(self, kind: str, inputs: Iterable[str], count: int, **attributes: Any) -> list[str]:
        """Add a node with several results to the ONNX graph and return the names of the results."""
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
        """Add an Identity node to the ONNX graph and return the name of its result."""
        return self.add("Identity", name)

    def ints(self, values: Sequence[int] | int) -> str:
        """Add an int64 constant for sizes, axes, or indices."""
        return self.constant(np.asarray(values, np.int64))

    def number(self, value: float, dtype: DType) -> str:
        """Add a scalar constant of the given dtype."""
        if str(dtype) == "bfloat16":
            return self.add("Cast", self.constant(np.asarray(value, np.float32)), to=type_number(dtype))
        return self.constant(np.asarray(value, dtype.numpy))

    def constant(self, value: np.ndarray) -> str:
        """Add a small constant that the exported graph needs, or reuse an existing constant with equal elements."""
        key = (value.dtype.str, value.shape, value.tobytes())
        if key not in self._constants:
            self._constants[key] = name = self.fresh("constant")
            proto = _tensor_proto(name, value, None)
            # A Constant node is used because the importer would treat a floating-point initializer as a weight.
            if value.dtype.kind == "f" and value.ndim:
                self._outermost().nodes.append(helper.make_node("Constant", [], [name], value=proto))
            else:
                self.initializers.append(proto)
        return self._constants[key]

    def _outermost(self) -> Writer:
        return self._outer._outermost() if self._outer else self

    def initializer(self, name: str, value: np.ndarray, dtype: DType) -> str:
        """Add an initializer under an unused name derived from `name`."""
        name = self.fresh(name)
        self.initializers.append(_tensor_proto(name, value, type_number(dtype)))
        return name

    def stored(self, name: str, number: int, shape: Sequence[int], data: bytes) -> str:
        """Add an initializer of an ONNX element type that mpsgraph lacks, given its bytes."""
        name = self.fresh(name)
        self.initializers.append(TensorProto(name=name, data_type=number, dims=shape, raw_data=data))
        return name

    def variable(self, tensor: Tensor, name: str, value: np.ndarray) -> str:
        """Add an initializer for a variable. It stays in the file even if no node uses it."""
        self.weights[tensor] = name = self.initializer(name, value, tensor.dtype)
        return name

    def constant_node(self, value: np.ndarray, dtype: DType, name: str) -> str:
        """Add a constant as a Constant node. The importer does not turn such a constant into a variable."""
        name = self.fresh(name)
        proto = _tensor_proto(name, value, type_number(dtype))
        self.nodes.append(helper.make_node("Constant", [], [name], name=self.fresh(f"Constant:{name}"), value=proto))
        return name

    # --- helpers for writers ---------------------------------------------------------------------------------------

    def transpose(self, name: str, permutation: Sequence[int]) -> str:
        """Add a Transpose node. It is merged with a preceding Transpose node, and both are dropped if they cancel."""
        permutation = tuple(permutation)
        source, before = self._turned.get(name, (name, tuple(range(len(permutation)))))
        both = tuple(before[axis] for axis in permutation)
        if both == tuple(range(len(both))):
            return source
        result = self.add("Transpose", source, perm=list(both))
        self._turned[result] = source, both
        return result

    def cast(self, name: str, dtype: DType) -> str:
        """Add a Cast node, which converts a value to another dtype."""
        return self.add("Cast", name, to=type_number(dtype))

    def shape_operand(self, tensor: Tensor) -> str:
        """Return an integer tensor as a shape operand, converted to int64 as ONNX requires."""
        known = known_array(tensor)
        if known is not None:
            return self.ints(known.reshape(-1).tolist())
        if str(tensor.dtype) == "int64":
            return self.name(tensor)
        return self.add("Cast", self.name(tensor), to=TensorProto.INT64)

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        """Add a Reshape node. In the shape, 0 keeps the input's size and -1 is inferred."""
        return self.add("Reshape", name, self.ints(list(shape)))

    def sizes(self, *parts: int | tuple[Tensor, int]) -> str:
        """Concatenate sizes into an int64 vector.

        Each part is an int, or a (tensor, axis) pair that represents the tensor's size along this axis. Dynamic sizes
        are read at run time.
        """
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
