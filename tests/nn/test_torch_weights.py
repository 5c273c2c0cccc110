"""Test loading and exporting PyTorch weights against formulas in numpy, without PyTorch.

tests/pytorch/test_weights.py compares every layer with PyTorch itself. This file covers what must keep working where
PyTorch is not installed: the order of axes and gates, packed projections, flattened images, names, and errors.
"""

import copy
import pickle
import re

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

RNG = np.random.default_rng(3)


def numbers(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def result_of(model, state, *inputs, call=lambda model, *x: model(*x)):
    """Load the state, check that exporting returns it bit for bit, and return the model's result."""
    g = mg.Graph()
    y = call(model, *(g.constant(x) for x in inputs))
    assert nn.load_torch(model, state) == ([], [])
    returned = nn.to_torch(model, arrays=True)
    assert returned.keys() == state.keys()
    for name, value in state.items():
        assert returned[name].dtype == value.dtype
        assert np.array_equal(returned[name], value), name
    return g.run({}, y).numpy()


def close(found, wanted):
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


# --- PyTorch's formulas -----------------------------------------------------------------------------------------------
def lstm(x, w, u, b, c):
    """Run one direction of one LSTM layer over (N, T, C), with gates in the order i, f, g, o."""
    h = s = np.zeros((len(x), u.shape[1]))
    found = []
    for t in range(x.shape[1]):
        i, f, g, o = np.split(x[:, t] @ w.T + b + h @ u.T + c, 4, axis=1)
        s = sigmoid(f) * s + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(s)
        found.append(h)
    return np.stack(found, 1)


def gru(x, w, u, b, c):
    """Run one direction of one GRU layer, with gates r, z, n; the reset gate scales the recurrent product with its
    bias.
    """
    h = np.zeros((len(x), u.shape[1]))
    found = []
    for t in range(x.shape[1]):
        (r, z, n), (hr, hz, hn) = (np.split(a, 3, axis=1) for a in (x[:, t] @ w.T + b, h @ u.T + c))
        z = sigmoid(z + hz)
        h = (1 - z) * np.tanh(n + sigmoid(r + hr) * hn) + z * h
        found.append(h)
    return np.stack(found, 1)


def recurrent_state(gates, inputs, hidden, endings):
    state = {}
    for ending in endings:
        columns = inputs if "l0" in ending else hidden * 2
        state[f"weight_ih_{ending}"] = numbers(gates * hidden, columns)
        state[f"weight_hh_{ending}"] = numbers(gates * hidden, hidden)
        state[f"bias_ih_{ending}"] = numbers(gates * hidden)
        state[f"bias_hh_{ending}"] = numbers(gates * hidden)
    return state


@pytest.mark.parametrize(("layer", "formula", "gates"), [(nn.LSTM, lstm, 4), (nn.GRU, gru, 3)], ids=["LSTM", "GRU"])
def test_bidirectional_two_layer_gates_match_pytorch_formulas(layer, formula, gates):
    state = recurrent_state(gates, 3, 4, ("l0", "l0_reverse", "l1", "l1_reverse"))
    x = y = numbers(2, 5, 3)
    for number in (0, 1):
        there, back = (
            [state[f"{kind}_l{number}{way}"] for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            for way in ("", "_reverse")
        )
        y = np.concatenate([formula(y, *there), formula(y[:, ::-1], *back)[:, ::-1]], -1)
    close(result_of(layer(4, num_layers=2, bidirectional=True), state, x), y)


def test_loading_two_biases_into_one_bias_adds_them():
    state = recurrent_state(4, 3, 4, ("l0",))
    layer, x = nn.LSTM(4, recurrent_bias=False), numbers(2, 5, 3)
    g = mg.Graph()
    y = layer(g.constant(x))
    nn.load_torch(layer, state)
    close(g.run({}, y).numpy(), lstm(x, *state.values()))
    state = recurrent_state(3, 3, 4, ("l0",))
    layer = nn.GRU(4, recurrent_bias=False)
    layer(g.constant(x))
    with pytest.raises(mg.errors.GraphError, match="bias_ih_l0, bias_hh_l0: the GRU's reset gate scales"):
        nn.load_torch(layer, state)


def test_packed_attention_projections_are_loaded():
    state = {
        "in_proj_weight": numbers(24, 8), "in_proj_bias": numbers(24),
        "out_proj.weight": numbers(8, 8), "out_proj.bias": numbers(8),
    }  # fmt: skip
    x = numbers(2, 5, 8)
    q, k, v = np.split(x @ state["in_proj_weight"].T + state["in_proj_bias"], 3, axis=-1)
    heads = [a.reshape(2, 5, 2, 4).transpose(0, 2, 1, 3) for a in (q, k, v)]
    scores = np.exp(heads[0] @ heads[1].transpose(0, 1, 3, 2) / 2)
    found = (scores / scores.sum(-1, keepdims=True) @ heads[2]).transpose(0, 2, 1, 3).reshape(2, 5, 8)
    close(result_of(nn.MultiheadAttention(8, 2), state, x), found @ state["out_proj.weight"].T + state["out_proj.bias"])


def test_separate_attention_projections_are_loaded():
    state = {
        "q_proj_weight": numbers(8, 8), "k_proj_weight": numbers(8, 6), "v_proj_weight": numbers(8, 5),
        "in_proj_bias": numbers(24), "out_proj.weight": numbers(8, 8), "out_proj.bias": numbers(8),
    }  # fmt: skip
    attention = nn.MultiheadAttention(8, 2)
    result_of(attention, state, numbers(2, 5, 8), numbers(2, 7, 6), numbers(2, 7, 5))
    assert np.array_equal(attention.state_dict()["key.weight"], state["k_proj_weight"].T)


def correlated(x, w, stride=1):
    """Convolve images (N, C, H, W) with weights (O, C, h, w), without padding."""
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    return np.einsum("ncyxhw,ochw->noyx", windows, w)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_weights_of_network_that_flattens_images_load_correctly(layout):
    """Compute Conv2d, BatchNorm2d in inference mode, ReLU, Flatten, and Linear by PyTorch's formulas."""
    state = {
        "0.weight": numbers(4, 3, 3, 3), "0.bias": numbers(4), "1.weight": numbers(4), "1.bias": numbers(4),
        "1.running_mean": numbers(4), "1.running_var": numbers(4) ** 2 + 0.5,
        "1.num_batches_tracked": np.array(7, np.int64), "4.weight": numbers(5, 4 * 3 * 2), "4.bias": numbers(5),
    }  # fmt: skip
    x = numbers(2, 3, 7, 6)
    y = correlated(x, state["0.weight"], 2) + state["0.bias"][:, None, None]
    scale = state["1.weight"] / np.sqrt(state["1.running_var"] + 1e-5)
    y = (y - state["1.running_mean"][:, None, None]) * scale[:, None, None] + state["1.bias"][:, None, None]
    wanted = np.maximum(y, 0).reshape(2, -1) @ state["4.weight"].T + state["4.bias"]
    model = nn.Sequential(
        nn.Conv2d(4, 3, stride=2, data_layout=layout), nn.BatchNorm(eps=1e-5, data_layout=layout), nn.ReLU(),
        nn.Flatten(), nn.Linear(5),
    ).eval()  # fmt: skip
    close(result_of(model, state, x if layout == "NCHW" else x.transpose(0, 2, 3, 1)), wanted)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_weights_of_network_that_unflattens_images_load_correctly(layout):
    """The network consists of Linear, ReLU, Unflatten, and a ConvTranspose2d whose stride equals its window."""
    state = {
        "0.weight": numbers(24, 5), "0.bias": numbers(24), "3.weight": numbers(4, 3, 2, 2), "3.bias": numbers(3),
    }  # fmt: skip
    x = numbers(2, 5)
    image = np.maximum(x @ state["0.weight"].T + state["0.bias"], 0).reshape(2, 4, 3, 2)
    wanted = np.einsum("ncyx,cohw->noyhxw", image, state["3.weight"]).reshape(2, 3, 6, 4)
    wanted += state["3.bias"][:, None, None]
    shape = (4, 3, 2) if layout == "NCHW" else (3, 2, 4)
    model = nn.Sequential(
        nn.Linear(24), nn.ReLU(), nn.Unflatten(shape), nn.ConvTranspose2d(3, 2, stride=2, data_layout=layout)
    )
    found = result_of(model, state, x)
    close(found, wanted if layout == "NCHW" else wanted.transpose(0, 2, 3, 1))


def test_weights_of_flattened_images_concatenated_with_features_load():
    class Beside(nn.Module):
        def __init__(self):
            self.conv, self.head = nn.Conv2d(4, 2), nn.Linear(5)

        def forward(self, x, more):
            flat = nn.Flatten()(self.conv(x))
            return self.head(x.graph.concat([more, flat], -1))

    state = {"conv.weight": numbers(4, 3, 2, 2), "conv.bias": numbers(4), "head.weight": numbers(5, 7 + 24)}
    state["head.bias"] = numbers(5)
    x, more = numbers(2, 3, 3, 4), numbers(2, 7)
    flat = (correlated(x, state["conv.weight"]) + state["conv.bias"][:, None, None]).reshape(2, -1)
    wanted = np.concatenate([more, flat], 1) @ state["head.weight"].T + state["head.bias"]
    close(result_of(Beside(), state, x.transpose(0, 2, 3, 1), more), wanted)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_layer_norm_weights_over_whole_images_are_transposed(layout):
    """All axes of PyTorch's LayerNorm((2, 2, 2)) have the same size, so a wrong axis order would go unnoticed by shape
    checks.
    """
    state = {
        "0.weight": numbers(2, 3, 1, 1),
        "0.bias": numbers(2),
        "1.weight": numbers(2, 2, 2),
        "1.bias": numbers(2, 2, 2),
    }
    x = numbers(3, 3, 2, 2)
    y = np.einsum("nchw,oc->nohw", x, state["0.weight"][:, :, 0, 0]) + state["0.bias"][:, None, None]
    y = (y - y.mean((1, 2, 3), keepdims=True)) / np.sqrt(y.var((1, 2, 3), keepdims=True) + 1e-5)
    wanted = y * state["1.weight"] + state["1.bias"]
    model = nn.Sequential(nn.Conv2d(2, 1, data_layout=layout), nn.LayerNorm((-3, -2, -1)))
    found = result_of(model, state, x if layout == "NCHW" else x.transpose(0, 2, 3, 1))
    close(found, wanted if layout == "NCHW" else wanted.transpose(0, 2, 3, 1))


def test_weights_after_patch_sequences_are_not_permuted():
    """Flattened sequences of image patches (N, steps, features) have the features last in PyTorch, too."""

    class Patches(nn.Module):
        def __init__(self):
            self.proj, self.head = nn.Conv2d(4, 2, stride=2), nn.Linear(5)

        def forward(self, x):
            y = self.proj(x)
            return self.head(y.graph.reshape(y.graph.reshape(y, (2, 6, 4)), (2, 24)))

    state = {"proj.weight": numbers(4, 3, 2, 2), "proj.bias": numbers(4), "head.weight": numbers(5, 24)}
    state["head.bias"] = numbers(5)
    x = numbers(2, 3, 4, 6)
    steps = (correlated(x, state["proj.weight"], 2) + state["proj.bias"][:, None, None]).reshape(2, 4, 6)
    wanted = steps.transpose(0, 2, 1).reshape(2, 24) @ state["head.weight"].T + state["head.bias"]
    close(result_of(Patches(), state, x.transpose(0, 2, 3, 1)), wanted)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_depthwise_weights_equal_grouped_convolution_weights(layout):
    state = {"weight": numbers(6, 1, 2, 2), "bias": numbers(6)}
    x = numbers(2, 3, 4, 5)
    planes = [correlated(x[:, c : c + 1], state["weight"][2 * c : 2 * c + 2]) for c in range(3)]
    wanted = np.concatenate(planes, 1) + state["bias"][:, None, None]
    layer = nn.DepthwiseConv2d(2, channel_multiplier=2, data_layout=layout)
    found = result_of(layer, state, x if layout == "NCHW" else x.transpose(0, 2, 3, 1))
    close(found, wanted if layout == "NCHW" else wanted.transpose(0, 2, 3, 1))


def test_channels_first_parameters_have_pytorch_shapes():
    g = mg.Graph()
    x = g.placeholder((2, 6, 8, 9))
    for layer in (nn.Conv2d(4, 3, data_layout="NCHW"), nn.BatchNorm(data_layout="NCHW"),
                  nn.GroupNorm(2, data_layout="NCHW"), nn.PReLU(6, data_layout="NCHW"),
                  nn.InstanceNorm(scale=True, center=True, data_layout="NCHW")):  # fmt: skip
        layer(x)
        of_torch = nn.to_torch(layer, arrays=True)
        of_torch.pop("num_batches_tracked", None)
        assert [v.shape for v in layer.state_dict().values()] == [v.shape for v in of_torch.values()]


def test_batch_norm_without_center_exports_zero_bias():
    layer = nn.BatchNorm(center=False)
    layer(mg.Graph().placeholder((2, 3)))
    state = nn.to_torch(layer, arrays=True)
    assert state["bias"].tolist() == [0, 0, 0]
    nn.load_torch(layer, state)
    with pytest.raises(mg.errors.GraphError, match="bias: the layer has no bias, so bias in the state must be 0"):
        nn.load_torch(layer, state | {"bias": np.float32([0, 1, 0])})


def test_padding_row_of_loaded_embedding_must_be_zero():
    layer = nn.Embedding(4, 2, padding_index=1)
    layer(mg.Graph().placeholder((2, 3), "int32"))
    table = np.ones((4, 2), np.float32)
    with pytest.raises(mg.errors.GraphError, match="weight: the row of padding_index 1 must be all zeros"):
        nn.load_torch(layer, {"weight": table})
    table[1] = 0
    nn.load_torch(layer, {"weight": table})
    assert np.array_equal(nn.to_torch(layer, arrays=True)["weight"], table)


def test_bfloat16_weights_are_exchanged_as_bit_patterns():
    layer = nn.Linear(2)
    g = mg.Graph()
    layer(g.placeholder((2, 3), "bfloat16"))
    bits = np.arange(6, dtype=np.uint16).reshape(2, 3) + 0x3F80
    state = {"weight": bits, "bias": np.zeros(2, np.uint16)}
    nn.load_torch(layer, state)
    assert np.array_equal(nn.to_torch(layer, arrays=True)["weight"], bits)
    wide = (bits.astype(np.uint32) << 16).view(np.float32)
    with pytest.raises(mg.errors.DTypeError, match="'weight' must be bfloat16, got float32"):
        nn.load_torch(layer, state | {"weight": wide})
    nn.load_torch(layer, state | {"weight": np.float64(wide)}, cast=True)
    assert np.array_equal(nn.to_torch(layer, arrays=True)["weight"], bits)


def test_shared_submodule_is_exported_under_both_names():
    class Twice(nn.Module):
        def __init__(self):
            self.first = nn.Linear(3)
            self.second = self.first

        def forward(self, x):
            return self.second(self.first(x))

    model = Twice()
    model(mg.Graph().placeholder((2, 3)))
    state = nn.to_torch(model, arrays=True)
    assert sorted(state) == ["first.bias", "first.weight", "second.bias", "second.weight"]
    nn.load_torch(model, state)
    nn.load_torch(model, {name: value for name, value in state.items() if name.startswith("second")})
    with pytest.raises(mg.errors.GraphError, match="second.bias must equal the other values"):
        nn.load_torch(model, state | {"second.bias": state["second.bias"] + 1})


# --- names ------------------------------------------------------------------------------------------------------------
def two_layers():
    model = nn.Sequential(nn.Linear(3), nn.ReLU(), nn.Linear(2))
    model(mg.Graph().placeholder((-1, 4)))
    return model


STATE = {
    "net.fc1.weight": numbers(3, 4), "net.fc1.bias": numbers(3), "net.fc2.weight": numbers(2, 3),
    "net.fc2.bias": numbers(2), "step": np.float32([1]),
}  # fmt: skip


def as_function(name):
    return None if name == "step" else {"fc1": "0.", "fc2": "2."}[name.split(".")[1]] + name.split(".")[2]


MAPPINGS = {
    "parts": {"net.fc1": "0", "net.fc2": "2", "step": None},
    "nested parts": {"net": "", "net.fc1": "0", "net.fc2": "2", "step": None},
    "whole names": {"net.fc1.weight": "0.weight", "net.fc1.bias": "0.bias", "net.fc2": "2", "step": None},
    "function": as_function,
}


@pytest.mark.parametrize("kind", MAPPINGS)
def test_load_torch_maps_weight_names(kind):
    model = two_layers()
    assert nn.load_torch(model, STATE, MAPPINGS[kind]) == ([], [])
    assert np.array_equal(model.state_dict()["2.weight"], STATE["net.fc2.weight"].T)


def test_load_torch_maps_weight_names_with_patterns():
    model = two_layers()
    state = {name: value for name, value in STATE.items() if name != "step"}
    patterns = [(r"^net\.", ""), (r"^fc(\d)", lambda found: str(2 * int(found[1]) - 2))]
    with pytest.raises(mg.errors.GraphError, match="mapping"):
        nn.load_torch(model, state, patterns)  # A replacement in a pattern must not be a function.
    assert nn.load_torch(model, state, [(r"^net\.fc1", "0"), (r"^net\.fc2", "2")]) == ([], [])
    assert np.array_equal(model.state_dict()["0.weight"], STATE["net.fc1.weight"].T)
    for wrong in ([("(", "")], [("a", "\\2")], [("a",)]):
        with pytest.raises(mg.errors.GraphError, match="mapping"):
            nn.load_torch(model, {"a": np.zeros(1)}, wrong)
    with pytest.raises(mg.errors.GraphError, match="renames both 'net.fc1.weight' and 'net.fc1.bias' to '0'"):
        nn.load_torch(model, state, {"net.fc1.weight": "0", "net.fc1.bias": "0"})
    with pytest.raises(mg.errors.GraphError, match="must return a name or None"):
        nn.load_torch(model, state, lambda name: 3)


def test_load_torch_reports_all_errors_and_changes_nothing():
    model = two_layers()
    before = model.state_dict()
    wrong = {"0.weight": numbers(3, 4), "2.weights": numbers(2, 3), "2.scale": numbers(2)}
    with pytest.raises(mg.errors.GraphError, match="missing 0.bias, 2.weight, 2.bias; unexpected 2.weights, 2.scale"):
        nn.load_torch(model, wrong)
    with pytest.raises(
        mg.errors.ShapeError, match=r"'0.weight' must have shape \(3, 4\).*'2.bias' must have shape \(2,\)"
    ):
        nn.load_torch(model, {"0.weight": numbers(4, 3), "2.bias": numbers(3)}, strict=False)
    with pytest.raises(mg.errors.DTypeError, match="'0.weight' must be float32.*'2.bias' must be float32, got int64"):
        state = {"0.weight": np.ones((3, 4)), "2.bias": np.ones(2, np.int64), "0.bias": numbers(3)}
        nn.load_torch(model, state, strict=False, cast=False)
    assert all(np.array_equal(before[name], value) for name, value in model.state_dict().items())
    keys = nn.load_torch(model, {"0.bias": numbers(3), "more": numbers(1)}, strict=False)
    assert keys.missing_keys == ["0.weight", "2.weight", "2.bias"]
    assert keys.unexpected_keys == ["more"]


def test_load_state_dict_reports_missing_and_unexpected_names():
    model = two_layers()
    state = model.state_dict()
    with pytest.raises(mg.errors.GraphError, match="missing 2.bias; unexpected more"):
        model.load_state_dict({name: value for name, value in state.items() if name != "2.bias"} | {"more": 1.0})
    keys = model.load_state_dict({"0.bias": numbers(3), "more": numbers(1)}, strict=False)
    assert keys == (["0.weight", "2.weight", "2.bias"], ["more"])
    with pytest.raises(mg.errors.ShapeError, match=r"'0.bias' must have shape \(3,\), got \(2,\)"):
        model.load_state_dict({"0.bias": numbers(2)}, strict=False)
    assert model.load_state_dict(state) == ([], [])


def test_weights_loaded_before_first_call_apply_at_build():
    model = nn.Sequential(nn.Linear(3), nn.ReLU(), nn.Linear(2))
    state = {name: value.copy() for name, value in STATE.items()}
    assert nn.load_torch(model, state, MAPPINGS["parts"]) is None
    state["net.fc2.weight"][:] = 0  # The model must have copied the values.
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), model):
        twin(mg.Graph().placeholder((-1, 4)))
        assert np.array_equal(twin.state_dict()["2.weight"], STATE["net.fc2.weight"].T)
    late = nn.Linear(2)
    nn.load_torch(late, {"weight": numbers(2, 3)})
    with pytest.raises(mg.errors.GraphError, match="missing bias"):
        late(mg.Graph().placeholder((-1, 3)))
    partly = nn.Linear(2)
    assert partly.load_state_dict({"weight": np.eye(2, dtype=np.float32)}, strict=False) is None
    partly(mg.Graph().placeholder((-1, 2)))
    assert np.array_equal(partly.state_dict()["weight"], np.eye(2))
    with pytest.raises(mg.errors.GraphError, match="to_torch: Linear has no variables yet"):
        nn.to_torch(nn.Linear(2))


