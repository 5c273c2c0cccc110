"""The `mpsgraphtool` command: converts models of other formats to packages.

mpsgraphtool convert --onnx MODEL --output DIR --name NAME writes DIR/NAME.mpsgraph, which mpsgraph.load and the C++
library open without the package that reads the other format.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from . import __version__
from ._shown import shown
from .errors import Error, UnsupportedError

if TYPE_CHECKING:
    from .onnx import DeferredModel


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Result: the process's exit status; errors of the package are printed as one line."""
    options = _parser().parse_args(arguments)
    try:
        path = convert(options)
    except (Error, ImportError, OSError) as error:
        print(f"mpsgraphtool: {error}", file=sys.stderr)
        return 1
    print(path)
    return 0


def convert(options: argparse.Namespace) -> Path:
    """Writes the package that the options of the command ask for. Result: its path."""
    from . import onnx

    shapes = {name: tuple(_integers(text, f"--shape {name}")) for name, text in options.shape}
    values = {name: np.array(_integers(text, f"--value {name}"), np.int64) for name, text in options.value}
    model = onnx.load(options.onnx, trainable=not options.fixed, shapes=shapes, values=values)
    if isinstance(model, onnx.DeferredModel):
        raise UnsupportedError(_what_is_missing(model))
    path: Path = options.output / f"{options.name or options.onnx.stem}.mpsgraph"
    path.parent.mkdir(parents=True, exist_ok=True)
    model.save(path)
    return path


def _what_is_missing(model: DeferredModel) -> str:
    """Which options would let the model be built."""
    values, shapes = model.deciding
    wanted = [*(f"--value {name}=N,N,..." for name in values), *(f"--shape {name}=N,N,..." for name in shapes)]
    return (
        "shapes inside this model depend on its inputs, so that there is no one graph for all of them: "
        f"convert it for one case, with {' '.join(wanted)}"
    )


def _integers(text: str, what: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part]
    except ValueError:
        raise Error(f"{what}: {shown(text)} is no list of whole numbers, such as 1,3,224,224") from None


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not NAME=NUMBERS")
    return name, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mpsgraphtool", description="Converts models to packages of mpsgraph.")
    parser.add_argument("--version", action="version", version=f"mpsgraph {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("convert", help="write a package")
    command.add_argument("--onnx", type=Path, required=True, metavar="MODEL", help="an ONNX file")
    command.add_argument("--output", type=Path, default=Path("."), metavar="DIR", help="where (default .)")
    command.add_argument("--name", metavar="NAME", help="of the package, without .mpsgraph (default: the model's)")
    command.add_argument("--fixed", action="store_true", help="weights become constants, which cannot be trained")
    command.add_argument(
        "--shape", type=_pair, action="append", default=[], metavar="INPUT=N,N,...", help="of an input, -1: any size"
    )
    command.add_argument(
        "--value", type=_pair, action="append", default=[], metavar="INPUT=N,N,...", help="of an input of integers"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
