"""One token and a prompt of 512 tokens with a Llama of 8 layers of 512, whose weights have 32, 16, 8, and 4 bits.

    python bench/packed_weights.py [mpsgraph | torch | mlx | rows]

Packed weights are measured with float32 and with bfloat16 activations. `rows` measures single matmuls of 1 to 512 rows
with packed weights, and with float32 and bfloat16 weights.

The token is at position 50 of a cache for 4,096 tokens. Run the script once in an environment of each library. Times
are the minimum and the median of many runs. The bound of a token is the time of reading the weights once, at the rate
at which this machine sums a large array.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

WIDTH, LAYERS, HEADS, HIDDEN, VOCABULARY = 512, 8, 8, 1408, 8192
POSITION, CAPACITY, PROMPT, GROUP = 50, 4096, 512, 64
TOKENS, PROMPTS = 60, 4
WEIGHTS = ((32, "float32"), (16, "bfloat16"), (8, "float32"), (8, "bfloat16"), (4, "float32"), (4, "bfloat16"))
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 512)
SHAPES = ((WIDTH, WIDTH),) * 4 + ((HIDDEN, WIDTH),) * 2 + ((WIDTH, HIDDEN),)
Runs = tuple[Callable[[], object], Callable[[], object]]


def weight_bytes(bits: int) -> float:
    """Return the bytes of weights, scales, and biases that a token reads."""
    count = LAYERS * sum(rows * columns for rows, columns in SHAPES) + VOCABULARY * WIDTH
    return count * (bits / 8 + (8 / GROUP if bits < 16 else 0))


def read_rate() -> float:
    """Return the bytes per second at which two threads sum arrays that fit in no cache."""
    import mpsgraph as mg

    g = mg.Graph()
    x = g.variable(np.ones((64, 1 << 20), np.float32))
    executable = g.compile({}, [g.reduction_sum(x, 1)])
    return (1 << 28) / min(timed(lambda: executable.run([]), 10))


def timed(run: Callable[[], object], count: int) -> list[float]:
    times = []
    for _ in range(count):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times


def with_mpsgraph(bits: int, dtype: str) -> Runs:
    import mpsgraph as mg
    from mpsgraph.lm.engine import Engine

    model = mg.lm.create(
        {
            "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": HIDDEN,
            "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "max_position_embeddings": CAPACITY,
            "tie_word_embeddings": False,
        },
        dtype=dtype,
    ).eval()  # fmt: skip
    if bits < 16:
        mg.lm.quantize(model, bits, GROUP)
    engine = Engine(model, 1, CAPACITY)  # type: ignore[arg-type]
    prompt = np.arange(PROMPT, dtype=np.int32)[None]

    def token() -> None:
        engine.run(np.full((1, 1), 7, np.int32), np.full((1, 1), POSITION, np.int32))
        engine.rewind(1)

    def whole() -> None:
        engine.reset()
        engine.run(prompt, prompt)

    engine.run(prompt[:, :POSITION], prompt[:, :POSITION])
    return token, whole


def with_torch(bits: int, dtype_name: str) -> Runs:
    import torch
    from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

    if bits < 16:
        raise NotImplementedError
    torch.set_num_threads(2)
    dtype = getattr(torch, dtype_name)
    layers = [[torch.randn(shape, dtype=dtype) * 0.02 for shape in SHAPES] for _ in range(LAYERS)]
    head, table = (torch.randn(VOCABULARY, WIDTH, dtype=dtype) * 0.02 for _ in range(2))
    past = torch.randn(LAYERS, 2, 1, HEADS, POSITION, WIDTH // HEADS, dtype=dtype)

    def run(tokens: Any, cached: bool) -> Any:
        x, count = table[tokens], len(tokens)
        for (q, k, v, o, gate, up, down), held in zip(layers, past, strict=True):
            y = rms_norm(x, (WIDTH,))
            parts = [linear(y, w).reshape(1, count, HEADS, -1).transpose(1, 2) for w in (q, k, v)]
            if cached:
                parts[1:] = [torch.cat([old, new], 2) for old, new in zip(held, parts[1:], strict=True)]
            y = scaled_dot_product_attention(*parts, is_causal=not cached)
            x = x + linear(y.transpose(1, 2).reshape(count, WIDTH), o)
            y = rms_norm(x, (WIDTH,))
            x = x + linear(silu(linear(y, gate)) * linear(y, up), down)
        return linear(rms_norm(x[-1:], (WIDTH,)), head)

    def guarded(count: int, cached: bool) -> Callable[[], object]:
        tokens = torch.arange(count)

        def once() -> object:
            with torch.inference_mode():
                return run(tokens, cached)

        return once

    return guarded(1, True), guarded(PROMPT, False)


def with_mlx(bits: int, dtype_name: str) -> Runs:
    import mlx.core as mx

    def made(shape: tuple[int, int]) -> Callable[[Any], Any]:
        w = mx.random.normal(shape) * 0.02
        if bits < 16:
            packed = mx.quantize(w.astype(dtype), GROUP, bits)
            mx.eval(packed)
            return lambda x: mx.quantized_matmul(x, *packed, transpose=True, group_size=GROUP, bits=bits)
        w = w.astype(dtype)
        mx.eval(w)
        return lambda x: x @ w.T

    dtype = getattr(mx, dtype_name)
    layers = [[made(shape) for shape in SHAPES] for _ in range(LAYERS)]
    head = made((VOCABULARY, WIDTH))
    past = (mx.random.normal((LAYERS, 2, 1, HEADS, POSITION, WIDTH // HEADS))).astype(dtype)
    table, ones = mx.random.normal((VOCABULARY, WIDTH)).astype(dtype), mx.ones(WIDTH, dtype)

    def run(count: int, cached: bool) -> None:
        x = table[mx.arange(count)]
        for i, (q, k, v, o, gate, up, down) in enumerate(layers):
            y = mx.fast.rms_norm(x, ones, 1e-6)
            parts = [p(y).reshape(1, count, HEADS, -1).transpose(0, 2, 1, 3) for p in (q, k, v)]
            if cached:
                parts[1:] = [mx.concatenate([past[i, j], parts[1 + j]], 2) for j in (0, 1)]
            mask = None if cached else "causal"
            y = mx.fast.scaled_dot_product_attention(*parts, scale=(WIDTH // HEADS) ** -0.5, mask=mask)
            x = x + o(y.transpose(0, 2, 1, 3).reshape(count, WIDTH))
            y = mx.fast.rms_norm(x, ones, 1e-6)
            g = gate(y)
            x = x + down(g * mx.sigmoid(g) * up(y))
        mx.eval(head(mx.fast.rms_norm(x[-1:], ones, 1e-6)))

    return lambda: run(1, True), lambda: run(PROMPT, False)


LIBRARIES = {"mpsgraph": with_mpsgraph, "torch": with_torch, "mlx": with_mlx}


def measure_rows() -> None:
    """Print the microseconds of matmuls of a few and many rows, for each kind of weights."""
    import mpsgraph as mg

    print("rows " + "".join(f"{f'{bits} bits, {dtype}':>18s}" for bits, dtype in WEIGHTS))
    for rows in ROWS:
        times = []
        for bits, dtype in WEIGHTS:
            g = mg.Graph()
            x = g.placeholder((rows, WIDTH), dtype)
            layer = mg.nn.QuantizedLinear(HIDDEN, bits=bits, bias=False) if bits < 16 else None
            if layer is not None:
                y = layer(x)
            else:
                y = x @ g.transpose(g.variable(np.zeros((HIDDEN, WIDTH), np.float32), dtype=dtype), (1, 0))
            executable = g.compile({x: x.shape}, [y])
            given = np.ones((rows, WIDTH), x.dtype.numpy)
            times.append(min(timed(partial(executable.run, [given]), 200)) * 1e6)
        print(f"{rows:4d} " + "".join(f"{time:18.1f}" for time in times), flush=True)


def main(name: str) -> None:
    if name == "rows":
        return measure_rows()
    rate = read_rate() if name == "mpsgraph" else 0.0
    if rate:
        print(f"reading: {rate / 1e9:.1f} GB/s")
    for bits, dtype in WEIGHTS:
        try:
            token, prompt = LIBRARIES[name](bits, dtype)
        except NotImplementedError:
            continue
        tokens, prompts = timed(token, TOKENS), timed(prompt, PROMPTS)
        title = f"{name}, {bits} bits, {dtype}"
        bound = f", bound {weight_bytes(bits) / rate * 1e3:.3f}" if rate else ""
        print(
            f"{title}: token {min(tokens) * 1e3:.3f} ms (median {statistics.median(tokens) * 1e3:.3f}"
            f"{bound}), prompt {min(prompts) * 1e3:.1f} ms (median {statistics.median(prompts) * 1e3:.1f})",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "mpsgraph")
