"""Test errors while a graph is built: each must name the operation, the problem, and the source line.

A rejected operation must leave the graph unchanged. Each entry of the table checks this by comparing the graph's
operations and by running the graph afterwards. Invalid feeds are tested in runtime/test_bad_input.py, and dtypes in
test_types.py.
"""

from __future__ import annotations

import re

import mpsgraph as mg
import numpy as np
import pytest


class World:
    """A graph with an operand of every kind that the table needs."""

    def __init__(self) -> None:
        g = self.g = mg.Graph()
        self.x = g.placeholder((2, 3), name="x")
        self.image = g.placeholder((8, 32, 32, 3), name="image")
        self.batch = g.placeholder((-1, 3), name="batch")
        self.anything = g.placeholder(None, name="anything")
        self.index = g.placeholder((4,), mg.int32, name="index")
        self.v = g.variable(np.zeros((2, 3), np.float32), name="v")

    def still_works(self) -> bool:
        found = self.g.run({self.x: np.ones((2, 3), np.float32)}, self.x + self.v)
        self.g.verify()
        return found.tolist() == [[1, 1, 1]] * 2


S, D, G = mg.ShapeError, mg.DTypeError, mg.GraphError

REFUSED = {
    # Incompatible shapes.
    "addition": (S, lambda w: w.x + w.g.constant(0.0, (2,)), r"\(2,3\) and \(2\) cannot be broadcast"),
    "select": (S, lambda w: w.g.select(w.g.constant(np.ones(4, bool)), w.x, w.x), "broadcast"),
    "clamp": (S, lambda w: w.g.clamp(w.x, 0.0, w.g.constant(0.0, (4,))), "broadcast"),
    "matrix_multiplication": (S, lambda w: w.x @ w.x, "got 3 and 2"),
    "matrix_multiplication ": (S, lambda w: w.g.matrix_multiplication(w.x, w.g.constant(0.0, (3,))), "rank 2 or more"),
    "matrix_multiplication  ": (S, lambda w: w.batch @ w.g.constant(0.0, (4, 1)), "got 3 and 4"),
    "scaled_dot_product_attention": (
        S, lambda w: w.g.scaled_dot_product_attention(w.x, w.g.constant(0.0, (5, 4)), w.x), "query .* key .* last axis"
    ),
    "scaled_dot_product_attention ": (
        S, lambda w: w.g.scaled_dot_product_attention(w.x, w.x, w.g.constant(0.0, (5, 3))), "number of keys"
    ),
    "scaled_dot_product_attention  ": (
        S,
        lambda w: w.g.scaled_dot_product_attention(w.x, w.x, w.x, w.g.constant(0.0, (2, 3))),
        r"mask must broadcast to \(queries, keys\)",
    ),
    "scaled_dot_product_attention   ": (
        S,
        lambda w: w.g.scaled_dot_product_attention(w.anything, w.x, w.x),
        "needs a static last axis of query.*pass scale",
    ),
    "relu_gradient": (S, lambda w: w.g.relu_gradient(w.x, w.g.constant(0.0, (4,))), "broadcast"),
    "softmax": (S, lambda w: w.g.softmax(w.x, axis=2), "axis 2"),
    "softmax_gradient": (S, lambda w: w.g.softmax_gradient(w.x, w.g.constant(0.0, (3, 2))), "must have the same shape"),
    "softmax_cross_entropy": (
        S, lambda w: w.g.softmax_cross_entropy(w.x, w.g.constant(0.0, (2, 1))), "labels .* one_hot"
    ),
    "softmax_cross_entropy ": (G, lambda w: w.g.softmax_cross_entropy(w.x, w.x, reduction="product"), "reduction"),
    # Convolution and pooling.
    "convolution2d": (
        S,
        lambda w: w.g.convolution2d(w.image, w.g.constant(0.0, (5, 5, 4, 16))),
        r"weights have 4 input channel\(s\) \(HWIO axis 2\), but source has 3 \(NHWC axis 3\): "
        r"source \(8,32,32,3\), weights \(5,5,4,16\)",
    ),
    "convolution2d ": (S, lambda w: w.g.convolution2d(w.x, w.g.constant(0.0, (5, 5, 4, 16))), "rank 4"),
    "convolution2d  ": (
        S, lambda w: w.g.convolution2d(w.image, w.g.constant(0.0, (5, 5, 1, 16)), groups=3), r"16 channel.* 3 groups"
    ),
    "convolution2d   ": (S, lambda w: w.g.convolution2d(w.image, w.g.constant(0.0, (33, 1, 3, 1))), "covers 33"),
    "convolution2d    ": (
        S, lambda w: w.g.convolution2d(w.image, w.g.constant(0.0, (1, 1, 3, 1)), strides=(0, 1)), "strides"
    ),
    "convolution2d     ": (
        G, lambda w: w.g.convolution2d(w.image, w.g.constant(0.0, (1, 1, 3, 1)), padding="SAME"), "TF_SAME"
    ),
    "convolution2d      ": (
        G, lambda w: w.g.convolution2d(w.image, w.g.constant(0.0, (1, 1, 3, 1)), data_layout="CHWN"), "NHWC"
    ),
    "convolution2d       ": (
        S, lambda w: w.g.convolution2d(w.image, w.g.constant(0.0, (1, 1, 3, 1)), padding=((-1, 0), (0, 0))), "crop"
    ),
    "convolution2d        ": (
        S, lambda w: w.g.convolution2d(w.image, w.g.constant(0.0, (1, 1, 3, 1)), padding=(1, 2)), "padding must be"
    ),
    "convolution2d_data_gradient": (
        S,
        lambda w: w.g.convolution2d_data_gradient(w.image, w.g.constant(0.0, (3, 3, 5, 3)), (8, 32, 32, 5)),
        "incoming gradient",
    ),
    "max_pooling2d": (S, lambda w: w.g.max_pooling2d(w.image, (2, 0)), "kernel"),
    "max_pooling2d ": (S, lambda w: w.g.max_pooling2d(w.image, 2, padding=((2, 0), (0, 0))), "padding only"),
    "avg_pooling2d": (S, lambda w: w.g.avg_pooling2d(w.x, 2), "rank 4"),
    "avg_pooling2d ": (S, lambda w: w.g.avg_pooling2d(w.image, 33), "covers 33"),
    "max_pooling2d_gradient": (S, lambda w: w.g.max_pooling2d_gradient(w.image, w.image, 2), "incoming gradient"),
    # Reductions and moments.
    "reduction_sum": (S, lambda w: w.g.reduction_sum(w.x, axes=2), "axis 2"),
    "reduction_sum ": (S, lambda w: w.g.reduction_sum(w.x, axes=(0, -2)), "twice"),
    "reduction_sum  ": (S, lambda w: w.g.reduction_sum(w.x, axes=()), "None"),
    "reduction_maximum": (S, lambda w: w.g.reduction_maximum(w.g.constant(0.0, (2, 0)), axes=1), "must not be empty"),
    "reduction_arg_maximum": (S, lambda w: w.g.reduction_arg_maximum(w.g.constant(0.0, (0,))), "must not be empty"),
    "mean": (S, lambda w: w.g.mean(w.x, axes=-3), "axis -3"),
    "variance": (S, lambda w: w.g.variance(w.x, w.g.constant(0.0, (4,)), axes=1), "mean"),
    "normalization": (S, lambda w: w.g.normalization(w.x, w.x, w.x, w.g.constant(0.0, (2, 1, 3))), "gamma"),
    # Shape operations.
    "reshape": (S, lambda w: w.g.reshape(w.x, (5, 3)), r"cannot reshape 6 elements to \(5,3\): source \(2,3\)"),
    "reshape ": (S, lambda w: w.g.reshape(w.x, (-1, -1)), "-1"),
    "reshape  ": (S, lambda w: w.g.reshape(w.x, (-2, 3)), "negative"),
    "reshape   ": (S, lambda w: w.g.reshape(w.x, (4, -1)), "cannot reshape"),
    "reshape    ": (D, lambda w: w.g.reshape(w.x, w.g.constant([2.0, 3.0])), "integers"),
    "reshape     ": (S, lambda w: w.g.reshape(w.x, w.g.constant([[2, 3]])), "rank 1"),
    "transpose": (S, lambda w: w.g.transpose(w.x, [0, 0]), "twice"),
    "transpose ": (S, lambda w: w.g.transpose(w.x, [0]), "one entry for each axis"),
    "slice": (S, lambda w: w.g.slice(w.x, [0, 0], [1, 1], [1, 0]), "got 0 for axis 1"),
    "slice ": (S, lambda w: w.g.slice(w.x, [0], [1]), "one entry for each axis"),
    "slice  ": (S, lambda w: w.g.slice(w.x, [5, 0], [6, 1], squeeze_mask=1), "out of range for axis 0"),
    "concat": (S, lambda w: w.g.concat([w.x, w.g.constant(0.0, (2, 2, 2))], 0), "operand 1"),
    "concat ": (S, lambda w: w.g.concat([w.x, w.g.constant(0.0, (3, 3))], 1), "operand 1"),
    "split": (S, lambda w: w.g.split(w.x, [1, 1], 1), "with sum 2"),
    "split ": (S, lambda w: w.g.split(w.x, 2, 1), "into 2 equal parts"),
    "stack": (S, lambda w: w.g.stack([w.x, w.g.constant(0.0, (3, 2))]), "operand 1"),
    "expand_dims": (S, lambda w: w.g.expand_dims(w.x, 4), "axis 4"),
    "squeeze": (S, lambda w: w.g.squeeze(w.x, 0), "got axis 0 of size 2"),
    "broadcast_to": (S, lambda w: w.g.broadcast_to(w.x, (3, 2)), "cannot be broadcast"),
    "tile": (S, lambda w: w.g.tile(w.x, [1, -1]), "negative"),
    "pad": (S, lambda w: w.g.pad(w.x, [-1, 0], [0, 0]), "crop"),
    "pad ": (G, lambda w: w.g.pad(w.x, [1, 0], [0, 0], "mirror"), "reflect"),
    "pad  ": (D, lambda w: w.g.pad(w.g.constant(np.ones(2, np.uint8)), [1], [0], "anti_periodic"), "signed"),
    "pad   ": (S, lambda w: w.g.pad(w.g.constant(0.0, (0,)), [1], [0], "reflect"), "nothing to repeat"),
    "gather": (D, lambda w: w.g.gather(w.x, w.x), "integers"),
    "gather ": (S, lambda w: w.g.gather(w.x, w.index, axis=2), "axis 2"),
    "gather  ": (S, lambda w: w.g.gather(w.x, w.index, axis=1, batch_dimensions=1), "batch dimension 0"),
    "gather   ": (S, lambda w: w.g.gather(w.x, w.index, axis=0, batch_dimensions=1), "at least batch_dimensions"),
    "one_hot": (S, lambda w: w.g.one_hot(w.index, -1), "depth"),
    # Invalid sizes.
    "placeholder": (S, lambda w: w.g.placeholder((2, -3)), "-3"),
    "placeholder ": (S, lambda w: w.g.placeholder((float("nan"),)), "ints"),
    "placeholder  ": (S, lambda w: w.g.placeholder((float("inf"), 2)), "ints"),
    "placeholder   ": (S, lambda w: w.g.placeholder((2**62, 2**62)), r"2\^62 bytes"),
    "placeholder    ": (S, lambda w: w.g.placeholder((2**70,)), "must fit in 64-bit integers"),
    "placeholder     ": (S, lambda w: w.g.placeholder((1,) * 17), "16"),
    "reshape      ": (S, lambda w: w.g.reshape(w.x, (2**40, 2**40)), r"2\^62 elements"),
    "broadcast_to ": (S, lambda w: w.g.broadcast_to(w.x, (2**61, 2, 3)), r"2\^62 elements"),
    "constant": (S, lambda w: w.g.constant(0.0, (-1, 2)), "-1"),
    "tile ": (S, lambda w: w.g.tile(w.x, [2**61, 2**61]), r"2\^60"),
    # Variables.
    "assign": (G, lambda w: w.g.assign(w.x, w.x), "must be a variable, got 'x'"),
    "assign ": (S, lambda w: w.g.assign(w.v, w.g.constant(0.0, (3,))), "must have the fixed shape"),
    "assign  ": (D, lambda w: w.g.assign(w.v, w.g.cast(w.x, "float16")), "cast"),
    "read": (G, lambda w: w.g.read(w.x), "must be a variable"),
    "assign   ": (G, lambda w: w.g.apply_stochastic_gradient_descent(0.1, w.x, w.x), "must be a variable"),
    # Optimizers.
    "stochastic_gradient_descent": (
        S, lambda w: w.g.stochastic_gradient_descent(w.g.constant(0.0, (5,)), w.v, w.x), "learning_rate"
    ),
    "adam": (
        S,
        lambda w: w.g.adam(0.1, 0.9, 0.99, 1e-8, 0.9, 0.99, w.v, w.g.constant(0.0, (3,)), w.x, w.x),
        "momentum",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_operation_error_names_it_and_leaves_graph_usable(name: str):
    error, build, message = REFUSED[name]
    world = World()
    user_made = [o.name for o in world.g.operations]
    with pytest.raises(error, match=message) as raised:
        build(world)
    text = str(raised.value)
    assert f"[{name.strip()}]" in text, text
    made_since = {o.kind for o in world.g.operations if o.name not in user_made}
    assert name.strip() not in made_since - {"constant"}, "the rejected operation must not be in the graph"
    assert world.still_works()


def test_error_message_ends_with_line_of_user_code():
    g = mg.Graph()
    x = g.placeholder((2, 3))
    with pytest.raises(mg.ShapeError) as raised:
        g.reshape(x, (5,))
    line = raised.traceback[0].lineno + 1
    assert str(raised.value).endswith(f"built at test_graph_errors.py:{line}")
    y = x + 1
    assert re.fullmatch(r"test_graph_errors\.py:\d+", y.operation.location)


def test_errors_derive_from_matching_builtin_exceptions():
    pairs = {
        mg.ShapeError: ValueError,
        mg.DTypeError: TypeError,
        mg.GraphError: ValueError,
        mg.UnsupportedError: NotImplementedError,
        mg.DeviceError: RuntimeError,
        mg.TimeoutError: TimeoutError,
        mg.CheckpointError: ValueError,
    }
    for ours, built_in in pairs.items():
        assert issubclass(ours, built_in) and issubclass(ours, mg.Error) and issubclass(ours, Exception)
    assert issubclass(mg.TimeoutError, mg.DeviceError)


# --- tensors of two graphs, names, structure --------------------------------------------------------------------------
def test_mixing_tensors_of_two_graphs_raises():
    world, other = World(), World()
    with pytest.raises(mg.GraphError, match=r"\[addition\].*another graph"):
        world.x + other.x
    with pytest.raises(mg.GraphError, match="another graph"):
        world.g.if_(world.g.constant(True), lambda: other.x, lambda: world.x)
    with pytest.raises(mg.GraphError, match="another graph"):
        world.g.control_dependency([other.x.operation], lambda: world.x)
    with pytest.raises(mg.GraphError, match="another graph"):
        world.g.gradients(world.x, [other.x])
    with pytest.raises(mg.GraphError, match="another graph"):
        world.g.assign(world.v, other.x)
    assert world.still_works() and other.still_works()


def test_control_dependency_cycle_cannot_be_built():
    """An operation can only depend on operations that already exist, so a block cannot depend on its own contents. Text
    that describes such a cycle does not parse.
    """
    g = mg.Graph()
    a = g.identity(g.constant(1.0), name="a")
    g.control_dependency([a], lambda: g.identity(a, name="b"))
    text = str(g)
    assert re.search(r"%b = .*", text)
    line = next(t for t in text.splitlines() if "%a = " in t)
    dependency = re.search(r"\s*(?:after|control)[^\n:]*", next(t for t in text.splitlines() if "%b = " in t))
    assert dependency is not None, text
    cyclic = text.replace(line, line.replace(" : ", dependency[0].rstrip().replace("%a", "%b") + " : ", 1))
    assert cyclic != text
    with pytest.raises(mg.GraphError):
        mg.parse(cyclic)
    assert str(mg.parse(text)) == text


def test_duplicate_operation_name_gets_a_suffix():
    g = mg.Graph()
    first, second = g.placeholder((2,), name="x"), g.placeholder((2,), name="x")
    assert first.name == "x" and second.name != "x" and second.name.startswith("x")
    assert g.find("x") is first.operation and g.find("nothing") is None


def test_unusual_names_round_trip_through_text():
    g = mg.Graph()
    for name in ("with space", "ä/ö", 'quo"te', "line\nbreak", "%percent", "a:1", ""):
        g.placeholder((1,), name=name)
    assert str(mg.parse(str(g))) == str(g)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "graph",
        "graph {",
        "graph { %x = nonsense() : float32[2] }",
        "graph { %x = placeholder() {type=float32[2]} : float32[3] }",
        "graph { %y = square(%x) : float32[2] }",
        "graph { %x = placeholder() {type=float99[2]} : float99[2] }",
        "graph { %x = placeholder() {type=float32[2]} : float32[2]\n %x = square(%x) : float32[2] }",
        "graph { %x = placeholder() {type=float32[2], more=1} : float32[2] }",
        "\x00\xff",
        "graph { %x = placeholder() {type=float32[99999999999999999999]} : float32[2] }",
    ],
)
def test_parsing_invalid_text_raises(text: str):
    with pytest.raises(mg.Error):
        mg.parse(text)


