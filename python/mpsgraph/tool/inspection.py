"""`mpsgraphtool inspect`: prints inputs, outputs, sizes, operations, and supported devices."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from .._core import Device
from ..errors import Error, PackageError
from ..model import Model
from . import models


def add_to(commands: Any) -> None:
    """Add the `inspect` command and its options to the parser."""
    command = commands.add_parser(
        "inspect", help="print inputs, outputs, weights, operations, and supported devices of a model"
    )
    models.add_model(command)
    models.add_cases(command)
    command.add_argument(
        "--plan", action="store_true", help="also print the kernels of the default device for these sizes"
    )
    command.set_defaults(command_runs=inspect)


def inspect(options: argparse.Namespace) -> str:
    """Return the description of a model as text."""
    model = models.opened(options)
    lines = [f"{options.model.name}"]
    for what, tensors in (("inputs", model.inputs), ("outputs", model.outputs)):
        lines += ["", what] + [f"  {name:24} {_type(tensor)}" for name, tensor in tensors.items()]
    lines += ["", "weights", *_weights(model)]
    kinds = Counter(operation.kind for operation in model.graph.operations)
    lines += ["", "operations", *(f"  {count:6} {kind}" for kind, count in kinds.most_common())]
    lines += ["", "runs on", *(f"  {name:8} {_answer(model, name, options)}" for name in Device.names())]
    if prepared := _prepared(options.model):
        lines += ["", "prepared for", *prepared]
    if options.plan:
        lines += ["", "plan", _compiled(model, Device.default().name, options).plan()]
    return "\n".join(lines)


def _type(tensor: Any) -> str:
    """Return a type such as float32[-1, 16]; -1 is a dynamic dimension, and * means that the rank is unknown."""
    return f"{tensor.dtype}{'[*]' if tensor.shape is None else list(tensor.shape)}"


def _weights(model: Model) -> list[str]:
    """Describe the number of parameters, and the sizes of variables and constants."""
    variables = list(model.parameters.values())
    count = sum(int(np.prod(v.shape or (1,))) for v in variables)
    held = sum(int(np.prod(v.shape or (1,))) * np.dtype(_stored(v)).itemsize for v in variables)
    constants = [o for o in model.graph.operations if o.kind == "constant"]
    fixed = sum(int(np.prod(o.outputs[0].shape or (1,))) * np.dtype(_stored(o.outputs[0])).itemsize for o in constants)
    return [
        f"  {count:,} parameters in {len(variables)} variables, {held / 1e6:.2f} MB",
        f"  {len(constants)} constants, {fixed / 1e6:.2f} MB",
    ]


def _prepared(model: Path) -> list[str]:
    """Return the names of the processors for which the package holds weights in the layout of their kernels."""
    lines = []
    for manifest in sorted(model.glob("prepared/*.json")):
        try:
            written = json.loads(manifest.read_bytes())
            size = sum(entry["bytes"] for entry in written["of"]) / 1e6
            lines.append(f"  {written['for']}, {size:.2f} MB")
        except (OSError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise PackageError(f"{manifest} is damaged: {error}; prepare the package again") from error
    return lines


def _stored(tensor: Any) -> str:
    """Return the name of a numpy dtype with the same element size, because numpy has no bfloat16."""
    name = str(tensor.dtype)
    return "float16" if name == "bfloat16" else name


def _answer(model: Model, device: str, options: argparse.Namespace) -> str:
    """Return "yes" and the size of the plan if a device supports the model, otherwise "no" and the reason."""
    try:
        plan = _compiled(model, device, options).plan()
    except Error as error:
        return f"no: {error}".split("\n")[0]
    return f"yes; the plan has {plan.count(chr(10))} lines (--plan prints the plan of the default device)"


def _compiled(model: Model, device: str, options: argparse.Namespace) -> Any:
    """Compile the model for the shapes on the command line; dynamic dimensions without a given size become 1."""
    asked, feeds = models.shapes(options), dict[Any, Any]()
    for name, tensor in model.inputs.items():
        shape = asked.get(name, tensor.shape)
        feeds[tensor] = tensor.dtype, shape and tuple(1 if size < 0 else size for size in shape)
    return model.graph.on(Device(device)).compile(feeds, list(model.outputs.values()))
