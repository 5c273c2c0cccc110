"""Export of graphs to ONNX: `mpsgraph.onnx.export(model, path)`.

Each file holds the export functions ("writers") for one group of operations. `_writer.py` holds their registry, and
`_graphs.py` visits the operations that the outputs depend on. Operations that ONNX cannot express are collected and
reported in one error before any file is written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import ModelProto, helper

from ..._checks import checked
from ..._core import Operation, Tensor
from ...errors import GraphError, UnsupportedError
from ...graph import Graph
from ...interchange.export import (
    NotExpressible,
    as_model,
    assigned_variables,
    needed,
    refuse_not_expressible,
    values_of,
    whole_file,
)
from ...model import Model
from ...nn.module import Module
from ...nngraph import NNGraph
from ..reading.files import LARGEST_FILE
from ..rebuilding.original_graph import KEY as DESCRIPTION
from ..rebuilding.original_graph import described
from . import (  # noqa: F401  enters the writers
    arithmetic,
    control_flow,
    convolution,
    detection,
    indexing,
    matrix,
    random,
    recurrent,
    reduction,
    resize,
    shape,
    slicing,
)
from ._graphs import remove_unused, value_info, write_operations
from ._modules import module_as_model
from ._writer import Writer, written_kinds
from .narrow import narrow_constants
from .packed import MICROSOFT

OPSETS = range(18, 24)
"""Supported opset versions; 18 is the first in which reductions take their axes as operands."""

NARROW_OPSET = 21
"""The first opset with 4-bit integers and with scales per block."""


@checked
def export(
    model: Graph | Model | Module | NNGraph,
    path: str | os.PathLike[str] | None = None,
    opset: int = 20,
    *,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Tensor] | None = None,
    updates: Sequence[Operation] = (),
    callables: Mapping[str, Model] | None = None,
    method: str = "forward",
    narrow: bool = False,
) -> ModelProto:
    """Export a model to ONNX, with the current values of its variables.

    Inputs and outputs keep their names. A dynamic dimension is named after its input and axis, such as "x_0". Variables
    become initializers with the same names and shapes, so a module's weights have the names of its `state_dict`. ONNX
    expects channels first: for other layouts Transpose nodes are inserted, and pairs that cancel are removed. A module
    is copied to a new graph and exported in inference mode; the module itself does not change.

    Variables assigned during a run, such as a KeyValueCache, become inputs with their current values as defaults, and
    outputs named NAME_next to pass to the next run. Loading the file with `mpsgraph.onnx.load` restores the original
    graph.

    Args:
        model: A Model, a Module, a Graph, or an NNGraph for inference, whose parameters become constants.
        path: Path of the file to write. Defaults to None, which only returns the model.
        opset: Version of the ONNX operator set, 18 to 23. Defaults to 20.
        inputs: Dict keyed by input name. For a Graph, its values are placeholders; defaults to the placeholders that
            the outputs depend on. For a Module, it has one value per argument: a shape (for float32), a (shape, dtype)
            pair, a placeholder or KeyValueCache with the same types, or a tuple of these; -1 marks a dynamic dimension.
            Values are passed in order as positional arguments, or by keyword if they have the name of an optional
            argument.
        outputs: Dict of tensors, keyed by output name. Required for a Graph; not accepted for a Module or NNGraph.
        updates: Operations, such as assigns, that every run of the exported model must perform.
        callables: Dict of the models that `call` operations refer to, keyed by symbol.
        method: The method of a Module to export, such as "with_state". Defaults to "forward".
        narrow: Whether to store constants as int4, uint4, or 8-bit floats where no element changes, and packed weights
            of 4 bits as uint4. Requires opset 21; the file does not restore the original graph. Defaults to False.

    Returns:
        The onnx.ModelProto, validated by ONNX's checker.

    Raises:
        UnsupportedError: If operations cannot be expressed in ONNX (the message lists all of them with reasons), ONNX's
            checker rejects the model, the opset is not supported, or the model is larger than the 2 GiB limit of one
            file. Nothing is written in these cases.
        GraphError: If the inputs or outputs do not match the model, or the file cannot be written.

    Source: the ONNX standard, https://onnx.ai/onnx/operators.

    Example:
        >>> import numpy as np
        >>> model = mg.nn.Sequential(mg.nn.Linear(3), mg.nn.ReLU())
        >>> proto = mg.onnx.export(model, inputs={"x": (-1, 2)})
        >>> [node.op_type for node in proto.graph.node]
        ['MatMul', 'Add', 'Relu']
        >>> mg.onnx.load(proto)(np.zeros((4, 2), np.float32)).shape
        (4, 3)
    """
    if opset not in OPSETS:
        raise UnsupportedError(f"[onnx.export] opset must be between {OPSETS[0]} and {OPSETS[-1]}, got {opset}")
    if narrow and opset < NARROW_OPSET:
        raise UnsupportedError(f"[onnx.export] narrow=True needs 4-bit integers: pass opset={NARROW_OPSET} or higher")
    whole = as_model(model, inputs, outputs, "onnx.export", lambda module: module_as_model(module, inputs, method))
    proto = _proto(whole, opset, updates, callables or {}, narrow)
    size = proto.ByteSize()
    if size > LARGEST_FILE:
        raise UnsupportedError(
            f"[onnx.export] the model has {size} bytes, but an ONNX file can hold at most 2 GiB: "
            "use mpsgraph.save instead"
        )
    try:
        onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise UnsupportedError(f"[onnx.export] ONNX's checker rejects the exported model: {error}") from error
    if path is not None:
        whole_file(os.fspath(path), proto.SerializeToString(), "onnx.export")
    return proto


def _proto(
    model: Model, opset: int, updates: Sequence[Operation], callables: Mapping[str, Model], narrow: bool
) -> ModelProto:
    w = Writer(opset)
    w.narrow = narrow
    problems: list[Any] = []
    infos = []
    for name, tensor in model.inputs.items():
        try:
            infos.append(value_info(w.fresh(name), tensor))
        except NotExpressible as why:
            problems.append((tensor.operation, str(why)))
        w.give(tensor, name)
    for name in model.outputs:
        if name in model.inputs and model.inputs[name] is not model.outputs[name]:
            raise GraphError(f"[onnx.export] '{name}' names both an input and an output: rename one of them")
        w.fresh(name)
    results = list(model.outputs.values())
    operations = needed(results, updates)
    w.results, w.callables = frozenset(results), {symbol: (called, {}) for symbol, called in callables.items()}
    states = assigned_variables(operations)
    w.states = dict.fromkeys(states, "")
    write_operations(w, operations, values_of(model.graph, operations), problems)
    refuse_not_expressible(problems, "onnx.export", "ONNX")
    kept = {v.name: w.fresh(f"{v.name}_next") for v in states}
    infos += [value_info(v.name, v) for v in states]
    outputs = {**model.outputs, **{kept[v.name]: v for v in states}}
    _name_outputs(w, outputs)
    graph = helper.make_graph(
        w.nodes, "mpsgraph", infos, [value_info(name, tensor) for name, tensor in outputs.items()], w.initializers
    )
    weights = {name for name in model.parameters if name in w.weights.values()} | set(kept)
    trained = {tensor.name for tensor in model.graph.trainable_variables}
    remove_unused(graph, weights & trained | set(kept) if narrow else weights)
    if narrow:
        narrow_constants(graph, weights)
    imports = [helper.make_opsetid("", opset)]
    if any(node.domain == MICROSOFT for node in graph.node):
        imports.append(helper.make_opsetid(MICROSOFT, 1))
    proto = helper.make_model(
        graph, opset_imports=imports, producer_name="mpsgraph", ir_version=helper.find_min_ir_version_for(imports[:1])
    )
    described_as = None if narrow else described(operations, model.inputs, model.outputs, updates, w.weights, graph)
    buffers = [p.name for p in w.initializers if p.name in weights and p.name not in trained]
    properties = {"mpsgraph.buffers": json.dumps(buffers)}
    if kept:
        properties["mpsgraph.states"] = json.dumps(kept)
    if described_as is not None:
        properties[DESCRIPTION] = described_as
    helper.set_model_props(proto, properties)
    return proto


def _name_outputs(w: Writer, outputs: Mapping[str, Tensor]) -> None:
    """Make the names of the model's outputs the names of the results that compute them.

    Results are renamed where possible; otherwise Identity nodes with the right names are added.
    """
    made = {name for node in w.nodes for name in node.output}
    renamed: dict[str, str] = {}
    for output, tensor in outputs.items():
        name = w.name(tensor)
        if name in made and name not in renamed:
            renamed[name] = output
        elif renamed.get(name) != output and name != output:
            w.nodes.append(helper.make_node("Identity", [renamed.get(name, name)], [output], name=f"Identity:{output}"))
    _rename(w.nodes, renamed)


def _rename(nodes: Any, renamed: Mapping[str, str]) -> None:
    for node in nodes:
        for names in (node.input, node.output):
            names[:] = [renamed.get(name, name) for name in names]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g.node, renamed)


__all__ = ["OPSETS", "export", "written_kinds"]
