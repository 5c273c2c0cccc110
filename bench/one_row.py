"""One row times weights: time relative to reading the weights once, in mpsgraph, PyTorch, and ONNX Runtime.

    python bench/one_row.py [--threads 1 [--processor]] [--rounds 7] [--only REGEX]

Run it in an environment with mpsgraph and, for the other columns, PyTorch, ONNX Runtime, and onnx. Each case is a chain
of layers whose weights together exceed the caches, with one row as input. The bound is the time in which the threads of
this package sum an array of 256 MB, scaled to the bytes of the weights and their scales. All sides and the bound
alternate in one process. A cell shows the median over all rounds of a side's time divided by the bound's time in the
same round, and the quartiles. A turn's time is that of its fastest run. With --processor, it is the least processor
time of a run, which depends less on other processes. Each turn first waits until threads of the previous side no longer
spin.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

SHAPES = ((2048, 2048), (4096, 4096), (768, 3072))
TOTAL = 96 << 20  # Bytes of a chain's weights, larger than the caches.
READ = 256 << 20
SPINNING = 0.03  # Seconds for which threads of other libraries may occupy their processors after a run.
GROUP = 32  # Weights that share a scale, in formats of 4 bits.
FORMATS = {"float32": 4.0, "bfloat16": 2.0, "int8": 1.0, "int4": 0.5 + 4 / GROUP}  # bytes per weight
READ_ONCE = """
typedef float Floats __attribute__((vector_size(32)));

