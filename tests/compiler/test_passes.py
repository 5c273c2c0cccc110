"""Test the compiler passes with `observe`, by comparing the program text after a pass with the expected text.

The C++ tests of the passes cover every rule. Here, each pass is tested with one or two programs. Other tests check that
each optional pass can be disabled and that disabling it never changes a result.
"""

from __future__ import annotations

import re
import textwrap

import mpsgraph as mg
import numpy as np
import pytest
from harness.passes import Program, has_integer_kernels, integers, observed
from harness.running import OPTIONAL_PASSES

OPTIONAL = list(OPTIONAL_PASSES)
PASSES = [*OPTIONAL[:3], "widen", OPTIONAL[3], "indices", "expand", *OPTIONAL[4:]]


def check(text: str, golden: str) -> None:
    assert text.strip() == textwrap.dedent(golden).strip()
    assert str(mg.parse(text)).strip() == text.strip(), "every program must parse as a graph"


def alone(program: Program, name: str) -> str:
    """Return the program after one pass, with all other optional passes disabled."""
    seen = observed(program, tuple(p for p in OPTIONAL if p != name))
    assert list(seen) == sorted({"specialize", "widen", "indices", "expand", name}, key=["specialize", *PASSES].index)
    return seen[name]


def test_compiler_runs_its_passes_in_documented_order():
    seen = observed(lambda g: ({}, [g.constant(1.0, name="one")], []))
    device = [name for name in PASSES if name != "quantize" or has_integer_kernels()]
    assert list(seen) == ["specialize", *device]


# --- golden -----------------------------------------------------------------------------------------------------------
def sizes(g: mg.Graph):
    x = g.placeholder((-1, 2), name="x")
    rows = g.reshape(x, g.shape_of(x), name="rows")
    return {x: (3, 2)}, [rows], []


def test_specialize_pass_inserts_shapes_and_dtypes_of_feeds():
    check(
        observed(sizes)["specialize"],
        """
        graph {
          %x = placeholder() {type=float32[3,2]} : float32[3,2]
          %constant = constant() {value=int32[2] [0x00000003,0x00000002]} : int32[2]
          %rows = reshape(%x, %constant) : float32[3,2]
        }
        """,
    )


def unneeded(g: mg.Graph):
    x = g.placeholder((2,), name="x")
    p, v = g.placeholder((), mg.bool_, name="p"), g.variable([0.0, 0.0], name="v")

    def branch():
        g.sin(x, name="never_used")
        return g.control_dependency([g.assign(v, x, name="kept")], lambda: g.cos(x, name="used"))

    g.exponent(x, name="outside")
    return {x: (2,), p: ()}, g.if_(p, branch, lambda: g.tan(x, name="else"), name="choice"), []


def test_prune_pass_removes_unused_operations():
    text = alone(unneeded, "prune")
    assert "never_used" not in text and "outside" not in text
    assert re.search(r"%kept = assign\(%v, %x\)", text) and "%used = cos(%x)" in text


def known_beforehand(g: mg.Graph):
    x, known = g.placeholder((2,), name="x"), g.constant(True)
    y = g.if_(g.not_(known), lambda: g.sin(x), lambda: g.relu(g.cos(x, name="c"), name="r"), name="choice")[0]
    return {x: (2,)}, [g.negative(y, name="y")], []


def test_prune_pass_replaces_if_with_constant_predicate():
    check(
        alone(known_beforehand, "prune"),
        """
        graph {
          %x = placeholder() {type=float32[2]} : float32[2]
          %c = cos(%x) : float32[2]
          %r = relu(%c) : float32[2]
          %y = negative(%r) : float32[2]
        }
        """,
    )


def channels_second(g: mg.Graph):
    x, b = g.placeholder((-1, 1, 4, 4), name="x"), g.placeholder((1, 2, 1, 1), name="b")
    w = g.constant(np.array([[1, 2]], np.float32).reshape(2, 1, 1, 1), name="w")
    c = g.convolution2d(x, w, data_layout="NCHW", weights_layout="OIHW", name="c")
    r = g.relu(g.addition(c, b, name="a"), name="r")
    p = g.max_pooling2d(r, (2, 2), strides=(2, 2), data_layout="NCHW", name="p")
    return {x: (1, 1, 4, 4), b: (1, 2, 1, 1)}, [g.mean(p, [2, 3], name="m"), r], []


