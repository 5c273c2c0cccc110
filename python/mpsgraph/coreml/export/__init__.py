"""Export of graphs to Core ML's ML Programs with the program builder of coremltools.

Each file holds the export functions ("writers") for one group of operations; `_writer.py` holds their registry.
Operations that MIL cannot express are collected and reported in one error before any file is written.
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
from ...interchange.export import (
    NotExpressible,
    as_model,
    assigned_variables,
    needed,
    refuse_not_expressible,
    values_of,
)
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
    """Export a model to a Core ML package, with the current values of its variables.

    Inputs and outputs keep their names; dynamic dimensions become ranges from 1 to `largest`. Core ML's arrays support
    only int32 among integer types, so other integers and bool outputs are converted to int32. Computation in float32
    stays in float32. A module is copied to a new graph and exported in inference mode; the module itself does not
    change.

    Variables assigned during a run become states, which Core ML keeps between runs. States need iOS18, must be float16,
    and start as zeros. If an error is raised, nothing is written.

    Args:
        model: A Model, a Module, a Graph, or an NNGraph for inference.
        path: Directory NAME.mlpackage to write. An existing package is replaced.
        inputs: Dict keyed by input name. For a Graph, its values are placeholders; defaults to the placeholders that
            the outputs depend on. For a Module or NNGraph, it has one value per argument, in order: a shape (for
            float32), a (shape, dtype) pair, or a placeholder with the same type; -1 marks a dynamic dimension.
        outputs: Dict of tensors, keyed by output name. Required for a Graph; not accepted for a Module or NNGraph.
        target: Oldest system version that must run the package, "iOS15" to "iOS18". Defaults to "iOS17".
        largest: Upper bound of dynamic dimensions. Defaults to 1024.

    Raises:
        UnsupportedError: If operations cannot be expressed in MIL; the message lists all of them with reasons.
        GraphError: If the inputs or outputs do not match the model, or have names that Core ML does not allow.
        ImportError: If coremltools is not installed.
    Source: MIL's operations, https://apple.github.io/coremltools/source.

    Example:
        >>> model = mg.nn.Sequential(mg.nn.Linear(3), mg.nn.ReLU())
        >>> mg.coreml.export(model, "net.mlpackage", inputs={"x": (-1, 2)})  # doctest: +SKIP
    """
    target_name = next((name for name in TARGETS if name.lower() == target.lower()), None)
    if target_name is None:
        raise GraphError(f"[coreml.export] target must be one of {', '.join(TARGETS)}, got {shown(target)}")
    if not os.fspath(path).endswith(".mlpackage"):
        raise GraphError(f"[coreml.export] path must end in .mlpackage, got {shown(os.fspath(path))}")
    require("coremltools", "coreml", "mpsgraph.coreml.export")
    whole = as_model(model, inputs, outputs, "coreml.export")
    _require_names(whole)
    _save(_converted(whole, target_name, largest), os.fspath(path))


def _require_names(model: Model) -> None:
    for what, names in (("input", model.inputs), ("output", model.outputs)):
        for name in names:
            if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
                raise GraphError(
                    f"[coreml.export] the name of {what} {shown(name)} must consist of letters, digits, and "
                    "underscores, and must not start with a digit"
                )
    both = sorted(set(model.inputs) & set(model.outputs))
    if both:
        raise GraphError(f"[coreml.export] '{both[0]}' names both an input and an output: rename one of them")
    if not model.outputs or not model.inputs:
        raise GraphError("[coreml.export] the model must have at least one input and one output")


def _converted(model: Model, target: str, largest: int) -> Any:
    """Return the model converted by coremltools."""
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
                raise NotExpressible("Core ML does not support bool inputs")
            if kind == "fp16" and target == "iOS15":
                raise NotExpressible('float16 inputs need target="iOS16" or later')
            if tensor.shape is None or not 0 < len(tensor.shape) <= 5:
                raise NotExpressible(f"Core ML inputs must have rank 1 to 5, got shape {tensor.shape}")
        except NotExpressible as why:
            problems.append((tensor.operation, str(why)))
            continue
        sizes = [get_new_symbol() if size < 0 else size for size in tensor.shape]
        ranges = [ct.RangeDim(1, largest) if size < 0 else size for size in tensor.shape]
        placeholders[name] = mb.placeholder(sizes, getattr(types, kind))
        numpy_type = types.nptype_from_builtin(getattr(types, kind))
        stated.append(ct.TensorType(name=name, shape=ct.Shape(ranges), dtype=numpy_type))
    operations = needed(model.outputs.values())
    w = Writer(mb, int(target.removeprefix("iOS")), values_of(model.graph, operations))
    given = {w.fresh(name): tensor for name, tensor in model.inputs.items()}
    for name in model.outputs:
        w.fresh(name)
    kept: dict[str, Tensor] = {}
    for variable in assigned_variables(operations):
        try:
            shape = state_shape(w, variable)
        except NotExpressible as why:
            problems.append((variable.operation, str(why)))
            continue
        name = w.fresh(variable.name)
        kept[name], placeholders[name] = variable, mb.state_tensor_placeholder(shape, types.fp16)
    refuse_not_expressible(problems, "coreml.export", "MIL")
    program = Program()
    with Function(placeholders, opset_version=version) as function:
        for name, tensor in given.items():
            w.give(tensor, function.inputs[name])
        w.states = {variable: function.inputs[name] for name, variable in kept.items()}
        problems += w.write_all(operations, w.operation, _refusal)
        refuse_not_expressible(problems, "coreml.export", "MIL")
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
        raise UnsupportedError(f"[coreml.export] coremltools cannot convert the model: {error}") from error


def _refusal(operation: Operation) -> str | None:
    """Return why no function is registered that translates an operation to MIL, or None if there is one."""
    known = operation.kind == "placeholder" or operation.kind in exported_operations()
    return None if known else "MIL has no such operation"


def _save(model: Any, path: str) -> None:
    """Write the package. An existing package is kept if writing fails."""
    beside = f"{path.removesuffix('.mlpackage')}.{os.getpid()}.part.mlpackage"
    try:
        model.save(beside)
        if os.path.isdir(path) and not os.path.islink(path):
            if not os.path.isfile(os.path.join(path, "Manifest.json")):
                raise GraphError(
                    f"[coreml.export] {path} exists and is not a Core ML package: choose a different path or remove "
                    "the existing file"
                )
            shutil.rmtree(path)
        os.replace(beside, path)
    finally:
        if os.path.isdir(beside):
            shutil.rmtree(beside)


__all__ = ["TARGETS", "export", "exported_operations"]