def test_converting_tensor_to_python_value_raises_with_hint():
    g = mg.Graph()
    x = g.placeholder((2,), name="x")
    for use, hint in (
        (lambda: bool(x), "if_"),
        (lambda: list(x), "split"),
        (lambda: float(x), "run"),
        (lambda: np.asarray(x), "run"),
    ):
        with pytest.raises(TypeError, match=hint):
            use()
    assert x is not g.identity(x) and {x: 1}[x] == 1
    with pytest.raises((mg.Error, TypeError)):
        x + "text"
    with pytest.raises((mg.Error, TypeError)):
        x + None


def test_invalid_tensor_indices_raise_as_in_numpy():
    g = mg.Graph()
    x = g.placeholder((2, 3))
    with pytest.raises(mg.ShapeError, match="out of range for axis 0"):
        x[2]
    with pytest.raises(mg.ShapeError, match="at most 2 entries, got 3"):
        x[0, 0, 0]
    with pytest.raises(mg.ShapeError, match=r"one \.\.\."):
        x[..., ...]
    with pytest.raises(mg.DTypeError, match="integer or bool arrays"):
        x[0.5]
    with pytest.raises(mg.ShapeError, match="next to each other"):
        g.placeholder((2, 3, 4))[[0, 1], :, [0]]
    with pytest.raises(mg.ShapeError, match="known rank"):
        g.placeholder(None)[0]