def test_channels_last_pass_converts_from_first_convolution_to_targets():
    check(
        observed(channels_second)["channels_last"],
        """
        graph {
          %x = placeholder() {type=float32[1,1,4,4]} : float32[1,1,4,4]
          %b = placeholder() {type=float32[1,2,1,1]} : float32[1,2,1,1]
          %transpose = transpose(%x) {permutation=[0,2,3,1]} : float32[1,4,4,1]
          %constant = constant() {value=float32[1,1,1,2] [0x3f800000,0x40000000]} : float32[1,1,1,2]
          %c = convolution2d(%transpose, %constant) : float32[1,4,4,2]
          %transpose_2 = transpose(%b) {permutation=[0,2,3,1]} : float32[1,1,1,2]
          %a = addition(%c, %transpose_2) : float32[1,4,4,2]
          %r = relu(%a) : float32[1,4,4,2]
          %transpose_4 = transpose(%r) {permutation=[0,3,1,2]} : float32[1,2,4,4]
          %p = max_pooling2d(%r) {kernel=[2,2], strides=[2,2]} : float32[1,2,2,2]
          %m = mean(%p) {axes=[1,2]} : float32[1,1,1,2]
          %transpose_6 = transpose(%m) {permutation=[0,3,1,2]} : float32[1,2,1,1]
        }
        """,
    )


def channels_last_before(g: mg.Graph):
    kept = g.placeholder((1, 4, 4, 2), name="kept")
    d, w = g.placeholder((1, 1, 4, 4), name="d"), g.placeholder((1, 2, 1, 1), name="w")
    x = g.transpose(kept, [0, 3, 1, 2])
    u = g.multiplication(x, 2.0, name="u")  # before any convolution
    c = g.convolution2d_data_gradient(d, w, (1, 2, 4, 4), data_layout="NCHW", weights_layout="OIHW", name="c")
    feeds = {kept: (1, 4, 4, 2), d: (1, 1, 4, 4), w: (1, 2, 1, 1)}
    return feeds, [g.reduction_sum(g.multiplication(u, c, name="m"), [0, 2, 3], name="s")], []


def test_channels_last_pass_reuses_input_of_existing_transpose():
    text = observed(channels_last_before)["channels_last"]
    assert "%u = multiplication(%kept" in text
    assert "%m = multiplication(%u, %c) : float32[1,4,4,2]" in text
    assert "reduction_sum(%m) {axes=[0,1,2]" in text


def normalized(g: mg.Graph):
    x, r = g.placeholder((6, 8), name="x"), g.placeholder((6, 8), name="r")
    gamma, beta = g.placeholder((8,), name="gamma"), g.placeholder((8,), name="beta")
    m = g.mean(x, 0, name="m")
    v = g.variance(x, m, 0, name="v")
    n = g.normalization(x, m, v, gamma, beta, name="n")
    y = g.relu(g.addition(n, r, name="sum"), name="y")
    d = g.gradients(y, [x, gamma, beta, r], start=x)
    return {x: (6, 8), r: (6, 8), gamma: (8,), beta: (8,)}, [y, d[x], d[r]], []


def test_normalize_pass_fuses_residual_addition():
    check(
        alone(normalized, "normalize"),
        """
        graph {
          %x = placeholder() {type=float32[6,8]} : float32[6,8]
          %r = placeholder() {type=float32[6,8]} : float32[6,8]
          %gamma = placeholder() {type=float32[8]} : float32[8]
          %beta = placeholder() {type=float32[8]} : float32[8]
          %m = fused_batch_moments(%x) {axis=1} : float32[1,8], float32[1,8]
          %y = fused_batch_normalization(%x, %m:0, %m:1, %gamma, %beta, %r) {activation="relu", axis=1, has_beta=true, has_gamma=true, has_residual=true} : float32[6,8]
          %relu_gradient = fused_batch_normalization_sums(%x, %x, %m:0, %m:1, %y) {axis=1, mask="given"} : float32[1,8], float32[1,8], float32[6,8]
          %normalization_gradient = fused_batch_normalization_gradient(%relu_gradient:2, %x, %m:0, %m:1, %relu_gradient:0, %relu_gradient:1, %gamma) {axis=1, has_gamma=true} : float32[6,8]
        }
        """,  # noqa: E501
    )


