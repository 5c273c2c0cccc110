"""Load weights of PyTorch's layers and models: results must be equal, and exported weights must be bitwise equal.

The tests cover each layer of docs/layers.md with parameters or buffers, and each other layer with a data layout, in
inference mode. With channels first, inputs and results have PyTorch's shapes. With channels last, they are transposed
before the comparison.
"""

import re

import numpy as np
import pytest

# PyTorch is optional: `make test-torch` creates an environment with it.
torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
import mpsgraph as mg  # noqa: E402
from mpsgraph import nn  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's modules raise warnings about each other.
FRONT = {3: "NCW", 4: "NCHW", 5: "NCDHW"}
LAST = {3: "NWC", 4: "NHWC", 5: "NDHWC"}


def filled(module, seed=0):
    """Fill the module with random numbers so that nothing is equal by coincidence."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in module.state_dict().items():
            if value.dtype == torch.int64:
                value.fill_(7)
            elif "running_var" in name:
                value.uniform_(0.5, 2, generator=generator)
            else:
                value.normal_(0, 0.4, generator=generator)
        for part in module.modules():
            if isinstance(part, torch.nn.Embedding) and part.padding_idx is not None:
                part.weight[part.padding_idx] = 0
    return module.eval()


def turned(x, last):
    return np.moveaxis(x, 1, -1) if last and x.ndim > 2 else x


def agree(ours, theirs, *inputs, last=False, back=None, before=False, call=None, result=lambda y: y):
    """Check that ours equals theirs on the inputs with their weights, and that the exported weights are unchanged.

    Args:
        ours: Module of this package.
        theirs: Module of PyTorch.
        inputs: Arrays for both modules.
        last: Whether to transpose inputs and results to channels last.
        back: Whether to transpose the results; None means the value of `last`.
        before: Whether to load the weights before the first call.
        call: How to call theirs.
        result: Selects which part of their result to compare.
    """
    theirs = filled(theirs)
    state = theirs.state_dict()
    with torch.no_grad():
        wanted = result((call or theirs)(*(torch.from_numpy(x) for x in inputs))).numpy()
    g = mg.Graph()
    fed = [g.placeholder(turned(x, last).shape, x.dtype) for x in inputs]
    ours.eval()
    if before:
        assert nn.load_torch(ours, state) is None
    y = ours(*fed)
    if not before:
        assert nn.load_torch(ours, state) == ([], [])
    found = g.run({p: turned(x, last) for p, x in zip(fed, inputs, strict=True)}, y).numpy()
    wanted = turned(wanted, last if back is None else back)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    returned = nn.to_torch(ours)
    assert returned.keys() == state.keys()
    for name, value in state.items():
        assert returned[name].dtype == value.dtype
        assert torch.equal(returned[name], value), name
    theirs.load_state_dict(returned)
    return ours


def numbers(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def tokens(*shape, highest):
    return np.random.default_rng(1).integers(0, highest, size=shape).astype(np.int32)


# --- layers with features last ----------------------------------------------------------------------------------------
PLAIN = {
    "Linear": (lambda: nn.Linear(5), lambda: torch.nn.Linear(7, 5), numbers(4, 7)),
    "Linear_rank_3": (lambda: nn.Linear(5, bias=False), lambda: torch.nn.Linear(7, 5, bias=False), numbers(2, 4, 7)),
    "LayerNorm": (lambda: nn.LayerNorm(), lambda: torch.nn.LayerNorm(6), numbers(2, 3, 6)),
    "LayerNorm_two_axes": (lambda: nn.LayerNorm((-2, -1)), lambda: torch.nn.LayerNorm((3, 6)), numbers(2, 3, 6)),
    "LayerNorm_no_bias": (
        lambda: nn.LayerNorm(center=False), lambda: torch.nn.LayerNorm(6, bias=False), numbers(2, 3, 6),
    ),
    "LayerNorm_plain": (
        lambda: nn.LayerNorm(scale=False, center=False),
        lambda: torch.nn.LayerNorm(6, elementwise_affine=False), numbers(2, 3, 6),
    ),
    "RMSNorm": (lambda: nn.RMSNorm(), lambda: torch.nn.RMSNorm(6, eps=1e-6), numbers(2, 3, 6)),
    "BatchNorm_rank_2": (lambda: nn.BatchNorm(eps=1e-5), lambda: torch.nn.BatchNorm1d(6), numbers(4, 6)),
    "GroupNorm_rank_2": (lambda: nn.GroupNorm(3), lambda: torch.nn.GroupNorm(3, 6), numbers(4, 6)),
    "PReLU": (lambda: nn.PReLU(), lambda: torch.nn.PReLU(), numbers(4, 6)),
    "Embedding": (lambda: nn.Embedding(11, 4), lambda: torch.nn.Embedding(11, 4), tokens(3, 5, highest=11)),
    "Embedding_padding": (
        lambda: nn.Embedding(11, 4, padding_idx=3),
        lambda: torch.nn.Embedding(11, 4, padding_idx=3), tokens(3, 5, highest=11),
    ),
}  # fmt: skip


@pytest.mark.parametrize("before", [False, True], ids=["after the call", "before the call"])
@pytest.mark.parametrize("name", PLAIN)
def test_feature_layers_with_loaded_weights_match_pytorch(name, before):
    ours, theirs, x = PLAIN[name]
    agree(ours(), theirs(), x, before=before)


# --- layers with channels ---------------------------------------------------------------------------------------------
def sizes(rank):
    return {3: (2, 6, 11), 4: (2, 6, 9, 10), 5: (2, 6, 5, 6, 7)}[rank]


def conv(rank, **how):
    return (
        lambda layout: getattr(nn, f"Conv{rank - 2}d")(8, 3, data_layout=layout, **how),
        lambda: getattr(torch.nn, f"Conv{rank - 2}d")(6, 8, 3, **how), rank,
    )  # fmt: skip


def transposed(rank, **how):
    return (
        lambda layout: getattr(nn, f"ConvTranspose{rank - 2}d")(4, 3, data_layout=layout, **how),
        lambda: getattr(torch.nn, f"ConvTranspose{rank - 2}d")(6, 4, 3, **how), rank,
    )  # fmt: skip


def norm(rank, ours, theirs):
    return (ours, theirs, rank)


CHANNELS = {
    **{f"Conv{r - 2}d": conv(r) for r in (3, 4, 5)},
    **{f"Conv{r - 2}d_all": conv(r, stride=2, padding=1, dilation=2, groups=2, bias=False) for r in (3, 4, 5)},
    **{f"Conv{r - 2}d_same": conv(r, padding="same", dilation=2) for r in (3, 4, 5)},
    "Conv2d_two_paddings": conv(4, padding=(2, 1), stride=(1, 2)),
    **{f"ConvTranspose{r - 2}d": transposed(r) for r in (3, 4, 5)},
    **{
        f"ConvTranspose{r - 2}d_all": transposed(r, stride=2, padding=1, output_padding=1, groups=2) for r in (3, 4, 5)
    },
    "DepthwiseConv2d": (
        lambda layout: nn.DepthwiseConv2d(3, channel_multiplier=2, padding=1, data_layout=layout),
        lambda: torch.nn.Conv2d(6, 12, 3, padding=1, groups=6), 4,
    ),
    **{
        f"BatchNorm_{r}": (
            lambda layout: nn.BatchNorm(epsilon=1e-5, data_layout=layout),
            lambda r=r: getattr(torch.nn, f"BatchNorm{r - 2}d")(6), r,
        ) for r in (3, 4, 5)
    },
    "BatchNorm_plain": (
        lambda layout: nn.BatchNorm(eps=1e-5, scale=False, center=False, data_layout=layout),
        lambda: torch.nn.BatchNorm2d(6, affine=False), 4,
    ),
    **{
        f"GroupNorm_{r}": (lambda layout: nn.GroupNorm(3, data_layout=layout), lambda: torch.nn.GroupNorm(3, 6), r)
        for r in (3, 4, 5)
    },
    **{
        f"InstanceNorm_{r}": (
            lambda layout: nn.InstanceNorm(scale=True, center=True, data_layout=layout),
            lambda r=r: getattr(torch.nn, f"InstanceNorm{r - 2}d")(6, affine=True), r,
        ) for r in (3, 4, 5)
    },
    "InstanceNorm_plain": (lambda layout: nn.InstanceNorm(data_layout=layout), lambda: torch.nn.InstanceNorm2d(6), 4),
    **{f"PReLU_{r}": (lambda layout: nn.PReLU(6, data_layout=layout), lambda: torch.nn.PReLU(6), r) for r in (3, 4, 5)},
    # These layers have no parameters.
    **{
        f"MaxPool{r - 2}d": (
            lambda layout, r=r: getattr(nn, f"MaxPool{r - 2}d")(3, stride=2, padding=1, data_layout=layout),
            lambda r=r: getattr(torch.nn, f"MaxPool{r - 2}d")(3, stride=2, padding=1), r,
        ) for r in (3, 4, 5)
    },
    **{
        f"MaxPool{r - 2}d_ceil": (
            lambda layout, r=r: getattr(nn, f"MaxPool{r - 2}d")(2, ceil_mode=True, data_layout=layout),
            lambda r=r: getattr(torch.nn, f"MaxPool{r - 2}d")(2, ceil_mode=True), r,
        ) for r in (3, 4, 5)
    },
    **{
        f"AvgPool{r - 2}d": (
            lambda layout, r=r: getattr(nn, f"AvgPool{r - 2}d")(
                3, 2, padding=1, include_zero_pad_to_average=True, data_layout=layout
            ),
            lambda r=r: getattr(torch.nn, f"AvgPool{r - 2}d")(3, 2, padding=1), r,
        ) for r in (3, 4, 5)
    },
    "AdaptiveAvgPool2d": (
        lambda layout: nn.AdaptiveAvgPool2d((4, 3), data_layout=layout), lambda: torch.nn.AdaptiveAvgPool2d((4, 3)), 4,
    ),
    "AdaptiveAvgPool2d_even": (
        lambda layout: nn.AdaptiveAvgPool2d((3, 5), data_layout=layout), lambda: torch.nn.AdaptiveAvgPool2d((3, 5)), 4,
    ),
    "GlobalAveragePooling2d": (
        lambda layout: nn.GlobalAveragePooling2d(data_layout=layout, keep_axes=True),
        lambda: torch.nn.AdaptiveAvgPool2d(1), 4,
    ),
    "Upsample": (
        lambda layout: nn.Upsample(scale_factor=2, mode="bilinear", data_layout=layout),
        lambda: torch.nn.Upsample(scale_factor=2, mode="bilinear"), 4,
    ),
    "ZeroPad2d": (
        lambda layout: nn.ZeroPad2d((1, 2, 3, 0), data_layout=layout), lambda: torch.nn.ZeroPad2d((1, 2, 3, 0)), 4,
    ),
    "ReflectionPad2d": (
        lambda layout: nn.ReflectionPad2d(2, data_layout=layout), lambda: torch.nn.ReflectionPad2d(2), 4,
    ),
    "ReplicationPad2d": (
        lambda layout: nn.ReplicationPad2d(2, data_layout=layout), lambda: torch.nn.ReplicationPad2d(2), 4,
    ),
    "SpatialDropout": (lambda layout: nn.SpatialDropout(data_layout=layout), lambda: torch.nn.Dropout2d(), 4),
}  # fmt: skip


@pytest.mark.parametrize("layouts", [FRONT, LAST], ids=["channels in front", "channels last"])
@pytest.mark.parametrize("name", CHANNELS)
def test_channel_layers_with_loaded_weights_match_pytorch(name, layouts):
    ours, theirs, rank = CHANNELS[name]
    made = agree(ours(layouts[rank]), theirs(), numbers(*sizes(rank)), last=layouts is LAST)
    if layouts is FRONT and name != "DepthwiseConv2d" and made.state_dict():
        shapes = sorted(tuple(v.shape) for v in theirs().state_dict().values() if v.dtype != torch.int64)
        assert sorted(v.shape for v in made.state_dict().values()) == shapes, "parameters must have PyTorch's shapes"


FRONT_ONLY = {
    "Flatten": (lambda: nn.Flatten(), torch.nn.Flatten, (2, 6, 4, 5)),
    "Unflatten": (lambda: nn.Unflatten((2, -1, 5)), lambda: torch.nn.Unflatten(1, (2, 4, 5)), (3, 40)),
    "PixelShuffle": (lambda: nn.PixelShuffle(2, data_layout="NCHW"), lambda: torch.nn.PixelShuffle(2), (2, 8, 3, 4)),
    "PixelUnshuffle": (
        lambda: nn.PixelUnshuffle(2, data_layout="NCHW"), lambda: torch.nn.PixelUnshuffle(2), (2, 3, 4, 6),
    ),
    "Unfold": (
        lambda: nn.Unfold(3, stride=2, padding=1, data_layout="NCHW"),
        lambda: torch.nn.Unfold(3, stride=2, padding=1), (2, 3, 8, 9),
    ),
    "Fold": (
        lambda: nn.Fold((6, 7), 3, padding=(1, 0), data_layout="NCHW"),
        lambda: torch.nn.Fold((6, 7), 3, padding=(1, 0)), (2, 18, 30),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FRONT_ONLY)
def test_channels_first_layers_have_pytorch_shapes(name):
    ours, theirs, shape = FRONT_ONLY[name]
    agree(ours(), theirs(), numbers(*shape))


# --- recurrent layers and attention -----------------------------------------------------------------------------------
KINDS = {
    "one": {},
    "stacked": {"num_layers": 3},
    "both ways": {"bidirectional": True},
    "all": {"num_layers": 2, "bidirectional": True, "bias": False},
}


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("batch_first", [True, False], ids=["batch first", "time first"])
def test_recurrent_layers_match_pytorch(kind, how, batch_first):
    ours = getattr(nn, kind)(5, batch_first=batch_first, **KINDS[how])
    theirs = getattr(torch.nn, kind)(4, 5, batch_first=batch_first, **KINDS[how])
    agree(ours, theirs, numbers(3, 6, 4), result=lambda y: y[0])


def test_relu_rnn_matches_pytorch():
    theirs = torch.nn.RNN(4, 5, nonlinearity="relu", batch_first=True)
    agree(nn.RNN(5, activation="relu"), theirs, numbers(3, 6, 4), result=lambda y: y[0])


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_single_bias_equals_sum_of_pytorch_biases(kind):
    theirs = filled(getattr(torch.nn, kind)(4, 5, batch_first=True))
    if kind == "GRU":
        with torch.no_grad():
            theirs.bias_hh_l0[10:] = 0
    x, g = numbers(3, 6, 4), mg.Graph()
    ours = getattr(nn, kind)(5, recurrent_bias=False)
    y = ours(g.constant(x))
    nn.load_torch(ours, theirs.state_dict())
    wanted = theirs(torch.from_numpy(x))[0].detach().numpy()
    np.testing.assert_allclose(g.run({}, y).numpy(), wanted, rtol=1e-5, atol=1e-5)
    theirs.load_state_dict(nn.to_torch(ours))
    np.testing.assert_allclose(theirs(torch.from_numpy(x))[0].detach().numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_projection_weights_are_reported_as_unexpected():
    ours = nn.LSTM(5)
    ours(mg.Graph().placeholder((2, 3, 4)))
    with pytest.raises(mg.errors.GraphError, match="unexpected weight_hr_l0"):
        nn.load_torch(ours, torch.nn.LSTM(4, 5, proj_size=2).state_dict())


@pytest.mark.parametrize("bias", [True, False])
def test_self_attention_matches_pytorch(bias):
    theirs = torch.nn.MultiheadAttention(8, 2, bias=bias, batch_first=True)
    agree(
        nn.MultiheadAttention(8, 2, bias=bias), theirs, numbers(2, 5, 8),
        call=lambda x: theirs(x, x, x), result=lambda y: y[0],
    )  # fmt: skip


@pytest.mark.parametrize("sizes", [(8, 8), (6, 5)], ids=["packed", "apart"])
def test_cross_attention_matches_pytorch(sizes):
    theirs = torch.nn.MultiheadAttention(8, 2, kdim=sizes[0], vdim=sizes[1], batch_first=True)
    inputs = numbers(2, 5, 8), numbers(2, 7, sizes[0], seed=2), numbers(2, 7, sizes[1], seed=3)
    agree(nn.MultiheadAttention(8, 2), theirs, *inputs, result=lambda y: y[0])


def test_attention_with_separate_projections_matches_pytorch():
    """Most programs use separate weights instead of PyTorch's packed matrix."""
    packed = filled(torch.nn.MultiheadAttention(8, 2, batch_first=True)).state_dict()
    parted = {}
    for kind in ("weight", "bias"):
        for name, part in zip(("query", "key", "value"), packed[f"in_proj_{kind}"].chunk(3), strict=True):
            parted[f"{name}.{kind}"] = part
        parted[f"output.{kind}"] = packed[f"out_proj.{kind}"]
    found = []
    for state in (packed, parted):
        attention = nn.MultiheadAttention(8, 2)
        attention(mg.Graph().placeholder((2, 5, 8)))
        assert nn.load_torch(attention, state) == ([], [])
        found.append(attention.state_dict())
    assert all(np.array_equal(found[0][name], found[1][name]) for name in found[0])


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("bias", [True, False])
def test_transformer_encoders_match_pytorch(norm_first, bias):
    how = {"norm_first": norm_first, "bias": bias}
    layer = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", **how)
    other = torch.nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True, **how)
    ours = nn.TransformerEncoder(layer, 2, nn.LayerNorm())
    agree(
        ours, torch.nn.TransformerEncoder(other, 2, torch.nn.LayerNorm(8), enable_nested_tensor=False), numbers(2, 5, 8)
    )


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_decoders_match_pytorch(norm_first):
    layer = nn.TransformerDecoderLayer(8, 2, 16, norm_first=norm_first)
    other = torch.nn.TransformerDecoderLayer(8, 2, 16, norm_first=norm_first, batch_first=True)
    inputs = numbers(2, 5, 8), numbers(2, 7, 8, seed=2)
    agree(nn.TransformerDecoder(layer, 2, nn.LayerNorm()), torch.nn.TransformerDecoder(other, 2, torch.nn.LayerNorm(8)),
          *inputs)  # fmt: skip