# --- alternative argument names and forms -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda: nn.Conv2d(2, 3, strides=2, padding="TF_SAME"), lambda: nn.Conv2d(2, 3, stride=2, padding="same")),
        (lambda: nn.Conv2d(2, 3), lambda: nn.Conv2d(2, 3, padding="valid")),
        (lambda: nn.Conv2d(2, 3, padding=((1, 1),) * 2, dilations=2), lambda: nn.Conv2d(2, 3, padding=1, dilation=2)),
        (lambda: nn.Conv2d(2, 3, padding=((2, 2), (1, 1))), lambda: nn.Conv2d(2, 3, padding=(2, 1))),
        (lambda: nn.DepthwiseConv2d(3, strides=2), lambda: nn.DepthwiseConv2d(3, stride=2)),
        (lambda: nn.SeparableConv2d(2, 3, strides=2), lambda: nn.SeparableConv2d(2, 3, stride=2)),
        (lambda: nn.ConvTranspose2d(2, 3, strides=2), lambda: nn.ConvTranspose2d(2, 3, stride=2)),
        (lambda: nn.MaxPool2d(2, 1, padding="TF_SAME"), lambda: nn.MaxPool2d(2, stride=1, padding="same")),
        (lambda: nn.AvgPool2d(3, padding=((1, 1), (1, 1))), lambda: nn.AvgPool2d(3, padding=1)),
        (lambda: nn.Unfold(3, strides=2, dilations=2), lambda: nn.Unfold(3, stride=2, dilation=2)),
        (lambda: nn.BatchNorm(epsilon=0.5), lambda: nn.BatchNorm(eps=0.5)),
        (lambda: nn.LayerNorm(epsilon=0.5), lambda: nn.LayerNorm(eps=0.5)),
        (lambda: nn.RMSNorm(epsilon=0.5), lambda: nn.RMSNorm(eps=0.5)),
        (lambda: nn.GroupNorm(1, epsilon=0.5), lambda: nn.GroupNorm(1, eps=0.5)),
        (lambda: nn.InstanceNorm(epsilon=0.5), lambda: nn.InstanceNorm(eps=0.5)),
    ],
)
def test_pytorch_argument_aliases_give_equal_layers(ours, theirs):
    found = []
    for make in (ours, theirs):
        g = mg.Graph(seed=1)
        found.append(g.run({}, make()(g.constant(np.arange(2 * 7 * 8 * 3).reshape(2, 7, 8, 3) % 11, dtype="float32"))))
    assert np.array_equal(*(array.numpy() for array in found))


