"""The `mpsgraph` command: demos, the self-test, profiles of scripts, distributed training, language models, and paths
for build systems.

Usage:
    mpsgraph demo digits [--data DIR] [--iterations N] [--seed S] [--output DIR]
    mpsgraph selftest [--device NAME] [--json FILE] [--quick | --all] [--only PART] [--match TEXT] [--draw FILE]
    mpsgraph profile [--by WHAT] [--top N] [--trace FILE] script.py ...
    mpsgraph launch -n N [--restarts R] [--threads T] [--hosts A,B] [--unbound] script.py ...
    mpsgraph launch --engine jax [-n N] [--restarts R] [--coordinator HOST:PORT --nodes M --node I] script.py ...
    mpsgraph lm generate | chat | quantize | serve PATH ...
    python -m mpsgraph --cmake-dir | --include-dir
"""

from __future__ import annotations

import argparse
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from . import __version__
from .errors import Error

_PACKAGE = Path(__file__).parent
_SELFTEST_PARTS = (
    "operations",
    "gradients",
    "repeats",
    "nodes",
    "runtime",
    "digits",
    "speed",
    "probes",
    "oracle",
    "validation",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status of the process. Errors of the package are printed as one line."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.cmake_dir:
        print(_PACKAGE / "lib" / "cmake" / "mpsgraph")
    elif options.include_dir:
        print(_PACKAGE / "include")
    elif options.command == "demo":
        return _demo(options)
    elif options.command == "selftest":
        from . import selftest

        if options.draw is not None:
            return selftest.draw(options.draw)
        return selftest.main(options.device, options.json, options.quick, options.only, options.all, options.match)
    elif options.command == "profile":
        return _profile(options)
    elif options.command == "launch":
        return _launch(options)
    elif options.command == "lm":
        return _language_model(options)
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


def _profile(options: argparse.Namespace) -> int:
    """Run a script as `python script.py ...` does, then print the table of kernels, even if the script failed."""
    from . import profiler

    if not options.script.is_file():
        print(f"mpsgraph: script not found: {options.script}", file=sys.stderr)
        return 1
    sys.argv = [str(options.script), *options.arguments]
    sys.path.insert(0, str(options.script.parent.resolve()))
    with profiler.profile() as profile:
        try:
            runpy.run_path(str(options.script), run_name="__main__")
            status: object = 0
        except SystemExit as end:
            status = end.code
        except Exception:
            traceback.print_exc()
            status = 1
    print(profile.table(options.by, options.top), end="")
    if options.trace:
        profile.save_chrome_trace(options.trace)
    if isinstance(status, str):
        print(status, file=sys.stderr)
    return status if isinstance(status, int) else int(status is not None)


def _launch(options: argparse.Namespace) -> int:
    from .distributed.launch import Job, launch, machines_of

    if not options.script.is_file():
        print(f"mpsgraph: script not found: {options.script}", file=sys.stderr)
        return 1
    of_mpi = {"--threads": options.threads, "--hosts": options.hosts, "--unbound": options.unbound or None}
    of_jax = {f"--{name}": getattr(options, name) for name in ("coordinator", "nodes", "node", "cards")}
    for name, value in (of_mpi if options.engine == "jax" else of_jax).items():
        if value is not None:
            other = "mpi" if options.engine == "jax" else "jax"
            print(
                f"mpsgraph launch: {name} is an option of --engine {other}, got --engine {options.engine}",
                file=sys.stderr,
            )
            return 2
    if options.engine == "mpi" and options.processes is None:
        print("mpsgraph launch: MPI needs the number of processes: pass -n N", file=sys.stderr)
        return 2
    try:
        script, processes = str(options.script), options.processes or 1
        if options.engine == "jax":
            machines = machines_of(options.coordinator, options.nodes, options.node)
            job = Job(script, options.arguments, processes, machines=machines, cards=options.cards)
        else:
            shared = processes, options.threads, options.hosts
            job = Job(script, options.arguments, *shared, bound=not options.unbound)
        return launch(job, options.engine, options.restarts)
    except Error as error:
        print(f"mpsgraph: {error}", file=sys.stderr)
        return 1


def _language_model(options: argparse.Namespace) -> int:
    from . import lm_command as command

    try:
        return command.run(options)
    except (Error, ImportError, OSError) as error:
        print(f"mpsgraph: {error}", file=sys.stderr)
        return 1


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, got {text}")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mpsgraph", description="Train neural networks with Apple's MPSGraph programming model, on any machine."
    )
    parser.add_argument("--version", action="version", version=f"mpsgraph {__version__}")
    parser.add_argument("--cmake-dir", action="store_true", help="print the directory of the CMake package and exit")
    parser.add_argument("--include-dir", action="store_true", help="print the directory of the C++ headers and exit")
    commands = parser.add_subparsers(dest="command")
    demos = commands.add_parser("demo", help="run a complete example").add_subparsers(dest="demo", required=True)
    digits = demos.add_parser("digits", help="train Apple's digit classifier and draw its predictions")
    digits.add_argument(
        "--data", type=Path, metavar="DIR", help="directory with MNIST's four IDX files (default: built-in digits)"
    )
    digits.add_argument(
        "--iterations", type=int, default=300, metavar="N", help="number of training steps (default: 300)"
    )
    digits.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="S",
        help="seed of the weights, dropout, and order of the data (default: 0)",
    )
    digits.add_argument(
        "--output",
        type=Path,
        default=Path("demo-output"),
        metavar="DIR",
        help="directory for the model and the picture (default: ./demo-output)",
    )
    _add_selftest(commands)
    profile = commands.add_parser("profile", help="run a script and report the time spent in each kernel")
    profile.add_argument(
        "--by", choices=("kernel", "kind"), default="kind", help="unit of the table's rows (default: kind)"
    )
    profile.add_argument("--top", type=int, default=20, metavar="N", help="number of rows (default: 20)")
    profile.add_argument("--trace", type=Path, metavar="FILE", help="write a timeline to open in ui.perfetto.dev")
    profile.add_argument("script", type=Path, help="script to run, followed by its arguments")
    profile.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...")
    start = commands.add_parser("launch", help="run a script in several processes that train together (MPI or JAX)")
    start.add_argument(
        "-n",
        "--processes",
        type=_positive,
        metavar="N",
        help="number of processes of MPI, or of JAX on this machine (default for JAX: 1)",
    )
    start.add_argument(
        "--engine", choices=("mpi", "jax"), default="mpi", help="what connects the processes (default: mpi)"
    )
    start.add_argument(
        "--restarts",
        type=_count,
        default=0,
        metavar="R",
        help="how often to start all processes again after one has failed (default: 0)",
    )
    start.add_argument(
        "--coordinator", metavar="HOST:PORT", help="address of the first machine, for JAX on several machines"
    )
    start.add_argument("--nodes", type=_positive, metavar="M", help="number of machines, for JAX (default: 1)")
    start.add_argument("--node", type=_count, metavar="I", help="index of this machine, for JAX (default: 0)")
    start.add_argument(
        "--cards",
        type=_positive,
        metavar="K",
        help="GPUs of each process, for JAX (default: all for one process, else 1)",
    )
    start.add_argument(
        "--threads",
        type=_positive,
        metavar="T",
        help="threads of each process (default: an equal share of the processors)",
    )
    start.add_argument(
        "--hosts", metavar="A,B", help="hosts among which to distribute the processes (default: this host)"
    )
    start.add_argument(
        "--unbound",
        action="store_true",
        help="let the system move processes between processors, for hosts that run other programs as well "
        "(default: each process is bound to its own processors)",
    )
    start.add_argument("script", type=Path, help="script to run, followed by its arguments")
    start.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...")
    _add_language_models(commands)
    return parser


def _add_language_models(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from . import lm_command as command

    command.add_commands(commands)


def _add_selftest(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    test = commands.add_parser(
        "selftest", help="test the package on this machine and write a report to attach to an issue"
    )
    test.add_argument("--device", metavar="NAME", help='device to test, "metal" or "cpu" (default: the default device)')
    test.add_argument(
        "--json", type=Path, metavar="FILE", help="write the full report, and a picture of it next to the file"
    )
    amount = test.add_mutually_exclusive_group()
    amount.add_argument(
        "--quick", action="store_true", help="test one case per operation and shorten the runs: about a minute"
    )
    amount.add_argument("--all", action="store_true", help="test everything, without the limit of about ten minutes")
    test.add_argument("--only", action="append", choices=_SELFTEST_PARTS, help="test only this part; may be repeated")
    test.add_argument("--match", default="", metavar="TEXT", help="run only checks whose name contains this text")
    test.add_argument("--draw", type=Path, metavar="FILE", help="draw the picture of an existing report and exit")


if __name__ == "__main__":
    sys.exit(main())
