"""Write torch_layers.npz: results and gradients of PyTorch 2.13's layers and losses. Run it with PyTorch.

Arrays are named by case: "in.i", the inputs; "out.i", the results; "d_in.i", the gradients of
sum(out.i * cos(0, 1, 2, ...)) with respect to the inputs; "p.name" and "d_p.name", the parameters and their gradients.
They are computed in float64 and stored in float32. Inputs are rounded so that they compress well. The tests in tests/nn
do not need PyTorch.
"""

import json
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(20)
torch.set_default_dtype(torch.float64)
stored: dict[str, np.ndarray] = {}


def normal(*shape: int, scale: float = 1.0) -> torch.Tensor:
    return (torch.randn(*shape) * scale * 64).round() / 64


def store(name: str, value: torch.Tensor) -> None:
    array = value.detach().numpy()
    stored[name] = array.astype({"f": np.float32, "i": np.int32, "b": np.bool_}[array.dtype.kind])


def case(name: str, function, *inputs: torch.Tensor, keep_parameters: bool = False) -> None:
    """Run a module or function with random parameters, and store its inputs and results."""
    parameters = dict(function.named_parameters()) if isinstance(function, nn.Module) else {}
    for parameter in parameters.values() if not keep_parameters else ():
        parameter.data = normal(*parameter.shape, scale=0.5)
    leaves = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    results = function(*leaves)
    outputs = [results] if isinstance(results, torch.Tensor) else list(results)
    flat = [z for y in outputs for z in (y if isinstance(y, tuple) else (y,))]
    sum((y * torch.cos(torch.arange(y.numel(), dtype=y.dtype)).reshape(y.shape)).sum() for y in flat).backward()
    for i, (x, leaf) in enumerate(zip(inputs, leaves, strict=True)):
        store(f"{name}/in.{i}", x)
        if leaf.requires_grad and leaf.grad is not None:
            store(f"{name}/d_in.{i}", leaf.grad)
    for i, y in enumerate(flat):
        store(f"{name}/out.{i}", y)
    for key, parameter in parameters.items():
        store(f"{name}/p.{key}", parameter)
        if parameter.grad is not None:
            store(f"{name}/d_p.{key}", parameter.grad)


# --- activations: at random points and at their kinks -----------------------------------------------------------------
points = torch.cat([normal(8, scale=2), torch.tensor([-6.0, -3, -1, -0.5, 0, 0.5, 1, 3, 6, 8])]).reshape(3, 6)
for module in (
    nn.CELU(0.7), nn.ELU(0.7), nn.GELU(), nn.GELU("tanh"), nn.GLU(), nn.Hardshrink(), nn.Hardsigmoid(), nn.Hardswish(),
    nn.Hardtanh(-1, 3), nn.LogSigmoid(), nn.Mish(), nn.ReLU6(), nn.SELU(), nn.SiLU(), nn.Softmin(-1), nn.Softplus(2.0),
    nn.Softshrink(), nn.Softsign(), nn.Tanhshrink(), nn.Threshold(0.5, 2.0),
):  # fmt: skip
    suffix = "_tanh" if getattr(module, "approximate", "") == "tanh" else ""
    case(type(module).__name__ + suffix, module, points)
case("PReLU", nn.PReLU(1), points)
case("PReLU_channels", nn.PReLU(6), points)

# --- normalizations, channels first -----------------------------------------------------------------------------------
case("LayerNorm", nn.LayerNorm(5), normal(2, 3, 5))
case("LayerNorm_two_axes", nn.LayerNorm((3, 5), eps=1e-3), normal(2, 3, 5))
case("LayerNorm_plain", nn.LayerNorm(5, elementwise_affine=False), normal(4, 5))
case("RMSNorm", nn.RMSNorm(5, eps=1e-6), normal(2, 3, 5))
case("GroupNorm", nn.GroupNorm(2, 4), normal(2, 4, 3, 2))
case("GroupNorm_rank_2", nn.GroupNorm(3, 6), normal(3, 6))
case("InstanceNorm_1", nn.InstanceNorm1d(3, affine=True), normal(2, 3, 5))
case("InstanceNorm_2", nn.InstanceNorm2d(2), normal(2, 2, 3, 4))
case("InstanceNorm_3", nn.InstanceNorm3d(2, affine=True), normal(1, 2, 2, 3, 2))
case("BatchNorm_1", nn.BatchNorm1d(3, eps=1e-3), normal(2, 3, 4))
case("BatchNorm_3", nn.BatchNorm3d(2, eps=1e-3), normal(2, 2, 2, 2, 3))

