"""The `mpsgraphtool` command: models in files, without a program around them.

convert writes a package from another format; inspect tells what a model is; run and bench run it; optimize and quantize
write it anew, as inference wants it. A model is a package, an ONNX file or a Core ML model. Each command is a file of
this room.
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
    """Runs the command. Result: the process's exit status; errors of the package are printed as one line."""
    options = _parser().parse_args(arguments)
    try:
        said = options.command_runs(options)
    except (Error, ImportError, OSError) as error:
        print(f"mpsgraphtool: {error}", file=sys.stderr)
        return 1
    print(said)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mpsgraphtool", description="Models in files: converted, inspected, run.")
    parser.add_argument("--version", action="version", version=f"mpsgraph {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    for room in COMMANDS:
        room.add_to(commands)
    return parser