def normalized_only(g: mg.Graph):
    x, g_y = g.placeholder((6, 8), name="x"), g.placeholder((6, 8), name="g")
    m = g.mean(x, 0, name="m")
    v = g.variance(x, m, 0, name="v")
    y = g.relu(g.normalization(x, m, v, name="n"), name="y")
    return {x: (6, 8), g_y: (6, 8)}, [y, g.gradients(y, [x], start=g_y)[x]], []


def test_normalize_pass_recomputes_relu_mask():
    check(
        alone(normalized_only, "normalize"),
        """
        graph {
          %x = placeholder() {type=float32[6,8]} : float32[6,8]
          %g = placeholder() {type=float32[6,8]} : float32[6,8]
          %m = fused_batch_moments(%x) {axis=1} : float32[1,8], float32[1,8]
          %y = fused_batch_normalization(%x, %m:0, %m:1) {activation="relu", axis=1} : float32[6,8]
          %normalization_gamma_gradient = fused_batch_normalization_sums(%g, %x, %m:0, %m:1) {axis=1, mask="computed"} : float32[1,8], float32[1,8]
          %normalization_gradient = fused_batch_normalization_gradient(%g, %x, %m:0, %m:1, %normalization_gamma_gradient:0, %normalization_gamma_gradient:1) {axis=1, mask="computed"} : float32[6,8]
        }
        """,  # noqa: E501
    )


def moments(g: mg.Graph):
    x = g.placeholder((2, 8), name="x")
    return {x: (2, 8)}, [g.mean(x, axes=1, name="m")], []


def lookups(g: mg.Graph):
    """Lookups that share one index check, an assign created before them that must run after the check, and labels of
    -1, which mean no label.
    """
    table, ids, labels = (
        g.placeholder((5, 2), name="t"),
        g.placeholder((3,), mg.int32, "i"),
        g.placeholder((2,), mg.int32, "l"),
    )
    v = g.variable([0.0, 0.0], name="v")
    update = g.assign(v, g.negative(g.read(v), name="n"), name="update")
    checked = g.gather(table, ids, name="checked", out_of_range="error")
    again = g.gather_gradient(checked, ids, (5, 2), name="again", out_of_range="error")
    clipped = g.gather(table, ids, name="clipped", out_of_range="clip")
    used = g.select(g.equal(labels, -1), 0, labels, name="used")
    hot = g.one_hot(used, 4, name="hot", out_of_range="error")
    return {table: (5, 2), ids: (3,), labels: (2,)}, [again, clipped, hot], [update]


def test_indices_pass_adds_shared_checks_before_side_effects():
    text = alone(lookups, "indices")
    operations = re.findall(r"^  (?:%\w+ = )?(\w+)\((.*?)\)", text, re.MULTILINE)
    kinds = [kind for kind, _ in operations]
    assert kinds.count("check_indices") == 2 and "out_of_range" not in text
    assert ("check_indices", "%i") in operations and ("check_indices", "%l") in operations
    assert text.count('lengths=[5], of="gather"') == 1 and 'ignored=[-1], lengths=[4], of="one_hot"' in text
    assert (
        max(i for i, kind in enumerate(kinds) if kind == "check_indices")
        < kinds.index("negative")
        < kinds.index("assign")
    )
    assert re.search(r"%clamp = clamp\(%i, %\w+, %\w+\)", text) and "%clipped = gather(%t, %clamp)" in text


def test_expand_pass_replaces_composite_operations():
    check(
        alone(moments, "expand"),
        """
        graph {
          %x = placeholder() {type=float32[2,8]} : float32[2,8]
          %constant = constant() {value=float32[] splat 0x41000000} : float32[]
          %reduction_sum = reduction_sum(%x) {axes=[1]} : float32[2,1]
          %division = division(%reduction_sum, %constant) : float32[2,1]
        }
        """,
    )


