"""Test that optimize_for_inference transposes channels-first convolution weights of imported models once."""

import mpsgraph as mg
import numpy as np
import pytest

pytestmark = pytest.mark.both_devices


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_channels_first_weights_are_transposed_once():
    """All users share one transposed constant. Computed weights, weights in branches, and weights with dependencies are
    kept.
    """
    g = mg.Graph()
    x, way = g.placeholder((-1, 4, 5, 5), name="x"), g.placeholder((), "bool", "way")
    w = g.variable(numbers(4, 4, 3, 3))
    layouts = {"padding": "TF_SAME", "data_layout": "NCHW", "weights_layout": "OIHW"}
    y = g.convolution2d(g.relu(g.convolution2d(x, w, **layouts)), w, **layouts)
    count = g.variable(np.zeros(1, np.float32), trainable=False)
    counted = [g.assign(count, g.read(count) + 1.0)]
    # kept because of its control dependency
    y = g.control_dependency(counted, lambda: g.convolution2d(y, w, **layouts))
    made = g.convolution2d(y, g.reshape(g.slice_axis(x, 0, 0, 1), [4, 1, 5, 5]), groups=4, **layouts)
    (z,) = g.if_(way, lambda: g.convolution2d(made, g.constant(numbers(4, 4, 3, 3, seed=1)), **layouts), lambda: made)
    model = mg.Model(g, {"x": x, "way": way}, {"z": z})
    optimized = model.optimize_for_inference()
    found = [o for o in optimized.graph.operations if o.kind == "convolution2d"]
    assert [o.attributes["weights_layout"] for o in found] == ["HWIO", "HWIO", "OIHW", "OIHW"]
    assert found[0].inputs[1] is found[1].inputs[1] and found[0].inputs[1].shape == (3, 3, 4, 4)
    for taken in (True, False):
        feeds = {"x": numbers(2, 4, 5, 5), "way": np.array(taken)}
        wanted = model.run(feeds)["z"].numpy()
        assert np.abs(wanted).max() > 0.1, "results must not be trivially small"
        np.testing.assert_allclose(
            optimized.run(feeds)["z"].numpy(), wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max()
        )
    (left,) = optimized.graph.variables
    assert optimized.graph.variable_value(left).tolist() == [2.0]
