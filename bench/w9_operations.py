"""W9: sorting, cumulative sums, Fourier transforms, and grid sampling, one operation at a time, in mpsgraph and peers.

Sorts take a million numbers; sizes are in workloads.py, input arrays in w9_inputs.py. numpy runs its default sort,
which is unstable, while mpsgraph and JAX sort stably. operations.py measures single operations of every family.
"""

from collections.abc import Callable

import mpsgraph as mg
from measuring.compare import Workload, compare
from measuring.options import Options, main
from measuring.protocol import Step
from measuring.report import Row
from measuring.sides import ours
from w9_inputs import INPUTS

OPERATIONS: dict[str, Callable[..., mg.Tensor]] = {
    "sort float32": lambda g, x: g.sort(x),
    "sort int32": lambda g, x: g.sort(x),
    "arg-sort float32": lambda g, x: g.arg_sort(x),
    "arg-sort int32": lambda g, x: g.arg_sort(x),
    "cumulative sum": lambda g, x: g.cumulative_sum(x, axis=1),
    "FFT of rows": lambda g, x: g.fast_fourier_transform(x, axes=1),
    "FFT of a plane": lambda g, x: g.fast_fourier_transform(x, axes=[0, 1]),
    "grid sample": lambda g, x, places: g.sample_grid(x, places),
}
TITLES = {
    "sort float32": "1 M elements",
    "sort int32": "1 M elements",
    "arg-sort float32": "1 M elements",
    "arg-sort int32": "1 M elements",
    "cumulative sum": "1024 x 4096, along rows",
    "FFT of rows": "256 x 4096, complex",
    "FFT of a plane": "1024 x 1024, complex",
    "grid sample": "8 images 64 x 64 x 64, bilinear",
}
TORCH_MODES = {
    "cumulative sum": ("eager", "compile"),
    "grid sample": ("eager", "eager channels_last", "compile", "compile channels_last"),
}


def workload(name: str) -> Workload:
    numpy = {} if name == "grid sample" else {"numpy": ("scipy.fft",) if "FFT" in name else ("numpy",)}
    peers = {"PyTorch": TORCH_MODES.get(name, ("eager",)), "JAX": ("jit",), **numpy}
    return Workload(f"W9 {name}", TITLES[name], target=1.0, trains=False, peers=peers)


def graph(name: str) -> Step:
    g, values = mg.Graph(), INPUTS[name]()
    inputs = [g.placeholder(value.shape, value.dtype) for value in values]
    executable = g.compile(dict(zip(inputs, values, strict=True)), [OPERATIONS[name](g, *inputs)])

    def step() -> None:
        executable.run(values)

    return step


BUILDERS = {name: lambda name=name: graph(name) for name in OPERATIONS}


def measure(options: Options) -> list[Row]:
    return [row for name in OPERATIONS for row in compare(workload(name), [ours(__file__, name, "graph")], options)]


if __name__ == "__main__":
    main(measure, BUILDERS)
