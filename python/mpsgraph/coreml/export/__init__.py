"""ML Programs from graphs: `mpsgraph.coreml.export(model, path)`, by coremltools' builder.

Writers stand one file a group of operations; `_writer.py` has their table. An operation that MIL has no word for is
named in one error with all others, before a file is touched.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from typing import Any

from ..._checks import checked
from ..._core import Operation, Tensor
from ..._display import shown
from ..._optional import require
from ...errors import GraphError, UnsupportedError
from ...graph import Graph
from ...interchange.export import Unsaid, as_model, assigned_variables, needed, refuse_unsaid
from ...model import Model
from ...nn.module import Module
from ...nngraph import NNGraph
from . import (  # noqa: F401  enters the writers
    control_flow,
    convolution,
    detection,
    elementwise,
    matrix,
    recurrent,
    reduction,
    resize,
    scatter,
    shape,
    states,
)
from ._writer import Writer, exported_operations, type_name
from .states import state_shape

TARGETS = ("iOS15", "iOS16", "iOS17", "iOS18")


@checked
def export(
    model: Graph | Model | Module | NNGraph,
    path: str | os.PathLike[str],
    *,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Tensor] | None = None,
    target: str = "iOS17",
    largest: int = 1024,
) -> None:
    """Writes an ML Program: what the outputs depend on, with the values that variables have now.

    Inputs and outputs keep their names; open sizes are Core ML's ranges from 1 to `largest`. Integers are int32, flags
    that are outputs, too: Core ML's arrays have no other. Computed in float32 stays in float32. A module is exported in
    inference mode, from a copy in a graph of its own; it stays as it is. Variables that the outputs' run assigns become
    states, which Core ML keeps from run to run: from iOS18 on, of float16, and zeros before the first.
    Args: model, a Model, a Module, a Graph with inputs and outputs, or an inference NNGraph; path, a new folder
    NAME.mlpackage, which may exist already; inputs, for a graph placeholders by name; for a module or nodes of each
    argument by name a shape (float32), a pair (shape, dtype) or a placeholder to be like, -1 for what stays open;
    outputs, tensors by name, for a graph; target, the oldest system that shall run it, "iOS15" to "iOS18"; largest, of
    open sizes.
    Errors: UnsupportedError that names all operations that cannot be said in MIL, with the reasons; GraphError for
    inputs and outputs that do not fit, and names that Core ML does not take; ImportError without coremltools. Nothing
    is written then. Source: ours; MIL's operations, https://apple.github.io/coremltools/source.

    >>> model = mg.nn.Sequential(mg.nn.Linear(3), mg.nn.ReLU())
    >>> mg.coreml.export(model, "net.mlpackage", inputs={"x": (-1, 2)})  # doctest: +SKIP
    """
    target_name = next((name for name in TARGETS if name.lower() == target.lower()), None)
    if target_name is None:
        raise GraphError(f"[coreml.export] target {shown(target)}: one of {', '.join(TARGETS)} is wanted")
    if not os.fspath(path).endswith(".mlpackage"):
        raise GraphError(f"[coreml.export] {shown(os.fspath(path))}: an ML Program is a folder called NAME.mlpackage")
    require("coremltools", "coreml", "mpsgraph.coreml.export")
    whole = as_model(model, inputs, outputs, "coreml.export")
    _require_names(whole)
    _save(_converted(whole, target_name, largest), os.fspath(path))


def _require_names(model: Model) -> None:
    for what, names in (("input", model.inputs), ("output", model.outputs)):
        for name in names:
            if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
                raise GraphError(f"[coreml.export] {what} {shown(name)}: Core ML's names are letters, digits and _")
    both = sorted(set(model.inputs) & set(model.outputs))
    if both:
        raise GraphError(f"[coreml.export] '{both[0]}' is the name of an input and of an output")
    if not model.outputs or not model.inputs:
        raise GraphError("[coreml.export] an ML Program has inputs and outputs: the model lacks one of them")


def _converted(model: Model, target: str, largest: int) -> Any:
    """The model as coremltools has it."""
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil import Function, Program, get_new_symbol, types

    version = getattr(ct.target, target)
    problems: list[tuple[Operation, str]] = []
    placeholders, stated = {}, []
    for name, tensor in model.inputs.items():
        try:
            kind = type_name(tensor.dtype)
            if kind == "bool":
                raise Unsaid("Core ML has no inputs of flags")
            if kind == "fp16" and target == "iOS15":
                raise Unsaid("inputs of float16 begin with iOS16")
            if tensor.shape is None or not 0 < len(tensor.shape) <= 5:
                raise Unsaid(f"Core ML's inputs have 1 to 5 axes, this is {tensor.shape}")
        except Unsaid as why:
            problems.append((tensor.operation, str(why)))
            continue
        sizes = [get_new_symbol() if size < 0 else size for size in tensor.shape]
        ranges = [ct.RangeDim(1, largest) if size < 0 else size for size in tensor.shape]
        placeholders[name] = mb.placeholder(sizes, getattr(types, kind))
        numpy_type = types.nptype_from_builtin(getattr(types, kind))
        stated.append(ct.TensorType(name=name, shape=ct.Shape(ranges), dtype=numpy_type))
    w = Writer(mb, int(target.removeprefix("iOS")), model.graph.variable_value)
    given = {w.fresh(name): tensor for name, tensor in model.inputs.items()}
    for name in model.outputs:
        w.fresh(name)
    kept: dict[str, Tensor] = {}
    for variable in assigned_variables(needed(model.outputs.values())):
        try:
            shape = state_shape(w, variable)
        except Unsaid as why:
            problems.append((variable.operation, str(why)))
            continue
        name = w.fresh(variable.name)
        kept[name], placeholders[name] = variable, mb.state_tensor_placeholder(shape, types.fp16)
    refuse_unsaid(problems, "coreml.export", "MIL")
    program = Program()
    with Function(placeholders, opset_version=version) as function:
        for name, tensor in given.items():
            w.give(tensor, function.inputs[name])
        w.states = {variable: function.inputs[name] for name, variable in kept.items()}
        _write_all(w, model, problems)
        refuse_unsaid(problems, "coreml.export", "MIL")
        results = []
        for name, tensor in model.outputs.items():
            y = w[tensor]
            flags = str(tensor.dtype) == "bool"
            results.append(mb.cast(x=y, dtype="int32", name=name) if flags else mb.identity(x=y, name=name))
        function.set_outputs(results)
        program.add_function("main", function)
    try:
        return ct.convert(
            program, source="milinternal", convert_to="mlprogram", minimum_deployment_target=version, inputs=stated,
            compute_precision=ct.precision.FLOAT32, skip_model_load=True,
        )  # fmt: skip
    except (AssertionError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        raise UnsupportedError(f"[coreml.export] coremltools refuses what the graph means: {error}") from error


def _write_all(w: Writer, model: Model, problems: list[tuple[Operation, str]]) -> None:
    """Everything that the outputs depend on; what stands behind something that cannot be said is passed over."""
    for operation in needed(model.outputs.values()):
        if operation.outputs and all(w.has(tensor) for tensor in operation.outputs):
            continue
        if not all(w.has(tensor) for tensor in operation.inputs):
            if known_kind(operation):
                continue
            problems.append((operation, "MIL has no operation for it"))
            continue
        try:
            made = w.operation(operation)
        except Unsaid as why:
            problems.append((operation, str(why)))
            continue
        for tensor, var in zip(operation.outputs, made, strict=True):
            w.give(tensor, var)


def known_kind(operation: Operation) -> bool:
    """Is there a writer for operations of its kind?"""
    return operation.kind in exported_operations()


def _save(model: Any, path: str) -> None:
    """The whole folder, or what was there before."""
    beside = f"{path.removesuffix('.mlpackage')}.{os.getpid()}.part.mlpackage"
    try:
        model.save(beside)
        if os.path.isdir(path) and not os.path.islink(path):
            if not os.path.isfile(os.path.join(path, "Manifest.json")):
                raise GraphError(f"[coreml.export] {path} is a folder, and no Core ML package that could be replaced")
            shutil.rmtree(path)
        os.replace(beside, path)
    finally:
        if os.path.isdir(beside):
            shutil.rmtree(beside)


__all__ = ["TARGETS", "export", "exported_operations"]
