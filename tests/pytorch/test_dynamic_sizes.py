"""Check graphs with dynamic sizes in the torch.compile backend: results for sizes made from two compilations."""

import importlib

import pytest

# PyTorch is optional: `make test-torch` creates an environment with it.
torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
import mpsgraph as mg  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's modules raise warnings about each other.
nn = torch.nn
WIDTH, HEADS = 16, 2


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.fixture
def compilations(monkeypatch):
    """Return a list that gets an entry for each size that is translated and compiled completely."""
    backend = importlib.import_module("mpsgraph.torch.backend")  # the attribute of the package is a function
    found, compiled = [], backend._Compiled.compiled

    def counted(self, given):
        found.append([tuple(x.shape) for x in given if isinstance(x, torch.Tensor)])
        return compiled(self, given)

    monkeypatch.setattr(backend._Compiled, "compiled", counted)
    return found


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, key, value):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (p.view(batch, length, HEADS, -1).transpose(1, 2) for p in (q, k, v))
        k, v = torch.cat([key, k], 2), torch.cat([value, v], 2)
        seen = torch.softmax(q @ k.transpose(2, 3), -1) @ v
        return x + self.out(seen.transpose(1, 2).reshape(batch, length, WIDTH)), k, v


def test_growing_cache_matches_eager_and_compiles_two_sizes(compilations):
    model = Attention().eval()
    ours = torch.compile(model, backend=mg.torch.backend, dynamic=True)
    past = expected = (torch.randn(1, HEADS, 20, WIDTH // HEADS), torch.randn(1, HEADS, 20, WIDTH // HEADS))
    with torch.no_grad():
        for _ in range(20):
            x = torch.randn(1, 1, WIDTH)
            y, *past = ours(x, *past)
            z, *expected = model(x, *expected)
            for a, b in zip((y, *past), (z, *expected), strict=True):
                torch.testing.assert_close(a, b)
    assert len(compilations) <= 6, compilations  # further pairs are compiled where a length equals another size


def test_batches_of_many_lengths_have_the_gradients_of_eager_mode(compilations):
    def loss(x):
        return torch.tanh(x @ weights).mean() + x.shape[1] * weights.sum()

    weights = torch.randn(WIDTH, 5, requires_grad=True)
    ours = torch.compile(loss, backend=mg.torch.backend, dynamic=True)
    for length in (20, 21, 22, 30, 25, 40):
        x = torch.randn(3, length, WIDTH, requires_grad=True)
        found = torch.autograd.grad(ours(x), [x, weights])
        for a, b in zip(found, torch.autograd.grad(loss(x), [x, weights]), strict=True):
            torch.testing.assert_close(a, b)


def test_slice_that_covered_everything_is_right_for_longer_inputs():
    ours = torch.compile(lambda x: x[:, :32] * 2, backend=mg.torch.backend, dynamic=True)
    for length in (20, 21, 22, 31, 32, 33, 40, 41, 42):
        x = torch.randn(2, length)
        torch.testing.assert_close(ours(x), x[:, :32] * 2)
