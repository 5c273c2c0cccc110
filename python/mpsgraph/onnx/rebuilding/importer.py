"""The importer that restores the graph which mpsgraph exported to an ONNX file, from the description in the file."""

from __future__ import annotations

import base64
from collections.abc import Container, Mapping
from typing import Any

import numpy as np
from onnx import TensorProto, ValueInfoProto

from ..._core import Block, DType, Operation, Tensor
from ..._dtypes import as_dtype, constant_data
from ...errors import GraphError
from ..reading.importer import FileImporter, Initialiser
from .original_graph import KEY, UNKNOWN_RANK, constants_in

_STORED = ("placeholder", "constant", "variable", "read", "assign")


class GraphImporter(FileImporter):
    """Rebuilds the operations of a description, from `description_of`, in a new graph.

    Args:
        contents: The description.
        kinds: Operation kinds that may be created.
        how: Arguments of FileImporter.

    Raises:
        GraphError: If the description contains an unknown kind of operation.
    """

    def __init__(self, contents: Mapping[str, Any], kinds: Container[str], *how: Any) -> None:
        super().__init__(*how)
        self._contents, self._kinds = contents, kinds
        self._stored: dict[str, TensorProto] = {}
        self._initialisers: dict[str, Initialiser] = {}
        self._infos: dict[str, ValueInfoProto] = {}
        self._made_tensors: list[Tensor] = []
        self._operations: list[Operation] = []

    def run(self) -> None:
        """Add the operations of the description to the graph."""
        self._initialisers, self._stored = self.read_contents(), constants_in(self._model.graph)
        self._infos = {info.name: info for info in self._model.graph.input if info.name not in self._states}
        for entry in self._contents["operations"]:
            self._make(entry)
        updates = [self._operations[number] for number in self._contents["updates"]]
        results = [self._made_tensors[number] for number in self._contents["outputs"].values()]
        if updates:
            g = self.graph
            results = g.control_dependency(updates, lambda: [g.identity(tensor) for tensor in results])
        self.outputs = dict(zip(self._contents["outputs"], results, strict=True))
        unused = {name: self.input_of(info) for name, info in self._infos.items() if name not in self.inputs}
        self.inputs = {name: {**self.inputs, **unused}[name] for name in self._infos}

    def _make(self, entry: Mapping[str, Any]) -> None:
        kind, name = entry["kind"], entry["name"]
        if kind not in self._kinds and kind not in _STORED:
            raise GraphError(f"[onnx] metadata property '{KEY}' contains unknown operation kind '{kind}'")
        after = [self._operations[number] for number in entry.get("after", ())]
        if after:
            self.graph.begin_control_dependencies(after)
        try:
            operation = self._operation(kind, name, entry)
        finally:
            if after:
                self.graph.end_control_dependencies()
        self._operations.append(operation)
        self._made_tensors += operation.outputs

    def _operation(self, kind: str, name: str, entry: Mapping[str, Any]) -> Operation:
        if kind == "placeholder":
            return self.input_of(self._infos[entry["file"]]).operation
        self.graph.set_location(f"{kind} '{name}'")
        if kind == "read" and self._made_tensors[entry["inputs"][0]].operation.kind == "constant":
            weight: Operation = self._made_tensors[entry["inputs"][0]].operation
            return weight  # A weight excluded from training is a constant, so no read operation is needed.
        if kind == "variable" and "file" in entry:
            return self._weight(entry["file"]).operation
        if kind in ("constant", "variable"):
            array, dtype = self._tensors.read(self._stored[entry["file"]]) if "file" in entry else _value_here(entry)
            return self.graph.create(kind, [], {"value": constant_data(array, None, dtype)}, name)
        inputs = [self._made_tensors[number] for number in entry.get("inputs", ())]
        blocks = [self._block(block) for block in entry.get("blocks", ())]
        attributes = {key: _decoded(value) for key, value in entry["attributes"].items()}
        return self.graph.create(kind, inputs, attributes, name, blocks)

    def _weight(self, name: str) -> Tensor:
        """Return the tensor of an initializer that was a variable of the exported graph."""
        initialiser = self._initialisers[name]
        return self.variable_of(initialiser) if self.varies(name) else self.tensor_of(initialiser)

    def _block(self, entry: Mapping[str, Any]) -> Block:
        types = [(as_dtype(d), None if shape == UNKNOWN_RANK else tuple(shape)) for d, shape in entry["arguments"]]
        block = self.graph.begin_block(types)
        try:
            self._made_tensors += block.arguments
            for inner in entry["operations"]:
                self._make(inner)
            return self.graph.finish_block(block, [self._made_tensors[number] for number in entry["results"]])
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
