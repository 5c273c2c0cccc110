"""Test optimizer updates that are fused with weight gradients or, for small variables, with each other."""

import mpsgraph as mg
import numpy as np
import pytest
from harness.instructions import HAS_VECTORS

TOGETHER = "weight gradient in"
RATE = 1e-3  # small, so that steps do not amplify rounding errors


# The updates are smooth functions of the gradient, so they do not amplify its rounding errors.
UPDATES = {
    "descent": lambda g, w, d: [g.assign(w, w - d * RATE)],
    "adam": lambda g, w, d: mg.optim.Adam(RATE, epsilon=1.0).updates({w: d}, g.constant(RATE)),
    "decay": lambda g, w, d: [g.assign(w, w * 0.99 - d * RATE)],
}


def programs(update, rows, inputs, outputs, source=None, targets=lambda gradient: []):
    """Compile one training step of a dense layer. Return two pairs (graph, executable), with fast and with reference
    kernels, and the feeds.
    """
    made = []
    for reference in (False, True):
        g = mg.Graph()
        rng = np.random.default_rng(0)
        x = source(g) if source else g.placeholder((rows, inputs))
        w = g.variable((rng.standard_normal((inputs, outputs)) / np.sqrt(inputs)).astype(np.float32))
        cotangent = g.placeholder((rows, outputs))
        y = g.tanh(x @ w)
        d = g.gradients(y, [w], start=cotangent)[w]
        feeds = {t: t.shape for t in ((cotangent,) if source else (x, cotangent))}
        options = mg.CompilationDescriptor(reference_kernels=reference)
        made.append((g, g.compile(feeds, [g.reduction_sum(y * y), *targets(d)], update(g, w, d), options=options)))
    arrays = [rng.standard_normal(t.shape).astype(np.float32) for t in feeds]
    return made, arrays


def variables_of(g):
    return [g.variable_value(v) for v in g.variables]