def constants(g: mg.Graph):
    x = g.placeholder((2,), name="x")
    doubled = g.multiplication(g.constant([1.0, 2.0]), 2.0, name="doubled")
    return {x: (2,)}, [g.addition(doubled, x, name="y")], []


def test_fold_pass_evaluates_constant_operations():
    check(
        alone(constants, "fold"),
        """
        graph {
          %x = placeholder() {type=float32[2]} : float32[2]
          %doubled = constant() {value=float32[2] [0x40000000,0x40800000]} : float32[2]
          %y = addition(%doubled, %x) : float32[2]
        }
        """,
    )


def redundant(g: mg.Graph):
    x, v = g.placeholder((2,), name="x"), g.variable([1.0, 1.0], name="v")
    s, t = g.sin(x, name="s"), g.sin(x, name="t")
    y = g.addition(s * 1.0, t + 0.0, name="y")
    update = g.assign(v, y, name="update")
    return {x: (2,)}, [g.multiplication(g.read(v, name="r"), x, name="z")], [update]


def test_simplify_pass_merges_and_removes_operations():
    check(
        alone(redundant, "simplify"),
        """
        graph {
          %x = placeholder() {type=float32[2]} : float32[2]
          %v = variable() {value=float32[2] [0x3f800000,0x3f800000]} : float32[2]
          %s = sin(%x) : float32[2]
          %y = addition(%s, %s) : float32[2]
          %update = assign(%v, %y) : ()
          %z = multiplication(%y, %x) : float32[2]
        }
        """,
    )


def decided(g: mg.Graph):
    x = g.placeholder((3,), name="x")
    true = g.constant(True)
    return {x: (3,)}, g.if_(true, lambda: g.sin(x, name="s"), lambda: g.cos(x, name="c"), name="choice"), []


def test_simplify_pass_evaluates_conditions_with_known_result():
    check(
        alone(decided, "simplify"),
        """
        graph {
          %x = placeholder() {type=float32[3]} : float32[3]
          %s = sin(%x) : float32[3]
        }
        """,
    )


def test_quantize_pass_creates_one_integer_operation():
    text = alone(integers, "quantize") if has_integer_kernels() else ""
    if not text:
        pytest.skip("this processor has no int8 dot product")
    check(
        text,
        """
        graph {
          %q = placeholder() {type=uint8[1,2,2,4]} : uint8[1,2,2,4]
          %r = placeholder() {type=int8[1,2,2,2]} : int8[1,2,2,2]
          %constant_7 = constant() {value=int8[1,1,4,2] [0x01,0x01,0x01,0x01,0x01,0x01,0x01,0x01]} : int8[1,1,4,2]
          %y = quantized_convolution2d(%q, %constant_7, %r) {activation="relu", bias=float32[2] [0x3f800000,0x40000000], has_residual=true, residual_scale=0.125, result_scale=0.25, result_zero_point=3, source_scale=0.5, source_zero_point=7, weights_scale=float32[2] [0x3f000000,0x3e800000]} : uint8[1,2,2,2]
        }
        """,  # noqa: E501
    )


def sequence(g: mg.Graph):
    """A strided 1-D convolution, the last state of a batch-first LSTM, and their gradients."""
    x = g.placeholder((3, 20, 2), name="x")
    cut, recurrent = mg.nn.Conv1d(4, 5, strides=5), mg.nn.LSTM(6)
    last = recurrent(cut(x))[:, -1]
    loss = g.mean(g.square(last), [0, 1])
    parameters = [*cut.parameters(), *recurrent.parameters()]
    return {x: (3, 20, 2)}, [last, loss, *g.gradients(loss, [x, *parameters]).values()], []


def test_simplify_pass_replaces_strided_convolution_with_reshape():
    text = observed(sequence)["simplify"]
    assert "convolution2d" not in text, "non-overlapping windows must become rows of a matrix"
    assert text.count(" transpose(") - text.count("permutation=[1,0]}") == 2, (
        "only the layer's input and its gradient may be transposed"
    )
    assert "float32[3,4,6]" not in text, "only the last state may be transposed to batch-first order"
    assert re.search(r" = slice\(%\w+:0\) .* : float32\[1,3,6\]", text), text
    assert re.search(r" = slice_gradient\(.* : float32\[4,3,6\]", text), text


