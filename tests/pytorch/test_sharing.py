"""Test that the torch.compile backend behaves like eager PyTorch where memory and random numbers are visible."""

import subprocess
import sys

import pytest

# PyTorch is optional: `make test-torch` creates an environment with it.
torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
import mpsgraph as mg  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's modules raise warnings about each other.

X = torch.arange(24.0).reshape(4, 6)


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, backend=mg.torch.backend, **options)


def views(x):
    y = x * 2
    return y, y.view(-1), y[1], y.t(), y[:, ::2], y.unbind(1)[2], y.view(torch.int32), y


def views_without_their_source(x):
    y = (x + 1).contiguous()
    return y[0], y[1:].t(), (x * 3).sum()


def unrelated(x):
    return x * 2, (x * 2 + 1).view(-1), x.t().contiguous()


def detached(x):
    y = x * 2
    return y, y.detach(), y.detach()[1]


@pytest.mark.parametrize("function", [views, views_without_their_source, unrelated, detached])
@pytest.mark.parametrize("differentiated", [False, True])
@pytest.mark.parametrize("dynamic", [None, True])
def test_results_share_memory_as_in_eager_mode(function, differentiated, dynamic):
    ours, theirs = (
        f(X.clone().requires_grad_(differentiated)) for f in (compiled(function, dynamic=dynamic), function)
    )
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert torch.equal(a, b) and a.stride() == b.stride() and a.storage_offset() == b.storage_offset()
        for c, d in zip(ours[:i], theirs[:i], strict=True):
            shared = [x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr() for x, y in ((a, c), (b, d))]
            assert shared[0] == shared[1]
            assert (a is c) == (b is d)


def test_write_to_a_result_is_visible_in_its_views():
    y, flat, row, *_ = compiled(views)(X)
    flat[7] = -1
    assert y[1, 1] == -1 and row[1] == -1


def test_repeated_runs_return_separate_memory():
    function = compiled(views)
    first, second = function(X), function(X)
    first[0].zero_()
    assert torch.equal(second[0], X * 2) and torch.equal(second[1], (X * 2).view(-1))


def test_views_of_inputs_share_their_memory():
    x = X.clone()
    row, flat = compiled(lambda x: (x[1], x.view(-1)))(x)
    row[0] = -5
    assert x[1, 0] == -5 and flat[6] == -5


def dropped(x):
    return torch.nn.functional.dropout(x, 0.5), torch.randn(3), torch.rand_like(x)


@pytest.mark.parametrize("differentiated", [False, True])
def test_manual_seed_repeats_random_numbers(differentiated):
    function, x = compiled(dropped), torch.ones(50, 7, requires_grad=differentiated)
    torch.manual_seed(3)
    first, second = function(x), function(x)
    torch.manual_seed(3)
    again = function(x), function(x)
    torch.manual_seed(4)
    other = function(x)
    for a, b, c, d, e in zip(first, second, *again, other, strict=True):
        assert torch.equal(a, c) and torch.equal(b, d)
        assert not torch.equal(a, b) and not torch.equal(a, e)


def test_saved_generator_state_repeats_random_numbers():
    function, x = compiled(dropped), torch.ones(50, 7)
    with torch.random.fork_rng():
        first = function(x)
    assert all(torch.equal(a, b) for a, b in zip(first, function(x), strict=True))


def test_random_operations_of_one_run_differ():
    a, b = compiled(lambda: (torch.rand(40), torch.rand(40)))()
    assert not torch.equal(a, b)


def test_runs_without_random_operations_leave_the_generator_unchanged():
    torch.manual_seed(0)
    compiled(lambda x: x * 2)(X)
    after = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(after, torch.rand(1))


def test_checkpointed_dropout_is_repeated_in_the_backward_pass():
    layer, x = compiled(lambda x: torch.nn.functional.dropout(x, 0.5) * x), torch.ones(50, 7, requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(gradient == 0, y == 0)


def test_import_registers_the_backend():
    code = "import mpsgraph.torch, torch; print(torch.compile(lambda x: x + 1, backend='mpsgraph')(torch.ones(2)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "tensor([2., 2.])", run.stderr
    assert "mpsgraph" in torch._dynamo.list_backends()
