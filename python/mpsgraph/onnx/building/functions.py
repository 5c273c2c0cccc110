"""Lookup of a model's operators. An operator has a translation function or a body of simpler nodes.

The version of an operator is determined from our own table of the standard (reading/standard.txt), not from the
installed onnx package. Before an import, a survey of the whole model reports all unsupported operators, unsupported
element types, and unknown attributes at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from ..._limits import count_input
from ...errors import GraphError, UnsupportedError
from ...interchange.custom_operators import Operators
from ..reading.files import is_known, is_readable, type_name
from ..reading.standard import newest_opset, standard_operator
from .custom_operators import translation
from .node import OF_RUNTIME, Function, operator

Opsets = Mapping[str, int]
_STRINGS = "tensors of string"
MOST_DEPTH = 200  # Maximum nesting depth of functions and subgraphs.
_GRAPH, _TENSOR = AttributeProto.GRAPH, AttributeProto.TENSOR


@dataclass
class Found:
    """The translation of an operator: a function that the importer provides, or a body of simpler nodes from the
    model.
    """

    version: int
    lower: Function | None = None
    body: FunctionProto | None = None
    # Dict from attribute names to defaults, or None if the operator's attributes are unknown.
    attributes: Mapping[str, Any] | None = None


class Functions:
    """Looks up how to translate the operators that a model uses."""

    def __init__(self, model: ModelProto, operators: Operators | None = None) -> None:
        self._operators = dict(operators or {})
        self.opsets = _opsets(model.opset_import) or {"": 1}  # IR versions before 3 had only one operator set.
        self._own = {(_domain(f.domain), f.name, f.overload): f for f in model.functions}
        self._found: dict[tuple[str, str, str, int], Found | None] = {}
        self._sizes: dict[int, int] = {}  # Number of nodes of each function after expansion, keyed by its body.
        self._surveyed = 0  # Number of nodes of the main graph and its subgraphs.
        self._deepest = 0  # Largest nesting depth of subgraphs in the main graph.
        self._survey(model)

    def opsets_of(self, body: FunctionProto) -> Opsets:
        """Return the opset versions for the nodes of a function.

        Domains that the function does not import have the versions that the model imports.
        """
        return {**self.opsets, **_opsets(body.opset_import)}

    def find(self, domain: str, name: str, overload: str, opsets: Opsets) -> Found:
        """Return the translation of an operator, or raise UnsupportedError if there is none."""
        found = self._look_up(_domain(domain), name, overload, opsets)
        if found is None:
            raise UnsupportedError(f"operator {name} is not supported by mpsgraph")
        return found

    def _look_up(self, domain: str, name: str, overload: str, opsets: Opsets) -> Found | None:
        opset = opsets.get(domain, 0)
        key = domain, name, overload, opset
        if key not in self._found:
            self._found[key] = self._make(*key)
        return self._found[key]

    def _make(self, domain: str, name: str, overload: str, opset: int) -> Found | None:
        keys = f"{domain or 'ai.onnx'}::{name}", f"{domain}::{name}", name
        given = next((key for key in keys if key in self._operators), None)
        if given is not None:
            return Found(0, lower=translation(given, self._operators[given]))
        if (domain, name, overload) in self._own:
            body = self._own[domain, name, overload]
            stated = [*body.attribute, *(attribute.name for attribute in body.attribute_proto)]
            return Found(0, body=body, attributes=dict.fromkeys(stated))
        newest = newest_opset(domain)
        if newest is None or name in OF_RUNTIME:  # Operators outside the standard have a single version.
            function = operator.get(name, domain, 1) if opset else None
            return None if function is None else Found(1, lower=function)
        described = standard_operator(domain, name)
        version = described.version(opset) if described and opset <= newest else None
        if described is None or version is None:
            return None
        function = operator.get(name, domain, version)
        return None if function is None else Found(version, function, attributes=described.attributes(version))

    # --- size -----------------------------------------------------------------------------------------------------

    def expanded(self, graph: GraphProto) -> int:
        """Return the number of nodes that the main graph has after functions are replaced with their bodies.

        Bodies of loops count once. Raises GraphError if functions call themselves, or nest deeper than MOST_DEPTH.
        """
        if self._own:
            return self._expanded(graph.node[:], self.opsets, [])
        count_input(depth=self._deepest)
        return self._surveyed

    def _expanded(self, nodes: Iterable[NodeProto], opsets: Opsets, callers: list[int]) -> int:
        if len(callers) > MOST_DEPTH:
            raise GraphError(f"[onnx] functions and subgraphs must not nest deeper than {MOST_DEPTH} levels")
        count_input(depth=len(callers))
        total = 0
        for node in nodes:
            total += 1
            for attribute in node.attribute[:]:
                if attribute.type == _GRAPH:
                    total += self._expanded(attribute.g.node[:], opsets, [*callers, 0])
            found = self._look_up(_domain(node.domain), node.op_type, node.overload, opsets)
            if found is None or found.body is None:
                continue
            key = id(found.body)
            if key in callers:
                raise GraphError(f"[onnx] function {node.op_type} calls itself, directly or through other functions")
            if key not in self._sizes:
                self._sizes[key] = self._expanded(found.body.node, self.opsets_of(found.body), [*callers, key])
            total += self._sizes[key]
        return total

    # --- survey ----------------------------------------------------------------------------------------------------

    def _survey(self, model: ModelProto) -> None:
        """Check that all operators, element types, and attributes of the model are supported.

        Raises UnsupportedError with a list of all unsupported operators and element types and their nodes, and
        GraphError for attributes that an operator does not have.
        """
        missing: dict[str, list[str]] = defaultdict(list)
        self._unknown: list[str] = []
        self._survey_graph(model.graph, self.opsets, missing, depth=0)
        for body in model.functions:
            self._survey_nodes(body.node, self.opsets_of(body), missing)
        if missing:
            lines = [f"{what} ({_shortened(sorted(set(places)))})" for what, places in sorted(missing.items())]
            hint = "; encode strings as integers, because tensors cannot hold strings" if _STRINGS in missing else ""
            if any(what.startswith("operator ") for what in missing):
                hint += '; supply missing operators with load(..., operators={"domain::Name": function})'
            raise UnsupportedError(f"[onnx] mpsgraph does not support parts of the model: {'; '.join(lines)}{hint}")
        if self._unknown:
            raise GraphError(f"[onnx] the model has invalid nodes: {_shortened(self._unknown, '; ')}")

    def _survey_graph(
        self, graph: GraphProto, opsets: Opsets, missing: dict[str, list[str]], depth: int | None = None
    ) -> None:
        """Check a graph. `depth` is its nesting depth in the main graph, or None inside a function."""
        if depth is not None:
            self._deepest = max(self._deepest, depth)
            if depth > MOST_DEPTH:
                raise GraphError(f"[onnx] functions and subgraphs must not nest deeper than {MOST_DEPTH} levels")
        outputs = graph.output[:]
        # Classifier outputs declared as strings are imported as integers, so their element types are not checked.
        if any(not is_known(info.type.tensor_type.elem_type) for info in outputs):
            outputs = [] if any(node.domain == "ai.onnx.ml" for node in graph.node[:]) else outputs
        for info in (*graph.input[:], *outputs):
            kind = info.type.WhichOneof("value")
            if kind == "tensor_type" and not is_known(info.type.tensor_type.elem_type):
                if info.type.tensor_type.elem_type:
                    missing[f"tensors of {type_name(info.type.tensor_type.elem_type)}"].append(f"'{info.name}'")
            elif kind not in (None, "tensor_type"):
                missing[f"values of kind {kind.removesuffix('_type')}"].append(f"'{info.name}'")
        for tensor in graph.initializer[:]:
            if not is_readable(tensor.data_type):
                missing[f"tensors of {type_name(tensor.data_type)}"].append(f"'{tensor.name}'")
        self._survey_nodes(graph.node[:], opsets, missing, depth)

    def _survey_nodes(
        self, nodes: Sequence[NodeProto], opsets: Opsets, missing: dict[str, list[str]], depth: int | None = None
    ) -> None:
        if depth is not None:
            self._surveyed += len(nodes)
            depth += 1
        for node in nodes:
            found = self._look_up(_domain(node.domain), node.op_type, node.overload, opsets)
            if found is None:
                missing[_operator_name(node, opsets)].append(_place(node))
            for attribute in node.attribute[:]:
                number = attribute.type
                if found is not None and found.attributes is not None and attribute.name not in found.attributes:
                    self._unknown.append(_unknown(node, attribute.name, found.attributes, found.version))
                if number == _GRAPH:
                    self._survey_graph(attribute.g, opsets, missing, depth)
                elif number == _TENSOR and not is_readable(attribute.t.data_type):
                    missing[f"tensors of {type_name(attribute.t.data_type)}"].append(f"node '{node.name}'")


def _place(node: NodeProto) -> str:
    return f"node '{node.name}'" if node.name else f"node of '{next((o for o in node.output if o), '')}'"


def _unknown(node: NodeProto, name: str, known: Mapping[str, Any], version: int) -> str:
    """Return the message for an attribute of a node that the standard does not define for the node's operator."""
    operator = f"{node.op_type}-{version}" if version else node.op_type
    listed = f"has the attributes {', '.join(sorted(known))}" if known else "has no attributes"
    return f"{node.op_type}, {_place(node)}: unknown attribute '{name}'; {operator} {listed}"


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _opsets(imports: Iterable[Any]) -> dict[str, int]:
    return {_domain(entry.domain): entry.version for entry in imports}


def _operator_name(node: NodeProto, opsets: Opsets) -> str:
    domain = _domain(node.domain)
    name = f"{domain}.{node.op_type}" if domain else node.op_type
    if domain not in opsets:
        return f"operator {name} of a domain that the model does not import"
    opset, newest, described = opsets[domain], newest_opset(domain), standard_operator(domain, node.op_type)
    if newest is not None and opset > newest:
        return f"operator {name} of opset {opset}: the newest opset known to mpsgraph is {newest}"
    version, known = described.version(opset) if described else None, operator.newest(node.op_type, domain)
    if version is not None and known:
        return f"operator {name} of opset {opset}, version {version}: the newest version supported is {known}"
    return f"operator {name} of opset {opset}"


def _shortened(places: list[str], comma: str = ", ") -> str:
    more = f" and {len(places) - 8} more" if len(places) > 8 else ""
    return comma.join(places[:8]) + more


__all__ = ["Found", "Functions", "GraphError"]
