"""The `mpsgraph` command: demos, and where the installed package keeps its C++ parts.

mpsgraph demo digits [--data DIR] [--iterations N] [--seed S] [--output DIR]; python -m mpsgraph --cmake-dir or
--include-dir prints a path for build systems.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import __version__
from .errors import Error

_PACKAGE = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Result: the process's exit status; errors of the package are printed as one line."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.cmake_dir:
        print(_PACKAGE / "lib" / "cmake" / "mpsgraph")
    elif options.include_dir:
        print(_PACKAGE / "include")
    elif options.command == "demo":
        return _demo(options)
    else:
        parser.print_help()
        return 2
    return 0


def _demo(options: argparse.Namespace) -> int:
    from .demo import digits

    try:
        digits.main(options.data, options.iterations, options.seed, options.output)
    except (Error, ImportError, OSError) as error:
        print(f"mpsgraph: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mpsgraph", description="Apple's MPSGraph model of training, on any machine.")
    parser.add_argument("--version", action="version", version=f"mpsgraph {__version__}")
    parser.add_argument("--cmake-dir", action="store_true", help="print the directory of the CMake package")
    parser.add_argument("--include-dir", action="store_true", help="print the directory of the C++ headers")
    commands = parser.add_subparsers(dest="command")
    demos = commands.add_parser("demo", help="run a complete example").add_subparsers(dest="demo", required=True)
    digits = demos.add_parser("digits", help="train Apple's digit classifier and draw what it sees")
    digits.add_argument(
        "--data", type=Path, metavar="DIR", help="MNIST's four IDX files instead of the built-in digits"
    )
    digits.add_argument("--iterations", type=int, default=300, metavar="N", help="training steps (default 300)")
    digits.add_argument("--seed", type=int, default=0, metavar="S", help="of weights, dropout and order (default 0)")
    digits.add_argument(
        "--output",
        type=Path,
        default=Path("demo-output"),
        metavar="DIR",
        help="for model and picture (default ./demo-output)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
