"""Commands that prepare a model for inference or for this processor: `mpsgraphtool optimize`, `quantize`, and
`prepare`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import GraphError
from ..packages import prepare
from . import models


def add_to(commands: Any) -> None:
    """Add the commands and their options to the parser."""
    optimize_it = commands.add_parser(
        "optimize", help="remove training-only operations, fold constants, and write a package"
    )
    models.add_model(optimize_it)
    models.add_cases(optimize_it)
    optimize_it.add_argument("--output", type=Path, required=True, metavar="PACKAGE")
    optimize_it.set_defaults(command_runs=optimize)
    quantize_it = commands.add_parser("quantize", help="convert the model to 8-bit integers and write a package")
    models.add_model(quantize_it)
    models.add_cases(quantize_it)
    quantize_it.add_argument(
        "--calibration",
        type=models.pair,
        action="append",
        required=True,
        metavar="INPUT=FILE.npy",
        help="array of representative inputs, one sample per row",
    )
    quantize_it.add_argument("--batch", type=int, default=32, metavar="N", help="samples per run (default: 32)")
    quantize_it.add_argument("--scheme", choices=("symmetric", "asymmetric"), default="symmetric")
    quantize_it.add_argument("--output", type=Path, required=True, metavar="PACKAGE")
    quantize_it.set_defaults(command_runs=quantize)
    prepare_it = commands.add_parser("prepare", help="add weights in this processor's kernel layout to a package")
    prepare_it.add_argument("model", type=Path, metavar="PACKAGE")
    prepare_it.add_argument(
        "--shape",
        type=models.pair,
        action="append",
        default=[],
        metavar="INPUT=N,N,...",
        help="shape of an input with dynamic dimensions",
    )
    prepare_it.set_defaults(command_runs=prepare_package)


def optimize(options: argparse.Namespace) -> str:
    """Run Model.optimize_for_inference and save the result. Return a message with the numbers of operations."""
    model = models.opened(options)
    ready = model.optimize_for_inference()
    ready.save(options.output)
    before, after = len(model.graph.operations), len(ready.graph.operations)
    return f"{options.output}: {before} operations became {after}"


def quantize(options: argparse.Namespace) -> str:
    """Run Model.quantize and save the quantized model. Return a report that compares the outputs of both models."""
    if options.batch < 1:
        raise GraphError(f"--batch must be at least 1, got {options.batch}")
    model = models.opened(options)
    samples = {name: models.array_from(Path(path)) for name, path in options.calibration}
    counts = {name: len(array) if array.ndim else 0 for name, array in samples.items()}
    if len(set(counts.values())) != 1 or not all(counts.values()):
        raise GraphError(f"--calibration needs the same number of samples, at least one, for every input; got {counts}")
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
        lines.append(
            f"  {name}: differs by {float(difference.max(initial=0.0)):.3g} at most; the largest value is {largest:.3g}"
        )
    return "\n".join(lines)


def prepare_package(options: argparse.Namespace) -> str:
    """Prepare a package's weights for this processor with mpsgraph.prepare.

    Return a message with the file, the number of weights, and the processors that can use them.
    """
    made = prepare(options.model, models.shapes(options), device="cpu")
    return f"{made.file}: {made.constants} weights, {made.bytes / 1e6:.1f} MB\n  for {made.made_for}"
