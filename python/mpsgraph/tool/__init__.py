"""The `mpsgraphtool` command: converts, inspects, runs, times, optimizes, and quantizes model files.

A model is a package, an ONNX file, or a Core ML model. Each module implements one or more commands.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .. import __version__
from ..errors import Error
from . import conversion, inspection, optimizing, running

COMMANDS = (conversion, inspection, running, optimizing)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status. Errors of the package are printed as one line."""
    options = _parser().parse_args(arguments)
    try:
        said = options.command_runs(options)
    except (Error, ImportError, OSError) as error:
        print(f"mpsgraphtool: {error}", file=sys.stderr)
        return 1
    print(said)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mpsgraphtool", description="Convert, inspect, run, time, optimize, and quantize model files."
    )
    parser.add_argument("--version", action="version", version=f"mpsgraph {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    for room in COMMANDS:
        room.add_to(commands)
    return parser
