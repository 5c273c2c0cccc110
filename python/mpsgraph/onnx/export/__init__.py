"""ONNX files from graphs: `mpsgraph.onnx.export(model, path)`.

Writers stand one file a group of operations; `_writer.py` has their table, `_graphs.py` the walk over what the outputs
depend on. An operation that ONNX has no word for is named in one error with all others, before a file is touched.
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
from ...interchange.export import Unsaid, assigned_variables, needed, nodes_as_model, refuse_unsaid, whole_file
from ...model import Model
from ...nn.module import Module
from ...nngraph import NNGraph
from .._description import KEY as DESCRIPTION
from .._description import described
from .._files import LARGEST_FILE
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

OPSETS = range(18, 24)
"""The versions of ONNX's operators that export can write: reductions take their axes as operands from 18 on."""


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
) -> ModelProto:
    """Writes an ONNX file: what the outputs depend on, with the values that variables have now.

    Inputs and outputs keep their names and unknown sizes, which are called input_0, input_1, … after the input and the
    axis. Variables become initialisers by their own names and in their own shapes; so a module's have the names of its
    `state_dict`. Channels in front are ONNX's: other layouts are turned by Transpose nodes, and two that undo each
    other are left out. A module is exported in inference mode, from a copy in a graph of its own; it stays as it is.
    Variables that the outputs' run assigns, such as a KeyValueCache, become inputs with their values as defaults, and
    outputs named NAME_next for the next run. `load` of the file gives the graph that was exported.
    Args: model, a Model, a Module, a Graph with inputs and outputs, or an inference NNGraph, whose parameters become
    constants; path, of the file, None for none; opset, the version of ONNX's operators, 18 to 23; inputs, for a graph
    placeholders by name; for a module of each argument by name a shape (float32), a pair (shape, dtype), a placeholder
    or a KeyValueCache to be like, or a tuple of these, -1 for what stays open: in the order of the arguments, but those
    with the name of an optional one stand for it; outputs, tensors by name, for a graph; updates, target operations
    such as assigns, which each run of the file makes; callables, by symbol the model that `call` means; method, of a
    module: "with_state" and others. Result: the model as the package onnx has it, checked by its checker.
    Errors: UnsupportedError that names all operations that cannot be said in ONNX, with the reasons; for what ONNX's
    checker refuses, an opset that is not written, and a model above 2 GiB, which one file cannot hold; GraphError for
    inputs and outputs that do not fit. Nothing is written then.
    Source: ours; the ONNX standard, https://onnx.ai/onnx/operators.

    >>> import numpy as np
    >>> model = mg.nn.Sequential(mg.nn.Linear(3), mg.nn.ReLU())
    >>> proto = mg.onnx.export(model, inputs={"x": (-1, 2)})
    >>> [node.op_type for node in proto.graph.node]
    ['MatMul', 'Add', 'Relu']
    >>> mg.onnx.load(proto)(np.zeros((4, 2), np.float32)).shape
    (4, 3)
    """
    if opset not in OPSETS:
        raise UnsupportedError(f"[onnx.export] opset {opset} is not written: {OPSETS[0]} to {OPSETS[-1]} are")
    whole = _as_model(model, inputs, outputs, method)
    proto = _proto(whole, opset, updates, callables or {})
    size = proto.ByteSize()
    if size > LARGEST_FILE:
        raise UnsupportedError(f"[onnx.export] {size} bytes; one file holds 2 GiB at most: use mpsgraph.save")
    try:
        onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise UnsupportedError(f"[onnx.export] ONNX's checker refuses what the graph means: {error}") from error
    if path is not None:
        whole_file(os.fspath(path), proto.SerializeToString())
    return proto


def _as_model(
    model: Graph | Model | Module | NNGraph,
    inputs: Mapping[str, Any] | None,
    outputs: Mapping[str, Tensor] | None,
    method: str,
) -> Model:
    if isinstance(model, Module):
        if outputs is not None:
            raise GraphError("[onnx.export] a module's results are its outputs: give inputs alone")
        return module_as_model(model, inputs, method)
    if isinstance(model, NNGraph):
        if outputs is not None:
            raise GraphError("[onnx.export] a network of nodes has its result images as outputs: give inputs alone")
        return nodes_as_model(model, inputs, "onnx.export")
    if isinstance(model, Model):
        return Model(
            model.graph,
            model.inputs if inputs is None else inputs,
            model.outputs if outputs is None else outputs,
            model.parameters,
        )
    if outputs is None:
        raise GraphError("[onnx.export] which outputs? Give tensors by name, or a model")
    given = {p.name: p for p in model.placeholders} if inputs is None else inputs
    if inputs is None:
        used = {tensor for operation in needed(outputs.values()) for tensor in operation.outputs}
        given = {name: tensor for name, tensor in given.items() if tensor in used}
    return Model(model, given, outputs)


def _proto(model: Model, opset: int, updates: Sequence[Operation], callables: Mapping[str, Model]) -> ModelProto:
    w = Writer(opset)
    problems: list[Any] = []
    infos = []
    for name, tensor in model.inputs.items():
        try:
            infos.append(value_info(w.fresh(name), tensor))
        except Unsaid as why:
            problems.append((tensor.operation, str(why)))
        w.give(tensor, name)
    for name in model.outputs:
        if name in model.inputs and model.inputs[name] is not model.outputs[name]:
            raise GraphError(f"[onnx.export] '{name}' is the name of an input and of an output")
        w.fresh(name)
    results = list(model.outputs.values())
    operations = needed(results, updates)
    w.results, w.callables = frozenset(results), {symbol: (called, {}) for symbol, called in callables.items()}
    states = assigned_variables(operations)
    w.states = dict.fromkeys(states, "")
    write_operations(w, operations, model.graph.variable_value, problems)
    refuse_unsaid(problems, "onnx.export", "ONNX")
    kept = {v.name: w.fresh(f"{v.name}_next") for v in states}
    infos += [value_info(v.name, v) for v in states]
    outputs = {**model.outputs, **{kept[v.name]: v for v in states}}
    _name_outputs(w, outputs)
    graph = helper.make_graph(
        w.nodes, "mpsgraph", infos, [value_info(name, tensor) for name, tensor in outputs.items()], w.initializers
    )
    weights = {name for name in model.parameters if name in w.weights.values()} | set(kept)
    remove_unused(graph, weights)
    imports = [helper.make_opsetid("", opset)]
    proto = helper.make_model(
        graph, opset_imports=imports, producer_name="mpsgraph", ir_version=helper.find_min_ir_version_for(imports)
    )
    described_as = described(operations, model.inputs, model.outputs, updates, w.weights, graph)
    trained = {tensor.name for tensor in model.graph.trainable_variables}
    buffers = [p.name for p in w.initializers if p.name in weights and p.name not in trained]
    properties = {"mpsgraph.buffers": json.dumps(buffers)}
    if kept:
        properties["mpsgraph.states"] = json.dumps(kept)
    if described_as is not None:
        properties[DESCRIPTION] = described_as
    helper.set_model_props(proto, properties)
    return proto


def _name_outputs(w: Writer, outputs: Mapping[str, Tensor]) -> None:
    """Results get the outputs' names: where a node makes them, in place; where they are more than that, by Identity."""
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
