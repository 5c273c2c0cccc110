"""Test layers, activations, initializers, losses, and metrics against numpy, and the names, states, and modes of
modules.
"""

import math

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn


def applied(module, x, *, training=False):
    """Return the value of the module at x, fed through a placeholder, and the graph."""
    g = mg.Graph(seed=1)
    placeholder = g.placeholder((-1, *x.shape[1:]), x.dtype)
    return g.run({placeholder: x}, module.train(training)(placeholder)).numpy(), g


@pytest.fixture
def x(rng):
    return rng.normal(size=(6, 5)).astype(np.float32)


# --- layers -----------------------------------------------------------------------------------------------------------
def test_linear_layer_matches_numpy(x):
    layer = nn.Linear(3, bias_initialiser=nn.initialisers.Constant(0.5))
    result, _ = applied(layer, x)
    state = layer.state_dict()
    assert {name: value.shape for name, value in state.items()} == {"weight": (5, 3), "bias": (3,)}
    np.testing.assert_allclose(result, x @ state["weight"] + 0.5, rtol=1e-5)
    assert [name for name, _ in nn_parameters(nn.Linear(3, bias=False), x)] == ["weight"]


def nn_parameters(module, x):
    applied(module, x)
    return list(module.named_parameters())


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_convolution_and_pooling_match_in_both_data_layouts(layout, rng):
    images = rng.normal(size=(2, 6, 7, 4)).astype(np.float32)
    layers = {
        "convolution": nn.Conv2d(6, (3, 2), groups=2, strides=2, padding="TF_SAME", data_layout=layout),
        "maximum": nn.MaxPool2d(2, data_layout=layout),
        "mean": nn.AvgPool2d(3, 1, padding=((1, 1), (1, 1)), data_layout=layout),
    }
    shapes = {"convolution": (2, 3, 4, 6), "maximum": (2, 3, 3, 4), "mean": (2, 6, 7, 4)}
    fed = images if layout == "NHWC" else np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    for name, layer in layers.items():
        result, _ = applied(layer, fed)
        assert (result if layout == "NHWC" else result.transpose(0, 2, 3, 1)).shape == shapes[name]
    assert layers["convolution"].state_dict()["weight"].shape == ((3, 2, 2, 6) if layout == "NHWC" else (6, 2, 3, 2))


