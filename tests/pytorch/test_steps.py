"""Compare mpsgraph.torch.compile_step with PyTorch's own steps: losses, weights, and state, which remain in PyTorch."""

import copy
import doctest

import numpy as np
import pytest

# PyTorch is optional: `make test-torch` creates an environment with it.
torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
import mpsgraph as mg  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's modules raise warnings about each other.
nn, F = torch.nn, torch.nn.functional

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3, momentum=0.9, centered=True),
}


def eager(module, optimizer, x, labels):
    optimizer.zero_grad()
    loss = F.cross_entropy(module(x), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


class Tied(nn.Module):
    """A module with a weight under two names, a changing buffer, and a parameter that the loss does not depend on."""

    def __init__(self):
        super().__init__()
        self.words, self.norm, self.head = nn.Embedding(7, 6), nn.BatchNorm1d(6), nn.Linear(6, 7, bias=False)
        self.head.weight = self.words.weight
        self.idle = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.head(self.norm(self.words(x).mean(1)))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_weights_and_optimizer_state_remain_pytorch_tensors(name: str):
    torch.manual_seed(0)
    module = Tied().double()
    reference = copy.deepcopy(module)
    ours, theirs = (OPTIMIZERS[name](m.parameters()) for m in (module, reference))
    step = mg.torch.compile_step(module, F.cross_entropy, ours)
    for count, rate in ((9, 0.1), (9, 0.05), (4, 0.1), (9, 0.1)):
        x, labels = torch.randint(0, 7, (count, 3)), torch.randint(0, 7, (count,))
        for optimizer in (ours, theirs):
            optimizer.param_groups[0]["lr"] = rate
        assert float(step(x, labels)) == pytest.approx(eager(reference, theirs, x, labels), rel=1e-6)
        for ours_now, theirs_now in zip(module.state_dict().values(), reference.state_dict().values(), strict=True):
            torch.testing.assert_close(ours_now, theirs_now, rtol=1e-6, atol=1e-9)
    assert module.head.weight is module.words.weight and module.idle.tolist() == [1, 1, 1]
    for a, b in zip(module.parameters(), reference.parameters(), strict=True):
        for key, value in theirs.state[b].items():
            torch.testing.assert_close(ours.state[a][key], value, rtol=1e-6, atol=1e-9)
    # PyTorch's own step continues from here, and the compiled step continues after it.
    x, labels = torch.randint(0, 7, (9, 3)), torch.randint(0, 7, (9,))
    for way in (lambda: eager(module, ours, x, labels), lambda: float(step(x, labels))):
        assert way() == pytest.approx(eager(reference, theirs, x, labels), rel=1e-6)
    module.load_state_dict(Tied().double().state_dict())
    reference.load_state_dict(module.state_dict())
    assert float(step(x, labels)) == pytest.approx(eager(reference, theirs, x, labels), rel=1e-6)


def test_existing_references_to_parameters_reflect_updates():
    module = nn.Linear(3, 2)
    held = module.weight
    step = mg.torch.compile_step(module, lambda y: y.sum(), torch.optim.SGD([held], lr=1.0))
    before = held.detach().clone()
    step(torch.ones(1, 3))
    assert held is module.weight
    torch.testing.assert_close(held.detach(), before - 1)
    assert module.bias.grad is None and held.grad is None


def test_unsupported_modules_losses_and_optimizers_raise():
    module = nn.Linear(2, 3)
    sgd = torch.optim.SGD(module.parameters(), lr=0.1)
    with pytest.raises(mg.UnsupportedError, match="does not support the optimizer Adagrad: use"):
        mg.torch.compile_step(module, F.mse_loss, torch.optim.Adagrad(module.parameters()))
    with pytest.raises(mg.GraphError, match="parameters that do not belong to the module"):
        mg.torch.compile_step(nn.Linear(2, 3), F.mse_loss, sgd)
    with pytest.raises(mg.GraphError, match="expects a torch.nn.Module"):
        mg.torch.compile_step("module", F.mse_loss, sgd)
    step = mg.torch.compile_step(module, lambda y: y, sgd)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with pytest.raises(mg.GraphError, match=r"must be a scalar, got shape \(4, 3\)"):
        step(torch.ones(4, 2))
    with pytest.raises(mg.DTypeError, match="must be PyTorch tensors"):
        step(np.ones((4, 2), np.float32))
    by_value = mg.torch.compile_step(module, lambda y: y.sum() if y.sum() > 0 else -y.sum(), sgd)
    with pytest.raises(mg.UnsupportedError, match="torch.export cannot export the module"):
        by_value(torch.ones(4, 2))
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


def test_docstring_examples_run():
    import mpsgraph.torch.steps as found

    said: list[str] = []
    tests = [t for t in doctest.DocTestFinder().find(found, globs={"mg": mg, "np": np}) if t.examples]
    for test in tests:
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert tests and not said, "".join(said)
