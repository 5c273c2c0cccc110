"""Compare random graphs with numpy: Hypothesis combines element-wise, reducing, reshaping, and matmul operations.

Each graph is evaluated by numpy in float64 as it is built. The engine's float32 results must agree with numpy with all
passes, with each pass disabled, and with the reference kernels. The text of a graph must parse to an equal graph, and
gradients must agree with those of an unoptimized float64 run.
"""

from __future__ import annotations

from dataclasses import dataclass

import mpsgraph as mg
import numpy as np
import pytest
from harness.running import OPTIONAL_PASSES, run
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.begins_early

LIMIT = 20.0  # larger values are squashed, so that rounding errors stay below the tolerance


@dataclass
class Value:
    """A tensor of the graph and its value computed by numpy."""

    tensor: mg.Tensor
    number: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.number.shape


UNARY = {
    "negative": np.negative,
    "absolute": np.abs,
    "square": np.square,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0),
    "sin": np.sin,
    "exponent": lambda x: np.exp(x),
    "atan": np.arctan,
    "identity": lambda x: x,
}
BINARY = {
    "addition": np.add,
    "subtraction": np.subtract,
    "multiplication": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
REDUCTIONS = {"reduction_sum": np.sum, "reduction_maximum": np.max, "reduction_minimum": np.min, "mean": np.mean}


class Builder:
    """Draws operations and applies each to the graph and in numpy."""

    def choose(self, options):
        """Choose an option with equal probability; Hypothesis itself prefers the first ones."""
        return self.random.choice(list(options))

    def __init__(self, draw, dtype: str = "float32", unknown_batch: bool = False) -> None:
        self.draw, self.graph, self.dtype = draw, mg.Graph(), dtype
        self.unknown_batch = unknown_batch
        self.random = draw(st.randoms(use_true_random=True))
        self.feeds: dict[mg.Tensor, np.ndarray] = {}
        self.values: list[Value] = []

    def numbers(self, shape: tuple[int, ...]) -> np.ndarray:
        seed = self.draw(st.integers(0, 2**16))
        return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32).astype(np.float64)

    def leaf(self) -> None:
        shape = tuple(self.draw(st.lists(st.integers(0, 5), max_size=3)))
        if self.draw(st.booleans()) or not self.feeds:
            number = self.numbers(shape)
            known = tuple(-1 for _ in shape) if self.unknown_batch else shape
            tensor = self.graph.placeholder(known, self.dtype)
            self.feeds[tensor] = number.astype(self.dtype)
        elif self.draw(st.booleans()):
            number = self.numbers(shape)
            tensor = self.graph.read(self.graph.variable(number, self.dtype))
        else:
            value = self.choose([0.0, 1.0, -1.0, 0.5, 2.0])
            number, tensor = np.full(shape, value), self.graph.constant(value, shape, self.dtype)
        self.values.append(Value(tensor, number))

    def keep(self, tensor: mg.Tensor, number: np.ndarray) -> None:
        if number.size and np.abs(number).max() > LIMIT:
            tensor, number = self.graph.tanh(tensor), np.tanh(number)
        self.values.append(Value(tensor, number))

    def pick(self, fits=lambda value: True) -> Value | None:
        candidates = [v for v in self.values if fits(v)]
        return self.choose(candidates) if candidates else None

    def step(self) -> None:
        steps = [
            self.unary,
            self.binary,
            self.binary,
            self.scalar,
            self.reduction,
            self.shape,
            self.matmul,
            self.columns,
            self.select,
        ]
        if self.dtype == "float32":
            steps.append(self.integers)
        self.choose(steps)()

    def unary(self) -> None:
        x, name = self.pick(), self.choose(sorted(UNARY))
        if name == "exponent" and x.number.size and x.number.max() > 3:
            name = "tanh"
        self.keep(getattr(self.graph, name)(x.tensor), UNARY[name](x.number))

    def binary(self) -> None:
        x = self.pick()
        y = self.pick(lambda v: broadcasts(v.shape, x.shape))
        name = self.choose(sorted(BINARY))
        self.keep(getattr(self.graph, name)(x.tensor, y.tensor), BINARY[name](x.number, y.number))

    def scalar(self) -> None:
        """Add an operation with a Python scalar on either side, as algebraic rewrites expect."""
        x, value = self.pick(), self.choose([0.0, 1.0, -1.0, 2.0, 0.25])
        name = self.choose(["addition", "subtraction", "multiplication"])
        if self.draw(st.booleans()):
            self.keep(getattr(self.graph, name)(value, x.tensor), BINARY[name](value, x.number))
        else:
            self.keep(getattr(self.graph, name)(x.tensor, value), BINARY[name](x.number, value))

    def reduction(self) -> None:
        name = self.choose(sorted(REDUCTIONS))
        sums = name == "reduction_sum"
        x = self.pick(lambda v: len(v.shape) > 0 and (sums or v.number.size > 0))
        if x is None:
            return
        axes = self.draw(st.sets(st.integers(0, len(x.shape) - 1), min_size=1))
        number = REDUCTIONS[name](x.number, axis=tuple(axes), keepdims=True)
        self.keep(getattr(self.graph, name)(x.tensor, axes=tuple(axes)), number)

    def shape(self) -> None:
        x = self.pick()
        g, rank = self.graph, len(x.shape)
        kinds = ["transpose", "reshape", "slice", "concat", "broadcast", "expand", "pad", "gather"]
        kind = self.choose(kinds)
        if kind == "transpose" and rank:
            order = self.draw(st.permutations(range(rank)))
            self.keep(g.transpose(x.tensor, order), x.number.transpose(order))
        elif kind == "reshape" and x.number.size:
            self.keep(g.reshape(x.tensor, (-1,)), x.number.reshape(-1))
        elif kind == "slice" and rank:
            keys = tuple(self.draw(slices(n)) for n in x.shape)
            self.keep(x.tensor[keys], x.number[keys])
        elif kind == "concat" and rank:
            axis = self.draw(st.integers(0, rank - 1))
            y = self.pick(lambda v: len(v.shape) == rank and drop(v.shape, axis) == drop(x.shape, axis))
            self.keep(g.concat([x.tensor, y.tensor], axis), np.concatenate([x.number, y.number], axis))
        elif kind == "broadcast":
            extra = self.draw(st.integers(1, 3))
            shape = (extra, *x.shape)
            self.keep(g.broadcast_to(x.tensor, shape), np.broadcast_to(x.number, shape).copy())
        elif kind == "expand" and rank < 4:
            axis = self.draw(st.integers(0, rank))
            self.keep(g.expand_dims(x.tensor, axis), np.expand_dims(x.number, axis))
        elif kind == "pad" and rank:
            widths = [(self.draw(st.integers(0, 2)), self.draw(st.integers(0, 2))) for _ in x.shape]
            left, right = zip(*widths, strict=True)
            self.keep(g.pad(x.tensor, left, right, value=0.5), np.pad(x.number, widths, constant_values=0.5))
        elif kind == "gather" and rank and x.shape[0]:
            indices = self.draw(st.lists(st.integers(0, x.shape[0] - 1), max_size=4))
            picked = g.constant(np.array(indices, np.int32))
            self.keep(g.gather(x.tensor, picked), x.number[np.array(indices, int)])

    def matmul(self) -> None:
        x = self.pick(lambda v: len(v.shape) >= 2)
        if x is None:
            return
        y = self.pick(
            lambda v: len(v.shape) >= 2 and v.shape[-2] == x.shape[-1] and broadcasts(v.shape[:-2], x.shape[:-2])
        )
        if y is None:
            order = [*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2]
            y = Value(self.graph.transpose(x.tensor, order), x.number.transpose(order))
        self.keep(x.tensor @ y.tensor, x.number @ y.number)

    def columns(self) -> None:
        """Add a matmul with constant weights and a scale and shift per column, as pass `absorb` expects."""
        x = self.pick(lambda v: len(v.shape) >= 2)
        if x is None:
            return
        count = self.draw(st.integers(1, 4))
        weights, scale, shift = self.numbers((x.shape[-1], count)), self.numbers((count,)), self.numbers((count,))
        w, s, b = (self.graph.constant(n.astype(self.dtype)) for n in (weights, scale, shift))
        self.keep(x.tensor @ w * s + b, x.number @ weights * scale + shift)

    def integers(self) -> None:
        """Add a matmul of dequantized int8 tensors, as pass `quantize` expects."""
        rows, count, fours = (self.draw(st.integers(1, most)) for most in (4, 4, 2))
        random = np.random.default_rng(self.draw(st.integers(0, 2**16)))
        shapes = (rows, 4 * fours), (4 * fours, count)
        fed, weights = (random.integers(-128, 128, shape).astype(np.int8) for shape in shapes)
        scale, zero = random.uniform(0.001, 0.01, count).astype(np.float32), self.choose([0, 5])
        g, tensor = self.graph, self.graph.placeholder((-1, -1) if self.unknown_batch else fed.shape, mg.int8)
        self.feeds[tensor] = fed
        product = g.dequantize(tensor, 0.02, zero) @ g.dequantize(g.constant(weights), g.constant(scale), axis=1)
        number = (fed - float(zero)) * 0.02 @ (weights * scale.astype(np.float64))
        self.keep(g.relu(product), np.maximum(number, 0))

    def select(self) -> None:
        x = self.pick()
        y = self.pick(lambda v: broadcasts(v.shape, x.shape))
        if x is not y and np.any(np.abs(x.number - y.number) < 1e-2 * np.maximum(1, np.abs(x.number))):
            return  # rounding may decide even for equal numbers: (x - 1) + 1 may be more than x
        condition = self.graph.greater_than(x.tensor, y.tensor)
        chosen = np.where(x.number > y.number, x.number, y.number * 0.5)
        self.keep(self.graph.select(condition, x.tensor, y.tensor * 0.5), chosen)