# --- recurrent layers: sequence and states as inputs and results ------------------------------------------------------
case("RNN", nn.RNN(3, 4, batch_first=True), normal(2, 5, 3), normal(1, 2, 4))
case("RNN_relu", nn.RNN(3, 2, 2, nonlinearity="relu", bidirectional=True), normal(3, 2, 3), normal(4, 2, 2))
case("RNN_plain", nn.RNN(3, 4, bias=False, batch_first=True), normal(2, 5, 3))
for layers, both in ((1, False), (2, True)):
    suffix, n = ("_2_both", 4) if both else ("", 1)
    make = {"num_layers": layers, "bidirectional": both, "batch_first": True}
    lstm, states = nn.LSTM(3, 2, **make), (normal(n, 2, 2), normal(n, 2, 2))
    # PyTorch's LSTM takes its two states as a tuple; store them as separate inputs.
    lstm.forward = lambda x, h, c, run=lstm.forward: run(x, (h, c))
    case("LSTM" + suffix, lstm, normal(2, 4, 3), *states)
    case("GRU" + suffix, nn.GRU(3, 2, **make), normal(2, 4, 3), normal(n, 2, 2))
case("LSTM_plain", nn.LSTM(3, 2, 2, bias=False), normal(4, 2, 3))
case("GRU_plain", nn.GRU(3, 2, bias=False, bidirectional=True), normal(4, 2, 3))


# --- attention and transformers ---------------------------------------------------------------------------------------
def attention(name: str, module: nn.Module, *inputs: torch.Tensor, **names: int) -> None:
    """Store a case whose module takes some inputs by name; names[name] is the index of the input."""
    positional = [i for i in range(len(inputs)) if i not in names.values()]
    run = module.forward
    module.forward = lambda *x: run(*(x[i] for i in positional), **{k: x[i] for k, i in names.items()})
    case(name, module, *inputs)


def average_and_weights(module: nn.Module, average: bool = True) -> nn.Module:
    run = module.forward
    module.forward = lambda *x, **named: run(*x, **named, average_attn_weights=average)
    return module


x, bools, padding = normal(2, 3, 4), torch.tensor([[0, 1, 0], [0, 0, 1], [0, 0, 0]]).bool(), torch.zeros(2, 3).bool()
padding[1, 2] = True
self_attention = average_and_weights(nn.MultiheadAttention(4, 2, batch_first=True))
attention("Attention", self_attention, x, x, x, bools, padding, attn_mask=3, key_padding_mask=4)
cross = average_and_weights(nn.MultiheadAttention(4, 2, kdim=3, vdim=5, batch_first=True), average=False)
added = normal(2, 3)
added[0, 1] = -torch.inf
attention("Attention_cross", cross, normal(2, 2, 4), normal(2, 3, 3), normal(2, 3, 5), added, attn_mask=3)
plain = average_and_weights(nn.MultiheadAttention(4, 2, bias=False))
attention("Attention_time_first", plain, normal(3, 2, 4), *[normal(4, 2, 4)] * 2)
how = {"dropout": 0.0, "batch_first": True}
# Make the mask floating point, like the causal mask, so that both have one dtype.
padded = padding.double().masked_fill(padding, -torch.inf)
causal = nn.Transformer.generate_square_subsequent_mask(3)
layer = nn.TransformerEncoderLayer(4, 2, 5, **how)
attention("Encoder_layer", layer, x, causal, padded, src_mask=1, src_key_padding_mask=2)
before = nn.TransformerEncoderLayer(4, 2, 5, activation="gelu", norm_first=True, **how)
attention("Encoder", nn.TransformerEncoder(before, 2, nn.LayerNorm(4)), x, causal, mask=1)
attention("Encoder_plain", nn.TransformerEncoderLayer(4, 2, 5, dropout=0, bias=False), normal(3, 2, 4))
layer = nn.TransformerDecoderLayer(4, 2, 5, **how)
attention("Decoder", nn.TransformerDecoder(layer, 2), x, normal(2, 5, 4), causal, tgt_mask=2)


# --- transposed convolutions ------------------------------------------------------------------------------------------
how = {"stride": 2, "padding": 1, "output_padding": 1, "dilation": 2}
case("ConvTranspose1d", nn.ConvTranspose1d(4, 6, 3, groups=2, **how), normal(2, 4, 5))
case("ConvTranspose2d", nn.ConvTranspose2d(2, 3, (3, 2), **how), normal(1, 2, 3, 4))
case(
    "ConvTranspose3d",
    nn.ConvTranspose3d(2, 2, 2, stride=(1, 2, 3), padding=(0, 1, 0), bias=False),
    normal(1, 2, 2, 3, 2),
)


