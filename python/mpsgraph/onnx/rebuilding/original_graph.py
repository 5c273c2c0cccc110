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
from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto

from ..._core import Block, DType, Operation, Tensor
from ..reading.files import type_of

KEY = "mpsgraph.graph"
_VERSION = 1
UNKNOWN_RANK = "?"


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
    return [str(dtype), UNKNOWN_RANK if shape is None else list(shape)]


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
