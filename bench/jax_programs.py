"""Median training step times of the programs of docs/jax.md, in larger sizes, under mpsgraph.jax.jit and jax.jit.

    .venv-jax/bin/python bench/jax_programs.py [--rounds 10]      with mpsgraph importable, as in `make test-jax`

The two sides run in separate processes and take turns. This is separate from the other benchmarks, whose environment
for mpsgraph does not contain JAX, and its results are not part of the generated tables.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

SIDES = ("mpsgraph", "jax")
PROGRAMS = ("perceptron, gradient per example", "convolutions", "LSTM by scan")


def programs() -> dict[str, tuple[Callable[..., Any], Any, tuple[Any, ...]]]:
    """Return, by name, a step (state, data) -> (loss, state), its initial state, and its data."""
    import jax
    import jax.numpy as jnp

    def dense(key: Any, n: int, m: int) -> Any:
        return {"w": jax.random.normal(key, (n, m)) * (2 / n) ** 0.5, "b": jnp.zeros(m)}

    def entropy(logits: Any, labels: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()

    def descended(parameters: Any, gradients: Any, rate: float) -> Any:
        return jax.tree.map(lambda p, g: p - rate * g, parameters, gradients)

    def perceptron(layers: Any, x: Any) -> Any:
        for layer in layers[:-1]:
            x = jax.nn.relu(x @ layer["w"] + layer["b"])
        return x @ layers[-1]["w"] + layers[-1]["b"]

    def private_step(layers: Any, x: Any, labels: Any) -> Any:
        def loss(layers: Any, x: Any, label: Any) -> Any:
            return -jax.nn.log_softmax(perceptron(layers, x))[label]

        losses, gradients = jax.vmap(jax.value_and_grad(loss), in_axes=(None, 0, 0))(layers, x, labels)
        squares = sum(jnp.sum(g**2, axis=range(1, g.ndim)) for g in jax.tree.leaves(gradients))
        scale = 1 / jnp.maximum(1, jnp.sqrt(squares))
        mean = jax.tree.map(lambda g: jnp.tensordot(scale, g, 1) / len(scale), gradients)
        return losses.mean(), descended(layers, mean, 0.1)

    def image_step(parameters: Any, x: Any, labels: Any) -> Any:
        def loss(parameters: Any) -> Any:
            y = x
            for weights in parameters["convolutions"]:
                y = jax.lax.conv_general_dilated(y, weights, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
                y = jax.nn.relu(y)
                y = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
            return entropy(y.reshape(y.shape[0], -1) @ parameters["last"]["w"], labels)

        value, gradients = jax.value_and_grad(loss)(parameters)
        return value, descended(parameters, gradients, 0.01)

    def sequence_step(parameters: Any, x: Any) -> Any:
        def loss(parameters: Any) -> Any:
            def cell(state: Any, now: Any) -> Any:
                h, c = state
                gates = now @ parameters["in"]["w"] + h @ parameters["again"]["w"]
                i, f, g, o = jnp.split(gates, 4, axis=-1)
                c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
                h = jax.nn.sigmoid(o) * jnp.tanh(c)
                return (h, c), h @ parameters["out"]["w"]

            zeros = jnp.zeros((x.shape[1], parameters["again"]["w"].shape[0]))
            return jnp.mean((jax.lax.scan(cell, (zeros, zeros), x[:-1])[1] - x[1:]) ** 2)

        value, gradients = jax.value_and_grad(loss)(parameters)
        return value, descended(parameters, gradients, 0.1)

    keys = iter(jax.random.split(jax.random.key(0), 16))
    layers = [dense(next(keys), n, m) for n, m in ((784, 128), (128, 128), (128, 10))]
    images = {
        "convolutions": [
            jax.random.normal(next(keys), (3, 3, n, m)) * (2 / (9 * n)) ** 0.5 for n, m in ((1, 32), (32, 64))
        ],
        "last": dense(next(keys), 7 * 7 * 64, 10),
    }
    sequence = {
        "in": dense(next(keys), 32, 512),
        "again": dense(next(keys), 128, 512),
        "out": dense(next(keys), 128, 32),
    }
    return {
        PROGRAMS[0]: (private_step, layers, (jax.random.normal(next(keys), (64, 784)), jnp.arange(64) % 10)),
        PROGRAMS[1]: (image_step, images, (jax.random.normal(next(keys), (32, 28, 28, 1)), jnp.arange(32) % 10)),
        PROGRAMS[2]: (sequence_step, sequence, (jax.random.normal(next(keys), (32, 16, 32)),)),
    }


def serve(side: str) -> None:
    """Answer each line [program name, number of steps] with [median seconds per step, loss]."""
    import jax

    if side == "mpsgraph":
        import mpsgraph as mg

        jit = mg.jax.jit
    else:
        jit = jax.jit
    sides = {}
    for name, (step, state, data) in programs().items():
        sides[name] = [jit(step, donate_argnums=0), state, data]
    for line in sys.stdin:
        name, steps = json.loads(line)
        step, state, data = sides[name]
        times, loss = [], 0.0
        for _ in range(steps):
            began = time.perf_counter()
            value, state = step(state, *data)
            loss = float(value)
            times.append(time.perf_counter() - began)
        sides[name][1] = state
        print(json.dumps([statistics.median(times), loss]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=50, help="steps per round (default 50)")
    parser.add_argument("--serve", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    sides = {
        side: subprocess.Popen(
            [sys.executable, __file__, "--serve", side],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )
        for side in SIDES
    }  # fmt: skip

    def asked(side: str, name: str, steps: int) -> tuple[float, float]:
        process = sides[side]
        assert process.stdin and process.stdout
        process.stdin.write(json.dumps([name, steps]) + "\n")
        process.stdin.flush()
        seconds, loss = json.loads(process.stdout.readline())
        return seconds, loss

    print(f"{'median ms per step':36}{'mpsgraph.jax.jit':>18}{'jax.jit':>10}{'ratio':>8}   final losses")
    for name in PROGRAMS:
        first = {side: asked(side, name, 3) for side in SIDES}  # The first steps compile.
        assert abs(first["mpsgraph"][1] - first["jax"][1]) <= 1e-4 * abs(first["jax"][1]), first
        rounds = [{side: asked(side, name, options.steps) for side in SIDES} for _ in range(options.rounds)]
        ours, theirs = (statistics.median(r[side][0] for r in rounds) * 1e3 for side in SIDES)
        losses = ", ".join(f"{rounds[-1][side][1]:.6g}" for side in SIDES)
        print(f"{name:36}{ours:18.2f}{theirs:10.2f}{ours / theirs:8.2f}   {losses}")
    for process in sides.values():
        process.communicate()


if __name__ == "__main__":
    main()