def assert_steps_agree(made, arrays, steps=3):
    for _ in range(steps):
        results = [[t.numpy().copy() for t in executable.run(arrays)] for _, executable in made]
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())
    for ours, theirs in zip(*(variables_of(g) for g, _ in made), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize(
    "rows, inputs, outputs",
    [
        (32, 784, 512),
        (8, 2049, 32),
        (64, 391, 1024),
        (256, 300, 224),
        (17, 11, 6272),
        (32, 784, 500),
        (250, 77, 1151),
        (9, 4100, 17),
    ],
)
def test_fused_update_reads_gradient_in_blocks(update, rows, inputs, outputs):
    made, arrays = programs(UPDATES[update], rows, inputs, outputs)
    fast, plain = (executable.plan() for _, executable in made)
    assert (TOGETHER in fast) == HAS_VECTORS and TOGETHER not in plain
    assert_steps_agree(made, arrays)


def test_fused_update_allocates_no_memory_for_the_gradient():
    (fast, plain), _ = programs(UPDATES["descent"], 32, 2048, 2048)
    arenas = [int(e.plan().split("arena ")[1].split()[0]) for _, e in (fast, plain)]
    assert not HAS_VECTORS or (arenas[0] < 8 << 20 and arenas[1] >= 2048 * 2048 * 4), arenas


def test_fused_update_training_is_bitwise_reproducible():
    runs = []
    for _ in range(2):
        (fast, _), arrays = programs(UPDATES["adam"], 32, 784, 512)
        for _ in range(3):
            fast[1].run(arrays)
        runs.append([v.tobytes() for v in variables_of(fast[0])])
    assert runs[0] == runs[1]


# Updates that use the gradient twice or cannot read it in blocks, for which the whole gradient must be computed.
def momentum(g, w, d):
    v = g.variable(np.full(w.shape, 0.25, np.float32), trainable=False)
    moved = v * 0.9 + d
    return [g.assign(v, moved), g.assign(w, w - moved * RATE)]


def clipped(g, w, d):
    return [g.assign(w, w - d * (RATE / (1 + g.reduction_sum(d * d, axes=[0, 1]))))]


def by_column(g, w, d):
    return [g.assign(w, w - d * g.constant(np.linspace(0, RATE, w.shape[1], dtype=np.float32)))]


def with_its_sum(g, w, d):
    total = g.variable(np.zeros((1, 1), np.float32), trainable=False)
    moved = d * RATE
    return [g.assign(w, w - moved), g.assign(total, g.reduction_sum(moved, axes=[0, 1]))]


@pytest.mark.parametrize("update", [momentum, clipped, by_column, with_its_sum])
def test_unsupported_updates_read_the_whole_gradient(update):
    made, arrays = programs(update, 32, 784, 512)
    assert TOGETHER not in made[0][1].plan()
    assert_steps_agree(made, arrays)


def test_update_by_fetched_gradient_is_not_fused():
    made, arrays = programs(UPDATES["descent"], 32, 784, 512, targets=lambda gradient: [gradient])
    assert TOGETHER not in made[0][1].plan()
    assert_steps_agree(made, arrays)


@pytest.mark.parametrize("rows, inputs, outputs", [(257, 784, 512), (7, 784, 512), (32, 8192, 15), (32, 60, 512)])
def test_updates_of_unsupported_sizes_are_not_fused(rows, inputs, outputs):
    made, arrays = programs(UPDATES["descent"], rows, inputs, outputs)
    assert TOGETHER not in made[0][1].plan()
    assert_steps_agree(made, arrays)


def test_variable_used_as_operand_is_read_before_fused_assignment():
    """The layer's input is a variable that the same step assigns, possibly before the update runs."""
    kept = []

    def source(g):
        kept.append(g.variable(np.random.default_rng(1).standard_normal((32, 784)).astype(np.float32), trainable=False))
        return kept[-1]

    def update(g, w, d):
        return [g.assign(kept[-1], kept[-1] * 0.5), g.assign(w, w - d * RATE)]

    made, arrays = programs(update, 32, 784, 512, source)
    assert TOGETHER not in made[0][1].plan()
    assert_steps_agree(made, arrays)


# --- small variables: adjacent independent fused kernels become one kernel --------------------------------------------
def kernels_of(executable):
    return [line for line in executable.plan().splitlines()[1:] if not line.startswith("  slot")]


@pytest.mark.parametrize("layers", [1, 4, 20])
def test_updates_of_small_variables_form_one_kernel(layers):
    """The program text has one fused operation of Adam's twelve steps per variable; the plan has one kernel for all."""
    made, texts = [], {}
    for how in ({"observe": texts.__setitem__}, {"reference_kernels": True}):
        g, rng = mg.Graph(), np.random.default_rng(0)
        h = x = g.placeholder((4, 16))
        for _ in range(layers):
            w, b = rng.standard_normal((16, 16)).astype(np.float32) / 4, np.zeros(16, np.float32)
            h = g.tanh(h @ g.variable(w) + g.variable(b))
        gradients = g.gradients(g.mean(g.square(h)), g.trainable_variables)
        updates = mg.optim.Adam(RATE, epsilon=1.0).updates(gradients, g.constant(RATE))
        options = mg.CompilationDescriptor(**how)
        made.append((g, g.compile({x: x.shape}, [g.reduction_sum(h)], updates, options=options)))
    regions = [text.split("yield")[0] for text in texts["schedule"].split("= fused_elementwise(")[1:]]
    assert sum(region.count(" = ") == 12 for region in regions) == 2 * layers
    together = [line for line in kernels_of(made[0][1]) if "12 operations" in line]
    assert len(together) == 1 and together[0].count("12 operations") == 2 * layers, together
    assert_steps_agree(made, [rng.standard_normal(x.shape).astype(np.float32)])


def test_update_reading_another_updated_variable_runs_after_it():
    made = []
    for options in (mg.CompilationDescriptor(), mg.CompilationDescriptor(reference_kernels=True)):
        g = mg.Graph()
        x = g.placeholder((16,))
        a, b, c = (g.variable(np.ones(shape, np.float32)) for shape in ((16,), (3, 16), (5,)))
        moved = g.sin(a) * x
        updates = [g.assign(a, moved), g.assign(b, g.cos(b) * moved), g.assign(c, g.cos(c) * 0.5)]
        made.append((g, g.compile({x: x.shape}, [], updates, options=options)))
    assert [line.count(" operations, ") for line in kernels_of(made[0][1])] == [1, 2], (
        "the updates of b and c must share a kernel"
    )
    assert_steps_agree(made, [np.linspace(-1, 1, 16, dtype=np.float32)])
