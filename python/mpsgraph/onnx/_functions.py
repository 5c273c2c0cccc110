"""What an operator is in this model: a function of ours, or a body of simpler nodes, given by the model or by ONNX.

Also the survey that comes before every import: which operators and element types of a model are missing here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, defs

from ..errors import GraphError, UnsupportedError
from ._files import is_known, number_of, type_name
from ._registry import MICROSOFT, OF_RUNTIME, Function, function_of

Opsets = Mapping[str, int]


@dataclass
class Found:
    """How a node is lowered: by `lower`, or by expanding `body`, or a body that depends on its operands' types."""

    version: int
    lower: Function | None = None
    body: FunctionProto | None = None
    schema: Any = None
    opset: int = 0


class Functions:
    """The operators that a model may use."""

    def __init__(self, model: ModelProto) -> None:
        self.opsets = _opsets(model.opset_import) or {"": 1}  # before version 3 of the format there was one set only
        self._own = {(_domain(f.domain), f.name, f.overload): f for f in model.functions}
        self._found: dict[tuple[str, str, str, int], Found | None] = {}
        self._survey(model)

    def opsets_of(self, body: FunctionProto) -> Opsets:
        """The versions of operators that a function's nodes speak of; what it does not say, the model says."""
        return {**self.opsets, **_opsets(body.opset_import)}

    def find(self, domain: str, name: str, overload: str, opsets: Opsets) -> Found:
        """How an operator is lowered. UnsupportedError when it is not."""
        found = self._look_up(_domain(domain), name, overload, opsets)
        if found is None:
            raise UnsupportedError(f"mpsgraph does not know the operator {name}")
        return found

    def _look_up(self, domain: str, name: str, overload: str, opsets: Opsets) -> Found | None:
        opset = opsets.get(domain, 0)
        key = domain, name, overload, opset
        if key not in self._found:
            self._found[key] = self._make(*key)
        return self._found[key]

    def _make(self, domain: str, name: str, overload: str, opset: int) -> Found | None:
        if (domain, name, overload) in self._own:
            return Found(0, body=self._own[domain, name, overload])
        try:
            schema = defs.get_schema(name, opset, domain)
        except defs.SchemaError:  # not of the standard: such domains have one version
            function = function_of(domain, name, 1) if opset and (domain == MICROSOFT or name in OF_RUNTIME) else None
            return None if function is None else Found(1, lower=function)
        if opset > defs.onnx_opset_version() and domain == "":
            return None
        version = schema.since_version
        function = function_of(domain, name, version)
        if function is not None:
            return Found(version, lower=function)
        if schema.has_function:
            return Found(version, body=_with_defaults(schema.function_body, schema))
        if schema.has_context_dependent_function:
            return Found(version, schema=schema, opset=opset)
        return None

    def body_for_types(self, found: Found, node: NodeProto, type_of: Callable[[str], Any]) -> FunctionProto:
        """The body of an operator for which ONNX writes one when it knows the operands' types."""
        types = [_type_proto(type_of(name)) if name else TypeProto().SerializeToString() for name in node.input]
        versions = found.schema.context_dependent_function_opset_versions
        version = max((v for v in versions if v <= found.opset), default=max(versions))
        text = found.schema.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), types)
        if not text:
            raise UnsupportedError(f"ONNX has no simpler form of {node.op_type} for these operands")
        body = FunctionProto()
        body.ParseFromString(text)
        return _with_defaults(body, found.schema)

    # --- the survey ------------------------------------------------------------------------------------------------

    def _survey(self, model: ModelProto) -> None:
        """UnsupportedError that names all operators and element types that are missing, with their nodes."""
        missing: dict[str, list[str]] = defaultdict(list)
        self._survey_graph(model.graph, self.opsets, missing)
        for body in model.functions:
            self._survey_nodes(body.node, self.opsets_of(body), missing)
        if missing:
            lines = [f"{what} ({_shortened(sorted(set(places)))})" for what, places in sorted(missing.items())]
            raise UnsupportedError(f"[onnx] mpsgraph does not have: {'; '.join(lines)}")

    def _survey_graph(self, graph: GraphProto, opsets: Opsets, missing: dict[str, list[str]]) -> None:
        classifies = any(node.domain == "ai.onnx.ml" for node in graph.node)
        for info in (*graph.input, *graph.output[: 0 if classifies else None]):  # numbers, where strings are stated
            kind = info.type.WhichOneof("value")
            if kind == "tensor_type" and not is_known(info.type.tensor_type.elem_type):
                if info.type.tensor_type.elem_type:
                    missing[f"tensors of {type_name(info.type.tensor_type.elem_type)}"].append(f"'{info.name}'")
            elif kind not in (None, "tensor_type"):
                missing[f"values of kind {kind.removesuffix('_type')}"].append(f"'{info.name}'")
        for tensor in graph.initializer:
            if not is_known(tensor.data_type):
                missing[f"tensors of {type_name(tensor.data_type)}"].append(f"'{tensor.name}'")
        self._survey_nodes(graph.node, opsets, missing)

    def _survey_nodes(self, nodes: Iterable[NodeProto], opsets: Opsets, missing: dict[str, list[str]]) -> None:
        for node in nodes:
            if self._look_up(_domain(node.domain), node.op_type, node.overload, opsets) is None:
                missing[_operator_name(node, opsets)].append(
                    f"node '{node.name}'" if node.name else f"node of '{next((o for o in node.output if o), '')}'"
                )
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    self._survey_graph(attribute.g, opsets, missing)
                if attribute.type == AttributeProto.TENSOR and not is_known(attribute.t.data_type):
                    missing[f"tensors of {type_name(attribute.t.data_type)}"].append(f"node '{node.name}'")


def _with_defaults(body: FunctionProto, schema: Any) -> FunctionProto:
    """A body that knows the defaults of the operator's attributes."""
    stated = {attribute.name for attribute in body.attribute_proto}
    for name, attribute in schema.attributes.items():
        if attribute.default_value.name and name not in stated:
            body.attribute_proto.append(attribute.default_value)
    return body


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _opsets(imports: Iterable[Any]) -> dict[str, int]:
    return {_domain(entry.domain): entry.version for entry in imports}


def _operator_name(node: NodeProto, opsets: Opsets) -> str:
    domain = _domain(node.domain)
    name = f"{domain}.{node.op_type}" if domain else node.op_type
    if domain not in opsets:
        return f"operator {name} of a domain that the model does not import"
    if domain == "" and opsets[domain] > defs.onnx_opset_version():
        return f"operator {name} of operator set {opsets[domain]}, newer than the installed onnx package"
    return f"operator {name} of operator set {opsets[domain]}"


def _shortened(places: list[str]) -> str:
    more = f" and {len(places) - 8} more" if len(places) > 8 else ""
    return ", ".join(places[:8]) + more


def _type_proto(type: tuple[Any, tuple[int, ...] | None]) -> bytes:
    dtype, shape = type
    proto = TypeProto()
    proto.tensor_type.elem_type = number_of(dtype)
    if shape is not None:
        for size in shape:
            dimension = proto.tensor_type.shape.dim.add()
            if size >= 0:
                dimension.dim_value = size
        proto.tensor_type.shape.SetInParent()
    data: bytes = proto.SerializeToString()
    return data


__all__ = ["Found", "Functions", "GraphError"]