# --- models -----------------------------------------------------------------------------------------------------------
def our_network(layout):
    return nn.Sequential(
        nn.Conv2d(8, 3, padding="same", bias=False, data_layout=layout), nn.BatchNorm(eps=1e-5, data_layout=layout),
        nn.ReLU(), nn.MaxPool2d(2, data_layout=layout),
        nn.Sequential(nn.Conv2d(12, 3, stride=2, data_layout=layout), nn.PReLU(12, data_layout=layout)),
        nn.Flatten(), nn.Dropout(), nn.Linear(10), nn.ReLU(), nn.Linear(4),
    )  # fmt: skip


def their_network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding="same", bias=False), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
        torch.nn.MaxPool2d(2), torch.nn.Sequential(torch.nn.Conv2d(8, 12, 3, stride=2), torch.nn.PReLU(12)),
        torch.nn.Flatten(), torch.nn.Dropout(), torch.nn.Linear(144, 10), torch.nn.ReLU(), torch.nn.Linear(10, 4),
    )  # fmt: skip


@pytest.mark.parametrize("before", [False, True], ids=["after the call", "before the call"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_network_that_flattens_images_matches_pytorch(layout, before):
    """With channels last, the rows of the first Linear weight are in a different order."""
    agree(our_network(layout), their_network(), numbers(2, 3, 15, 19), last=layout == "NHWC", before=before)


@pytest.mark.parametrize("layout", ["NCW", "NWC"])
def test_network_that_flattens_signals_matches_pytorch(layout):
    ours = nn.Sequential(
        nn.Conv1d(6, 3, data_layout=layout), nn.ReLU(), nn.Flatten(), nn.BatchNorm(eps=1e-5), nn.Linear(4)
    )
    theirs = torch.nn.Sequential(
        torch.nn.Conv1d(3, 6, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.BatchNorm1d(60), torch.nn.Linear(60, 4)
    )
    agree(ours, theirs, numbers(2, 3, 12), last=layout == "NWC")


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_network_that_unflattens_images_matches_pytorch(layout):
    shape = (6, 4, 5) if layout == "NCHW" else (4, 5, 6)
    ours = nn.Sequential(
        nn.Linear(120), nn.BatchNorm(eps=1e-5), nn.ReLU(), nn.Unflatten(shape),
        nn.ConvTranspose2d(3, 4, stride=2, padding=1, data_layout=layout), nn.Tanh(),
    )  # fmt: skip
    theirs = torch.nn.Sequential(
        torch.nn.Linear(7, 120), torch.nn.BatchNorm1d(120), torch.nn.ReLU(), torch.nn.Unflatten(1, (6, 4, 5)),
        torch.nn.ConvTranspose2d(6, 3, 4, stride=2, padding=1), torch.nn.Tanh(),
    )  # fmt: skip
    agree(ours, theirs, numbers(2, 7), back=layout == "NHWC")


def test_weights_load_correctly_after_training_steps():
    """Gradients and updates in the graph must not confuse the detection of feature orders."""
    theirs = filled(their_network())
    ours, x = our_network("NHWC"), numbers(8, 3, 15, 19)
    trainer = mg.Trainer(ours, optimizer=mg.optim.SGD(0.0))
    trainer.train_step(turned(x, True), np.arange(8, dtype=np.int32) % 4).wait(60.0)
    nn.load_torch(ours, theirs.state_dict())
    wanted = theirs(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(trainer.predict(turned(x, True)), wanted, rtol=1e-4, atol=1e-5)
    returned = nn.to_torch(ours)
    assert all(torch.equal(returned[name], value) for name, value in theirs.state_dict().items())


class Block(nn.Module):
    def __init__(self, channels, layout, shrinks):
        self.conv1 = nn.Conv2d(channels, 3, padding=1, stride=2 if shrinks else 1, bias=False, data_layout=layout)
        self.bn1 = nn.BatchNorm(eps=1e-5, data_layout=layout)
        self.conv2 = nn.Conv2d(channels, 3, padding=1, bias=False, data_layout=layout)
        self.bn2 = nn.BatchNorm(eps=1e-5, data_layout=layout)
        self.downsample = None
        if shrinks:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, 1, stride=2, bias=False, data_layout=layout),
                nn.BatchNorm(eps=1e-5, data_layout=layout),
            )
        self.relu = nn.ReLU()

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class TheirBlock(torch.nn.Module):
    def __init__(self, inputs, channels, shrinks):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(inputs, channels, 3, padding=1, stride=2 if shrinks else 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(channels)
        self.conv2 = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(channels)
        self.downsample = None
        if shrinks:
            conv = torch.nn.Conv2d(inputs, channels, 1, stride=2, bias=False)
            self.downsample = torch.nn.Sequential(conv, torch.nn.BatchNorm2d(channels))
        self.relu = torch.nn.ReLU()

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_residual_network_matches_pytorch(layout):
    ours = nn.Sequential(
        Block(6, layout, False), Block(8, layout, True), nn.GlobalAveragePooling2d(data_layout=layout), nn.Linear(5)
    )
    theirs = torch.nn.Sequential(
        TheirBlock(6, 6, False), TheirBlock(6, 8, True),
        torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()), torch.nn.Linear(8, 5),
    )  # fmt: skip
    agree(ours, theirs, numbers(2, 6, 10, 12), last=layout == "NHWC")


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_weights_of_other_dtypes_round_trip(dtype):
    theirs = filled(torch.nn.Linear(4, 3)).to(getattr(torch, dtype))
    g = mg.Graph()
    ours = nn.Linear(3)
    ours(g.placeholder((2, 4), dtype))
    nn.load_torch(ours, theirs.state_dict())
    returned = nn.to_torch(ours)
    assert all(torch.equal(returned[name], value) for name, value in theirs.state_dict().items())
    wide = nn.Linear(3)
    wide(mg.Graph().placeholder((2, 4)))
    with pytest.raises(mg.errors.DTypeError, match=f"'weight' must be float32, got {dtype}"):
        nn.load_torch(wide, theirs.state_dict())
    nn.load_torch(wide, theirs.state_dict(), cast=True)
    assert torch.equal(nn.to_torch(wide)["weight"], theirs.weight.float())


def test_invalid_states_raise():
    ours = nn.Linear(2)
    ours(mg.Graph().placeholder((1, 3)))
    with pytest.raises(mg.errors.GraphError, match=r"load_torch: state_dict must be .* give module.state_dict\(\)"):
        nn.load_torch(ours, torch.nn.Linear(3, 2))
    state = torch.nn.Linear(3, 2).state_dict()
    with pytest.raises(mg.errors.DTypeError, match="values of a state must be numeric arrays, got a tensor of"):
        nn.load_torch(ours, state | {"weight": torch.zeros(2, 3, device="meta")})
    nn.load_torch(ours, {name: torch.nn.Parameter(value) for name, value in state.items()})


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz])
def test_float8_tensors_load_exactly(dtype):
    ours = nn.Linear(2)
    ours(mg.Graph().placeholder((1, 3)))
    weight = torch.tensor([[0.1, -2.5, 3.0], [1e-3, 200.0, -0.0]]).to(dtype)
    nn.load_torch(ours, {"weight": weight, "bias": torch.zeros(2)})
    assert torch.equal(nn.to_torch(ours)["weight"], weight.float())


def test_safetensors_files_of_pytorch_are_loaded(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    theirs = filled(their_network())
    safetensors.save_file(theirs.state_dict(), tmp_path / "model.safetensors")
    ours, x = our_network("NHWC").eval(), numbers(2, 3, 15, 19)
    g = mg.Graph()
    y = ours(g.constant(turned(x, True)))
    assert nn.load_safetensors(ours, tmp_path) == ([], [])
    wanted = theirs(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(g.run({}, y).numpy(), wanted, rtol=1e-5, atol=1e-5)
    safetensors.save_file(nn.to_torch(ours), tmp_path / "back.safetensors")
    back = safetensors.load_file(tmp_path / "back.safetensors")
    assert all(torch.equal(back[name], value) for name, value in theirs.state_dict().items())


def test_pytorch_weights_page_code_runs(repository, tmp_path, monkeypatch):
    """Test that all code of docs/weights.md runs unchanged."""
    blocks = re.findall(r"```python\n(.*?)```", (repository / "docs" / "weights.md").read_text(), re.DOTALL)
    assert sum("import torch" in block for block in blocks) == 1
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/weights.md", "exec"), names)
    assert torch.equal(names["theirs"].state_dict()["1.num_batches_tracked"], torch.tensor(0))