def one_step(g: mg.Graph):
    x, h, c = (g.placeholder((1, 2, n), name=name) for name, n in (("x", 5), ("h", 6), ("c", 6)))
    y, (state, cell) = mg.nn.LSTM(6, batch_first=False).with_state(x, (h, c))
    return {x: (1, 2, 5), h: (1, 2, 6), c: (1, 2, 6)}, [y, state, cell], []


def test_single_lstm_step_with_small_batch_compiles_to_one_kernel():
    text = observed(one_step)["fuse_elementwise"]
    assert "matrix_multiplication" not in text and "has_input_weight=true" in text


def scaled(g: mg.Graph):
    x = g.placeholder((1, 2), name="x")
    y = g.matrix_multiplication(x, g.constant([[1.0, 2.0], [3.0, 4.0]], name="w"), name="y")
    y = g.multiplication(g.subtraction(y, g.constant([1.0, 1.0]), name="s"), g.constant([0.5, 2.0]), name="z")
    return {x: (1, 2)}, [g.addition(y, g.constant([8.0, 8.0]), name="a")], []


def test_absorb_pass_folds_scales_and_shifts_into_weights():
    check(
        alone(scaled, "absorb"),
        """
        graph {
          %x = placeholder() {type=float32[1,2]} : float32[1,2]
          %constant = constant() {value=float32[2,2] [0x3f000000,0x40800000,0x3fc00000,0x41000000]} : float32[2,2]
          %y = matrix_multiplication(%x, %constant) : float32[1,2]
          %constant_1 = constant() {value=float32[2] [0x40f00000,0x40c00000]} : float32[2]
          %a = addition(%y, %constant_1) : float32[1,2]
        }
        """,
    )


def branches(g: mg.Graph):
    x, y = g.placeholder((4, 3), name="x"), g.placeholder((4, 3), name="y")
    v, w, b = (g.placeholder(shape, name=n) for n, shape in (("v", (3, 2)), ("w", (3, 2)), ("b", (2,))))
    return {x: (4, 3), y: (4, 3), v: (3, 2), w: (3, 2), b: (2,)}, [g.relu((x @ v + b) + (y @ w + b), name="z")], []


def test_fuse_pass_absorbs_sum_of_two_matmuls_into_one_matmul():
    text = alone(branches, "fuse")
    assert text.count("fused_matrix_multiplication(") == 2 and " addition(" not in text and "%relu" not in text
    assert re.search(r"%z = .*%b, %addition.*has_bias=true, has_residual=true", text), text


def dense(g: mg.Graph):
    x, r = g.placeholder((4, 3), name="x"), g.placeholder((4, 2), name="r")
    w, b = g.placeholder((3, 2), name="w"), g.placeholder((2,), name="b")
    product = g.matrix_multiplication(x, w, name="product")
    return {x: (4, 3), r: (4, 2), w: (3, 2), b: (2,)}, [g.relu(product + b + r, name="y")], []


def test_fuse_pass_absorbs_bias_and_activation_into_matmul():
    check(
        alone(dense, "fuse"),
        """
        graph {
          %x = placeholder() {type=float32[4,3]} : float32[4,3]
          %r = placeholder() {type=float32[4,2]} : float32[4,2]
          %w = placeholder() {type=float32[3,2]} : float32[3,2]
          %b = placeholder() {type=float32[2]} : float32[2]
          %y = fused_matrix_multiplication(%x, %w, %b, %r) {activation="relu", has_bias=true, has_residual=true} : float32[4,2]
        }
        """,  # noqa: E501
    )


def convolution(g: mg.Graph):
    x, w = g.placeholder((1, 4, 4, 2), name="x"), g.placeholder((3, 3, 2, 5), name="w")
    y = g.convolution2d(x, w, padding="TF_SAME", strides=2, name="c")
    return {x: (1, 4, 4, 2), w: (3, 3, 2, 5)}, [g.relu(y, name="y")], []


def test_fuse_pass_absorbs_bias_and_activation_into_convolution():
    check(
        alone(convolution, "fuse"),
        """
        graph {
          %x = placeholder() {type=float32[1,4,4,2]} : float32[1,4,4,2]
          %w = placeholder() {type=float32[3,3,2,5]} : float32[3,3,2,5]
          %y = fused_convolution2d(%x, %w) {activation="relu", padding_style="TF_SAME", strides=[2,2]} : float32[1,2,2,5]
        }
        """,  # noqa: E501
    )


