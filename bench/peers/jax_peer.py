"""JAX as a benchmark peer: `python -m peers.jax_peer WORKLOAD MODE`, run in a separate environment.

Each workload is one jitted function that donates its state. The modes are jit and jit unrolled, in which the LSTM's
loop is unrolled into one long function. Optimizers and layers are written in jax.numpy.
"""

import math
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import workloads as sizes
from jax import lax
from measuring.protocol import Step, serve
from w9_inputs import INPUTS

Array = jax.Array
Parameters = Any
"""A pytree of arrays."""

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
RNG = np.random.default_rng(0)
IMAGES = ("NHWC", "HWIO", "NHWC")


def normal(*shape: int) -> Array:
    return jnp.asarray(RNG.standard_normal(shape, np.float32))


def uniform(shape: tuple[int, ...], fan: int) -> Array:
    bound = 1 / math.sqrt(fan)
    return jnp.asarray(RNG.uniform(-bound, bound, shape).astype(np.float32))


def classes(count: int, batch: int) -> Array:
    return jnp.asarray(RNG.integers(count, size=batch))


def dense_layer(inputs: int, outputs: int) -> Parameters:
    return {"w": uniform((inputs, outputs), inputs), "b": jnp.zeros(outputs)}


def dense(p: Parameters, x: Array) -> Array:
    return x @ p["w"] + p["b"] if "b" in p else x @ p["w"]


def convolution_layer(kernel: int, inputs: int, outputs: int) -> Parameters:
    return {"w": uniform((kernel, kernel, inputs, outputs), kernel * kernel * inputs), "b": jnp.zeros(outputs)}


def convolution(p: Parameters, x: Array, strides: int = 1) -> Array:
    return lax.conv_general_dilated(x, p["w"], (strides, strides), "SAME", dimension_numbers=IMAGES) + p["b"]


def transposed_convolution(p: Parameters, x: Array) -> Array:
    y = lax.conv_transpose(x, p["w"], (2, 2), "SAME", dimension_numbers=IMAGES)
    return y + p["b"] if "b" in p else y


def dropout(key: Array, x: Array, rate: float) -> Array:
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0.0)


def cross_entropy(logits: Array, labels: Array) -> Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()


def adam_state(parameters: Parameters) -> Parameters:
    zeros = jax.tree.map(jnp.zeros_like, parameters)
    return jnp.zeros(()), zeros, jax.tree.map(jnp.zeros_like, parameters)


def adam(
    parameters: Parameters, state: Parameters, gradients: Parameters, rate: float, beta1: float = BETA1
) -> tuple[Parameters, Parameters]:
    time, momenta, velocities = state
    time = time + 1
    momenta = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, momenta, gradients)
    velocities = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, velocities, gradients)
    factor, correction = rate / (1 - beta1**time), 1 - BETA2**time

    def moved(p: Array, m: Array, v: Array) -> Array:
        return p - factor * m / (jnp.sqrt(v / correction) + EPSILON)

    return jax.tree.map(moved, parameters, momenta, velocities), (time, momenta, velocities)


def trained(loss: Callable[..., Array], parameters: Parameters, rate: float) -> Step:
    """Return an Adam training step for a loss of the parameters."""

    def update(parameters: Parameters, state: Parameters) -> tuple[Parameters, Array]:
        value, gradients = jax.value_and_grad(loss)(parameters)
        return adam(parameters, state, gradients, rate), value

    return stepped(update, parameters, adam_state(parameters))


def stepped(function: Callable[..., tuple[Parameters, Array]], *state: Parameters) -> Step:
    """Return a step that calls the compiled function(*state) -> (new state, loss), donating the old state."""
    compiled = jax.jit(function, donate_argnums=tuple(range(len(state))))

    def step() -> float:
        nonlocal state
        state, loss = jax.block_until_ready(compiled(*state))
        return float(loss)

    return step


# --- training ---------------------------------------------------------------------------------------------------------