void read_once(mpsgraph::custom::Call& call) {
  const auto x = call.operand<float>(0);
  const auto y = call.result<float>(0);
  const int64_t each = x.size() / y.size(), walk = each / 8;
  call.parallel_for(y.size(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const float* from = &x[part * each];
      Floats sums[8] = {};
      for (int64_t i = 0; i < walk; i += 8)
        for (int w = 0; w < 8; ++w) {
          Floats v;
          __builtin_memcpy(&v, from + w * walk + i, sizeof v);
          sums[w] += v;
        }
      Floats all = {};
      for (const Floats& sum : sums) all += sum;
      y[part] = all[0] + all[1] + all[2] + all[3] + all[4] + all[5] + all[6] + all[7];
    }
  });
}
"""
SIDES = ("mpsgraph", "PyTorch", "ONNX Runtime")
Run = Callable[[], object]


def chain(shape: tuple[int, int], dtype: str) -> list[tuple[int, int]]:
    """Return the sizes (inputs, outputs) of layers whose weights exceed the caches."""
    count = math.ceil(TOTAL / (shape[0] * shape[1] * FORMATS[dtype]))
    count += count % 2
    return [shape if i % 2 == 0 else shape[::-1] for i in range(count)]


# --- weights ----------------------------------------------------------------------------------------------------------


@dataclass
class Quantized:
    """Elements of -8 to 7 or -127 to 127, and scales of groups of `group` inputs. Both have shape (inputs, outputs)."""

    elements: np.ndarray
    scales: np.ndarray
    group: int

    def dense(self) -> np.ndarray:
        return self.elements * np.repeat(self.scales, self.group, 0)


def dense(inputs: int, outputs: int, seed: int) -> np.ndarray:
    """Return weights (inputs, outputs) that preserve the variance of a row."""
    return np.random.default_rng(seed).standard_normal((inputs, outputs), np.float32) / np.float32(inputs**0.5)


def quantized(inputs: int, outputs: int, seed: int, dtype: str) -> Quantized:
    most, group = (127, inputs) if dtype == "int8" else (7, GROUP)
    rng = np.random.default_rng(seed)
    elements = rng.integers(-most, most + 1, (inputs, outputs), np.int8)
    deviation = (most * (most + 1) / 3) ** 0.5
    scales = rng.uniform(0.9, 1.1, (inputs // group, outputs)) / deviation / inputs**0.5
    return Quantized(elements, scales.astype(np.float32), group)


def nibbles(elements: np.ndarray) -> bytes:
    """Return elements of 4 bits, two per byte, the first one in the lower bits."""
    flat = elements.reshape(-1).astype(np.uint8) & 15
    return (flat[::2] | flat[1::2] << 4).tobytes()


# --- ONNX -------------------------------------------------------------------------------------------------------------


def onnx_model(layers: list[tuple[int, int]], dtype: str, operator: str) -> Any:
    """Return a model of `x (1, inputs)` -> `y` with MatMul, Gemm, Gemm^T (transB=1), or MatMulNBits."""
    from onnx import TensorProto, helper

    types = {"float32": TensorProto.FLOAT, "bfloat16": TensorProto.BFLOAT16}
    kind = types.get(dtype, TensorProto.FLOAT)
    transposed = operator == "Gemm^T"
    nodes, constants, name = [], [], "x"

    def constant(name: str, of: int, shape: tuple[int, ...], data: bytes) -> str:
        constants.append(helper.make_tensor(name, of, shape, data, raw=True))
        return name

    for i, (k, n) in enumerate(layers):
        result = "y" if i + 1 == len(layers) else f"y{i}"
        if operator == "MatMulNBits":
            q = quantized(k, n, i, dtype)
            blocks = (q.elements.T.astype(np.int16) + 8).reshape(n, k // GROUP, GROUP)
            packed = constant(f"w{i}", TensorProto.UINT8, (n, k // GROUP, GROUP // 2), nibbles(blocks))
            scale = constant(f"s{i}", TensorProto.FLOAT, (n * (k // GROUP),), q.scales.T.tobytes())
            nodes.append(
                helper.make_node(
                    operator, [name, packed, scale], [result], domain="com.microsoft", K=k, N=n, bits=4,
                    block_size=GROUP, accuracy_level=0,
                )
            )  # fmt: skip
            name = result
            continue
        turn = (lambda a: np.ascontiguousarray(a.T)) if transposed else np.ascontiguousarray
        shape = (n, k) if transposed else (k, n)
        if dtype in types:
            w = turn(dense(k, n, i))
            if dtype == "bfloat16":
                w = (w.view(np.uint32) >> 16).astype(np.uint16)
            weights = constant(f"w{i}", kind, shape, w.tobytes())
        else:
            q = quantized(k, n, i, dtype)
            values, scales = turn(q.elements), turn(q.scales)
            if dtype == "int8":
                elements = constant(f"q{i}", TensorProto.INT8, shape, values.tobytes())
                scale = constant(f"s{i}", TensorProto.FLOAT, (n,), scales.tobytes())
                more = {"axis": 0 if transposed else 1}
            else:
                elements = constant(f"q{i}", TensorProto.INT4, shape, nibbles(values))
                scale = constant(f"s{i}", TensorProto.FLOAT, scales.shape, scales.tobytes())
                more = {"axis": 1 if transposed else 0, "block_size": GROUP}
            nodes.append(helper.make_node("DequantizeLinear", [elements, scale], [f"w{i}"], **more))
            weights = f"w{i}"
        if operator == "MatMul":
            nodes.append(helper.make_node("MatMul", [name, weights], [result]))
        else:
            nodes.append(helper.make_node("Gemm", [name, weights], [result], transB=int(transposed)))
        name = result
    x, y = (
        helper.make_tensor_value_info(name, kind, (1, size))
        for name, size in (("x", layers[0][0]), ("y", layers[-1][1]))
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph(nodes, "chain", [x], [y], constants), opset_imports=opsets)
    model.ir_version = 10
    return model


def onnx_case(operator: str, dtype: str, threads: int, layers: list[tuple[int, int]]) -> dict[str, Run]:
    import mpsgraph as mg
    import mpsgraph.onnx

    data = onnx_model(layers, dtype, operator)
    x = np.random.default_rng(9).standard_normal((1, layers[0][0]), np.float32)
    model = mg.onnx.load(data).optimize_for_inference()
    fed = {"x": mg.numpy.asarray(x).astype(dtype) if dtype == "bfloat16" else x}
    sides: dict[str, Run] = {"mpsgraph": lambda: model.run(fed)["y"].numpy()}
    if dtype == "bfloat16":
        return sides  # ONNX Runtime has no kernels of bfloat16 for processors.
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
    session = onnxruntime.InferenceSession(data.SerializeToString(), options, providers=["CPUExecutionProvider"])
    sides["ONNX Runtime"] = lambda: session.run(None, {"x": x})[0]
    return sides


# --- layers -----------------------------------------------------------------------------------------------------------


def layers_case(dtype: str, layers: list[tuple[int, int]]) -> dict[str, Run]:
    """Return the run of a Sequential of `nn.Linear`, or `nn.QuantizedLinear` with the groups of `lm.quantize`."""
    import mpsgraph as mg

    g = mg.Graph()
    number = "bfloat16" if dtype == "bfloat16" else "float32"
    x = y = g.placeholder((1, layers[0][0]), number)
    for _, outputs in layers:
        if dtype in ("int8", "int4"):
            bits = 8 if dtype == "int8" else 4
            y = mg.nn.QuantizedLinear(outputs, bits=bits, group_size=64, bias=False)(y)
        else:
            y = mg.nn.Linear(outputs, bias=False)(y)
    executable = g.compile({x: x.shape}, [y])
    fed = [mg.numpy.ones((1, layers[0][0]), dtype=number)]
    return {"mpsgraph": lambda: executable.run(fed)[0].numpy()}


def torch_case(dtype: str, layers: list[tuple[int, int]]) -> dict[str, Run]:
    """Return the runs of nn.Linear without a bias, and of 8-bit weights that each call converts."""
    import mpsgraph as mg
    import torch

    class Int8(torch.nn.Module):
        def __init__(self, k: int, n: int, seed: int) -> None:
            super().__init__()
            q = quantized(k, n, seed, "int8")
            self.register_buffer("weight", torch.from_numpy(np.ascontiguousarray(q.elements.T)))
            self.register_buffer("scales", torch.from_numpy(q.scales[0].copy()))

        def forward(self, x: Any) -> Any:
            return torch.nn.functional.linear(x, self.weight.to(x.dtype)) * self.scales

    parts: list[Any] = []
    for i, (k, n) in enumerate(layers):
        if dtype == "int8":
            parts.append(Int8(k, n, i))
            continue
        part = torch.nn.Linear(k, n, bias=False)
        with torch.no_grad():
            part.weight.copy_(torch.from_numpy(dense(k, n, i).T))
        parts.append(part.to(getattr(torch, dtype)))
    module = torch.nn.Sequential(*parts).eval().requires_grad_(False)
    x = torch.randn(1, layers[0][0], dtype=torch.bfloat16 if dtype == "bfloat16" else torch.float32)
    compiled = mg.torch.compile(module)

    def guarded(run: Callable[[Any], Any]) -> Run:
        def once() -> object:
            with torch.inference_mode():
                return run(x).float().numpy()

        return once

    return {"mpsgraph": guarded(compiled), "PyTorch": guarded(module)}


# --- measurements -----------------------------------------------------------------------------------------------------


def cases(threads: int) -> Iterator[tuple[str, str, float, Callable[[list[tuple[int, int]]], dict[str, Run]]]]:
    """Yield the path, the format, the bytes per weight, and a function that builds the sides."""
    for dtype, size in FORMATS.items():
        for operator in ("MatMul", "Gemm", "Gemm^T"):
            yield f"ONNX {operator}", dtype, size, partial(onnx_case, operator, dtype, threads)
    yield "ONNX MatMulNBits", "int4", FORMATS["int4"], partial(onnx_case, "MatMulNBits", "int4", threads)
    for dtype, size in FORMATS.items():
        bytes_of = int(dtype[3:]) / 8 + 8 / 64 if dtype.startswith("int") else size
        yield "nn.Linear", dtype, bytes_of, partial(layers_case, dtype)
    for dtype in ("float32", "bfloat16", "int8"):
        yield "torch.compile", dtype, FORMATS[dtype], partial(torch_case, dtype)


def reading() -> Run:
    """Return a run that sums READ bytes once with the threads of the CPU device.

    Eight walks through memory at a time were the fastest way to read on all machines measured: a single walk waits at
    the end of each page for the hardware prefetcher.
    """
    import mpsgraph as mg

    parts = 64
    read = mg.custom_operation(
        "read_once", cpu=READ_ONCE, infer=lambda x: mg.TensorType(x.dtype, (parts,)), flags=("-march=native",)
    )
    g = mg.Graph()
    executable = g.compile({}, [read(g.variable(np.ones((parts, READ // 4 // parts), np.float32)))])
    return lambda: executable.run([])


def turn(run: Run, seconds: float, clock: Callable[[], float]) -> float:
    """Return the shortest time of a run, because other processes only make runs longer."""
    time.sleep(SPINNING)
    run()
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        begin = clock()
        run()
        times.append(clock() - begin)
    return min(times)


def agree(sides: dict[str, Run], title: str, tolerance: float) -> None:
    results = {side: np.asarray(run(), np.float32) for side, run in sides.items()}
    ours = results.pop("mpsgraph")
    for side, theirs in results.items():
        apart = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
        if not apart < tolerance:
            print(f"{title}: the results of {side} differ by {apart:.1e} of the largest", file=sys.stderr)


def measure(options: argparse.Namespace) -> None:
    read = reading()
    clock = time.process_time if options.processor else time.perf_counter
    print(f"{'path':18s}{'format':10s}{'weights':12s}{'bound ms':>9s}" + "".join(f"{side:>22s}" for side in SIDES))
    for path, dtype, size, build in cases(options.threads):
        for shape in SHAPES:
            title = f"{path}, {dtype}, {shape[0]} x {shape[1]}"
            if not re.search(options.only, title):
                continue
            layers = chain(shape, dtype)
            sides = build(layers)
            agree(sides, title, 0.1 if dtype == "bfloat16" else 1e-3)
            count = sum(a * b for a, b in layers) * size
            bounds: list[float] = []
            ratios: dict[str, list[float]] = {side: [] for side in sides}
            for _ in range(options.rounds):
                bounds.append(turn(read, options.seconds, clock) * count / READ)
                for side, run in sides.items():
                    ratios[side].append(turn(run, options.seconds, clock) / bounds[-1])
            cells = []
            for side in SIDES:
                low, middle, high = statistics.quantiles(ratios[side], n=4) if side in ratios else (0.0, 0.0, 0.0)
                cells.append(f"{middle:.2f} ({low:.2f}-{high:.2f})" if middle else "-")
            bound = 1e3 * statistics.median(bounds)
            print(
                f"{path:18s}{dtype:10s}{f'{shape[0]}x{shape[1]}':12s}{bound:9.2f}"
                + "".join(f"{cell:>22s}" for cell in cells),
                flush=True,
            )
            del sides


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.1, help="duration of a turn")
    parser.add_argument("--processor", action="store_true", help="measure processor time; for one thread")
    parser.add_argument("--only", default="", help="regular expression on 'path, format, shape'")
    options = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != str(options.threads):  # Libraries read it when they are imported.
        environment = os.environ | {"OMP_NUM_THREADS": str(options.threads)}
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)
    measure(options)


if __name__ == "__main__":
    main()
