"""Part repeats: runs the same program many times on the same inputs and compares the results bit by bit.

The programs are those for which other users of MPSGraph have reported results that change from run to run or are wrong
for certain shapes. Results are also compared with float64 on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import mpsgraph as mg

from .. import shared
from ..checks import FAILED, WRONG, Check, Mismatch, Options, Result, difference
from .operations import device_name

RUNS, QUICK_RUNS = 50, 5
Build = Callable[[mg.Graph, list[mg.Tensor]], mg.Tensor]
# Largest error relative to the largest expected element: a few roundings of the dtype.
TOLERANCES = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 6e-2}
HALVES = ("float16", "bfloat16")


@dataclass(frozen=True)
class Program:
    """A program whose results must not change from run to run."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    build: Build
    dtypes: tuple[str, ...] = ("float32", *HALVES)
    offset: float = 0.0  # Added to the inputs, which are normally distributed.


def matmul(g: mg.Graph, x: list[mg.Tensor]) -> mg.Tensor:
    """Build x0 @ x1."""
    return g.matrix_multiplication(x[0], x[1])


def matmul_with_transposed(g: mg.Graph, x: list[mg.Tensor]) -> mg.Tensor:
    """Build x0 @ x1 transposed, as in the gradient of a linear layer for its input."""
    return g.matrix_multiplication(x[0], g.swap_axes(x[1], -1, -2))


def matmul_plus_bias(g: mg.Graph, x: list[mg.Tensor]) -> mg.Tensor:
    """Build x0 @ x1 + x2, a linear layer, whose bias MPSGraph may fuse into the matmul."""
    return g.addition(g.matrix_multiplication(x[0], x[1]), x[2])


def reshaped_matmul(g: mg.Graph, x: list[mg.Tensor]) -> mg.Tensor:
    """Build a matmul between two reshapes that remove and insert axes of length 1."""
    longer = g.reshape(x[0], (1, 1, 33, 96))
    return g.reshape(g.matrix_multiplication(longer, x[1]), (1, 33, 1, 80))


def matmul_of_broadcast(g: mg.Graph, x: list[mg.Tensor]) -> mg.Tensor:
    """Build a matmul whose first operand is one number for each row, as in the gradient of a sum."""
    return g.matrix_multiplication(g.broadcast_to(x[0], (64, 1)), x[1])


def total(g: mg.Graph, x: list[mg.Tensor]) -> mg.Tensor:
    """Build the sum of all elements."""
    return g.reduction_sum(x[0])


def variance_of_all(g: mg.Graph, x: list[mg.Tensor]) -> mg.Tensor:
    """Build the variance of all elements."""
    return g.variance(x[0])


def variance(g: mg.Graph, x: list[mg.Tensor]) -> mg.Tensor:
    """Build the variance along the last axis."""
    return g.variance(x[0], axes=[-1])


def broadcast_sum(g: mg.Graph, x: list[mg.Tensor]) -> mg.Tensor:
    """Build a sum in which one operand is broadcast, that is, has strides of 0."""
    return g.addition(g.broadcast_to(x[0], (64, 32, 48)), x[1])


def attention(g: mg.Graph, x: list[mg.Tensor]) -> mg.Tensor:
    """Build attention with a mask that is added to the scores."""
    return g.scaled_dot_product_attention(x[0], x[1], x[2], x[3], scale=0.25)


def transposed_attention(g: mg.Graph, x: list[mg.Tensor]) -> mg.Tensor:
    """Build attention over images with channels first, where the weights are transposed."""
    scores = g.matrix_multiplication(g.swap_axes(x[0], -1, -2), x[1]) * 0.25
    return g.matrix_multiplication(x[2], g.swap_axes(g.softmax(scores, -1), -1, -2))


def softmax(g: mg.Graph, x: list[mg.Tensor]) -> mg.Tensor:
    """Build the softmax along the last axis."""
    return g.softmax(x[0], axis=-1)


