"""A JSON description of the exported graph, stored in the ONNX file so that importing it restores the original graph.

ONNX expresses some operations with several nodes: three for a convolution with channels last, ten for attention. The
metadata property `mpsgraph.graph` lists the original operations together with a digest of the ONNX nodes. If the digest
still matches, the importer rebuilds the original operations; only the values of weights may differ. If the digest does
not match, another program has changed the file, and the importer translates the ONNX nodes instead. The description
refers to constants by name if the file stores them, and otherwise contains their elements.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto

from ..._core import Block, DType, Operation, Tensor
from ..._dtypes import as_dtype, constant_data
from ...errors import GraphError
from ...graph import Graph
from ..reading.files import type_of

KEY = "mpsgraph.graph"
_VERSION = 1
_UNKNOWN_RANK = "?"
_STORED = ("placeholder", "constant", "variable", "read", "assign")


def described(
    operations: Sequence[Operation],
    inputs: Mapping[str, Tensor],
    outputs: Mapping[str, Tensor],
    updates: Sequence[Operation],
    variables: Mapping[Tensor, str],
    graph: GraphProto,
) -> str | None:
    """Return the JSON description of operations that were written to an ONNX graph.

    Returns None if the operations cannot be rebuilt from a description. `variables` maps each variable to the name of
    its initializer.
    """
    writing = _Description(inputs, variables, constants_in(graph))
    try:
        listed = [writing.operation(operation) for operation in operations]
        ends = {name: writing.numbers[tensor] for name, tensor in outputs.items()}
        after = [writing.made[operation.id] for operation in updates]
    except _Indescribable:
        return None
    contents = {
        "version": _VERSION,
        "digest": _digest(graph, writing.weights),
        "operations": listed,
        "outputs": ends,
        "updates": after,
    }
    return json.dumps(contents, separators=(",", ":"))


class _Indescribable(Exception):
    pass


class _Description:
    """Builds the description of a graph, in which tensors and operations are numbered in the order of their
    creation.
    """

    def __init__(
        self, inputs: Mapping[str, Tensor], variables: Mapping[Tensor, str], constants: Mapping[str, TensorProto]
    ) -> None:
        self.numbers: dict[Tensor, int] = {}
        self.made: dict[int, int] = {}
        self._names = {**{tensor: name for name, tensor in inputs.items()}, **variables}
        self._constants, self.weights = constants, frozenset(variables.values())

    def operation(self, operation: Operation) -> dict[str, Any]:
        kind = operation.kind
        entry: dict[str, Any] = {"kind": kind, "name": operation.name}
        if operation.inputs:
            entry["inputs"] = [self.numbers[tensor] for tensor in operation.inputs]
        if operation.control_dependencies:
            entry["after"] = [self.made[other.id] for other in operation.control_dependencies if other.id in self.made]
        if operation.blocks:
            entry["blocks"] = [self._block(block) for block in operation.blocks]
        tensor = operation.outputs[0] if operation.outputs else None
        if kind in ("placeholder", "variable") and tensor in self._names:
            entry["file"] = self._names[tensor]
        elif kind in ("constant", "variable"):
            entry.update(self._value(operation))
        elif kind == "call" or kind == "placeholder":
            raise _Indescribable
        else:
            entry["attributes"] = {key: _encoded(value) for key, value in operation.attributes.items()}
        self.made[operation.id] = len(self.made)
        for result in operation.outputs:
            self.numbers[result] = len(self.numbers)
        return entry

    def _value(self, operation: Operation) -> dict[str, Any]:
        """Return the description of a constant: the name of an equal constant in the file, or else its encoded
        elements.
        """
        tensor, array = operation.outputs[0], np.asarray(operation.attributes["value"].numpy())
        little = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        stored = self._constants.get(operation.name)
        same = stored is not None and (stored.data_type, tuple(stored.dims)) == (type_of(tensor.dtype), array.shape)
        if stored is not None and same and stored.raw_data == little:
            return {"file": operation.name}
        return {"value": base64.b64encode(little).decode(), "type": _type((tensor.dtype, array.shape))}

    def _block(self, block: Block) -> dict[str, Any]:
        arguments = [_type((argument.dtype, argument.shape)) for argument in block.arguments]
        for argument in block.arguments:
            self.numbers[argument] = len(self.numbers)
        inside = [self.operation(operation) for operation in block.operations if operation.kind != "argument"]
        return {"arguments": arguments, "operations": inside, "results": [self.numbers[t] for t in block.results]}


def _encoded(value: Any) -> Any:
    if isinstance(value, DType):
        return {"dtype": str(value)}
    if isinstance(value, (list, tuple)):
        return [_encoded(one) for one in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise _Indescribable


def _type(pair: tuple[DType, tuple[int, ...] | None]) -> list[Any]:
    dtype, shape = pair
    return [str(dtype), _UNKNOWN_RANK if shape is None else list(shape)]


def constants_in(graph: GraphProto) -> dict[str, TensorProto]:
    """Return the tensors stored in an ONNX graph, in initializers and Constant nodes, as a dict keyed by name."""
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            found[node.output[0]] = node.attribute[0].t
    return found


def _digest(graph: GraphProto, weights: Container[str]) -> str:
    """Return a digest of an ONNX graph: its nodes, inputs, outputs, and constants. For weights, only their types are
    included.
    """
    made = hashlib.sha256()
    for part in (*graph.node, *graph.input, *graph.output):
        made.update(part.SerializeToString(deterministic=True))
    for tensor in graph.initializer:
        made.update(repr((tensor.name, tensor.data_type, list(tensor.dims))).encode())
        if tensor.name not in weights:
            made.update(tensor.SerializeToString(deterministic=True))
    return made.hexdigest()


# --- reading --------------------------------------------------------------------------------------------------------


def description_of(model: ModelProto) -> dict[str, Any] | None:
    """Return a model file's description, or None if it has none or its nodes were changed after the export."""
    stated = next((entry.value for entry in model.metadata_props if entry.key == KEY), None)
    if stated is None or model.producer_name != "mpsgraph":
        return None
    try:
        contents = json.loads(stated)
        if not isinstance(contents, dict) or contents.get("version") != _VERSION:
            return None
        weights = {entry["file"] for entry in contents["operations"] if entry["kind"] == "variable" and "file" in entry}
        return contents if contents["digest"] == _digest(model.graph, weights) else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