def test_fuse_pass_keeps_convolution_with_other_users():
    def program(g: mg.Graph):
        feeds, (y,), _ = convolution(g)
        return feeds, [y, g.find("c").outputs[0]], []

    text = alone(program, "fuse")
    assert "%c = convolution2d" in text and "%y = relu(%c)" in text


def wave(g: mg.Graph):
    x = g.placeholder((64, 32), name="x")
    return {x: (64, 32)}, [g.reduction_sum(g.square(g.sin(x, name="s"), name="q"), axes=1, name="y")], []


def test_fuse_elementwise_pass_ends_kernel_with_reduction():
    check(
        alone(wave, "fuse_elementwise"),
        """
        graph {
          %x = placeholder() {type=float32[64,32]} : float32[64,32]
          %y = fused_elementwise(%x) : float32[64,1] (%argument: float32[64,32]) {
            %sin = sin(%argument) : float32[64,32]
            %square = square(%sin) : float32[64,32]
            %reduction_sum = reduction_sum(%square) {axes=[1]} : float32[64,1]
            yield %reduction_sum
          }
        }
        """,
    )


def sums(g: mg.Graph):
    x = g.placeholder((256, 256), name="x")
    a, b = g.sin(x, name="a"), g.cos(x, name="b")
    return {x: (256, 256)}, [g.reduction_sum(a, name="s"), g.reduction_sum(b, name="t")], []


def test_schedule_pass_runs_memory_releasing_operations_early():
    check(
        alone(sums, "schedule"),
        """
        graph {
          %x = placeholder() {type=float32[256,256]} : float32[256,256]
          %a = sin(%x) : float32[256,256]
          %s = reduction_sum(%a) : float32[1,1]
          %b = cos(%x) : float32[256,256]
          %t = reduction_sum(%b) : float32[1,1]
        }
        """,
    )


def large_layers(g: mg.Graph, optimizer: type[mg.optim.Optimizer] = mg.optim.SGD):
    """Layers with gradients large enough to be worth releasing early; one weight is read again after its update."""
    rng = np.random.default_rng(7)
    x = g.placeholder((4, 256), name="x")
    weights = [g.variable(rng.standard_normal((256, 256)).astype(np.float32) / 16) for _ in range(6)]
    h = x
    for w in weights:
        h = g.tanh(h @ w)
    loss = g.mean(g.square(h), name="loss")
    updates = optimizer(0.01).updates(g.gradients(loss, weights), g.constant(0.1))
    after = g.reduction_sum(g.read(weights[2]), name="after")
    return {x: (4, 256)}, [loss, after], updates


def large_adam(g: mg.Graph):
    return large_layers(g, mg.optim.Adam)


@pytest.mark.parametrize("program", [large_layers, large_adam], ids=lambda program: program.__name__)
def test_schedule_pass_reduces_memory_of_gradients(program: Program):
    def arena(*disabled: str) -> int:
        g = mg.Graph()
        types, targets, operations = program(g)
        options = mg.CompilationDescriptor(disabled_passes=disabled)
        plan = g.compile(types, targets, operations, options=options).plan()
        return int(re.search(r"arena (\d+) bytes", plan)[1])

    one = 256 * 256 * 4
    assert arena("schedule") >= 6 * one > 3 * one >= arena()


# --- no pass changes a result -----------------------------------------------------------------------------------------
def training_step(g: mg.Graph):
    """One training step of a small network that gives every pass something to do."""
    rng = np.random.default_rng(5)
    x, labels = g.placeholder((3, 8, 8, 2), name="x"), g.placeholder((3, 4), name="labels")
    kernel = g.variable(rng.standard_normal((3, 3, 2, 6)).astype(np.float32) * 0.3, name="kernel")
    bias = g.variable(rng.standard_normal(6).astype(np.float32), name="bias")
    weights = g.variable(rng.standard_normal((96, 4)).astype(np.float32) * 0.2, name="weights")
    h = g.relu(g.convolution2d(x, kernel, padding="TF_SAME") + bias)
    h = g.flatten2d(g.max_pooling2d(h * 1.0, 2))
    loss = g.softmax_cross_entropy(h @ weights, labels, reduction="mean")
    variables = g.trainable_variables
    gradients = g.gradients(loss, variables)
    updates = [g.assign(v, g.stochastic_gradient_descent(0.1, v, d)) for v, d in gradients.items()]
    return {x: (3, 8, 8, 2), labels: (3, 4)}, [loss, *gradients.values()], updates


