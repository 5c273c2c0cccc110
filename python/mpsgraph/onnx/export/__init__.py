"""ONNX files from graphs: `mpsgraph.onnx.export(model, path)`.

Writers stand one file a group of operations; `_writer.py` has their table, `_graphs.py` the walk over what the outputs
depend on. An operation that ONNX has no word for is named in one error with all others, before a file is touched.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import onnx
from onnx import ModelProto, helper

from ..._checks import checked
from ..._core import Tensor
from ...errors import GraphError, UnsupportedError
from ...graph import Graph
from ...interchange.leaving import Unsaid, as_model, needed, refuse_unsaid, whole_file
from ...model import Model
from ...nn.module import Module
from .._files import LARGEST_FILE
from . import (  # noqa: F401  enters the writers
    arithmetic,
    control_flow,
    convolution,
    matrix,
    recurrent,
    reduction,
    resize,
    shape,
)
from ._graphs import value_info, write_operations
from ._writer import Writer, written_kinds

OPSETS = range(18, 24)
"""The versions of ONNX's operators that export can write: reductions take their axes as operands from 18 on."""


@checked
def export(
    model: Graph | Model | Module,
    path: str | os.PathLike[str] | None = None,
    opset: int = 20,
    *,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Tensor] | None = None,
) -> ModelProto:
    """Writes an ONNX file: what the outputs depend on, with the values that variables have now.

    Inputs and outputs keep their names and unknown sizes, which are called input_0, input_1, … after the input and the
    axis. Variables become initialisers by their own names and in their own shapes; so a module's have the names of its
    `state_dict`. Channels in front are ONNX's: other layouts are turned by Transpose nodes, and two that undo each
    other are left out. A module is exported in inference mode, from a copy in a graph of its own; it stays as it is.
    Args: model, a Model, a Module, or a Graph with inputs and outputs; path, of the file, None for none; opset, the
    version of ONNX's operators, 18 to 23; inputs, for a graph placeholders by name; for a module of each argument by
    name a shape (float32), a pair (shape, dtype) or a placeholder to be like, -1 for what stays open; outputs, tensors
    by name, for a graph.
    Result: the model as the package onnx has it, checked by its checker. Errors: UnsupportedError that names all
    operations that cannot be said in ONNX, with the reasons; for what ONNX's checker refuses, an opset that is not
    written, and a model above 2 GiB, which one file cannot hold; GraphError for inputs and outputs that do not fit.
    Nothing is written then.
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
    whole = as_model(model, inputs, outputs, "onnx.export")
    proto = _proto(whole, opset)
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


def _proto(model: Model, opset: int) -> ModelProto:
    w = Writer(opset)
    problems: list[Any] = []
    infos = []
    for name, tensor in model.inputs.items():
        try:
            infos.append(value_info(w.fresh(name), tensor))
        except Unsaid as why:
            problems.append((tensor.operation, str(why)))
        w.give(tensor, name)
    results = list(model.outputs.values())
    for name in model.outputs:
        if name in model.inputs and model.inputs[name] is not model.outputs[name]:
            raise GraphError(f"[onnx.export] '{name}' is the name of an input and of an output")
        w.fresh(name)
    write_operations(w, needed(results), model.graph.variable_value, problems)
    refuse_unsaid(problems, "onnx.export", "ONNX")
    _name_outputs(w, model)
    graph = helper.make_graph(
        w.nodes,
        "mpsgraph",
        infos,
        [value_info(name, tensor) for name, tensor in model.outputs.items()],
        w.initializers,
    )
    imports = [helper.make_opsetid("", opset)]
    proto = helper.make_model(
        graph, opset_imports=imports, producer_name="mpsgraph", ir_version=helper.find_min_ir_version_for(imports)
    )
    trained = {tensor.name for tensor in model.graph.trainable_variables}
    buffers = [p.name for p in w.initializers if p.name in model.parameters and p.name not in trained]
    helper.set_model_props(proto, {"mpsgraph.buffers": json.dumps(buffers)})
    return proto


def _name_outputs(w: Writer, model: Model) -> None:
    """Results get the outputs' names: where a node makes them, in place; where they are more than that, by Identity."""
    made = {name for node in w.nodes for name in node.output}
    renamed: dict[str, str] = {}
    for output, tensor in model.outputs.items():
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
