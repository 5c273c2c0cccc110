"""Compare LSTM, GRU, and RNN modules under torch.compile with eager mode, and test which calls run in PyTorch."""

import copy

import pytest

# PyTorch is optional: `make test-torch` creates an environment with it.
torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
import mpsgraph as mg  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's modules raise warnings about each other.
nn = torch.nn
IN, H, T, N = 5, 6, 7, 4
KINDS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


class Recurrent(nn.Module):
    """A recurrent network followed by a linear head that also returns its states."""

    def __init__(self, kind: str, **options):
        super().__init__()
        self.recurrent = KINDS[kind](IN, H, **options)
        width = options.get("proj_size") or H
        self.head = nn.Linear(2 * width if options.get("bidirectional") else width, 3)

    def forward(self, x, states=None):
        y, ends = self.recurrent(x, states)
        return self.head(y), ends


def leaves(result):
    return [x for x in torch.utils._pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]


def states_of(kind: str, layers: int, dtype=torch.float64):
    made = [torch.randn(layers, N, H, dtype=dtype).requires_grad_() for _ in range(2 if kind == "lstm" else 1)]
    return tuple(made) if kind == "lstm" else made[0]


def everything(function, module, inputs):
    """Return results and gradients; the loss includes the states."""
    found = leaves(function(*inputs))
    loss = sum((y * torch.linspace(0.5, 2, y.numel(), dtype=y.dtype).reshape(y.shape)).square().mean() for y in found)
    return [*found, *torch.autograd.grad(loss, [*module.parameters(), *leaves(inputs)])]


FORMS = {
    "plain": {},
    "without bias": {"bias": False},
    "deep, both ways, batch first": {"num_layers": 2, "bidirectional": True, "batch_first": True},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [*KINDS, "rnn of relu"])
def test_recurrent_values_and_gradients_match_eager_without_fallbacks(kind: str, form: str):
    given = form.startswith("deep")  # Deep forms also pass initial states.
    options = FORMS[form] | ({"nonlinearity": "relu"} if kind == "rnn of relu" else {})
    kind = kind.partition(" ")[0]
    module = Recurrent(kind, **options).double()
    layers = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    shape = (N, T, IN) if options.get("batch_first") else (T, N, IN)
    x = torch.randn(shape).double().requires_grad_()
    inputs = (x, states_of(kind, layers)) if given else (x,)
    reference = copy.deepcopy(module)
    expected = everything(reference, reference, inputs)
    with mg.torch.explaining() as explained:
        found = everything(mg.torch.compile(module), module, inputs)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)
    assert explained.graphs == 2 and not explained.fallen
    assert explained.translated[f"mpsgraph.{kind}_layer.default"] == layers
    assert explained.translated[f"mpsgraph.{kind}_layer_backward.default"] == layers