def test_batch_norm_uses_batch_statistics_or_moving_averages(x):
    layer = nn.BatchNorm(momentum=0.9, epsilon=1e-3)
    result, g = applied(layer, x, training=True)
    np.testing.assert_allclose(result, (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3), rtol=1e-4, atol=1e-5)
    state = layer.state_dict()
    np.testing.assert_allclose(state["moving_mean"], 0.1 * x.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(state["moving_variance"], 0.9 + 0.1 * x.var(0), rtol=1e-5)
    inference = g.run({}, layer.eval()(g.constant(x))).numpy()
    wanted = (x - state["moving_mean"]) / np.sqrt(state["moving_variance"] + 1e-3)
    np.testing.assert_allclose(inference, wanted, rtol=1e-4, atol=1e-5)
    assert {name for name, _ in layer.named_parameters()} == {"gamma", "beta"}
    assert g.trainable_variables == layer.parameters(), "moving averages must not be trained"


def test_batch_norm_normalizes_channels_of_images(rng):
    images = rng.normal(3, 2, size=(4, 5, 6, 3)).astype(np.float32)
    for layout, axes in (("NHWC", (0, 1, 2)), ("NCHW", (0, 2, 3))):
        result, _ = applied(nn.BatchNorm(data_layout=layout), images, training=True)
        np.testing.assert_allclose(result.mean(axes), 0, atol=1e-5)
        np.testing.assert_allclose(result.std(axes), 1, atol=1e-2)


def test_dropout_scales_in_training_and_is_identity_in_inference(rng):
    ones = np.ones((200, 50), np.float32)
    layer = nn.Dropout(0.25)
    dropped, g = applied(layer, ones, training=True)
    assert set(np.unique(dropped)) == {0, np.float32(1 / 0.75)}
    assert abs((dropped == 0).mean() - 0.25) < 0.02
    np.testing.assert_array_equal(applied(nn.Dropout(0.25), ones)[0], ones)
    placeholder = g.placeholders[0]
    again = layer.train()(placeholder)
    first, second = (g.run({placeholder: ones}, again).numpy() for _ in range(2))
    assert (first != second).any(), "each run must draw a new mask"
    with pytest.raises(mg.GraphError, match="rate"):
        applied(nn.Dropout(1.0), ones, training=True)


def test_training_mode_accepts_a_bool_tensor(x):
    """One graph serves both modes: the run selects one, and gradients follow it."""
    g = mg.Graph()
    mode, placeholder = g.placeholder((), mg.bool_), g.placeholder((-1, 5))
    model = nn.Sequential(nn.Linear(4), nn.BatchNorm(), nn.Dropout(0.5)).train(mode)
    y = model(placeholder)
    bias = model.layers[0].bias
    gradient = g.gradients(g.reduction_sum(y * y), [bias])[bias]
    before = model.state_dict()["1.moving_mean"]
    inference = g.run({mode: np.array(False), placeholder: x}, [y, gradient])
    assert (inference[y].numpy() != 0).all() and np.abs(inference[gradient]).max() > 1e-2
    np.testing.assert_array_equal(model.state_dict()["1.moving_mean"], before)
    training = g.run({mode: np.array(True), placeholder: x}, [y, gradient])
    assert (training[y].numpy() == 0).any()
    assert (model.state_dict()["1.moving_mean"] != before).all()


def test_flatten_merges_trailing_axes_and_invalid_inputs_raise():
    g = mg.Graph()
    assert nn.Flatten()(g.placeholder((-1, 3, 4, 5))).shape == (-1, 60)
    with pytest.raises(mg.ShapeError, match="Linear"):
        nn.Linear(2)(g.placeholder((-1, -1)))
    with pytest.raises(mg.ShapeError, match="4"):
        nn.Linear(2, in_features=4)(g.placeholder((-1, 3)))
    with pytest.raises(mg.ShapeError, match="groups"):
        nn.Conv2d(4, 3, groups=3)(g.placeholder((-1, 8, 8, 4)))
    with pytest.raises(mg.ShapeError, match="BatchNorm"):
        nn.BatchNorm()(g.placeholder((4,)))


def test_layers_compute_in_the_dtype_of_their_input(x):
    for dtype in ("float16", "bfloat16", "float64"):
        g = mg.Graph()
        y = nn.Sequential(nn.Linear(4), nn.GELU(), nn.BatchNorm())(g.cast(g.constant(x), dtype))
        assert str(y.dtype) == dtype
        assert np.isfinite(g.run({}, g.cast(y, "float32")).numpy()).all()


# --- activations ------------------------------------------------------------------------------------------------------
ERF = np.vectorize(math.erf)
ACTIVATIONS = {
    nn.ReLU(): lambda x: np.maximum(x, 0),
    nn.LeakyReLU(0.2): lambda x: np.where(x >= 0, x, 0.2 * x),
    nn.Sigmoid(): lambda x: 1 / (1 + np.exp(-x)),
    nn.Tanh(): np.tanh,
    nn.GELU(): lambda x: x / 2 * (1 + ERF(x / np.sqrt(2))),
    nn.ELU(0.7): lambda x: np.where(x > 0, x, 0.7 * (np.exp(x) - 1)),
    nn.SiLU(): lambda x: x / (1 + np.exp(-x)),
    nn.Softplus(): lambda x: np.log1p(np.exp(x)),
    nn.Softmax(): lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
    nn.LogSoftmax(0): lambda x: x - np.log(np.exp(x).sum(0)),
}


@pytest.mark.parametrize("module", ACTIVATIONS, ids=lambda m: type(m).__name__)
def test_activations_match_numpy(module, x):
    np.testing.assert_allclose(applied(module, x)[0], ACTIVATIONS[module](x.astype(float)), rtol=2e-5, atol=1e-6)


# --- initialisers -----------------------------------------------------------------------------------------------------
SHAPE, FAN_IN, FAN_OUT = (5, 5, 64, 96), 5 * 5 * 64, 5 * 5 * 96
VARIANCES = {
    "GlorotUniform": 2 / (FAN_IN + FAN_OUT),
    "GlorotNormal": 2 / (FAN_IN + FAN_OUT),
    "HeUniform": 2 / FAN_IN,
    "HeNormal": 2 / FAN_IN,
    "LecunUniform": 1 / FAN_IN,
    "LecunNormal": 1 / FAN_IN,
}


@pytest.mark.parametrize("name", VARIANCES)
def test_variance_scaling_initializers_match_keras_variances(name):
    initialiser, variance = getattr(nn.initialisers, name)(), VARIANCES[name]
    weight = initialiser(SHAPE, 0)
    assert weight.dtype == np.float32 and weight.shape == SHAPE
    assert abs(weight.var() / variance - 1) < 0.01 and abs(weight.mean()) < 0.02 * variance**0.5
    if name.endswith("Uniform"):
        limit = math.sqrt(3 * variance)
        assert 0.999 * limit < np.abs(weight).max() <= limit
    else:  # Truncated at two standard deviations of the untruncated normal distribution.
        cut = 2 * math.sqrt(variance) / 0.87962566103423978
        assert 0.99 * cut < np.abs(weight).max() <= cut
    np.testing.assert_array_equal(weight, initialiser(SHAPE, 0))
    assert (weight != initialiser(SHAPE, 1)).any()


def test_convolution_fan_sizes_do_not_depend_on_batch_or_layout():
    """Apple's MPSGraph talk includes the batch size in fan-in and fan-out; in NCHW, the weight shape alone would be
    misleading as well.
    """
    variances = []
    for batch, layout in ((1, "NHWC"), (64, "NHWC"), (64, "NCHW")):
        g = mg.Graph(seed=3)
        layer = nn.Conv2d(96, 5, data_layout=layout)
        layer(g.placeholder((batch, 8, 8, 64) if layout == "NHWC" else (batch, 64, 8, 8)))
        variances.append(layer.state_dict()["weight"].var())
    np.testing.assert_allclose(variances, VARIANCES["GlorotUniform"], rtol=0.02)


@pytest.mark.parametrize("name", sorted(VARIANCES))
def test_large_initial_values_are_reproduced_after_release(name):
    """The variable takes over the buffer of a large initial value; reading that value later draws it again."""
    g = mg.Graph(seed=3)
    x = g.placeholder((2, 128), name="x")
    initialiser = getattr(nn.initialisers, name)()
    layer = nn.Linear(160, weight_initialiser=initialiser)
    y = layer(x)
    drawn = initialiser((128, 160), np.random.default_rng(3), (128.0, 160.0))
    g.run({x: np.zeros((2, 128), np.float32)}, y, [g.assign(layer.weight, layer.weight * 2.0)])
    np.testing.assert_array_equal(g.variable_value(layer.weight), drawn * 2)
    first = layer.weight.operation.attributes["value"]
    for _ in range(2):
        np.testing.assert_array_equal(first.numpy(), drawn)
    np.testing.assert_array_equal(g.variable_value(layer.weight), drawn * 2)
    generator = np.random.default_rng(3)
    initialiser((128, 160), generator)
    assert g.generator.random() == generator.random(), "redrawing must not advance the graph's generator"


def test_initial_values_of_custom_initializers_are_kept():
    class Counting:
        calls = 0

        def __call__(self, shape, generator=None, fans=None):
            Counting.calls += 1
            return np.full(shape, Counting.calls, np.float32)

    g = mg.Graph()
    x = g.placeholder((2, 128))
    layer = nn.Linear(160, weight_initialiser=Counting(), bias=False)
    g.run({x: np.zeros((2, 128), np.float32)}, layer(x), [g.assign(layer.weight, layer.weight * 2.0)])
    assert (layer.weight.operation.attributes["value"].numpy() == 1).all() and Counting.calls == 1
    assert (g.variable_value(layer.weight) == 2).all()


def test_plain_initializers_have_expected_values_and_moments():
    make = nn.initialisers
    assert (make.zeros((2, 3)) == 0).all() and (make.ones((2,)) == 1).all()
    assert make.Constant(0.1)((4,)).tolist() == [np.float32(0.1)] * 4
    uniform = make.Uniform(-0.2, 0.4)((100_000,), 0)
    assert uniform.min() >= -0.2 and uniform.max() < 0.4 and abs(uniform.mean() - 0.1) < 5e-3
    normal = make.Normal(1.0, 2.0)((100_000,), np.random.default_rng(0))
    assert abs(normal.mean() - 1) < 0.03 and abs(normal.std() - 2) < 0.03
    assert np.abs(make.TruncatedNormal(0.0, 0.5)((100_000,), 0)).max() <= 1.0
    with pytest.raises(mg.ShapeError, match="two axes"):
        make.GlorotUniform()((3,), 0)


def test_variance_scaling_has_expected_variance_in_every_mode():
    scaling = nn.initialisers.VarianceScaling
    for mode, fan in (("fan_in", FAN_IN), ("fan_out", FAN_OUT), ("fan_avg", (FAN_IN + FAN_OUT) / 2)):
        for distribution in ("truncated_normal", "normal", "uniform"):
            weight = scaling(3.0, mode, distribution)(SHAPE, 0)
            assert abs(weight.var() * fan / 3 - 1) < 0.01
    assert np.abs(scaling(3.0, "fan_in", "normal")(SHAPE, 0)).max() > 3.5 * (3 / FAN_IN) ** 0.5, (
        "the normal distribution must not be truncated"
    )
    for arguments in ((0.0,), (1.0, "fan"), (1.0, "fan_in", "gamma")):
        with pytest.raises(mg.GraphError, match="VarianceScaling"):
            scaling(*arguments)


@pytest.mark.parametrize("shape", [(6, 6), (3, 8), (3, 2, 4), (300, 257), (1, 5)])
def test_orthogonal_initializer_returns_orthogonal_matrices(shape):
    q = nn.initialisers.Orthogonal(2.0)(shape, 0).reshape(-1, shape[-1]).astype(float)
    small = q @ q.T if q.shape[0] <= q.shape[1] else q.T @ q
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-5)
    assert (q != nn.initialisers.Orthogonal(2.0)(shape, 1).reshape(q.shape)).any()
    with pytest.raises(mg.ShapeError, match="Orthogonal"):
        nn.initialisers.Orthogonal()((3,))