class Rebuilt:
    """Rebuilds the operations of a description in a graph.

    Args:
        contents: The description, from `description_of`.
        graph: The graph to build in.
        placeholder: Function that creates the placeholder for an input name.
        weight: Function that creates the variable or constant for an initializer name.
        elements: Function that returns the array and dtype of a constant stored in the file.
        kinds: Operation kinds that may be created.

    Raises:
        GraphError: If the description contains an unknown kind of operation.
    """

    def __init__(
        self,
        contents: Mapping[str, Any],
        graph: Graph,
        placeholder: Callable[[str], Tensor],
        weight: Callable[[str], Tensor],
        elements: Callable[[str], tuple[np.ndarray, DType]],
        kinds: Container[str],
    ) -> None:
        self.graph, self._placeholder, self._weight, self._elements = graph, placeholder, weight, elements
        self._kinds = kinds
        self._tensors: list[Tensor] = []
        self._operations: list[Operation] = []
        for entry in contents["operations"]:
            self._make(entry)
        updates = [self._operations[number] for number in contents["updates"]]
        results = [self._tensors[number] for number in contents["outputs"].values()]
        if updates:
            results = graph.control_dependency(updates, lambda: [graph.identity(tensor) for tensor in results])
        self.outputs = dict(zip(contents["outputs"], results, strict=True))

    def _make(self, entry: Mapping[str, Any]) -> None:
        kind, name = entry["kind"], entry["name"]
        if kind not in self._kinds and kind not in _STORED:
            raise GraphError(f"[onnx] metadata property '{KEY}' contains unknown operation kind '{kind}'")
        after = [self._operations[number] for number in entry.get("after", ())]
        if after:
            self.graph.begin_control_dependencies(after)
        try:
            operation = self._made(kind, name, entry)
        finally:
            if after:
                self.graph.end_control_dependencies()
        self._operations.append(operation)
        self._tensors += operation.outputs

    def _made(self, kind: str, name: str, entry: Mapping[str, Any]) -> Operation:
        if kind == "placeholder":
            return self._placeholder(entry["file"]).operation
        self.graph.set_location(f"{kind} '{name}'")
        if kind == "read" and self._tensors[entry["inputs"][0]].operation.kind == "constant":
            weight: Operation = self._tensors[entry["inputs"][0]].operation
            return weight  # A weight excluded from training is a constant, so no read operation is needed.
        if kind == "variable" and "file" in entry:
            return self._weight(entry["file"]).operation
        if kind in ("constant", "variable"):
            array, dtype = self._elements(entry["file"]) if "file" in entry else _value_here(entry)
            return self.graph.create(kind, [], {"value": constant_data(array, None, dtype)}, name)
        inputs = [self._tensors[number] for number in entry.get("inputs", ())]
        blocks = [self._block(block) for block in entry.get("blocks", ())]
        attributes = {key: _decoded(value) for key, value in entry["attributes"].items()}
        return self.graph.create(kind, inputs, attributes, name, blocks)

    def _block(self, entry: Mapping[str, Any]) -> Block:
        types = [(as_dtype(d), None if shape == _UNKNOWN_RANK else tuple(shape)) for d, shape in entry["arguments"]]
        block = self.graph.begin_block(types)
        try:
            self._tensors += block.arguments
            for inner in entry["operations"]:
                self._make(inner)
            return self.graph.finish_block(block, [self._tensors[number] for number in entry["results"]])
        except BaseException:
            self.graph.abandon_block(block)
            raise


def _value_here(entry: Mapping[str, Any]) -> tuple[np.ndarray, DType]:
    dtype, shape = as_dtype(entry["type"][0]), entry["type"][1]
    storage = np.dtype(np.uint16) if str(dtype) == "bfloat16" else dtype.numpy
    flat = np.frombuffer(base64.b64decode(entry["value"]), np.dtype(storage).newbyteorder("<"))
    return flat.reshape(shape).astype(storage), dtype


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        return as_dtype(value["dtype"])
    return [_decoded(one) for one in value] if isinstance(value, list) else value
