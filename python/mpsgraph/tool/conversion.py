"""`mpsgraphtool convert`: writes a package from an ONNX or Core ML model or, on a Mac, one of Apple's packages."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..errors import UnsupportedError
from . import models

PLATFORMS = ("macOS", "iOS", "tvOS", "visionOS")


def add_to(commands: Any) -> None:
    """Add the `convert` command and its options to the parser."""
    command = commands.add_parser("convert", help="convert an ONNX file or a Core ML model to a package")
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument("--onnx", type=Path, metavar="MODEL", help="ONNX file")
    source.add_argument("--coreml", type=Path, metavar="MODEL", help="Core ML model, a .mlpackage or .mlmodel")
    command.add_argument("--output", type=Path, default=Path("."), metavar="DIR", help="output directory (default: .)")
    command.add_argument(
        "--name", metavar="NAME", help="name of the package, without .mpsgraph (default: the model's name)"
    )
    command.add_argument("--fixed", action="store_true", help="store weights as constants, which cannot be trained")
    models.add_cases(command)
    command.add_argument(
        "--target-platform",
        choices=PLATFORMS,
        help="write Apple's NAME.mpsgraphpackage for this platform instead; needs a Mac",
    )
    command.add_argument(
        "--minimum-os", default="", metavar="VERSION", help="oldest version of the platform to support"
    )
    command.set_defaults(command_runs=convert)


def convert(options: argparse.Namespace) -> Path:
    """Write the requested package and return its path."""
    apples = options.target_platform is not None
    if options.minimum_os and not apples:
        raise UnsupportedError("--minimum-os requires --target-platform; mpsgraph packages run on every system")
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