def slices(size: int) -> st.SearchStrategy[slice]:
    """Draw slices without strides beyond 64 bits, which Hypothesis likes; test_graph_errors tests that they
    are rejected.
    """
    return st.slices(size).filter(lambda s: s.step is None or abs(s.step) < 2**40)


def broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b), strict=False))


def drop(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


@st.composite
def graphs(draw, **how) -> Builder:
    builder = Builder(draw, **how)
    for _ in range(draw(st.integers(1, 3))):
        builder.leaf()
    for _ in range(draw(st.integers(3, 16))):
        builder.step()
    return builder


def targets_of(built: Builder) -> list[Value]:
    """Return the last values, which depend on everything else."""
    return list({id(v.tensor): v for v in built.values[-3:]}.values())


def evaluate(built: Builder, **options) -> list[np.ndarray]:
    descriptor = mg.CompilationDescriptor(**options)
    results = run(
        built.graph, list(built.feeds), list(built.feeds.values()), [v.tensor for v in targets_of(built)], descriptor
    )
    return [r.numpy() for r in results]


def assert_agrees(built: Builder, found: list[np.ndarray], tolerance: float = 2e-3, what: object = "") -> None:
    for value, array in zip(targets_of(built), found, strict=True):
        assert array.shape == value.shape
        bounds = {"rtol": tolerance, "atol": tolerance * LIMIT / 10}
        if not np.allclose(array, value.number, **bounds, equal_nan=True):  # print the graph only on failure
            np.testing.assert_allclose(array, value.number, **bounds, err_msg=f"{what}\n{built.graph}")


@settings(max_examples=4000)
@given(graphs())
def test_random_graphs_match_numpy(built: Builder):
    for value in targets_of(built):
        assert value.tensor.shape == value.shape, "the shape must be known when the graph is built"
    assert_agrees(built, evaluate(built))
    assert_agrees(built, evaluate(built, reference_kernels=True), what="reference kernels")


@settings(max_examples=1000)
@given(graphs(), st.sampled_from([*((name,) for name in OPTIONAL_PASSES), OPTIONAL_PASSES]))
def test_random_graphs_match_numpy_without_a_pass(built: Builder, disabled: tuple[str, ...]):
    assert_agrees(built, evaluate(built, disabled_passes=disabled), what=f"without {disabled}")


@settings(max_examples=1000)
@given(graphs(dtype="float64"))
def test_random_graphs_match_numpy_in_float64(built: Builder):
    assert_agrees(built, evaluate(built), tolerance=1e-9)


@settings(max_examples=800)
@given(graphs(unknown_batch=True))
def test_random_graphs_with_dynamic_shapes_match_numpy(built: Builder):
    for value in targets_of(built):
        shape = value.tensor.shape
        assert shape is None or all(m in (-1, n) for m, n in zip(shape, value.shape, strict=True))
    assert_agrees(built, evaluate(built))


@settings(max_examples=1000)
@given(graphs())
def test_random_graphs_round_trip_through_text(built: Builder):
    text = str(built.graph)
    again = mg.parse(text)
    assert str(again) == text
    again.verify()
    feeds = {again.find(t.name).outputs[0]: array for t, array in built.feeds.items()}
    same = [again.find(v.tensor.operation.name).outputs[v.tensor.index] for v in targets_of(built)]
    for a, b in zip(run(again, list(feeds), list(feeds.values()), same), evaluate(built), strict=True):
        np.testing.assert_array_equal(a.numpy(), b)


@settings(max_examples=800)
@given(graphs(dtype="float64"))
def test_gradients_do_not_depend_on_passes_or_kernels(built: Builder):
    """Rewrites must not change gradients. Their values are checked case by case in test_gradients.py."""
    g, of = built.graph, targets_of(built)[-1].tensor
    loss = g.reduction_sum(of)
    gradients = list(g.gradients(loss, list(built.feeds)).values())
    feeds = list(built.feeds), list(built.feeds.values())
    plain = mg.CompilationDescriptor(disabled_passes=OPTIONAL_PASSES, reference_kernels=True)
    for a, b in zip(run(g, *feeds, gradients, plain), run(g, *feeds, gradients), strict=True):
        scale = 1 + np.abs(a.numpy()).max(initial=0)
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-7, atol=1e-9 * scale)


@settings(max_examples=400)
@given(st.data())
def test_random_indexing_matches_numpy(data: st.DataObject):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    keys = [data.draw(st.one_of(slices(n), st.integers(-n, n - 1))) for n in shape]
    keys = keys[: data.draw(st.integers(0, len(keys)))]
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(keys)))
        keys[place:] = [Ellipsis, *keys[place:]] if len(keys) == len(shape) or place == len(keys) else keys[place:]
    for _ in range(data.draw(st.integers(0, 2))):
        keys.insert(data.draw(st.integers(0, len(keys))), None)
    key = tuple(keys)
    g = mg.Graph()
    x = g.placeholder(shape, mg.int32)
    result = x[key]
    assert result.shape == array[key].shape
    np.testing.assert_array_equal(g.run({x: array}, result).numpy(), array[key])
