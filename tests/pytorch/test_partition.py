"""Test which values the backend saves for the backward pass.

Views and values that no gradient reads must not be saved, and images are saved with channels last.
"""

import copy
import importlib

import pytest

# PyTorch is optional: `make test-torch` creates an environment with it.
torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
import mpsgraph as mg  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
nn, F = torch.nn, torch.nn.functional
backend = importlib.import_module("mpsgraph.torch.backend")


class Seen:
    """Information about a graph before partitioning: the shapes and dtypes of its inputs except tangents, and its
    calls.
    """

    def __init__(self, graph) -> None:
        given = [node for node in graph.nodes if node.op == "placeholder" and not node.name.startswith("tangents")]
        self.kept = {node.name: tuple(node.meta["val"].shape) for node in given if hasattr(node.meta["val"], "shape")}
        self.dtypes = {node.meta["val"].dtype for node in given if hasattr(node.meta["val"], "shape")}
        self.called = [node.target._schema.name for node in graph.nodes if hasattr(node.target, "_schema")]


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch):
    """Return a list that collects the compiled graphs, forward graphs before backward graphs."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    found, compiled = [], backend._compiled

    def seen(module, inputs):
        found.append(Seen(module.graph))
        return compiled(module, inputs)

    monkeypatch.setattr(backend, "_compiled", seen)
    return found


def agree(module, function, *inputs):
    """Compare losses and gradients with eager mode, twice, because the second call uses the compiled graphs."""
    reference = copy.deepcopy(module)
    for _ in range(2):
        expected = torch.autograd.grad(reference(*inputs).square().sum(), list(reference.parameters()))
        found = torch.autograd.grad(function(*inputs).square().sum(), list(module.parameters()))
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_activations_are_saved_once_with_channels_last(graphs: list):
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3), nn.Flatten(),
        nn.Linear(16, 5),
    )  # fmt: skip
    agree(module, mg.torch.compile(module), torch.randn(2, 3, 8, 8))
    images = [size for size in graphs[1].kept.values() if len(size) == 4 and size[0] == 2]
    # The first convolution, its ReLU, the pooled maxima, the second convolution, and the batch itself.
    assert sorted(images) == [(2, 2, 2, 4), (2, 3, 8, 8), (2, 4, 4, 8), (2, 8, 8, 8), (2, 8, 8, 8)]
    assert torch.int64 not in graphs[1].dtypes  # The indices of maxima are not saved for the backward pass.


def test_compiled_results_have_the_strides_of_eager(graphs: list):
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
    result = mg.torch.compile(module)(torch.randn(2, 3, 8, 8))
    assert result.is_contiguous() and result.shape == (2, 8, 6, 6)
    result.view(2, -1).sum().backward()
    assert module[0].weight.grad.shape == module[0].weight.shape


def test_parameters_are_saved_without_transposing(graphs: list):
    module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    agree(module, mg.torch.compile(module), torch.randn(6, 8))
    assert sorted(graphs[1].kept.values()) == [(4, 16), (6, 8), (6, 16)]


SLICED = {
    "slice": lambda x: x[:, 1:3] * 2,
    "slice from the end": lambda x: x[..., -3:-1].sin(),
    "slice with steps": lambda x: x[:, 1:6:2] * x[::3].sum(),
    "select": lambda x: x[2] * x.select(-1, -1).sum(),
    "slice_scatter": lambda x: torch.slice_scatter(x, x[:, :2].exp(), 1, 2, 6, 2),
    "select_scatter": lambda x: torch.select_scatter(x, x[0].exp(), 0, -2),
}


class Sliced(nn.Linear):
    def __init__(self, name: str) -> None:
        super().__init__(7, 7)
        self.name = name

    def forward(self, x):
        return SLICED[self.name](super().forward(x))


@pytest.mark.parametrize("name", SLICED)
def test_gradients_of_slices_do_not_use_gathers(name: str, graphs: list):
    module = Sliced(name)
    agree(module, mg.torch.compile(module), torch.randn(5, 7))
    called = [call for graph in graphs for call in graph.called]
    assert not any("index" in call or "where" in call or "arange" in call for call in called), called
    assert any("slice" in call or "select" in call for call in graphs[1].called), graphs[1].called


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (2, 4)).transpose(1, 2) for y in self.inner(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.outer(y.transpose(1, 2).flatten(-2))


def test_short_attention_does_not_save_logsumexp(graphs: list):
    module = Attention()
    agree(module, mg.torch.compile(module), torch.randn(3, 5, 8))
    assert "aten::_scaled_dot_product_flash_attention_for_cpu_backward" in graphs[1].called
    assert (3, 2, 5) not in graphs[1].kept.values() and (3, 5, 2) not in graphs[1].kept.values()


class Masked(Attention):
    """Attention in which the second query sees no key, and the last key is seen by no query."""

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (2, 4)).transpose(1, 2) for y in self.inner(x).chunk(3, -1))
        mask = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).tril()
        mask[1], mask[:, -1] = False, False
        return self.outer(F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(-2))


@pytest.mark.parametrize("kind", [Attention, Masked])
def test_long_attention_gradient_reuses_saved_logsumexp(kind: type, graphs: list):
    module, x = kind(), torch.randn(3, 130, 8)
    agree(module, compiled := mg.torch.compile(module), x)
    assert {(3, 2, 130), (3, 130, 2)} & set(graphs[1].kept.values()), graphs[1].kept
    loss = compiled(x).square().sum()
    with mg.profiler.profile() as p:
        loss.backward()
    kinds = [record.kernel.kind for record in p.kernels]
    assert kinds.count("scaled_dot_product_attention_gradient") == 1, kinds
    assert not {"scaled_dot_product_attention", "softmax"} & set(kinds), kinds


@pytest.mark.parametrize("length", [5, 130])
def test_attention_logsumexp_matches_pytorch_for_queries_without_keys(length: int):
    query, mask = torch.randn(1, 2, length, 8), torch.zeros(length, length)
    mask[1], mask[3, 2:] = -torch.inf, -torch.inf

    def function(x):
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(x, x, x, attn_mask=mask)

    for ours, theirs in zip(mg.torch.compile(function)(query), function(query), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_cheap_intermediate_values_are_recomputed(graphs: list):
    class Squares(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.randn(7))

        def forward(self, x):
            y = x * self.scale
            return (y * y + y).sin()

    module = Squares()
    agree(module, mg.torch.compile(module), torch.randn(5, 7))
    # x and scale exist anyway, and the input of the sine is computed from them.
    assert sorted(graphs[1].kept.values()) == [(5, 7), (7,)]


def test_backward_pass_uses_buffer_value_from_before_its_update(graphs: list):
    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))
            self.register_buffer("count", torch.ones(3))

        def forward(self, x):
            y = x * self.scale * (self.count * 2)
            self.count.add_(1)
            return y

    agree(module := Counted(), mg.torch.compile(module), torch.randn(2, 3))
    assert module.count.tolist() == [3, 3, 3]


def test_activation_checkpointing_is_preserved(graphs: list):
    module = nn.Sequential(nn.Linear(6, 6), nn.Sigmoid(), nn.Linear(6, 6), nn.Sigmoid())

    def function(x):
        return torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False)

    agree(module, mg.torch.compile(function), torch.randn(4, 6))


def test_dynamic_sizes_are_saved(graphs: list):
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3))
    compiled = mg.torch.compile(module, dynamic=True)
    for batch in (2, 5):
        agree(module, compiled, torch.randn(batch, 3, 4, 4))
    assert len(graphs) == 2


def test_nested_views_are_recomputed_in_order(graphs: list):
    """In the graph of torch.gradient, a later call reads several views, which in turn read each other."""
    x = torch.randn(3, 3, 3, requires_grad=True)
    spacing = [torch.tensor([1.0, 3.0, 2.0], requires_grad=True), torch.tensor([8.0, 6.0, 1.0], requires_grad=True)]

    def slopes(x, *spacing):
        return sum(slope.square().sum() for slope in torch.gradient(x, spacing=spacing, dim=(0, 1), edge_order=2))

    compiled = torch.compile(slopes, backend="mpsgraph")
    expected = torch.autograd.grad(slopes(x, *spacing), (x, *spacing))
    for ours, theirs in zip(torch.autograd.grad(compiled(x, *spacing), (x, *spacing)), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


class Checkpointed(nn.Module):
    """Blocks with a wide hidden layer, each in torch.utils.checkpoint.checkpoint."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = x + torch.utils.checkpoint.checkpoint(self.step, block, x, use_reentrant=False)
        return x

    def step(self, block, x):
        return F.dropout(block(x), self.rate) if self.rate else block(x)


def test_checkpointed_blocks_save_no_hidden_activations(graphs: list):
    module, x = Checkpointed(0.0), torch.randn(8, 16)
    with mg.torch.explaining() as found:
        agree(module, mg.torch.compile(module), x)
    forward, backward = graphs[:2]
    assert found.fallen.total() == 0
    assert (8, 64) not in backward.kept.values()
    assert [name for name in backward.called if name == "aten::gelu"] == ["aten::gelu"] * 3
    assert forward.called.count("aten::gelu") == 3


def test_checkpointed_dropout_repeats_its_mask(graphs: list):
    class Layer(nn.Module):
        def forward(self, x):
            return torch.utils.checkpoint.checkpoint(lambda x: F.dropout(x.exp(), 0.4), x, use_reentrant=False)

    x = torch.randn(20, 30, requires_grad=True)
    y = mg.torch.compile(Layer())(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    # The derivative of exp(x) / 0.6 is itself, and that of a dropped element is 0, for the mask of the forward pass.
    torch.testing.assert_close(gradient, y.detach())
    assert 0.2 < (y == 0).float().mean() < 0.6