def test_one_dimensional_layers_accept_symmetric_padding():
    g = mg.Graph()
    x = g.placeholder((-1, 10, 3))
    assert nn.Conv1d(2, 3, padding=1)(x).shape == nn.Conv1d(2, 3, padding=(1,))(x).shape == (-1, 10, 2)
    assert nn.Conv1d(2, 3, padding=(2, 0))(x).shape == (-1, 10, 2)
    assert nn.MaxPool1d(3, stride=1, padding=1)(x).shape == (-1, 10, 3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Conv2d(2, 3, strides=2, stride=3),
        lambda: nn.Conv1d(2, 3, dilations=2, dilation=3),
        lambda: nn.MaxPool2d(2, 2, stride=3),
        lambda: nn.BatchNorm(epsilon=1e-2, eps=1e-5),
        lambda: nn.Embedding(4, 2, padding_index=1, padding_idx=2),
    ],
)
def test_passing_argument_and_its_alias_raises(make):
    with pytest.raises(mg.errors.GraphError, match="is an alias of"):
        make()


# --- the page ---------------------------------------------------------------------------------------------------------
def keras_gru(x, kernel, recurrent, biases):
    """Compute Keras's GRU(reset_after=True), with gates z, r, h."""
    h = np.zeros((len(x), recurrent.shape[0]))
    for t in range(x.shape[1]):
        (z, r, n), (hz, hr, hn) = (
            np.split(a, 3, axis=1) for a in (x[:, t] @ kernel + biases[0], h @ recurrent + biases[1])
        )
        z = sigmoid(z + hz)
        h = z * h + (1 - z) * np.tanh(n + sigmoid(r + hr) * hn)
    return h


def test_weights_page_examples_run(repository, tmp_path, monkeypatch):
    """Run the code of docs/weights.md that does not import torch, and compare its GRU with Keras's formula."""
    blocks = re.findall(r"```python\n(.*?)```", (repository / "docs" / "weights.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in (block for block in blocks if "import torch" not in block):
        exec(compile(block, "docs/weights.md", "exec"), names)
    x = numbers(2, 10, 4)
    g, layer = mg.Graph(), nn.GRU(3)
    layer.load_state_dict(names["layer"].state_dict())
    found = g.run({}, layer(g.constant(x))).numpy()[:, -1]
    close(found, keras_gru(x, names["kernel"], names["recurrent"], names["biases"]))
