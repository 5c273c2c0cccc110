"""Test custom operations with C++ and Metal kernels on both devices: values, execution order, variables, and checks."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from harness import device
from harness.custom import meaning

pytestmark = pytest.mark.both_devices

ZERO_OUT = """
void zero_out(mpsgraph::custom::Call& call) {
  const auto x = call.operand<int32_t>(0);
  const auto y = call.result<int32_t>(0);
  for (int64_t i = 0; i < x.size(); ++i) y[i] = i < call.integer("keep") ? x[i] : 0;
}
"""
ZERO_OUT_METAL = """
kernel void zero_out(device const int* x [[buffer(0)]], device int* y [[buffer(1)]],
                     constant Arguments& arguments [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  y[i] = int(i) < arguments.keep ? x[i] : 0;
}
"""

AFFINE = """
void affine(mpsgraph::custom::Call& call) {  // y[row, column] = x[row, column] * scale[column] + shift
  const auto x = call.operand<float>(0);
  const auto scale = call.operand<float>(1);
  const auto y = call.result<float>(0);
  const float shift = call.real("shift");
  for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale[i % x.dim(1)] + shift;
}
"""
AFFINE_METAL = """
kernel void affine(device const operand0_type* x [[buffer(0)]], device const operand1_type* scale [[buffer(1)]],
                   device result0_type* y [[buffer(2)]], constant Arguments& arguments [[buffer(3)]],
                   uint2 at [[thread_position_in_grid]]) {
  const uint columns = arguments.operand0_shape[1], i = at.y * columns + at.x;
  y[i] = x[i] * scale[at.x] + arguments.shift;
}
"""


def affine_gradient(g):
    x, scale = g.operands
    graph, incoming = x.graph, g.incoming[0]
    return incoming * scale, graph.squeeze(graph.reduction_sum(incoming * x, axes=0), axes=0)


@pytest.fixture(scope="module")
def zero_out() -> mg.CustomOperation:
    meaning(
        "zero_out",
        "int32_t keep; int32_t operand0_shape[1]; int32_t result0_shape[1];",
        """((int32_t*)buffer(1))[i] = int(i) < arguments.keep ? ((const int32_t*)buffer(0))[i] : 0;""",
    )
    return mg.custom_operation("zero_out", cpu=ZERO_OUT, metal=ZERO_OUT_METAL, attributes={"keep": 1}, dtypes=["int32"])


@pytest.fixture(scope="module")
def affine() -> mg.CustomOperation:
    meaning(
        "affine",
        "float shift; int32_t operand0_shape[2]; int32_t operand1_shape[1]; int32_t result0_shape[2];",
        """
        const int columns = arguments.operand0_shape[1], at = position[1] * columns + position[0];
        if (grid[0] != columns || grid[1] != arguments.operand0_shape[0]) return;
        ((float*)buffer(2))[at] = ((const float*)buffer(0))[at] * ((const float*)buffer(1))[i] + arguments.shift;
        """,
    )
    return mg.custom_operation(
        "affine",
        cpu=AFFINE,
        metal=AFFINE_METAL,
        attributes={"shift": 0.5},
        dtypes=[["float32"], ["float32"]],
        gradient=affine_gradient,
        threads=lambda x, scale, shift: (x.shape[1], x.shape[0]),
    )


def test_zero_out_example_matches_numpy(zero_out):
    g = mg.Graph()
    x = g.placeholder((-1,), dtype=mg.int32)
    y, more = zero_out(x), zero_out(x + 1, keep=3)
    for size in (1, 4, 5000):
        value = np.arange(1, size + 1, dtype=np.int32)
        results = g.run({x: value}, [y, more])
        np.testing.assert_array_equal(results[y].numpy(), np.where(np.arange(size) < 1, value, 0))
        np.testing.assert_array_equal(results[more].numpy(), np.where(np.arange(size) < 3, value + 1, 0))


def test_custom_metal_kernel_accepts_empty_operand(zero_out):
    g = mg.Graph()
    x = g.placeholder((-1,), dtype=mg.int32)
    assert g.run({x: np.zeros(0, np.int32)}, zero_out(x)).shape == (0,)


def test_chained_custom_and_built_in_operations_match_numpy(affine, rng):
    g = mg.Graph()
    x, s = g.placeholder((-1, 3)), g.placeholder((3,))
    first = affine(g.tanh(x), s)
    second = affine(first, s * 2, shift=-1.0)
    y = g.exponent(second) + first
    for rows in (1, 4):
        a, b = rng.normal(size=(rows, 3)).astype(np.float32), rng.normal(size=3).astype(np.float32)
        one = np.tanh(a) * b + 0.5
        two = one * (2 * b) - 1
        results = g.run({x: a, s: b}, [y, first, second, x])
        np.testing.assert_allclose(results[first].numpy(), one, rtol=1e-5)
        np.testing.assert_allclose(results[second].numpy(), two, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(results[y].numpy(), np.exp(two) + one, rtol=1e-5)
        np.testing.assert_array_equal(results[x].numpy(), a)


def test_custom_metal_kernel_accepts_constants_and_repeated_target(affine):
    g = mg.Graph()
    x = g.placeholder((2, 2))
    y = affine(x, g.constant([2.0, 3.0]))
    nothing_fed = affine(g.constant([[1.0, 2.0]]), g.constant([2.0, 3.0]))
    executable = g.compile({x: (2, 2)}, [y, y, nothing_fed])
    for value in (np.ones((2, 2), np.float32), np.float32([[1, 2], [3, 4]])):
        twice, again, fixed = (result.numpy() for result in executable.run([value]))
        np.testing.assert_allclose(twice, value * [2, 3] + 0.5)
        np.testing.assert_array_equal(twice, again)
        np.testing.assert_allclose(fixed, [[2.5, 6.5]])


def test_custom_metal_kernel_writes_results_to_caller_memory(affine):
    g = mg.Graph()
    x, s = g.placeholder((2, 2)), g.placeholder((2,))
    y = affine(x, s)
    z = y * 2
    out = {y: np.zeros((2, 2), np.float32), z: np.zeros((2, 2), np.float32)}
    g.run({x: np.ones((2, 2), np.float32), s: np.float32([1, 2])}, [y, z], results=out)
    np.testing.assert_allclose(out[y], [[1.5, 2.5]] * 2)
    np.testing.assert_allclose(out[z], [[3, 5]] * 2)


def test_training_with_custom_metal_kernel_matches_numpy(affine, rng):
    g = mg.Graph()
    x, t = g.placeholder((-1, 3)), g.placeholder((-1, 3))
    scale = g.variable(np.ones(3, np.float32))
    loss = g.mean(g.square(affine(x, scale) - t))
    gradient = g.gradients(loss, [scale])[scale]
    update = g.assign(scale, scale - 0.5 * gradient)
    wanted = np.float32([2, -1, 0.5])
    losses = []
    for _ in range(60):
        a = rng.normal(size=(16, 3)).astype(np.float32)
        losses.append(g.run({x: a, t: a * wanted + 0.5}, loss, [update]).numpy().item())
    assert losses[-1] < 1e-4 < losses[0]
    np.testing.assert_allclose(g.variable_value(scale), wanted, atol=0.02)


def test_variables_around_custom_kernel_are_updated_in_order(affine):
    g = mg.Graph()
    x = g.placeholder((1, 2))
    v = g.variable(np.float32([1, 1]))
    before = affine(x, v)
    first = g.assign(v, v * 3)
    after = affine(x, v)
    later = g.control_dependency([first], lambda: affine(x, v + 0))
    second = g.assign(v, g.reshape(later, (2,)))
    value = np.float32([[1, 2]])
    results = g.run({x: value}, [before, after, later], [first, second])
    np.testing.assert_allclose(results[before].numpy(), [[1.5, 2.5]])
    np.testing.assert_allclose(results[after].numpy(), [[3.5, 6.5]])
    np.testing.assert_allclose(results[later].numpy(), [[3.5, 6.5]])
    np.testing.assert_allclose(g.variable_value(v), [3.5, 6.5])


def test_failed_check_before_kernel_skips_later_operations(affine):
    g = mg.Graph()
    x = g.placeholder((1, 2))
    v = g.variable(np.float32([1, 1]))
    y = affine(g.check(g.reduction_sum(x) > 0, "must be positive", on=x), v)
    update = g.assign(v, g.reshape(y, (2,)))
    with pytest.raises(mg.CheckError, match="must be positive"):
        g.run({x: np.float32([[-1, -2]])}, y, [update])
    np.testing.assert_array_equal(g.variable_value(v), [1, 1])
    g.run({x: np.float32([[1, 2]])}, y, [update])
    np.testing.assert_allclose(g.variable_value(v), [1.5, 2.5])


def test_custom_metal_kernel_accepts_value_dependent_shapes(zero_out):
    g = mg.Graph()
    x = g.placeholder((-1,), dtype=mg.int32)
    found = g.squeeze(g.non_zero_indices(x), axes=1)
    y = zero_out(g.cast(found, mg.int32) + 1, keep=2) * 2
    assert g.run({x: np.int32([0, 5, 0, 7, 9])}, y).tolist() == [4, 8, 0]


def test_custom_metal_kernel_runs_in_command_buffers_and_async(affine, rng):
    g = mg.Graph()
    x, s = g.placeholder((2, 2)), g.placeholder((2,))
    y = affine(x + 1, s) * 2
    executable = g.compile({x: (2, 2), s: (2,)}, [y])
    buffer = mg.CommandQueue().command_buffer()
    values = [rng.normal(size=(2, 2)).astype(np.float32) for _ in range(5)]
    scale = np.float32([3, -1])
    results = [executable.encode(buffer, [value, scale])[0] for value in values]
    buffer.commit()
    buffer.wait_until_completed()
    for value, result in zip(values, results, strict=True):
        np.testing.assert_allclose(result.numpy(), ((value + 1) * scale + 0.5) * 2, rtol=1e-5)
    runs = [g.run_async({x: value, s: scale}, [y]) for value in values]
    for value, run in zip(values, runs, strict=True):
        np.testing.assert_allclose(run.wait().results[y].numpy(), ((value + 1) * scale + 0.5) * 2, rtol=1e-5)


def test_custom_metal_kernel_runs_in_specialized_branch(affine):
    g = mg.Graph()
    flag, x = g.placeholder((), dtype=mg.bool_), g.placeholder((1, 2))
    (y,) = g.if_(flag, lambda: affine(x, x[0]), lambda: x * 2)
    value = np.float32([[1, 2]])
    for on in (True, False):
        expected = value * value[0] + 0.5 if on else value * 2
        try:
            result = g.run({flag: np.bool_(on), x: value}, y).numpy()
        except mg.UnsupportedError as error:
            assert device.IS_METAL and "inside a control-flow block" in str(error)
        else:
            np.testing.assert_allclose(result, expected)


def test_missing_custom_kernel_for_a_device_raises(affine):
    only_cpu = mg.custom_operation("affine_cpu", cpu=AFFINE.replace("affine", "affine_cpu"), attributes={"shift": 0.5})
    only_metal = mg.custom_operation("affine", metal=AFFINE_METAL, attributes={"shift": 0.5}, version="metal-only")
    g = mg.Graph()
    x = g.placeholder((1, 2))
    operation, words = (only_cpu, "in the Metal shading language") if device.IS_METAL else (only_metal, r"in C\+\+")
    with pytest.raises(mg.UnsupportedError, match=rf"has no kernel for .*{words}"):
        g.run({x: np.ones((1, 2), np.float32)}, operation(x, x[0]))


def test_serializing_custom_operation_to_apple_package_raises(affine, tmp_path):
    g = mg.Graph()
    x, s = g.placeholder((2, 2)), g.placeholder((2,))
    executable = g.compile({x: (2, 2), s: (2,)}, [affine(x, s)])
    with pytest.raises(mg.UnsupportedError, match="serialize"):
        executable.serialize(str(tmp_path / "package.mpsgraphpackage"))