@pytest.mark.parametrize("shape", [(3, 3), (2, 3), (4, 2)])
def test_orthogonal_initializer_draws_all_rotations_and_reflections_equally_often(shape):
    rng, longest = np.random.default_rng(0), max(shape)
    drawn = np.stack([nn.initialisers.Orthogonal()(shape, rng) for _ in range(6000)]).astype(float)
    # Every row or column of unit length is uniform on the sphere, so that these moments of its elements are known.
    for power, expected in ((1, 0), (2, 1 / longest), (3, 0), (4, 3 / (longest * (longest + 2)))):
        np.testing.assert_allclose((drawn**power).mean(0), expected, atol=0.03)
    if shape[0] == shape[1]:
        assert abs(np.linalg.det(drawn).mean()) < 0.05
        assert abs((np.trace(drawn, axis1=1, axis2=2) ** 2).mean() - 1) < 0.08


def test_identity_initializer_makes_convolution_the_identity():
    images = np.random.default_rng(0).normal(size=(1, 5, 5, 2)).astype(np.float32)
    layer = nn.Conv2d(2, 3, padding="TF_SAME", weight_initialiser=nn.initialisers.Identity(2.0))
    np.testing.assert_allclose(applied(layer, images)[0], 2 * images, rtol=1e-6)
    with pytest.raises(mg.ShapeError, match="Identity"):
        nn.initialisers.Identity()((3,))