def test_invalid_method_arguments_raise_mpsgraph_errors():
    world = World()
    g = world.g
    with pytest.raises(mg.ShapeError, match="strides"):
        g.max_pooling2d(world.image, 2, (1, 2, 3))
    with pytest.raises(mg.ShapeError, match="strides"):
        g.max_pooling2d(world.image, 2, True)
    with pytest.raises(mg.ShapeError, match=r"\[reshape\] shape"):
        g.reshape(world.x, (2.5, 3))
    with pytest.raises(mg.ShapeError, match=r"\[reduction_sum\] axes"):
        g.reduction_sum(world.x, axes="all")
    with pytest.raises(mg.ShapeError, match=r"\[reduction_sum\] axes"):
        g.reduction_sum(world.x, axes=(True,))
    with pytest.raises(mg.GraphError):
        g.concat([], 0)
    with pytest.raises(mg.GraphError):
        g.control_dependency([], lambda: None)
    with pytest.raises(mg.GraphError):
        g.create("no such kind", [])
    with pytest.raises(mg.GraphError):
        g.create("square", [world.x, world.x])
    with pytest.raises(mg.GraphError):
        g.create("square", [world.x], {"unknown": 1})
    with pytest.raises(mg.GraphError):
        g.create("transpose", [world.x])
    with pytest.raises(mg.Error):
        g.create("square", ["x"])
    assert world.still_works()
