"""Test batch normalization under autocast: activations stay bfloat16 in memory, and statistics and sums are float32.

The normalize pass absorbs the casts around a normalization and its gradients. The fused operations are compared with
the unfused operations in float64 and must not be less precise than a program that rounds every intermediate result.
"""

import re
from collections import Counter

import ml_dtypes
import mpsgraph as mg
import numpy as np
import pytest
from harness.batch_normalizations import (
    FORMS,
    SIZES,
    both_sides,
    computed,
    in_a_branch,
    moments_used,
    shared_moments,
    twice_used,
)
from harness.running import REFERENCE

AS_WRITTEN = mg.CompilationDescriptor(
    disabled_passes=("normalize", "simplify", "fuse_elementwise")
)  # rounds each result
ROUNDING = 2.0**-8


def program(make):
    """Return the program after pass normalize, with only specialization before it."""
    g, seen = mg.Graph(), {}
    feeds, targets = make(g)
    options = mg.CompilationDescriptor(disabled_passes=("prune", "quantize"), observe=seen.__setitem__)
    g.compile(feeds, targets, options=options)
    return seen["normalize"]


def normalized(g, with_residual=True):
    """Build ReLU of the normalization of bfloat16 data, optionally with a residual, and its gradients."""
    x, start = g.placeholder((6, 8), "bfloat16", "x"), g.placeholder((6, 8), "bfloat16", "start")
    gamma = g.placeholder((8,), name="gamma")
    with mg.autocast("bfloat16"):
        m = g.mean(x, 0, name="m")
        v = g.variance(x, m, 0, name="v")
        n = g.normalization(x, m, v, gamma, name="n")
        y = g.relu(g.addition(n, start, name="sum") if with_residual else n, name="y")
    d = g.gradients(y, [x, gamma], start=start)
    feeds = {x: ((6, 8), "bfloat16"), start: ((6, 8), "bfloat16"), gamma: (8,)}
    return feeds, [y, d[x], d[gamma]]


def check(text, golden):
    """Compare the lines of a program that compute something with the expected lines."""
    lines = [line.strip() for line in text.splitlines() if " = " in line and "placeholder" not in line]
    assert lines == [line.strip() for line in golden.strip().splitlines()]


def test_fused_normalization_with_residual_absorbs_bfloat16_casts():
    check(
        program(normalized),
        """
        %m = fused_batch_moments(%x) {axis=1} : float32[1,8], float32[1,8]
        %y = fused_batch_normalization(%x, %m:0, %m:1, %gamma, %start) {activation="relu", axis=1, has_gamma=true, has_residual=true} : bfloat16[6,8]
        %relu_gradient = fused_batch_normalization_sums(%start, %x, %m:0, %m:1, %y) {axis=1, mask="given"} : float32[1,8], float32[1,8], bfloat16[6,8]
        %constant = constant() {value=int32[1] [0x00000008]} : int32[1]
        %reshape = reshape(%relu_gradient:0, %constant) : float32[8]
        %fused_batch_normalization_gradient = fused_batch_normalization_gradient(%relu_gradient:2, %x, %m:0, %m:1, %relu_gradient:0, %relu_gradient:1, %gamma) {axis=1, has_gamma=true} : bfloat16[6,8]
        """,  # noqa: E501
    )


def test_fused_normalization_without_residual_recomputes_relu_mask():
    check(
        program(lambda g: normalized(g, with_residual=False)),
        """
        %m = fused_batch_moments(%x) {axis=1} : float32[1,8], float32[1,8]
        %y = fused_batch_normalization(%x, %m:0, %m:1, %gamma) {activation="relu", axis=1, has_gamma=true} : bfloat16[6,8]
        %normalization_gamma_gradient = fused_batch_normalization_sums(%start, %x, %m:0, %m:1, %gamma) {axis=1, has_gamma=true, mask="computed"} : float32[1,8], float32[1,8]
        %constant = constant() {value=int32[1] [0x00000008]} : int32[1]
        %reshape = reshape(%normalization_gamma_gradient:0, %constant) : float32[8]
        %fused_batch_normalization_gradient = fused_batch_normalization_gradient(%start, %x, %m:0, %m:1, %normalization_gamma_gradient:0, %normalization_gamma_gradient:1, %gamma) {axis=1, has_gamma=true, mask="computed"} : bfloat16[6,8]
        """,  # noqa: E501
    )