# --- losses and metrics -----------------------------------------------------------------------------------------------
def scalar(function, *arrays):
    g = mg.Graph()
    result = g.run({}, function(*(g.constant(a) for a in arrays)))
    assert result.shape == ()
    return float(result)


def test_cross_entropy_of_indices_and_one_hot_labels_matches_numpy(x):
    classes = np.array([0, 4, 2, 2, 1, 3], np.int64)
    logs = x - np.log(np.exp(x).sum(-1, keepdims=True))
    expected = -logs[np.arange(6), classes].mean()
    one_hot = np.eye(5, dtype=np.float32)[classes]
    for labels in (classes, classes.astype(np.uint8), one_hot, one_hot.astype(bool)):
        assert scalar(nn.losses.cross_entropy, x, labels) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(mg.DTypeError, match="integers"):
        scalar(nn.losses.cross_entropy, x, classes.astype(np.float32))
    with pytest.raises(mg.ShapeError):
        scalar(nn.losses.cross_entropy, x, one_hot[:, :4])


def test_regression_and_binary_losses_match_numpy(x, rng):
    y = rng.normal(size=x.shape).astype(np.float32)
    assert scalar(nn.losses.mean_squared_error, x, y) == pytest.approx(((x - y) ** 2).mean(), rel=1e-5)
    assert scalar(nn.losses.mean_absolute_error, x, y) == pytest.approx(np.abs(x - y).mean(), rel=1e-5)
    labels = (y > 0).astype(np.float32)
    s = 1 / (1 + np.exp(-x.astype(float)))
    expected = -(labels * np.log(s) + (1 - labels) * np.log(1 - s)).mean()
    assert scalar(nn.losses.binary_cross_entropy_with_logits, x, labels) == pytest.approx(expected, rel=1e-5)
    extreme = np.array([-200.0, 200.0], np.float32)
    assert scalar(nn.losses.binary_cross_entropy_with_logits, extreme, np.array([1.0, 0.0], np.float32)) == 200
    with pytest.raises(mg.ShapeError, match="labels must have the shape of outputs"):
        scalar(nn.losses.mean_squared_error, x, y[:, :1])
    with pytest.raises(mg.GraphError, match="cross_entropy, mean_squared_error"):
        nn.losses.loss_named("hinges")


