"""Compare torch.compile with the mpsgraph backend to eager mode: losses, gradients, fallbacks, and dynamic sizes."""

import copy
import doctest
import warnings

import numpy as np
import pytest

# PyTorch is optional: `make test-torch` creates an environment with it.
torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
import mpsgraph as mg  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's modules raise warnings about each other.
nn, F = torch.nn, torch.nn.functional


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def gradients(function, module, x, labels):
    loss = F.cross_entropy(function(x), labels)
    return [loss, *torch.autograd.grad(loss, [*module.parameters(), x])]


MODELS = {
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, groups=4, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
        ),
        (4, 3, 16, 16),
    ),
    "attention": (
        lambda: nn.Sequential(
            nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), nn.Flatten(), nn.Linear(96, 5)
        ),
        (4, 6, 16),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("training", [True, False])
def test_torch_backend_gradients_match_eager_without_fallbacks(name: str, training: bool):
    make, size = MODELS[name]
    module = make().double().train(training)
    x, labels = torch.randn(size).double().requires_grad_(), torch.randint(0, 5, (4,))
    reference = copy.deepcopy(module)
    expected = gradients(reference, reference, x, labels)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = gradients(torch.compile(module, backend="mpsgraph"), module, x, labels)
    assert not [str(w.message) for w in seen if "fall back to PyTorch" in str(w.message)]
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)
    for ours, theirs in zip(module.state_dict().values(), reference.state_dict().values(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


def test_unsupported_operation_falls_back_and_is_reported_once():
    def function(x):
        return torch.linalg.ldl_factor_ex(x * 2)[0] + torch.linalg.ldl_factor_ex(x * 3)[0] * 4

    x = torch.eye(3)
    with pytest.warns(UserWarning, match=r"2 of 6 calls .*linalg_ldl_factor_ex\.default \(2\)"):
        found = mg.torch.compile(function)(x)
    torch.testing.assert_close(found, function(x))
    explained = mg.torch.explain(function, x)
    assert explained.graphs == 1 and explained.fallen == {"aten.linalg_ldl_factor_ex.default": 2}
    assert explained.translated == {"aten.mul.Tensor": 3, "aten.add.Tensor": 1}
    assert "mpsgraph does not support this operation" in str(explained)


def test_tensors_on_other_devices_fall_back_to_pytorch():
    """The test uses the meta device, which has no memory; CUDA and MPS are handled in the same way."""
    module, x = torch.nn.Linear(4, 3, device="meta"), torch.randn(2, 4, device="meta")
    with pytest.warns(UserWarning, match="2 of 2 calls"):
        result = mg.torch.compile(module)(x)
    assert result.is_meta and result.shape == (2, 3)
    explained = mg.torch.explain(module, x)
    assert not explained.translated and explained.fallen["aten.addmm.default"] == 1
    assert "its tensors are on meta: move the module" in str(explained)
    mixed = mg.torch.explain(lambda x: (x * 2).to("meta") + 1, torch.ones(3))
    assert mixed.translated == {"aten.mul.Tensor": 1} and mixed.fallen.total() == 2


def test_dynamic_sizes_compile_once_per_size():
    compiled = mg.torch.compile(lambda x: (x * 2).sum(0) + x.shape[0], dynamic=True)
    for count in (3, 4, 5, 3):
        assert compiled(torch.ones(count, 2)).tolist() == [3.0 * count] * 2


def test_graph_breaks_and_dynamic_sizes_need_no_fallback():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)

        def forward(self, x, scale):
            y = self.first(x) * scale
            torch._dynamo.graph_break()
            return {"y": self.second(y.relu()), "sum": y.sum()}

    module = Broken().double()
    with mg.torch.explaining() as found:
        compiled = mg.torch.compile(module)
        for count in (5, 6, 5):
            x, scale = torch.randn(count, 3).double().requires_grad_(), torch.tensor(2.0).double()
            torch._dynamo.mark_dynamic(x, 0)
            expected, ours = module(x, scale), compiled(x, scale)
            wanted = [x, *module.parameters()]
            slopes = [torch.autograd.grad(r["y"].square().sum() + r["sum"], wanted) for r in (ours, expected)]
            for a, b in zip((*ours.values(), *slopes[0]), (*expected.values(), *slopes[1]), strict=True):
                torch.testing.assert_close(a, b)
    assert found.graphs >= 4 and not found.fallen


def test_solve_with_singular_matrix_raises():
    solve = mg.torch.compile(torch.linalg.solve)
    x = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    torch.testing.assert_close(solve(x, torch.ones(2)), torch.linalg.solve(x, torch.ones(2)))
    with pytest.raises(mg.CheckError, match=r"torch\.linalg\.solve: a matrix is singular"):
        solve(torch.ones(2, 2), torch.ones(2))


def test_results_of_separate_calls_do_not_share_memory():
    compiled = mg.torch.compile(lambda x: (x.reshape(-1), x + 1, x + 1))
    x = torch.zeros(2, 2)
    view, *sums = compiled(x)
    sums[0].add_(5)
    assert sums[1].tolist() == [[1, 1], [1, 1]] and view.tolist() == [0, 0, 0, 0] and x.sum() == 0
    again = compiled(x)
    assert sums[0].tolist() == [[6, 6], [6, 6]] and again[1].tolist() == [[1, 1], [1, 1]]


def test_compiled_dropout_differs_between_calls():
    module = mg.torch.compile(nn.Dropout(0.5))
    x = torch.ones(1000)
    first, second = module(x), module(x)
    assert set(first.tolist()) == {0.0, 2.0} and not torch.equal(first, second)
    assert first.mean().item() == pytest.approx(1, abs=0.2)


CASES = {
    "log1p": (torch.log1p, np.float64([-0.5, -1e-12, 1e-12, 1e-300, 3.0, np.inf])),
    "expm1": (torch.expm1, np.float64([-50.0, -0.5, -1e-12, 1e-12, 0.99, 1.01, 50.0])),
    "logsumexp": (lambda x: torch.logsumexp(x, 0), np.float64([1000.0, 1000.0, -5.0])),
    "indexed": (lambda x: x[torch.tensor([-1, 0, 2])], np.float64([1.0, 2.0, 3.0])),
    "std": (lambda x: torch.std(x, 0), np.float64([1.0, 2.0, 4.0])),
    "floored": (lambda x: torch.div(x, 0.7, rounding_mode="floor"), np.float64([-3.0, 2.0, 5.5])),
}


@pytest.mark.parametrize("name", CASES)
def test_float64_results_match_pytorch(name: str):
    function, values = CASES[name]
    x = torch.from_numpy(values)
    torch.testing.assert_close(mg.torch.compile(function)(x), function(x), rtol=1e-13, atol=0)


@pytest.mark.parametrize("module", ["backend", "trainer"])
def test_docstring_examples_run(module: str):
    from importlib import import_module

    found = import_module(f"mpsgraph.torch.{module}")
    tests = [t for t in doctest.DocTestFinder().find(found, globs={"mg": mg, "np": np}) if t.examples]
    said: list[str] = []
    for test in tests:
        torch._dynamo.reset()
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert tests and not said, "".join(said)


def test_compiled_graph_supports_repeated_and_interleaved_backward():
    module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    compiled = torch.compile(module, backend="mpsgraph")
    x = torch.randn(4, 6).double()
    expected = torch.autograd.grad(module(x).square().sum(), list(module.parameters()))
    found = compiled(x).square().sum()
    for again in (True, False):
        slopes = torch.autograd.grad(found, list(module.parameters()), retain_graph=again)
        for ours, theirs in zip(slopes, expected, strict=True):
            torch.testing.assert_close(ours, theirs)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(found, list(module.parameters()))
    # Run two forward passes before either backward pass.
    first, second = compiled(x).square().sum(), compiled(2 * x).square().sum()
    second.backward()
    first.backward()
    both = module(x).square().sum() + module(2 * x).square().sum()
    for p, theirs in zip(module.parameters(), torch.autograd.grad(both, list(module.parameters())), strict=True):
        torch.testing.assert_close(p.grad, theirs)


def test_gradients_are_passed_to_pytorch_without_a_copy():
    """The memory of a gradient becomes that of param.grad; copying would cost as much as the optimizer's read."""
    module = nn.Linear(300, 200)
    compiled = torch.compile(module, backend="mpsgraph")
    compiled(torch.ones(2, 300)).sum().backward()
    held = mg.memory_statistics()["cpu"]["arrays"]["current"]
    assert module.weight.grad.is_contiguous() and module.weight.grad.stride() == module.weight.stride()
    module.zero_grad()
    assert held - mg.memory_statistics()["cpu"]["arrays"]["current"] >= 4 * 300 * 200
