"""Test grouped matmuls, as in a mixture of experts, on the torch.compile backend."""

import pytest

# PyTorch is optional: `make test-torch` creates an environment with it.
torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
import mpsgraph as mg  # noqa: E402
from pytorch import models  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's modules raise warnings about each other.


def results(function, *inputs):
    """Return the result of a function and its gradients for a sum of squares."""
    given = [x.detach().clone().requires_grad_() for x in inputs]
    y = function(*given)
    return [y, *torch.autograd.grad(y.float().square().sum(), given)]


def assert_matches_eager(function, *inputs, tolerance=1e-4):
    torch._dynamo.reset()
    with mg.torch.explaining() as found:
        ours = results(torch.compile(function, backend=mg.torch.backend), *inputs)
    assert not found.fallen, found
    for a, b in zip(ours, results(function, *inputs), strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("offsets", [[2, 2, 7], [0, 0, 7], [1, 2, 3, 3, 4, 5, 6, 8], [1, 2], [7], [10, 20, 30, 64]])
@pytest.mark.parametrize("beyond", [0, 3], ids=["all rows", "rows of no group"])
def test_transformers_grouped_matmul_matches_eager(offsets, beyond):
    moe = pytest.importorskip("transformers.integrations.moe")
    assert moe
    torch.manual_seed(0)
    ends = torch.tensor(offsets, dtype=torch.int32)
    x, weights = torch.randn(offsets[-1] + beyond, 5), torch.randn(len(offsets), 5, 4)
    assert_matches_eager(lambda x, w: torch.ops.transformers.grouped_mm_fallback(x, w, ends), x, weights)


@pytest.mark.parametrize("shapes", [((16, 8), (3, 8, 16)), ((3, 8, 16), (16, 16)), ((8, 16), (16, 8)),
                                    ((3, 8, 16), (3, 16, 8))])  # fmt: skip
def test_grouped_mm_of_pytorch_matches_eager(shapes):
    torch.manual_seed(0)
    ends = None if len(shapes[0]) == len(shapes[1]) == 3 else torch.tensor([4, 4, 16], dtype=torch.int32)
    a, b = (torch.randn(shape).to(torch.bfloat16) for shape in shapes)
    assert_matches_eager(lambda a, b: torch.nn.functional.grouped_mm(a, b, offs=ends), a, b, tolerance=0.1)


def test_unused_rows_with_nan_do_not_reach_results():
    moe = pytest.importorskip("transformers.integrations.moe")
    assert moe
    ends = torch.tensor([1, 3], dtype=torch.int32)
    x = torch.tensor([[1.0, 2], [3, 4], [5, 6], [float("nan"), 0]])
    assert_matches_eager(lambda w: torch.ops.transformers.grouped_mm_fallback(x, w, ends), torch.ones(2, 2, 3))


@pytest.mark.parametrize("implementation", ["grouped_mm", "batched_mm"])
def test_mixture_of_experts_of_transformers_matches_eager(implementation):
    pytest.importorskip("transformers")
    transformers = models.transformers()
    configuration = transformers.MixtralConfig(
        vocab_size=50, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, num_local_experts=4, num_experts_per_tok=2,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.MixtralForCausalLM(configuration).eval()
    model.set_experts_implementation(implementation)
    words = torch.randint(0, 50, (2, 7))

    def gradients(run):
        logits = run(words, use_cache=False).logits
        return [logits, *torch.autograd.grad(logits.square().sum(), list(model.parameters()), allow_unused=True)]

    torch._dynamo.reset()
    with mg.torch.explaining() as found:
        ours = gradients(torch.compile(model, backend=mg.torch.backend))
    assert not found.fallen, found
    for a, b in zip(ours, gradients(model), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