def test_accuracy_accepts_class_indices_and_one_hot_labels(x):
    classes = x.argmax(1)
    classes[:2] = (classes[:2] + 1) % 5
    assert scalar(nn.metrics.accuracy, x, classes) == pytest.approx(4 / 6)
    assert scalar(nn.metrics.accuracy, x, np.eye(5, dtype=np.float32)[classes]) == pytest.approx(4 / 6)


# --- modules ----------------------------------------------------------------------------------------------------------
class Residual(nn.Module):
    """A custom module with children as attributes and in a list, and a parameter."""

    def __init__(self, width):
        self.first = nn.Linear(width)
        self.rest = [nn.Linear(width, bias=False), nn.BatchNorm()]

    def build(self, x):
        self.scale = self.add_parameter("scale", x, (1,), nn.initialisers.ones)

    def forward(self, x):
        y = x.graph.relu(self.first(x))
        for layer in self.rest:
            y = layer(y)
        return x + y * self.scale


def test_nested_modules_have_hierarchical_names_and_share_training_mode(x):
    model = nn.Sequential(Residual(5), nn.ReLU(), lambda t: t * 2.0, nn.Linear(2))
    with pytest.raises(mg.GraphError, match="call it"):
        model.parameters()
    g = mg.Graph()
    placeholder = g.placeholder((-1, 5))
    training, inference = model.train()(placeholder), model.eval()(placeholder)
    names = [name for name, _ in model.named_parameters()]
    assert names == [
        "0.scale",
        "0.first.weight",
        "0.first.bias",
        "0.rest.0.weight",
        "0.rest.1.gamma",
        "0.rest.1.beta",
    ] + [
        "3.weight",
        "3.bias",
    ]
    assert [v.name for v in model.parameters()] == names, "variables must be named by their module path"
    assert [name for name, _ in model.named_buffers()] == ["0.rest.1.moving_mean", "0.rest.1.moving_variance"]
    assert not any(module.training for _, module in model.named_modules())
    out = g.run({placeholder: x}, [training, inference])
    assert (out[training].numpy() != out[inference].numpy()).any()

    state = model.state_dict()
    other = nn.Sequential(Residual(5), nn.ReLU(), lambda t: t * 2.0, nn.Linear(2)).eval()
    h = mg.Graph(seed=9)
    result = other(h.constant(x))
    assert (h.run({}, result).numpy() != g.run({placeholder: x}, inference).numpy()).any()
    other.load_state_dict(state)
    np.testing.assert_array_equal(h.run({}, result).numpy(), g.run({placeholder: x}, inference).numpy())

    with pytest.raises(mg.GraphError, match="another graph"):
        model(h.constant(x))
    with pytest.raises(mg.GraphError, match="missing 0.scale"):
        other.load_state_dict({k: v for k, v in state.items() if k != "0.scale"})
    with pytest.raises(mg.ShapeError, match=r"3\.bias"):
        other.load_state_dict({**state, "3.bias": np.zeros(3, np.float32)})
    with pytest.raises(mg.DTypeError, match=r"3\.bias"):
        other.load_state_dict({k: np.zeros_like(v, np.float64 if k == "3.bias" else None) for k, v in state.items()})
    np.testing.assert_array_equal(other.state_dict()["3.weight"], state["3.weight"])
    assert "(first): Linear(5)" in repr(model)


def test_shared_module_has_one_set_of_variables(x):
    shared = nn.Linear(5)
    model = nn.Sequential(shared, nn.ReLU(), shared)
    applied(model, x)
    assert [name for name, _ in model.named_parameters()] == ["0.weight", "0.bias"]