def numbers(rng: np.random.Generator, dtype: mg.DType, shape: tuple[int, ...]) -> np.ndarray:
    """Return random feeds: integers from a quarter of their range, so that few results saturate, and True for bools."""
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        return rng.integers(limits.min // 4, limits.max // 4, shape, dtype.numpy)
    return rng.random(shape).astype(np.float32) if dtype.is_float else np.array(True)


def results_without(program: Program, disabled: tuple[str, ...], reference: bool = False) -> list[np.ndarray]:
    """Return the targets and variables after two runs."""
    g = mg.Graph()
    types, targets, operations = program(g)
    rng = np.random.default_rng(6)
    feeds = {t: numbers(rng, t.dtype, shape) for t, shape in types.items()}
    options = mg.CompilationDescriptor(disabled_passes=disabled, reference_kernels=reference)
    executable = g.compile(types, targets, operations, options=options)
    for _ in range(2):
        results = executable.run([feeds[t] for t in executable.feeds])
    return [r.numpy() for r in results] + [g.variable_value(v) for v in g.variables]


ALL = [
    unneeded, channels_second, normalized, normalized_only, moments, constants, redundant, decided, integers, scaled,
    branches, dense, convolution, wave, training_step, sequence, one_step, sums, large_layers,
]  # fmt: skip


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("program", [large_layers, large_adam], ids=lambda program: program.__name__)
def test_schedule_pass_keeps_results_bitwise_equal(program: Program, reference: bool):
    """Adam divides gradients by their magnitude, which amplifies rounding differences, but reordering must not cause
    any.
    """
    for a, b in zip(*(results_without(program, off, reference) for off in ((), ("schedule",))), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("program", ALL, ids=lambda program: program.__name__)
def test_disabling_optional_passes_does_not_change_results(program: Program):
    wanted = results_without(program, (), reference=True)
    for disabled in ((), *((name,) for name in OPTIONAL), tuple(OPTIONAL)):
        found = results_without(program, disabled)
        for a, b in zip(wanted, found, strict=True):
            np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-5, err_msg=f"without {disabled}")


def test_optimized_training_step_has_only_fused_operations():
    """The step must contain no composite operation, no unfused element-wise chain, and no weight conversion on every
    run.
    """
    g = mg.Graph()
    types, targets, operations = training_step(g)
    executable = g.compile(types, targets[:1], operations)
    plain = mg.CompilationDescriptor(disabled_passes=OPTIONAL)
    assert len(executable.kernel_names()) <= 0.6 * len(
        g.compile(types, targets[:1], operations, options=plain).kernel_names()
    )
    assert executable.plan()


@pytest.mark.parametrize(
    ("dtype", "given", "attributes", "message"),
    [
        ("float32", "float32[3]", "has_bias=true", r"bias must have the shape \(32\), got float32\[3\]"),
        ("float32", "float32[1,3]", "has_residual=true", r"residual must have the shape \(1,32\)"),
        ("uint8", "float32[3]", "has_scale=true", r"scale must have 1 or 32 elements, got float32\[3\]"),
        ("uint8", "float32[33]", "has_zero=true", "zero must have 1 or 32 elements"),
    ],
)
def test_text_with_wrong_operand_of_fused_matmul_raises(dtype, given, attributes, message):
    text = f"""
    graph {{
      %x = placeholder() {{type=float32[1,64]}} : float32[1,64]
      %w = placeholder() {{type={dtype}[64,32]}} : {dtype}[64,32]
      %b = placeholder() {{type={given}}} : {given}
      %y = fused_matrix_multiplication(%x, %w, %b) {{{attributes}}} : float32[1,32]
    }}
    """
    with pytest.raises(mg.GraphError, match=message):
        mg.parse(text)
