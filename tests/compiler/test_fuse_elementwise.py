"""Test which element-wise operations the fuse_elementwise pass fuses into one kernel."""

from __future__ import annotations

import re

import mpsgraph as mg
import numpy as np
import pytest
from harness.passes import Program, observed


def regions(program: Program) -> list[str]:
    """Return the operations of each fused kernel as one line of text."""
    text = observed(program)["fuse_elementwise"]
    return [
        " ".join(re.findall(r"= (\w+)\(", part.split("yield")[0])) for part in text.split("= fused_elementwise(")[1:]
    ]


def gated(g: mg.Graph):
    """Gradient of a gated layer as PyTorch's backward graphs compute it.

    The operations on `gate` alone could run first, but should be fused with those that wait for the matmul.
    """
    x, w, gate, up = (g.placeholder((64, 64), name=name) for name in ("x", "w", "gate", "up"))
    incoming = x @ w
    s = g.sigmoid(gate)
    gradient = incoming * up * s * (1.0 + gate * (1.0 - s))
    return dict.fromkeys((x, w, gate, up), (64, 64)), [gradient @ w], []


def test_value_with_several_users_is_fused_into_one_kernel():
    (region,) = regions(gated)
    assert region.count("sigmoid") == 1 and region.count("multiplication") == 4


def siblings(g: mg.Graph):
    x, w, a, b = (g.placeholder((64, 64), name=name) for name in ("x", "w", "a", "b"))
    y = x @ w
    return dict.fromkeys((x, w, a, b), (64, 64)), [(y * a) @ w, (y * b) @ w], []


def test_independent_operations_on_same_tensor_are_fused():
    assert regions(siblings) == ["multiplication multiplication"]


def apart(g: mg.Graph):
    """Two multiplications that read the same tensor but cannot be fused, since the second depends on the first."""
    x, w = (g.placeholder((64, 64), name=name) for name in ("x", "w"))
    first = g.sin(x) * x
    return dict.fromkeys((x, w), (64, 64)), [g.cos(x) * (first @ w)], []


def test_dependent_pairs_with_separate_inputs_form_separate_kernels():
    found = regions(apart)
    assert sorted(len(region.split()) for region in found) == [2, 2], found


def full(g: mg.Graph):
    """More operations than one kernel may hold. The ones that read `gate` alone should be fused with their users at the
    end.
    """
    x, gate = (g.placeholder((64, 64), name=name) for name in ("x", "gate"))
    y = x
    for _ in range(48):
        y = g.sin(y)
    s = g.sigmoid(gate)
    return dict.fromkeys((x, gate), (64, 64)), [y * s * (1.0 - s)], []


def test_operations_exceeding_kernel_limit_form_a_second_kernel():
    found = regions(full)
    assert len(found) == 2 and found[0].split() == ["sin"] * 48, found
    assert found[1].split().count("sigmoid") == 1 and len(found[1].split()) == 4, found


def test_each_optimizer_update_is_one_fused_kernel():
    """Three layers, whose gradients are ready at different times, and Adam with six tensors per variable."""

    def program(g: mg.Graph):
        x, labels = g.placeholder((4, 12), name="x"), g.placeholder((4, 3), name="labels")
        h, sizes = x, (12, 20, 16, 3)
        for rows, columns in zip(sizes, sizes[1:], strict=False):
            h = g.relu(h @ g.variable(np.full((rows, columns), 0.1, np.float32)))
        loss = g.softmax_cross_entropy(h, labels, reduction="mean")
        variables = g.trainable_variables
        updates = mg.optim.Adam().updates(g.gradients(loss, variables), g.constant(0.001))
        return {x: (4, 12), labels: (4, 3)}, [loss], updates

    text = observed(program)["fuse_elementwise"]
    regions = [part.split("yield")[0] for part in text.split("= fused_elementwise(")[1:]]
    for shape in ("float32[12,20]", "float32[20,16]", "float32[16,3]"):
        parts = [r for r in regions if re.search(rf"(square_root|division|subtraction)\(.*: {re.escape(shape)}\n", r)]
        assert len(parts) == 1, text
        assert parts[0].count(" = ") == 12, parts[0]


@pytest.mark.parametrize("program", [gated, siblings, apart, full])
def test_elementwise_fusion_does_not_change_results(program):
    def results(**options) -> list[np.ndarray]:
        g = mg.Graph()
        types, targets, _ = program(g)
        executable = g.compile(types, targets, options=mg.CompilationDescriptor(**options))
        rng = np.random.default_rng(6)
        feeds = {t: rng.standard_normal(shape).astype(np.float32) for t, shape in types.items()}
        return [r.numpy() for r in executable.run([feeds[t] for t in executable.feeds])]

    wanted = results(reference_kernels=True)
    for disabled in ((), ("fuse_elementwise",)):
        for a, b in zip(wanted, results(disabled_passes=disabled), strict=True):
            np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-4)
