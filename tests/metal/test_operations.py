"""Test operations that the Metal device implements in more than one way, at sizes that the cases do not reach."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest

CPU, METAL = mg.Device("cpu"), mg.Device("metal")
STEPS, BATCH, HIDDEN = 131, 2, 3  # more steps than are unrolled


@pytest.mark.parametrize(
    ("kind", "gates", "how"),
    [
        ("single_gate_rnn", 1, {"activation": "tanh", "reverse": True}),
        ("lstm", 4, {}),
        ("gru", 3, {"reset_after": True}),
        ("gru", 3, {"flip_z": True, "reverse": True}),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_long_recurrent_sequences_on_metal_match_the_cpu(kind: str, gates: int, how: dict, rng: np.random.Generator):
    """Many steps run in a loop; with a mask, the forward steps do as well."""
    g = mg.Graph()
    shapes = [(STEPS, BATCH, gates * HIDDEN), (gates * HIDDEN, HIDDEN), (STEPS, 1, HIDDEN)]
    x, weights, mask = (g.placeholder(shape) for shape in shapes)
    y = getattr(g, kind)(x, weights, mask=mask, **how)
    y = y[0] if isinstance(y, (list, tuple)) else y
    targets = [y, *g.gradients(g.reduction_sum(g.square(y)), [x, weights]).values()]
    feeds = {t: (0.4 * rng.standard_normal(t.shape)).astype(np.float32) for t in (x, weights, mask)}
    expected, found = (g.run(feeds, targets, device=device) for device in (CPU, METAL))
    for target in targets:
        wanted = expected[target].numpy()
        np.testing.assert_allclose(found[target].numpy(), wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())


def test_gradient_of_dynamic_loop_raises():
    g = mg.Graph()
    x, count = g.placeholder((2,)), g.placeholder((), mg.int32)
    (y,) = g.for_(count, initial=[x], body=lambda i, v: g.sin(v))
    d = g.gradients(y, [x])[x]
    feeds = {x: np.ones(2, np.float32), count: np.int32(3)}
    np.testing.assert_allclose(g.run(feeds, y, device=METAL).numpy(), g.run(feeds, y, device=CPU).numpy(), rtol=1e-6)
    with pytest.raises(mg.UnsupportedError, match=r"\[for\].*fixed shapes; use for_ with constant bounds"):
        g.run(feeds, d, device=METAL)


def test_exception_in_metal_block_does_not_corrupt_the_block():
    """An exception must not propagate through Apple's code, which calls back to build the block."""
    g = mg.Graph()
    x = g.placeholder((2,))
    yes = g.reshape(g.reduction_sum(x), ()) > 0.0

    def wide(v: mg.Tensor) -> mg.Tensor:
        return g.cast(g.cast(v, "float64") * 2.0, "float32")

    for build in (
        lambda: g.if_(yes, lambda: wide(x), lambda: x),
        lambda: g.for_(2, initial=[x], body=lambda i, v: wide(v)),
        lambda: g.while_([x], lambda v: (yes, wide(v)), lambda v: v),
    ):
        y = build()[0]
        with pytest.raises(mg.UnsupportedError, match="float64"):
            g.run({x: np.ones(2, np.float32)}, y, device=METAL)


def test_long_random_sequences_on_metal_match_the_cpu():
    """Long draws, and draws far from the initial counter, must equal those of the CPU."""
    g = mg.Graph()
    state = g.constant(np.array([1, -3, -1, -1, 5, 7, -9], np.int32))
    count = 70
    kinds = [
        {},
        {"distribution": "normal"},
        {"distribution": "truncated_normal"},
        {"distribution": "truncated_normal", "mean": 1.0, "min": 5.0, "max": 9.0, "sampling_method": "inverse_cdf"},
        {"distribution": "truncated_normal", "min": -1.0, "max": 9.0, "sampling_method": "inverse_cdf"},
        {"distribution": "normal", "sampling_method": "inverse_cdf"},
        {"dtype": "int64", "min_integer": -(2**62), "max_integer": 2**62 + 1},
    ]
    drawn = [g.random((count,), state, **kind) for kind in kinds]
    targets = [tensor for pair in drawn for tensor in pair]
    expected, found = (g.run({}, targets, device=device) for device in (CPU, METAL))
    for values, following in drawn:
        np.testing.assert_array_equal(found[following].numpy(), expected[following].numpy())
        np.testing.assert_allclose(found[values].numpy(), expected[values].numpy(), rtol=4e-6, atol=4e-6)


def test_gradient_of_loop_over_empty_batch_is_zero():
    g = mg.Graph()
    x, w = g.placeholder((-1, 3)), g.placeholder((3, 3))
    (y,) = g.for_(3, initial=[x], body=lambda i, v: g.tanh(v @ w) * g.cast(i, "float32"))
    first = g.gradients(g.reduction_sum(y), [x, w])
    second = g.gradients(g.reduction_sum(first[w]), [w])
    targets = [y, *first.values(), *second.values()]
    for count in (2, 0):
        feeds = {x: np.full((count, 3), 0.3, np.float32), w: np.full((3, 3), 0.2, np.float32)}
        expected, found = (g.run(feeds, targets, device=device) for device in (CPU, METAL))
        for target in targets:
            np.testing.assert_allclose(found[target].numpy(), expected[target].numpy(), rtol=1e-5, atol=1e-6)


def test_unsupported_operation_errors_name_the_operation():
    """This includes errors raised in code that does not know the operation, such as for a dtype that Apple's
    GPUs lack.
    """
    g = mg.Graph()
    x = g.placeholder((2,))
    g.place = "Cast 'the_node'"  # set as for operations of an ONNX model
    y = g.cast(x, "float64")
    g.place = None
    with pytest.raises(mg.UnsupportedError, match="do not support float64.*; built at Cast 'the_node'"):
        g.run({x: np.zeros(2, np.float32)}, y, device=METAL)
