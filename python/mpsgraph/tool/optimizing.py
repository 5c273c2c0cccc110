"""`mpsgraphtool optimize`, `quantize` and `prepare`: a model as inference wants it, and for this processor."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import GraphError
from ..packages import prepare
from . import models


def add_to(commands: Any) -> None:
    """The commands' options."""
    optimize_it = commands.add_parser("optimize", help="fold what training needed, and write a package")
    models.add_model(optimize_it)
    models.add_cases(optimize_it)
    optimize_it.add_argument("--output", type=Path, required=True, metavar="PACKAGE")
    optimize_it.set_defaults(command_runs=optimize)
    quantize_it = commands.add_parser("quantize", help="compute in 8-bit integers, and write a package")
    models.add_model(quantize_it)
    models.add_cases(quantize_it)
    quantize_it.add_argument(
        "--calibration",
        type=models.pair,
        action="append",
        required=True,
        metavar="INPUT=FILE.npy",
        help="samples of what the model will see, one behind the other",
    )
    quantize_it.add_argument("--batch", type=int, default=32, metavar="N", help="samples a run (default 32)")
    quantize_it.add_argument("--scheme", choices=("symmetric", "asymmetric"), default="symmetric")
    quantize_it.add_argument("--output", type=Path, required=True, metavar="PACKAGE")
    quantize_it.set_defaults(command_runs=quantize)
    prepare_it = commands.add_parser("prepare", help="add to a package what this processor makes of its weights")
    prepare_it.add_argument("model", type=Path, metavar="PACKAGE")
    prepare_it.add_argument(
        "--shape", type=models.pair, action="append", default=[], metavar="INPUT=N,N,...", help="of an open input"
    )
    prepare_it.set_defaults(command_runs=prepare_package)


def optimize(options: argparse.Namespace) -> str:
    """See Model.optimize_for_inference. Result: what was written, and how many operations it has."""
    model = models.opened(options)
    ready = model.optimize_for_inference()
    ready.save(options.output)
    before, after = len(model.graph.operations), len(ready.graph.operations)
    return f"{options.output}: {before} operations became {after}"


def quantize(options: argparse.Namespace) -> str:
    """See Model.quantize. Result: what was written, and how far its outputs are from the model's."""
    if options.batch < 1:
        raise GraphError(f"--batch must be 1 or more, got {options.batch}")
    model = models.opened(options)
    samples = {name: models.array_from(Path(path)) for name, path in options.calibration}
    counts = {name: len(array) if array.ndim else 0 for name, array in samples.items()}
    if len(set(counts.values())) != 1 or not all(counts.values()):
        raise GraphError(
            f"calibration samples must be equally many for all inputs, and one at least; there are {counts}"
        )
    count = next(iter(counts.values()))
    batches = [
        {name: array[at : at + options.batch] for name, array in samples.items()}
        for at in range(0, count, options.batch)
    ]
    quantized = model.quantize(batches, scheme=options.scheme)
    quantized.save(options.output)
    lines = [f"{options.output}"]
    exact, found = model.run(batches[0]), quantized.run(batches[0])
    for name, wanted in exact.items():
        reference = wanted.numpy().astype(np.float64)
        difference = np.abs(found[name].numpy().astype(np.float64) - reference)
        largest = float(np.abs(reference).max(initial=0.0))
        lines.append(f"  {name}: differs by {float(difference.max(initial=0.0)):.3g} at most, of {largest:.3g}")
    return "\n".join(lines)


def prepare_package(options: argparse.Namespace) -> str:
    """See mpsgraph.prepare; for the processor, which alone has such forms. Result: what was written, whom it fits."""
    made = prepare(options.model, models.shapes(options), device="cpu")
    return f"{made.file}: {made.constants} weights, {made.bytes / 1e6:.1f} MB\n  for {made.made_for}"
