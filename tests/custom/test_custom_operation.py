"""Test custom operations with a C++ kernel: values, attributes, shapes, gradients, passes, and control flow."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import _core

SOFTSHRINK = """
void softshrink(mpsgraph::custom::Call& call) {
  const auto x = call.operand<float>(0);
  const auto y = call.result<float>(0);
  const float lambd = call.real("lambd");
  call.parallel_for(x.size(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      y[i] = x[i] > lambd ? x[i] - lambd : x[i] < -lambd ? x[i] + lambd : 0;
  });
}
"""


def shrunk(x: np.ndarray, lambd: float = 0.5) -> np.ndarray:
    return np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, 0)).astype(x.dtype)


def shrink_gradient(g: mg.custom.CustomGradient) -> mg.Tensor:
    (x,), (incoming,) = g.operands, g.incoming
    return x.graph.select(abs(x) > g.attributes["lambd"], incoming, 0.0)


@pytest.fixture(scope="module")
def softshrink() -> mg.CustomOperation:
    return mg.custom_operation("softshrink", cpu=SOFTSHRINK, attributes={"lambd": 0.5}, gradient=shrink_gradient)


def difference(f, x: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """Return central differences of the sum of f."""
    result = np.zeros_like(x, np.float64)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        result[i] = (np.sum(f(up), dtype=np.float64) - np.sum(f(down), dtype=np.float64)) / (
            float(up[i]) - float(down[i])
        )
    return result


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 3, 4, 5), (200_003,), (0, 4)])
def test_kernel_results_match_numpy(softshrink, rng, shape):
    g = mg.Graph()
    x = g.placeholder(shape)
    value = rng.normal(size=shape).astype(np.float32)
    np.testing.assert_array_equal(g.run({x: value}, softshrink(x)).numpy(), shrunk(value))


def test_attribute_values_and_defaults_reach_the_kernel(softshrink, rng):
    g = mg.Graph()
    x = g.placeholder((4, 4))
    default, wide, whole = softshrink(x), softshrink(x, lambd=1.5), softshrink(x, lambd=1)
    value = rng.normal(size=(4, 4)).astype(np.float32) * 2
    results = g.run({x: value}, [default, wide, whole])
    for tensor, lambd in ((default, 0.5), (wide, 1.5), (whole, 1.0)):
        np.testing.assert_array_equal(results[tensor].numpy(), shrunk(value, lambd))
    assert default.operation.attributes["lambd"] == 0.5 and wide.name == "softshrink_1"


ALL_KINDS = """
void all_kinds(mpsgraph::custom::Call& call) {
  const auto y = call.result<double>(0);
  const auto list = call.integers("list");
  y[0] = call.boolean("flag"); y[1] = static_cast<double>(call.integer("count")); y[2] = call.real("real");
  y[3] = std::strlen(call.string("word")); y[4] = static_cast<double>(list.size());
  y[5] = list.size() ? static_cast<double>(list[list.size() - 1]) : 0;
}
"""


def test_kernel_reads_attributes_of_every_type():
    operation = mg.custom_operation(
        "all_kinds",
        cpu=ALL_KINDS,
        attributes={"flag": True, "count": -(2**53), "real": float, "word": 'q"\\?\n', "list": (1, 2, -7)},
        dtypes=["float32", "float64"],
        infer=lambda x, **_: mg.TensorType(mg.float64, (6,)),
    )
    g = mg.Graph()
    x = g.constant(1.0)
    first = operation(x, real=float("inf"))
    second = operation(x, real=0.1, flag=False, count=3, word="", list=())
    results = g.run({}, [first, second])
    assert results[first].tolist() == [1, -(2**53), float("inf"), 5, 3, -7]
    assert results[second].tolist() == [0, 3, 0.1, 0, 0, 0]
    with pytest.raises(mg.GraphError, match="all_kinds.*requires attribute 'real'"):
        operation(x)
    with pytest.raises(mg.ShapeError, match="all_kinds.*count must be an integer, got 'many'"):
        operation(x, real=1.0, count="many")
    with pytest.raises(mg.GraphError, match="all_kinds.*unknown attribute size"):
        operation(x, real=1.0, size=3)


TWICE = """
using namespace mpsgraph::custom;
template <class T> void typed(Call& call) {
  const auto x = call.operand<T>(0);
  const auto y = call.result<T>(0);
  for (int64_t i = 0; i < x.size(); ++i) y[i] = static_cast<T>(x[i] + x[i]);
}
void twice(Call& call) {
  switch (call.operand_type(0).dtype) {
    case MPSGRAPH_FLOAT32: return typed<float>(call);
    case MPSGRAPH_FLOAT16: return typed<float16>(call);
    case MPSGRAPH_BFLOAT16: return typed<bfloat16>(call);
    case MPSGRAPH_FLOAT64: return typed<double>(call);
    case MPSGRAPH_INT8: return typed<int8_t>(call);
    case MPSGRAPH_UINT16: return typed<uint16_t>(call);
    case MPSGRAPH_INT32: return typed<int32_t>(call);
    case MPSGRAPH_INT64: return typed<int64_t>(call);
    default: throw std::invalid_argument("no such elements");
  }
}
"""
TYPES = ["float32", "float16", "bfloat16", "float64", "int8", "uint16", "int32", "int64"]


@pytest.mark.parametrize("dtype", TYPES)
def test_custom_operation_supports_every_dtype(rng, dtype):
    twice = mg.custom_operation("twice", cpu=TWICE, dtypes=TYPES)
    g = mg.Graph()
    x = g.placeholder((50,), dtype=dtype)
    numbers = mg.DType(dtype).numpy
    value = (
        rng.integers(0, 50, 50).astype(numbers) if mg.DType(dtype).is_integer else rng.normal(size=50).astype(numbers)
    )
    np.testing.assert_array_equal(g.run({x: value}, twice(x)).numpy(), value + value)


HALVES = """
using namespace mpsgraph::custom;
void halves(Call& call) {
  const auto x = call.operand<float>(0);
  const auto y = call.result<float16>(0);
  const auto z = call.result<bfloat16>(1);
  for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i], z[i] = x[i];
}
"""


def test_half_precision_types_of_header_round_as_in_numpy(rng):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    halves = mg.custom_operation(
        "halves",
        cpu=HALVES,
        infer=lambda x: [mg.TensorType(mg.float16, x.shape), mg.TensorType(mg.bfloat16, x.shape)],
    )
    bits = rng.integers(0, 2**32, 200_000, dtype=np.uint32)
    ties = (np.arange(2**16, dtype=np.uint32) << 16) | 0x8000  # for bfloat16
    every = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    with np.errstate(all="ignore"):
        between = np.nextafter(every, np.inf, dtype=np.float32)
        middle = ((every.astype(np.float64) + np.roll(every, -1)) / 2).astype(np.float32)
    value = np.concatenate([bits.view(np.float32), ties.view(np.float32), every, between, middle])
    value = value[~np.isnan(value)]
    g = mg.Graph()
    x = g.placeholder(value.shape)
    low, brain = halves(x)
    results = g.run({x: value}, [low, brain])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(results[low].numpy().view(np.uint16), value.astype(np.float16).view(np.uint16))
    expected = value.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(results[brain].numpy().view(np.uint16), expected.view(np.uint16))
    back = mg.custom_operation(
        "widened",
        cpu="""void widened(mpsgraph::custom::Call& call) {
          const auto x = call.operand<mpsgraph::custom::float16>(0);
          const auto y = call.result<float>(0);
          for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i];
        }""",
        dtypes=["float16"],
        infer=lambda x: mg.TensorType(mg.float32, x.shape),
    )
    all_halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    h = g.placeholder((2**16,), dtype=mg.float16)
    np.testing.assert_array_equal(g.run({h: all_halves}, back(h)).numpy(), all_halves.astype(np.float32))


# --- shapes ----------------------------------------------------------------------------------------------------------

PAIRS = """
using namespace mpsgraph::custom;
void shapes(Inference& i) {
  if (i.operand_type(0).rank != 2) throw std::invalid_argument("the first operand must be a matrix");
  i.results(2);
  i.result(0).rank = 3;
  i.result(0).dims[2] = i.integer("copies");
  i.result(1) = i.operand_type(0);
  i.result(1).rank = 1;
}
void repeat(Call& call) {
  const auto x = call.operand<float>(0);
  const auto y = call.result<float>(0);
  const auto sums = call.result<float>(1);
  const int64_t copies = call.integer("copies");
  for (int64_t row = 0; row < x.dim(0); ++row) {
    sums[row] = 0;
    for (int64_t column = 0; column < x.dim(-1); ++column) {
      sums[row] += x[row * x.dim(1) + column];
      for (int64_t k = 0; k < copies; ++k) y[(row * x.dim(1) + column) * copies + k] = x[row * x.dim(1) + column];
    }
  }
}
"""


@pytest.fixture(scope="module", params=["python", "cpp"])
def repeat(request) -> mg.CustomOperation:
    def shapes(x: mg.TensorType, copies: int) -> list[mg.TensorType]:
        if x.shape is None or len(x.shape) != 2:
            raise mg.ShapeError("the first operand must be a matrix")
        return [mg.TensorType(x.dtype, (*x.shape, copies)), mg.TensorType(x.dtype, x.shape[:1])]

    infer = shapes if request.param == "python" else "shapes"
    return mg.custom_operation("repeat", cpu=PAIRS, infer=infer, attributes={"copies": 2}, version=request.param)


def test_shapes_of_custom_results_are_inferred_again_at_run_time(repeat, rng):
    g = mg.Graph()
    x = g.placeholder((-1, -1))
    y, sums = repeat(x, copies=3)
    assert y.shape == (-1, -1, 3) and sums.shape == (-1,)
    for shape in ((2, 5), (1, 1), (0, 3), (7, 2)):
        value = rng.normal(size=shape).astype(np.float32)
        results = g.run({x: value}, [y, g.shape_of(y), sums])
        np.testing.assert_array_equal(results[y].numpy(), np.repeat(value[..., None], 3, -1))
        np.testing.assert_allclose(results[sums].numpy(), value.sum(1), rtol=1e-5, atol=1e-5)


def test_shape_inference_rejects_invalid_operands(repeat):
    g = mg.Graph()
    with pytest.raises(mg.ShapeError, match="the first operand must be a matrix"):
        repeat(g.placeholder((3,)))
    assert g.operation_count == 1


def test_custom_operation_accepts_value_dependent_operand_shapes(repeat):
    g = mg.Graph()
    x = g.placeholder((-1,))
    y, _ = repeat(g.reshape(g.gather(x, g.squeeze(g.non_zero_indices(g.cast(x > 0, mg.int32)), axes=1)), (-1, 1)))
    assert g.run({x: np.float32([1, -1, 2, 0, 3])}, y).tolist() == [[[1, 1]], [[2, 2]], [[3, 3]]]


# --- gradients --------------------------------------------------------------------------------------------------------


def test_custom_gradient_from_graph_operations_matches_numpy(softshrink, rng):
    g = mg.Graph()
    x = g.placeholder((3, 4))
    y = softshrink(g.square(x), lambd=0.3)
    value = rng.normal(size=(3, 4)).astype(np.float32)
    value[np.abs(value**2 - 0.3) < 0.02] = 1.0  # not near the kink
    gradient = g.run({x: value}, g.gradients(y, [x])[x]).numpy()
    np.testing.assert_allclose(gradient, difference(lambda v: shrunk(v**2, 0.3), value), rtol=1e-3, atol=1e-3)


BILINEAR = """
using namespace mpsgraph::custom;
void bilinear(Call& call) {  // z[i] = a[i] * b[i] * scale
  const auto a = call.operand<float>(0);
  const auto b = call.operand<float>(1);
  const auto z = call.result<float>(0);
  const float scale = call.real("scale");
  for (int64_t i = 0; i < a.size(); ++i) z[i] = a[i] * b[i] * scale;
}
"""
BILINEAR_GRADIENT = """
using namespace mpsgraph::custom;
void both(Inference& i) { i.results(2); i.result(0) = i.operand_type(1); i.result(1) = i.operand_type(2); }
void bilinear_gradient(Call& call) {
  const auto incoming = call.operand<float>(0);
  const auto a = call.operand<float>(1);
  const auto b = call.operand<float>(2);
  const auto da = call.result<float>(0);
  const auto db = call.result<float>(1);
  const float scale = call.real("scale");
  for (int64_t i = 0; i < a.size(); ++i) da[i] = incoming[i] * b[i] * scale, db[i] = incoming[i] * a[i] * scale;
}
"""


def test_custom_gradient_from_another_custom_operation_matches_numpy(rng):
    other = mg.custom_operation(
        "bilinear_gradient", cpu=BILINEAR_GRADIENT, infer="both", attributes={"scale": float}, dtypes=[["float32"]] * 3
    )
    bilinear = mg.custom_operation(
        "bilinear", cpu=BILINEAR, gradient=other, attributes={"scale": 2.0, "unused": 1}, dtypes=[["float32"]] * 2
    )
    g = mg.Graph()
    a, b = g.placeholder((5,)), g.placeholder((5,))
    loss = g.reduction_sum(g.square(bilinear(a, b, scale=3.0)))
    feeds = {a: rng.normal(size=5).astype(np.float32), b: rng.normal(size=5).astype(np.float32)}
    gradients = g.gradients(loss, [a, b])
    results = g.run(feeds, list(gradients.values()))
    va, vb = feeds[a].astype(np.float64), feeds[b].astype(np.float64)
    np.testing.assert_allclose(results[gradients[a]].numpy(), 18 * va * vb**2, rtol=1e-4)
    np.testing.assert_allclose(results[gradients[b]].numpy(), 18 * va**2 * vb, rtol=1e-4)
    assert {o.attributes["operation"] for o in g.operations if o.kind == "custom"} == {"bilinear", "bilinear_gradient"}


def test_custom_second_derivative_from_graph_operations_matches_numpy(rng):
    cube = mg.custom_operation(
        "cubed",
        cpu="""void cubed(mpsgraph::custom::Call& c) {
          const auto x = c.operand<float>(0); const auto y = c.result<float>(0);
          for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] * x[i] * x[i];
        }""",
        gradient=lambda g: 3 * g.operands[0] ** 2 * g.incoming[0],
    )
    g = mg.Graph()
    x = g.placeholder((4,))
    first = g.gradients(cube(x), [x])[x]
    second = g.gradients(first, [x])[x]
    value = rng.normal(size=4).astype(np.float32)
    np.testing.assert_allclose(g.run({x: value}, second).numpy(), 6 * value, rtol=1e-5)


def test_custom_gradient_receives_zeros_for_unused_results(repeat, rng):
    seen = []

    def gradient(g):
        seen.append((g.needs, g.attributes, [t.shape for t in g.incoming]))
        graph = g.operands[0].graph
        summed = graph.squeeze(graph.reduction_sum(g.incoming[0], axes=2), axes=2)
        return summed + graph.expand_dims(g.incoming[1], axes=1)

    again = mg.custom_operation(
        "repeat", cpu=PAIRS, infer="shapes", attributes={"copies": 2}, gradient=gradient, version="differentiable"
    )
    g = mg.Graph()
    x = g.placeholder((2, 3))
    y, _ = again(x)
    gradient_of_y = g.gradients(y, [x])[x]
    assert seen == [((True,), {"copies": 2}, [(2, 3, 2), (2,)])]
    np.testing.assert_array_equal(g.run({x: np.ones((2, 3), np.float32)}, gradient_of_y).numpy(), np.full((2, 3), 2.0))


def test_differentiating_custom_operation_without_gradient_raises():
    operation = mg.custom_operation(
        "constant_like", cpu=SOFTSHRINK.replace("softshrink", "constant_like"), attributes={"lambd": 0.5}
    )
    g = mg.Graph()
    x = g.placeholder((2,))
    with pytest.raises(mg.GraphError, match="constant_like.*has no gradient"):
        g.gradients(operation(x), [x])


@pytest.mark.parametrize(
    ("gradient", "error", "words"),
    [
        (lambda g: [g.incoming[0], None], mg.GraphError, "for each of 1 operands, got 2 values"),
        (lambda g: "none", mg.GraphError, "a tensor or None for each operand, got 'none'"),
        (
            lambda g: g.incoming[0].graph.cast(g.incoming[0], mg.float16),
            mg.ShapeError,
            r"must have the operand's type .*got float16\[3\]",
        ),
        (lambda g: g.incoming[0][:2], mg.ShapeError, r"must have the operand\'s type float32\[3\], got float32\[2\]"),
        (lambda g: mg.Graph().constant([1.0, 2.0, 3.0]), mg.GraphError, "another graph"),
    ],
)
def test_invalid_custom_gradients_raise(gradient, error, words):
    operation = mg.custom_operation(
        "shrunk", cpu=SOFTSHRINK.replace("softshrink", "shrunk"), attributes={"lambd": 0.5}, gradient=gradient
    )
    g = mg.Graph()
    x = g.placeholder((3,))
    y = operation(x)
    with pytest.raises(error, match=words):
        g.gradients(y, [x])


def test_exception_in_custom_gradient_propagates():
    def gradient(g):
        raise KeyError("mine")

    operation = mg.custom_operation(
        "shrunk", cpu=SOFTSHRINK.replace("softshrink", "shrunk"), attributes={"lambd": 0.5}, gradient=gradient
    )
    g = mg.Graph()
    x = g.placeholder((3,))
    with pytest.raises(KeyError, match="mine"):
        g.gradients(operation(x), [x])


# --- passes, control flow, training ----------------------------------------------------------------------------------

COUNTED = """
#include <atomic>
static std::atomic<int> runs{0};
void NAME(mpsgraph::custom::Call& call) {
  const auto x = call.operand<float>(0);
  const auto y = call.result<float>(0);
  ++runs;
  for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] + runs;
}
"""


@pytest.mark.parametrize("effect", [False, True])
def test_equal_custom_operations_without_side_effects_are_merged(effect):
    name = f"counted_{effect}"
    counted = mg.custom_operation(name, cpu=COUNTED.replace("NAME", name), effect=effect)
    g = mg.Graph()
    x = g.placeholder((1,))
    first, second, unused = counted(x), counted(x), counted(x * 2)
    executable = g.compile({x: (1,)}, [first * 1.5, second * 1.5])
    assert executable.kernel_names().count(name) == 1
    assert (second.name in executable.kernel_names()) == effect
    results = executable.run([np.float32([0])])
    assert [float(r.numpy()[0]) for r in results] == ([1.5, 3] if effect else [1.5, 1.5])
    assert unused.name not in executable.kernel_names()


def test_custom_operation_works_inside_loops_and_branches(softshrink, rng):
    g = mg.Graph()
    x = g.placeholder((4,))
    (looped,) = g.for_(3, initial=[x], body=lambda i, v: softshrink(v, lambd=0.25))
    (chosen,) = g.if_(g.reduction_sum(x) > 0, lambda: softshrink(x), lambda: -softshrink(-x, lambd=0.75))
    value = rng.normal(size=4).astype(np.float32) * 2
    expected = value
    for _ in range(3):
        expected = shrunk(expected, 0.25)
    for sign in (1, -1):
        v = sign * np.abs(value)
        result = g.run({x: v}, chosen).numpy()
        np.testing.assert_array_equal(result, shrunk(v) if sign > 0 else -shrunk(-v, 0.75))
    np.testing.assert_array_equal(g.run({x: value}, looped).numpy(), expected)
    gradient = g.run({x: value}, g.gradients(looped, [x])[x]).numpy()
    np.testing.assert_array_equal(gradient, (expected != 0).astype(np.float32))


def test_trainer_trains_a_model_with_custom_operation(softshrink, rng):
    class Shrunk(mg.nn.Module):
        def forward(self, x):
            return softshrink(x, lambd=0.1)

    x = rng.normal(size=(256, 4)).astype(np.float32)
    y = shrunk(x @ rng.normal(size=(4, 1)).astype(np.float32), 0.1)
    trainer = mg.Trainer(mg.nn.Sequential(mg.nn.Linear(1), Shrunk()), "mse", mg.optim.Adam(0.05))
    losses = [float(trainer.train_step(x, y)) for _ in range(200)]
    assert losses[-1] < losses[0] / 100


def test_autocast_casts_custom_operands_to_float32(softshrink):
    g = mg.Graph()
    with mg.autocast():
        x = g.placeholder((2,), dtype=mg.float16)
        y = softshrink(x)
    assert y.dtype == mg.float32
    assert g.run({x: np.float16([2, 0.25])}, y).tolist() == [1.5, 0.0]


def test_custom_operation_round_trips_through_text(softshrink):
    g = mg.Graph()
    x = g.placeholder((-1,), name="x")
    softshrink(x, lambd=0.25, name="y")
    text = str(g)
    assert f'%y = custom(%x) {{key="{softshrink.key}", lambd=0.25, operation="softshrink"}}' in text
    again = mg.parse(text)
    assert str(again) == text
    feeds = {again.find("x").outputs[0]: np.float32([1, -1])}
    assert again.run(feeds, again.find("y").outputs[0]).tolist() == [0.75, -0.75]
    with pytest.raises(
        mg.GraphError, match="custom operation 'softshrink' with the key 'other' is not defined.*defined with the key"
    ):
        mg.parse(text.replace(softshrink.key, "other"))
    with pytest.raises(mg.GraphError, match="custom operation 'hardshrink' .*is not defined"):
        mg.parse(text.replace('"softshrink"', '"hardshrink"'))


def test_profile_lists_the_custom_kernel_by_name(softshrink):
    g = mg.Graph()
    x = g.placeholder((100,))
    y = softshrink(x, name="shrunk")
    with mg.profiler.profile() as profile:
        g.run({x: np.ones(100, np.float32)}, y)
    (kernel,) = [record.kernel for record in profile.kernels if record.name == "shrunk"]
    assert (kernel.kind, kernel.implementation) == ("custom", "'softshrink'")


def test_custom_operation_writes_results_to_caller_memory(softshrink):
    g = mg.Graph()
    x = g.placeholder((5,))
    out = np.zeros(5, np.float32)
    g.run({x: np.arange(5, dtype=np.float32)}, softshrink(x), results=out)
    np.testing.assert_array_equal(out, shrunk(np.arange(5, dtype=np.float32)))


def test_parallel_for_divides_work_between_threads():
    source = """
    #include <mutex>
    #include <set>
    #include <thread>
    void threads_used(mpsgraph::custom::Call& call) {
      const auto x = call.operand<float>(0);
      const auto y = call.result<float>(0);
      std::mutex mutex; std::set<int64_t> begun; int64_t items = 0; int64_t least = 1 << 30;
      call.parallel_for(x.size(), 100, [&](int64_t begin, int64_t end) {
        const std::lock_guard<std::mutex> lock(mutex);
        begun.insert(begin); items += end - begin;
        if (end != x.size()) least = std::min(least, end - begin);
      });
      y[0] = begun.size(); y[1] = items; y[2] = least;
    }
    """
    used = mg.custom_operation(
        "threads_used", cpu="#include <algorithm>\n" + source, infer=lambda x: mg.TensorType(x.dtype, (3,))
    )
    g = mg.Graph()
    x = g.placeholder((10_000,))
    parts, items, least = g.run({x: np.zeros(10_000, np.float32)}, used(x)).tolist()
    assert items == 10_000 and parts >= 1 and least >= 100
    assert _core.get_num_threads() == 1 or parts > 1