def w1(mode: str) -> Step:
    first, second = sizes.W1_CHANNELS
    x = normal(sizes.W1_BATCH, sizes.W1_IMAGE, sizes.W1_IMAGE, 1)
    labels = classes(sizes.CLASSES, sizes.W1_BATCH)
    parameters = [
        convolution_layer(5, 1, first),
        convolution_layer(5, first, second),
        dense_layer(sizes.W1_FLAT, sizes.W1_HIDDEN),
        dense_layer(sizes.W1_HIDDEN, sizes.CLASSES),
    ]

    def pooled(x: Array) -> Array:
        return lax.reduce_window(jax.nn.relu(x), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def loss(parameters: Parameters, key: Array) -> Array:
        h = pooled(convolution(parameters[1], pooled(convolution(parameters[0], x))))
        h = jax.nn.relu(dense(parameters[2], h.reshape(sizes.W1_BATCH, -1)))
        return cross_entropy(dense(parameters[3], dropout(key, h, sizes.W1_DROPOUT)), labels)

    def update(parameters: Parameters, key: Array) -> tuple[Parameters, Array]:
        key, now = jax.random.split(key)
        value, gradients = jax.value_and_grad(loss)(parameters, now)
        return (jax.tree.map(lambda p, g: p - sizes.W1_RATE * g, parameters, gradients), key), value

    return stepped(update, parameters, jax.random.key(0))


def lstm_layer(inputs: int, hidden: int) -> Parameters:
    return {
        "x": uniform((inputs, 4 * hidden), hidden),
        "h": uniform((hidden, 4 * hidden), hidden),
        "b": uniform((4 * hidden,), hidden),
    }


def lstm_step(p: Parameters, gates: Array, h: Array, c: Array) -> tuple[Array, Array]:
    i, f, g, o = jnp.split(gates + h @ p["h"], 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def w3(mode: str) -> Step:
    x = normal(sizes.W3_BATCH, sizes.W3_SAMPLES, sizes.W3_AXES)
    labels = classes(sizes.W3_CLASSES, sizes.W3_BATCH)
    kernel = (sizes.W3_KERNEL, sizes.W3_AXES, sizes.W3_FEATURES)
    parameters = {
        "convolution": {"w": uniform(kernel, sizes.W3_KERNEL * sizes.W3_AXES), "b": jnp.zeros(sizes.W3_FEATURES)},
        "lstm": lstm_layer(sizes.W3_FEATURES, sizes.W3_HIDDEN),
        "dense1": dense_layer(sizes.W3_HIDDEN, sizes.W3_DENSE),
        "dense2": dense_layer(sizes.W3_DENSE, sizes.W3_CLASSES),
    }
    zeros = jnp.zeros((sizes.W3_BATCH, sizes.W3_HIDDEN))

    def loss(p: Parameters) -> Array:
        dimensions = ("NWC", "WIO", "NWC")
        features = lax.conv_general_dilated(
            x, p["convolution"]["w"], (sizes.W3_KERNEL,), "VALID", dimension_numbers=dimensions
        )
        features = jax.nn.relu(features + p["convolution"]["b"])
        gates = (features @ p["lstm"]["x"] + p["lstm"]["b"]).swapaxes(0, 1)
        (last, _), _ = lax.scan(
            lambda states, now: (lstm_step(p["lstm"], now, *states), None),
            (zeros, zeros),
            gates,
            unroll=sizes.W3_STEPS if mode == "jit unrolled" else 1,
        )
        return cross_entropy(dense(p["dense2"], jax.nn.relu(dense(p["dense1"], last))), labels)

    return trained(loss, parameters, sizes.W3_RATE)


def normalized(p: Parameters, averages: Parameters, x: Array) -> tuple[Array, Parameters]:
    """Return x after batch normalization, and the updated moving averages."""
    axes = tuple(range(x.ndim - 1))
    mean = x.mean(axes)
    variance = jnp.square(x).mean(axes) - mean * mean
    scale = p["gamma"] * lax.rsqrt(variance + sizes.EPSILON)
    batch = {"mean": mean, "variance": variance}
    advanced = jax.tree.map(lambda old, new: sizes.MOMENTUM * old + (1 - sizes.MOMENTUM) * new, averages, batch)
    return x * scale + (p["beta"] - mean * scale), advanced


def norm_layer(channels: int) -> tuple[Parameters, Parameters]:
    return (
        {"gamma": jnp.ones(channels), "beta": jnp.zeros(channels)},
        {"mean": jnp.zeros(channels), "variance": jnp.ones(channels)},
    )


def w4(mode: str) -> Step:
    first, second = sizes.W4_CHANNELS
    norm1, averages1 = norm_layer(sizes.W4_FLAT)
    norm2, averages2 = norm_layer(second)
    makes = {
        "dense": {"w": uniform((sizes.W4_LATENT, sizes.W4_FLAT), sizes.W4_LATENT)},
        "norm1": norm1,
        "convolution1": {"w": convolution_layer(sizes.W4_KERNEL, first, second)["w"]},
        "norm2": norm2,
        "convolution2": convolution_layer(sizes.W4_KERNEL, second, 1),
    }
    tells = {
        "convolution1": convolution_layer(sizes.W4_KERNEL, 1, second),
        "convolution2": convolution_layer(sizes.W4_KERNEL, second, first),
        "dense": dense_layer(sizes.W4_FLAT, 1),
    }
    real = jnp.asarray(RNG.uniform(-1, 1, (sizes.W4_BATCH, sizes.W4_IMAGE, sizes.W4_IMAGE, 1)).astype(np.float32))

    def make(p: Parameters, averages: Parameters, z: Array) -> tuple[Array, Parameters]:
        h, now1 = normalized(p["norm1"], averages[0], dense(p["dense"], z))
        h = jax.nn.relu(h).reshape(-1, sizes.W4_SMALL, sizes.W4_SMALL, first)
        h, now2 = normalized(p["norm2"], averages[1], transposed_convolution(p["convolution1"], h))
        return jnp.tanh(transposed_convolution(p["convolution2"], jax.nn.relu(h))), [now1, now2]

    def tell(p: Parameters, x: Array, key: Array) -> Array:
        x = jax.nn.leaky_relu(convolution(p["convolution1"], x, 2), sizes.W4_SLOPE)
        x = jax.nn.leaky_relu(convolution(p["convolution2"], x, 2), sizes.W4_SLOPE)
        return dense(p["dense"], dropout(key, x.reshape(len(x), -1), sizes.W4_DROPOUT))

    def loss(logits: Array, is_real: float) -> Array:
        return (jax.nn.softplus(logits) - logits * is_real).mean()

    def update(
        makes: Parameters, averages: Parameters, tells: Parameters, state1: Parameters, state2: Parameters, key: Array
    ) -> tuple[Parameters, Array]:
        key, of_z, of_fake, of_real = jax.random.split(key, 4)
        z = jax.random.normal(of_z, (sizes.W4_BATCH, sizes.W4_LATENT))
        fake, back_make, averages = jax.vjp(lambda p: make(p, averages, z), makes, has_aux=True)
        fake_logits, back_fake = jax.vjp(lambda p, x: tell(p, x, of_fake), tells, fake)
        real_logits, back_real = jax.vjp(lambda p: tell(p, real, of_real), tells)
        value, to_fool = jax.value_and_grad(loss)(fake_logits, 1.0)
        (make_gradients,) = back_make(back_fake(to_fool)[1])
        of_fakes = back_fake(jax.grad(loss)(fake_logits, 0.0))[0]
        (of_reals,) = back_real(jax.grad(loss)(real_logits, 1.0))
        tell_gradients = jax.tree.map(jnp.add, of_fakes, of_reals)
        makes, state1 = adam(makes, state1, make_gradients, sizes.W4_RATE, sizes.W4_BETA1)
        tells, state2 = adam(tells, state2, tell_gradients, sizes.W4_RATE, sizes.W4_BETA1)
        return (makes, averages, tells, state1, state2, key), value

    return stepped(
        update, makes, [averages1, averages2], tells, adam_state(makes), adam_state(tells), jax.random.key(0)
    )


def w6(mode: str) -> Step:
    x = normal(sizes.W6_BATCH, sizes.W6_SIZES[0])
    labels = classes(sizes.CLASSES, sizes.W6_BATCH)
    parameters = [dense_layer(*pair) for pair in zip(sizes.W6_SIZES, sizes.W6_SIZES[1:], strict=False)]

    def loss(parameters: Parameters) -> Array:
        h = x
        for p in parameters[:-1]:
            h = jax.nn.relu(dense(p, h))
        return cross_entropy(dense(parameters[-1], h), labels)

    return trained(loss, parameters, sizes.W6_RATE)


# --- functions, inference, and single operations ----------------------------------------------------------------------


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + lax.erf(x * (1 / math.sqrt(2))))


def w5_forward(mode: str) -> Step:
    x, function = normal(*sizes.W5_SHAPE), jax.jit(gelu)

    def step() -> None:
        jax.block_until_ready(function(x))

    return step


def w5_backward(mode: str) -> Step:
    x, function = normal(*sizes.W5_SHAPE), jax.jit(jax.value_and_grad(lambda x: gelu(x).sum()))
    return lambda: float(jax.block_until_ready(function(x))[0])


def w7(mode: str) -> Step:
    parameters = {
        "embedding": normal(sizes.W7_CHARACTERS, sizes.W7_EMBEDDING),
        "lstm": lstm_layer(sizes.W7_EMBEDDING, sizes.W7_HIDDEN),
        "dense": dense_layer(sizes.W7_HIDDEN, sizes.W7_CHARACTERS),
    }

    def one(p: Parameters, character: Array, h: Array, c: Array, key: Array) -> tuple[Array, Array, Array, Array]:
        key, now = jax.random.split(key)
        gates = p["embedding"][character] @ p["lstm"]["x"] + p["lstm"]["b"]
        h, c = lstm_step(p["lstm"], gates, h, c)
        return jax.random.categorical(now, dense(p["dense"], h) / sizes.W7_TEMPERATURE), h, c, key

    compiled = jax.jit(one, donate_argnums=(1, 2, 3, 4))
    zeros = [jnp.zeros((1, sizes.W7_HIDDEN)) for _ in range(2)]
    state = (jnp.zeros(1, jnp.int32), *zeros, jax.random.key(0))

    def step() -> float:
        nonlocal state
        state = compiled(parameters, *state)
        return float(state[0][0])

    return step


def sampled(x: Array, places: Array) -> Array:
    """Sample images bilinearly, with zeros outside; coordinates -1 and 1 are the outer edges of an image."""
    batch, height, width, _ = x.shape
    column, row = ((places[..., 0] + 1) * width - 1) / 2, ((places[..., 1] + 1) * height - 1) / 2
    left, top = jnp.floor(column), jnp.floor(row)
    right_share, lower_share = (column - left)[..., None], (row - top)[..., None]
    left, top = left.astype(jnp.int32), top.astype(jnp.int32)
    image = jnp.arange(batch)[:, None, None]

    def at(i: Array, j: Array) -> Array:
        inside = (i >= 0) & (i < height) & (j >= 0) & (j < width)
        return jnp.where(inside[..., None], x[image, jnp.clip(i, 0, height - 1), jnp.clip(j, 0, width - 1)], 0)

    upper = at(top, left) * (1 - right_share) + at(top, left + 1) * right_share
    lower = at(top + 1, left) * (1 - right_share) + at(top + 1, left + 1) * right_share
    return upper * (1 - lower_share) + lower * lower_share


OPERATIONS: dict[str, Callable[..., Array]] = {
    "sort float32": jnp.sort,
    "sort int32": jnp.sort,
    "arg-sort float32": jnp.argsort,
    "arg-sort int32": jnp.argsort,
    "cumulative sum": lambda x: jnp.cumsum(x, 1),
    "FFT of rows": jnp.fft.fft,
    "FFT of a plane": jnp.fft.fft2,
    "grid sample": sampled,
}


def w9(name: str) -> Step:
    inputs = [jnp.asarray(value) for value in INPUTS[name]()]
    function = jax.jit(OPERATIONS[name])

    def step() -> None:
        jax.block_until_ready(function(*inputs))

    return step


WORKLOADS = {
    "W1": w1,
    "W3": w3,
    "W4": w4,
    "W5 forward": w5_forward,
    "W5 forward+backward": w5_backward,
    "W6": w6,
    "W7": w7,
    **{f"W9 {name}": lambda mode, name=name: w9(name) for name in OPERATIONS},
}

if __name__ == "__main__":
    workload, mode = sys.argv[1:]
    serve(lambda: WORKLOADS[workload](mode), "jax")