def test_normalization_with_float32_target_is_not_rounded_to_bfloat16():
    """The normalization is itself a target, so its data are float32 after the cast. Its moments still need no cast."""

    def make(g):
        x = g.placeholder((6, 8), "bfloat16", "x")
        wide = g.cast(x, "float32")
        m = g.mean(wide, 0)
        n = g.normalization(wide, m, g.variance(wide, m, 0), name="n")
        return {x: ((6, 8), "bfloat16")}, [n, g.cast(n, "bfloat16")]

    text = program(make)
    assert re.search(r"= fused_batch_moments\(%x\)", text)
    assert re.search(r"%n = fused_batch_normalization\(%cast, .* : float32\[6,8\]", text)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_fused_normalization_variant_stays_in_bfloat16(form):
    seen = {}
    computed(form, np.float32, (4, 5, 3, 24), 3, mg.CompilationDescriptor(observe=seen.__setitem__), low=True)
    twice = form in (both_sides, twice_used, shared_moments)
    found = Counter(re.findall(r"= fused_batch_(\w+)\(", seen["normalize"]))
    assert found == {
        "moments": 1 if form is shared_moments else 1 + twice, "normalization": 1 + twice,
        "normalization_sums": 1 + twice, "normalization_gradient": 1 + twice,
    }  # fmt: skip
    # In these forms, the input also receives other gradients, which are added in float32, or its cast is in an outer
    # block.
    in_float32 = form in (moments_used, shared_moments, in_a_branch)
    for line in seen["normalize"].splitlines():
        if re.search(r"= fused_batch_normalization(_gradient)?\(", line):
            low = "_gradient(" not in line or not in_float32
            assert line.endswith(": bfloat16[4,5,3,24]" if low else ": float32[4,5,3,24]"), line[:200]


def errors(found, wanted):
    return [np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-3) for a, b in zip(found, wanted, strict=True)]


@pytest.mark.both_devices
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_fused_normalization_variants_match_float64_reference(form, size):
    """Errors must be within the rounding of bfloat16, or overall no larger than if every operation rounded its result.

    A sum that rounds to the other side of 0 flips the ReLU mask, which changes an element of the gradient completely.
    """
    wanted = computed(form, np.float64, *SIZES[size])
    as_written = errors(computed(form, np.float32, *SIZES[size], AS_WRITTEN, low=True), wanted)
    for options in (None, REFERENCE):
        found = errors(computed(form, np.float32, *SIZES[size], options, low=True), wanted)
        assert found[0] < 2 * ROUNDING
        for i, (error, rounded) in enumerate(zip(found, as_written, strict=True)):
            assert error < max(0.02, 1.2 * rounded), (i, found, as_written)


def test_statistics_are_computed_in_float32():
    """Mean and variance of bfloat16 data and the gradient sums of gamma and beta must not be rounded to bfloat16."""
    g = mg.Graph()
    x = g.placeholder((3000, 17), "bfloat16")
    gamma, beta = g.variable(np.ones(17, np.float32)), g.variable(np.zeros(17, np.float32))
    with mg.autocast("bfloat16"):
        m = g.mean(x, 0)
        v = g.variance(x, m, 0)
        y = g.normalization(x, m, v, gamma, beta)
    sums = g.gradients(y, [gamma, beta], start=x)
    values = np.random.default_rng(1).normal(3, 1, (3000, 17)).astype(ml_dtypes.bfloat16)
    found = g.run({x: values}, [m, v, y, *sums.values()])
    exact = values.astype(np.float64)
    np.testing.assert_allclose(found[m].numpy()[0], exact.mean(0), rtol=1e-6)
    np.testing.assert_allclose(found[v].numpy()[0], exact.var(0), rtol=1e-5)
    np.testing.assert_allclose(found[sums[beta]].numpy(), exact.sum(0), rtol=1e-6)
