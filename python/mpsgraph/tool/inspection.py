"""`mpsgraphtool inspect`: inputs, outputs, sizes, operations, and what runs where."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from .._core import Device
from ..errors import Error
from ..model import Model
from . import models


def add_to(commands: Any) -> None:
    """The command's options."""
    command = commands.add_parser("inspect", help="tell what a model takes, gives and consists of")
    models.add_model(command)
    models.add_cases(command)
    command.add_argument("--plan", action="store_true", help="the kernels of the default device, for these sizes")
    command.set_defaults(command_runs=inspect)


def inspect(options: argparse.Namespace) -> str:
    """What there is to say, as text."""
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
    """float32[-1, 16]; -1 is any size, * any shape."""
    return f"{tensor.dtype}{'[*]' if tensor.shape is None else list(tensor.shape)}"


def _weights(model: Model) -> list[str]:
    """Their number, and the bytes of variables and constants."""
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
    """For which processors weights are kept as their kernels read them."""
    lines = []
    for manifest in sorted(model.glob("prepared/*.json")):
        written = json.loads(manifest.read_text())
        lines.append(f"  {written['for']}, {sum(entry['bytes'] for entry in written['of']) / 1e6:.2f} MB")
    return lines


def _stored(tensor: Any) -> str:
    """numpy's name of a type of the same size."""
    name = str(tensor.dtype)
    return "float16" if name == "bfloat16" else name


def _answer(model: Model, device: str, options: argparse.Namespace) -> str:
    """Whether a device takes the model as it is, and by what."""
    try:
        plan = _compiled(model, device, options).plan()
    except Error as error:
        return f"no: {error}".split("\n")[0]
    return f"yes, {plan.count(chr(10))} lines of plan (--plan shows the default device's)"


def _compiled(model: Model, device: str, options: argparse.Namespace) -> Any:
    """The model compiled for the sizes that are known or given, and 1 where one is open."""
    asked, feeds = models.shapes(options), dict[Any, Any]()
    for name, tensor in model.inputs.items():
        shape = asked.get(name, tensor.shape)
        feeds[tensor] = tensor.dtype, shape and tuple(1 if size < 0 else size for size in shape)
    return model.graph.on(Device(device)).compile(feeds, list(model.outputs.values()))