def test_recurrent_training_matches_eager():
    module = Recurrent("lstm", num_layers=2)
    reference = copy.deepcopy(module)
    x, labels = torch.randn(T, N, IN), torch.randint(0, 3, (T * N,))
    losses = []
    for one, function in ((reference, reference), (module, mg.torch.compile(module))):
        optimizer = torch.optim.Adam(one.parameters(), lr=0.02)
        for _ in range(8):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(function(x)[0].reshape(T * N, 3), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[8:] == pytest.approx(losses[:8], abs=1e-5) and losses[-1] < losses[8]
    for name, value in reference.state_dict().items():
        torch.testing.assert_close(module.state_dict()[name], value, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_losses_of_only_the_last_states_match_eager(kind: str):
    """Some results, an LSTM's cells or its outputs, then receive no gradient."""
    module = KINDS[kind](IN, H).double()
    x = torch.randn(T, N, IN).double().requires_grad_()
    for place in range(2 if kind == "lstm" else 1):
        torch._dynamo.reset()

        def end(function, place=place):
            ends = function(x)[1]
            return torch.autograd.grad((ends[place] if kind == "lstm" else ends).square().sum(), [x])

        torch.testing.assert_close(end(mg.torch.compile(module)), end(module), rtol=1e-9, atol=1e-11)


def test_recurrent_inference_accepts_changing_sizes_and_unbatched_input():
    module = Recurrent("gru", num_layers=2, dropout=0.5).double().eval()
    with mg.torch.explaining() as explained, torch.no_grad():
        compiled = mg.torch.compile(module)
        for shape in ((T, N, IN), (T + 2, N, IN), (T, N + 1, IN), (T, IN)):
            x = torch.randn(shape).double()
            for ours, theirs in zip(leaves(compiled(x)), leaves(module(x)), strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)
    assert not explained.fallen and explained.translated["mpsgraph.gru_layer.default"] >= 4


def test_dropout_is_applied_between_recurrent_layers():
    module = Recurrent("lstm", num_layers=2, dropout=0.5)
    compiled, x = mg.torch.compile(module), torch.randn(T, N, IN)
    first, second = compiled(x)[0], compiled(x)[0]
    assert not torch.equal(first, second), "each call must draw a new mask"
    module.eval()
    torch.testing.assert_close(compiled(x)[0], module(x)[0])
    only = mg.torch.compile(Recurrent("lstm", dropout=0.0))
    assert torch.equal(only(x)[0], only(x)[0])


def test_function_calling_a_recurrent_module_is_captured():
    module = nn.LSTM(IN, H)
    x = torch.randn(T, N, IN)
    with mg.torch.explaining() as explained:
        found = mg.torch.compile(lambda x: module(x)[0].sum())(x)
    torch.testing.assert_close(found, module(x)[0].sum())
    assert explained.translated["mpsgraph.lstm_layer.default"] == 1 and not explained.fallen


def test_recurrent_modules_without_allow_rnn_run_in_pytorch():
    module, x = Recurrent("lstm"), torch.randn(T, N, IN)
    expected = module(x)[0]
    with mg.torch.explaining() as explained:
        torch.testing.assert_close(torch.compile(module, backend="mpsgraph")(x)[0], expected)
    assert not any("lstm" in name for name in explained.translated)
    torch._dynamo.reset()
    with mg.torch.explaining() as explained, torch._dynamo.config.patch(allow_rnn=True):
        torch.testing.assert_close(torch.compile(module, backend="mpsgraph")(x)[0], expected)
    assert explained.translated["mpsgraph.lstm_layer.default"] == 1 and not explained.fallen
    assert torch._dynamo.config.allow_rnn is False


def test_lstm_with_projections_is_unrolled():
    module, x = Recurrent("lstm", proj_size=3), torch.randn(T, N, IN).requires_grad_()
    expected = everything(module, module, (x,))
    with mg.torch.explaining() as explained:
        found = everything(mg.torch.compile(module), module, (x,))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert not explained.fallen and not any("mpsgraph" in name for name in explained.translated)
    assert explained.translated["aten.sigmoid.default"] >= 3 * T


def test_packed_sequences_match_eager():
    module, lengths = nn.LSTM(IN, H).double(), torch.tensor([7, 5, 2])
    x = torch.randn(T, 3, IN).double()

    def run(x):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
        return nn.utils.rnn.pad_packed_sequence(module(packed)[0])[0]

    torch.testing.assert_close(mg.torch.compile(run)(x), run(x))


@pytest.mark.parametrize("reverse", [False, True])
def test_recurrent_operations_left_to_pytorch_give_correct_results(reverse: bool):
    """PyTorch runs them where a call is not translated, for example because sizes depend on values."""
    x, h, c = (torch.randn(s).double().requires_grad_() for s in ((T, N, IN), (N, H), (N, H)))
    weights = {n: [torch.randn(n * H, k).double().requires_grad_() for k in (IN, H)] for n in (4, 3, 1)}
    biases = {n: torch.randn(n * H).double().requires_grad_() for n in (4, 3, 1)}
    secondary = torch.randn(H).double().requires_grad_()
    zeros = {n: torch.zeros(n * H).double() for n in (4, 3, 1)}
    turned = x.flip(0) if reverse else x
    how = (True, 1, 0.0, False, False, False)
    of_states = torch.cat([torch.zeros(2 * H).double(), secondary])
    pairs = {
        "lstm": (
            torch.ops.mpsgraph.lstm_layer(x, h, c, *weights[4], biases[4], reverse)[0],
            torch.lstm(turned, (h[None], c[None]), [*weights[4], biases[4], zeros[4]], *how)[0],
            [x, h, c, *weights[4], biases[4]],
        ),
        "gru": (
            torch.ops.mpsgraph.gru_layer(x, h, *weights[3], biases[3], secondary, reverse)[0],
            torch.gru(turned, h[None], [*weights[3], biases[3], of_states], *how)[0],
            [x, h, *weights[3], biases[3], secondary],
        ),
        "rnn": (
            torch.ops.mpsgraph.rnn_layer(x, h, *weights[1], biases[1], "tanh", reverse)[0],
            torch.rnn_tanh(turned, h[None], [*weights[1], biases[1], zeros[1]], *how)[0],
            [x, h, *weights[1], biases[1]],
        ),
    }
    for ours, theirs, wanted in pairs.values():
        theirs = theirs.flip(0) if reverse else theirs
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)
        start = torch.randn_like(ours)
        slopes = [torch.autograd.grad(y, wanted, start) for y in (ours, theirs)]
        for a, b in zip(*slopes, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)
