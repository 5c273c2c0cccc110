"""Test variables that are stored in the layout of a convolution kernel but must appear row-major to the user.

The optimized engine is compared with the reference kernels, which do not change the layout of variables. Channels-last
convolutions use weights unchanged (convolution_taps.h), so these graphs are channels first and stay so, as inside
control flow blocks.
"""

import mpsgraph as mg
import numpy as np

FAST = mg.CompilationDescriptor(disabled_passes=("channels_last",))


def training_graph(seed=0):
    rng = np.random.default_rng(seed)
    g = mg.Graph()
    x = g.placeholder((-1, 16, 8, 8), name="x")
    w = g.variable(rng.normal(size=(3, 3, 16, 32)).astype(np.float32), name="w")
    momentum = g.variable(np.zeros((3, 3, 16, 32), np.float32), name="momentum")
    loss = g.mean(g.square(g.convolution2d(x, w, padding="TF_SAME", data_layout="NCHW")))
    gradient = g.gradients(loss, [w])[w]
    moved = momentum * 0.9 + gradient
    step = [g.assign(momentum, moved), g.assign(w, w - moved * 0.1)]
    return g, x, w, momentum, loss, step, rng.normal(size=(4, 16, 8, 8)).astype(np.float32)


def trained(options, between=lambda g, w: None):
    g, x, w, momentum, loss, step, images = training_graph()
    executable = g.compile({x: images.shape}, [loss], step, options=options)
    losses = []
    for _ in range(4):
        losses.append(float(executable.run([images])[0]))
        between(g, w)
    return losses, g.variable_value(w), g.variable_value(momentum)


def test_training_with_reordered_weights_matches_reference():
    plain = trained(mg.CompilationDescriptor(reference_kernels=True))
    fast = trained(FAST)
    np.testing.assert_allclose(fast[0], plain[0], rtol=1e-5)
    np.testing.assert_allclose(fast[1], plain[1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(fast[2], plain[2], rtol=1e-4, atol=1e-5)


def test_training_step_does_not_reorder_weights():
    g, x, _, _, loss, step, images = training_graph()
    plan = g.compile({x: images.shape}, [loss], step, options=FAST).plan()
    forward = [line for line in plan.splitlines() if line.strip().startswith("convolution2d:")]
    # Input and result are converted to and from oneDNN's layout, but the weights already have it.
    assert forward and all(line.count("oneDNN jit") == 3 for line in forward), plan


def test_other_programs_read_and_write_reordered_variables():
    g, x, w, _, loss, step, images = training_graph()
    before = g.run({}, [w * 1.0])  # compiled while the variable is row-major
    first = g.variable_value(w)
    executable = g.compile({x: images.shape}, [loss], step, options=FAST)
    executable.run([images])
    after = g.variable_value(w)
    assert not np.array_equal(first, after)
    doubled = w * 2.0
    np.testing.assert_array_equal(np.asarray(g.run({}, [doubled])[doubled]), after * 2)
    column_sums = g.reduction_sum(w, axes=[0, 1, 2])
    np.testing.assert_allclose(
        np.asarray(g.run({}, [column_sums])[column_sums]), after.sum((0, 1, 2), keepdims=True), rtol=1e-4
    )
    # The first program was compiled for the old layout.
    target = next(iter(before))
    np.testing.assert_array_equal(np.asarray(g.run({}, [target])[target]), after)
    # Assign from outside, and by a program compiled for a different layout.
    g.set_variable(w, first)
    np.testing.assert_array_equal(g.variable_value(w), first)
    flipped = g.assign(w, g.reshape(g.reshape(w, (-1,)), (3, 3, 16, 32)) + 1.0)
    g.run({}, [], [flipped])
    np.testing.assert_array_equal(g.variable_value(w), first + 1)


def test_setting_variables_between_steps_does_not_change_training():
    plain = trained(FAST)
    restored = trained(FAST, between=lambda g, w: g.set_variable(w, g.variable_value(w)))
    assert restored[0] == plain[0]
    np.testing.assert_array_equal(restored[1], plain[1])
