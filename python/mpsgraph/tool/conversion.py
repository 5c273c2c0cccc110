"""`mpsgraphtool convert`: a package of another format's model; on a Mac, one of Apple's, too."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..errors import UnsupportedError
from . import models

PLATFORMS = ("macOS", "iOS", "tvOS", "visionOS")


def add_to(commands: Any) -> None:
    """The command's options."""
    command = commands.add_parser("convert", help="write a package of an ONNX file or a Core ML model")
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument("--onnx", type=Path, metavar="MODEL", help="an ONNX file")
    source.add_argument("--coreml", type=Path, metavar="MODEL", help="a .mlpackage or .mlmodel of Core ML")
    command.add_argument("--output", type=Path, default=Path("."), metavar="DIR", help="where (default .)")
    command.add_argument("--name", metavar="NAME", help="of the package, without .mpsgraph (default: the model's)")
    command.add_argument("--fixed", action="store_true", help="weights become constants, which cannot be trained")
    models.add_cases(command)
    command.add_argument(
        "--target-platform", choices=PLATFORMS, help="writes Apple's NAME.mpsgraphpackage for it instead; needs a Mac"
    )
    command.add_argument("--minimum-os", default="", metavar="VERSION", help="the oldest system of that platform")
    command.set_defaults(command_runs=convert)


def convert(options: argparse.Namespace) -> Path:
    """Writes the package that is asked for. Result: its path."""
    apples = options.target_platform is not None
    if options.minimum_os and not apples:
        raise UnsupportedError("--minimum-os is for --target-platform: our own packages run on every system")
    source: Path = options.onnx or options.coreml
    read = models.from_onnx if options.onnx else models.from_coreml
    model = read(source, options, trainable=not options.fixed and not apples)
    name = options.name or source.stem
    path: Path = options.output / f"{name}.{'mpsgraphpackage' if apples else 'mpsgraph'}"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not apples:
        model.save(path)
        return path
    from .._core import Device

    feeds = {tensor: (tensor.dtype, tensor.shape) for tensor in model.inputs.values()}
    executable = model.graph.on(Device("metal")).compile(feeds, list(model.outputs.values()))
    executable.serialize(str(path), options.target_platform, options.minimum_os)
    return path