PROGRAMS = (
    Program("matmul of 2-D tensors", ((64, 96), (96, 80)), matmul),
    Program("matmul of 3-D tensors", ((4, 33, 96), (4, 96, 80)), matmul),
    Program("matmul of a 3-D tensor and a matrix", ((4, 33, 96), (96, 80)), matmul),
    Program("matmul of 4-D tensors", ((2, 3, 65, 64), (2, 3, 64, 65)), matmul),
    Program("matmul with a transposed matrix", ((64, 96), (80, 96)), matmul_with_transposed),
    Program("matmul with transposed 3-D tensors", ((4, 33, 96), (4, 80, 96)), matmul_with_transposed),
    Program("matmul plus bias", ((64, 96), (96, 80), (80,)), matmul_plus_bias),
    Program("matmul plus bias, one row", ((1, 96), (96, 80), (80,)), matmul_plus_bias),
    Program("matmul plus bias, one row per sequence", ((5, 1, 96), (96, 80), (80,)), matmul_plus_bias),
    Program("matmul plus bias, one column", ((64, 96), (96, 1), (1,)), matmul_plus_bias),
    Program("matmul plus bias, 70,000 sequences", ((70_000, 2, 4), (4, 3), (3,)), matmul_plus_bias),
    Program("matmul between reshapes with axes of length 1", ((1, 33, 96), (96, 80)), reshaped_matmul),
    Program("variance", ((64, 1024),), variance),
    Program("variance of large numbers", ((64, 1000),), variance, ("float32",), offset=1000.0),
    Program("variance of 1.1 million numbers", ((3, 600, 610),), variance_of_all, ("float32",)),
    Program("sum of 1.1 million numbers", ((3, 600, 610),), total, ("float32",), offset=1.0),
    Program("matmul with a broadcast operand", ((1, 1), (1, 16)), matmul_of_broadcast),
    Program("sum with a broadcast operand", ((48,), (64, 32, 48)), broadcast_sum),
    Program("softmax", ((64, 1000),), softmax),
    Program("attention of 12 sequences", (*3 * ((12, 2, 33, 16),), (33, 33)), attention),
    Program("attention with transposed weights", 3 * ((2, 2, 16, 48),), transposed_attention),
)


def checks(options: Options) -> list[Check]:
    """Return one check for each program and dtype."""
    return [
        Check(
            f"{program.name}, {dtype}",
            _check(program, dtype, options),
            group=program.name,
            family="repeats",
            about=_inputs(program, dtype),
        )
        for program in PROGRAMS
        for dtype in (program.dtypes[:1] if options.quick else program.dtypes)
    ]


def _inputs(program: Program, dtype: str) -> Callable[[], str]:
    shapes = " and ".join(str(list(shape)) for shape in program.shapes)
    mean = f" around {program.offset:g}" if program.offset else ""
    return lambda: f"inputs {dtype} {shapes}, normally distributed{mean}"


def _check(program: Program, dtype: str, options: Options) -> Callable[[], Result | None]:
    return lambda: repeat(program, dtype, device_name(options), QUICK_RUNS if options.quick else RUNS)


def run_on(program: Program, arrays: list[np.ndarray], dtype: str, device: str, runs: int) -> list[np.ndarray]:
    """Compile the program once and run it several times; return one array of float64 per run."""
    dtypes = shared.module("harness.dtypes")
    g = mg.Graph()
    inputs = [g.placeholder(array.shape, dtype) for array in arrays]
    result = program.build(g, inputs)
    feeds = {x: dtypes.array(array, dtype) for x, array in zip(inputs, arrays, strict=True)}
    return [dtypes.read(g.run(feeds, result, device=device)).astype(np.float64) for _ in range(runs)]


def repeat(program: Program, dtype: str, device: str, runs: int) -> Result | None:
    """Run a program several times. Fail if the results differ from run to run, or from float64 on the CPU."""
    dtypes = shared.module("harness.dtypes")
    rng = np.random.default_rng(17)
    # Both sides compute with the same rounded inputs.
    arrays = [
        dtypes.plain(dtypes.array(rng.standard_normal(shape) + program.offset, dtype), dtype).astype(np.float64)
        for shape in program.shapes
    ]
    (wanted,) = run_on(program, arrays, "float64", "cpu", 1)
    found = run_on(program, arrays, dtype, device, runs)
    scale = float(np.abs(wanted).max())
    errors = [float(np.abs(result - wanted).max()) / scale for result in found]
    changed = [number for number, result in enumerate(found) if not np.array_equal(result, found[0])]
    wrong = [number for number, error in enumerate(errors) if not error <= TOLERANCES[dtype]]
    if not changed and not wrong:
        return None
    worst = max(range(runs), key=lambda number: (not errors[number] <= TOLERANCES[dtype], errors[number]))
    numbers = {
        **difference(found[worst], wanted),
        "runs": runs,
        "runs that differ from the first": len(changed),
        "runs with wrong results": len(wrong),
        "largest relative error": errors[worst],
    }
    message = (
        f"{len(changed)} of {runs} runs differ from the first run, and {len(wrong)} have wrong results "
        f"(largest error {errors[worst]:.3g} of the largest element, allowed {TOLERANCES[dtype]:g})"
    )
    if changed and not wrong:
        return Result(FAILED, message, numbers, WRONG)
    raise Mismatch(message, numbers)