# --- losses -----------------------------------------------------------------------------------------------------------
def loss(name: str, function, outputs: torch.Tensor, labels: torch.Tensor, *others: torch.Tensor, **how) -> None:
    """Store a case of torch.nn.functional; integer labels become floats, and keyword factors are constant."""
    function, whole = getattr(functional, function), how.pop("whole", False)
    factors = [key for key in how if how[key] is None]
    vectors = len(others) - len(factors)

    def run(x, t, *more):
        named = {key: value.detach() for key, value in zip(factors, more[vectors:], strict=True)}
        label = t if whole or t.is_floating_point() else t.double()
        return function(x, label, *more[:vectors], **{**how, **named})

    case(name, run, outputs, labels, *others)


logits, classes, factors = normal(4, 3, scale=2), torch.tensor([2, 0, 1, 2]), torch.tensor([0.5, 2.0, 1.25])
some, shares = torch.tensor([2, -100, 1, 0]), torch.softmax(normal(4, 3), -1)
images, pixels = normal(2, 3, 2, 2), torch.tensor([[[0, 2], [1, 1]], [[2, 0], [0, 1]]])
for reduction in ("mean", "sum", "none"):
    plain, smooth = {"whole": True, "reduction": reduction}, {"weight": None, "label_smoothing": 0.25}
    loss(f"cross_entropy_{reduction}", "cross_entropy", logits, classes, **plain)
    loss(f"cross_entropy_images_{reduction}", "cross_entropy", images, pixels, **plain)
    loss(f"cross_entropy_weighed_{reduction}", "cross_entropy", logits, classes, factors, **plain, **smooth)
    loss(f"cross_entropy_ignored_{reduction}", "cross_entropy", logits, some, factors, **plain, **smooth)
    loss(f"cross_entropy_shares_{reduction}", "cross_entropy", logits, shares, factors, **plain, **smooth)
    loss(f"nll_{reduction}", "nll_loss", logits, some, factors, **plain, weight=None)
    loss(f"mse_{reduction}", "mse_loss", normal(2, 3), normal(2, 3), reduction=reduction)
numbers, others, counts = normal(6), normal(6), torch.tensor([0, 1, 5, 2, 3, 0])
bits, signs = torch.tensor([0, 1, 1, 0, 1, 0]), torch.tensor([1, -1, -1, 1, -1, 1])
several = torch.tensor([[1, 0, 1], [0, 0, 1], [1, 1, 1], [0, 0, 0]])
loss("l1", "l1_loss", numbers, others)
loss("huber", "huber_loss", numbers, others, delta=0.75)
loss("smooth_l1", "smooth_l1_loss", numbers, others, beta=0.5)
loss("poisson", "poisson_nll_loss", numbers, counts)
loss("poisson_full", "poisson_nll_loss", numbers, counts, full=True)
loss("poisson_rates", "poisson_nll_loss", others.abs() + 0.25, counts, log_input=False)
loss("gaussian", "gaussian_nll_loss", numbers, others, others.abs() + 0.25)
loss("gaussian_full", "gaussian_nll_loss", numbers, others, others.abs() + 0.25, full=True)
loss("bce", "binary_cross_entropy", torch.sigmoid(numbers), bits)
loss("bce_logits", "binary_cross_entropy_with_logits", torch.cat([numbers[:5], torch.zeros(1)]), bits)
loss("bce_weighed", "binary_cross_entropy_with_logits", logits, several, factors, pos_weight=None)
loss("kl", "kl_div", torch.log_softmax(logits, -1), shares, reduction="batchmean")
loss("kl_log", "kl_div", torch.log_softmax(logits, -1), shares.log(), log_target=True)
loss("soft_margin", "soft_margin_loss", numbers, signs)
loss("hinge_embedding", "hinge_embedding_loss", numbers, signs, margin=0.5)
loss("multi_label", "multilabel_soft_margin_loss", logits, several, factors, weight=None)
left, right, third = normal(4, 3), normal(4, 3), normal(4, 3)
loss("cosine_similarity", "cosine_similarity", left, right)
loss("cosine_embedding", "cosine_embedding_loss", left, right, signs[:4], margin=0.25)
loss("margin_ranking", "margin_ranking_loss", numbers, others, signs, margin=0.5)
loss("triplet", "triplet_margin_loss", left, right, third, swap=True)
loss("triplet_p", "triplet_margin_loss", left, right, third, margin=0.5, p=3.0, reduction="sum")

# Store one array per dtype and an index by name, as a separate file for each array would mostly consist of headers.
index = {name: (value.dtype.name, value.shape) for name, value in stored.items()}
kinds = {
    kind: np.concatenate([np.zeros(0, kind), *(v.ravel() for v in stored.values() if v.dtype == kind)])
    for kind in ("float32", "int32", "bool")
}
np.savez_compressed(Path(__file__).with_name("torch_layers.npz"), index=json.dumps(index), **kinds)
