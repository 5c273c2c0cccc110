"""Test index_put, views of another dtype, and attention whose operands share tensors, on the torch.compile backend."""

import pytest

# PyTorch is optional: `make test-torch` creates an environment with it.
torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
import mpsgraph as mg  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention as attention  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's modules raise warnings about each other.


def assert_matches_eager(function, *inputs, **options):
    torch._dynamo.reset()
    with mg.torch.explaining() as found:
        ours = torch.compile(function, backend=mg.torch.backend, **options)(*inputs)
    assert not found.fallen, found
    torch.testing.assert_close(ours, function(*inputs), rtol=1e-4, atol=1e-4, equal_nan=True)


# --- index_put --------------------------------------------------------------------------------------------------------
ROWS, COLUMNS = torch.tensor([0, 2, 2]), torch.tensor([1, 3, 3])
MASK = torch.tensor([True, False, True, False])
PUTS = {
    "rows": ([ROWS], (3, 5)),
    "negative rows": ([-ROWS - 1], (3, 5)),
    "elements": ([ROWS, COLUMNS], (3,)),
    "columns": ([None, ROWS], (4, 3)),
    "a matrix of rows": ([torch.tensor([[0, 1], [2, 2]])], (2, 2, 5)),
    "broadcast values": ([ROWS], (5,)),
    "a scalar": ([ROWS], ()),
    "masked rows": ([MASK], (2, 5)),
    "masked rows, one value each": ([MASK], (1, 5)),
    "masked rows, a scalar": ([MASK], ()),
    "masked columns": ([None, torch.tensor([True, False, False, True, True])], (4, 3)),
    "masked elements": ([torch.arange(20).reshape(4, 5) % 3 == 0], (7,)),
    "no masked element": ([torch.zeros(4, 5, dtype=torch.bool)], (0,)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.bfloat16])
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("case", PUTS)
def test_index_put_matches_eager(case, accumulate, dtype):
    indices, shape = PUTS[case]
    torch.manual_seed(0)
    x, values = ((torch.randn(s) * 3).round().to(dtype) for s in ((4, 5), shape))
    if not accumulate:  # With duplicate indices and without accumulation, the order of the writes is undefined.
        indices = [torch.tensor([0, 2, 3]) if i is ROWS else i for i in indices]
    assert_matches_eager(lambda x, v: torch.ops.aten.index_put(x, indices, v, accumulate), x, values)


def test_gradient_of_index_put_matches_eager():
    def gradients(x, v):
        x, v = x.detach().requires_grad_(), v.detach().requires_grad_()
        y = torch.ops.aten.index_put(x * 1, [ROWS, COLUMNS], v, True)
        return torch.autograd.grad(y.square().sum(), (x, v))

    torch._dynamo.reset()
    x, v = torch.randn(4, 5), torch.randn(3)

    def summed(x, v):
        return torch.ops.aten.index_put(x, [ROWS, COLUMNS], v, True).square().sum()

    given = [t.clone().requires_grad_() for t in (x, v)]
    ours = torch.autograd.grad(torch.compile(summed, backend=mg.torch.backend)(*given), given)
    torch.testing.assert_close(ours, gradients(x, v))


def test_index_put_with_too_few_values_raises():
    torch._dynamo.reset()
    put = torch.compile(lambda x, m, v: torch.ops.aten.index_put(x, [m], v), backend=mg.torch.backend)
    with pytest.raises(mg.errors.CheckError, match="writes 2 values, so the mask must select 2 elements"):
        put(torch.zeros(4, 5), torch.tensor([True, True, True, False]), torch.ones(2, 5))


# --- views of another dtype -------------------------------------------------------------------------------------------
VIEWS = [
    ("float32", "int32"), ("float32", "int16"), ("int16", "float32"), ("float16", "int16"), ("bfloat16", "int16"),
    ("float32", "uint8"), ("uint8", "int32"), ("int64", "int32"), ("float64", "int64"), ("float32", "bfloat16"),
    ("complex64", "float32"), ("float32", "complex64"), ("bool", "uint8"), ("uint8", "bool"), ("uint8", "int8"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), VIEWS)
def test_dtype_views_match_eager(source, target):
    torch.manual_seed(0)
    x = (torch.randn(4, 8) * 5).abs().to(getattr(torch, source))
    x = x % 2 if target == "bool" else x
    assert_matches_eager(lambda x: (x.clone() if x.dtype == torch.bool else x * 1).view(getattr(torch, target)), x)


def test_dtype_view_of_scalar_matches_eager():
    assert_matches_eager(lambda x: (x * 2).view(torch.int32), torch.tensor(1.5))


# --- attention --------------------------------------------------------------------------------------------------------
def gradients_of(function, *inputs):
    given = [x.detach().clone().requires_grad_() for x in inputs]
    y = function(*given)
    return [y, *torch.autograd.grad(y.square().sum(), given)]


ATTENTIONS = {
    "one tensor": (lambda x: attention(x, x, x), [(2, 3, 7, 8)]),
    "one tensor, causal": (lambda x: attention(x, x, x, is_causal=True), [(2, 3, 7, 8)]),
    "one long tensor": (lambda x: attention(x, x, x), [(1, 2, 90, 8)]),
    "keys as values": (lambda q, k: attention(q, k, k), [(2, 3, 7, 8), (2, 3, 9, 8)]),
    "queries as keys": (lambda q, v: attention(q, q, v), [(2, 3, 7, 8), (2, 3, 7, 8)]),
    "three tensors": (attention, [(2, 3, 7, 8), (2, 3, 9, 8), (2, 3, 9, 8)]),
    "grouped heads": (lambda q, k: attention(q, k, k, enable_gqa=True), [(2, 6, 7, 8), (2, 3, 9, 8)]),
    "long grouped heads": (lambda q, k: attention(q, k, k, enable_gqa=True), [(1, 4, 90, 8), (1, 2, 90, 8)]),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("case", ATTENTIONS)
def test_attention_and_its_gradients_match_eager(case, dynamic):
    function, shapes = ATTENTIONS[case]
    torch._dynamo.reset()
    with mg.torch.explaining() as found:
        ours = torch.compile(function, backend=mg.torch.backend, dynamic=dynamic)
        for more in (0, 2):  # With dynamic=True, the second pass has other sizes without another trace.
            torch.manual_seed(0)
            inputs = [torch.randn(*s[:-2], s[-2] + more, s[-1]) for s in shapes]
            for a, b in zip(gradients_of(ours, *inputs), gradients_of(function, *inputs), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
    assert not found.fallen, found


@pytest.mark.parametrize("weights", [False, True])
def test_multihead_attention_with_dynamic_sizes_matches_eager(weights):
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    torch._dynamo.reset()
    ours = torch.compile(lambda x: layer(x, x, x, need_weights=weights)[0], backend=mg.torch.backend, dynamic=True)
    for shape in ((2, 5, 8), (3, 9, 8)):
        x = torch.randn(shape)
        torch.testing.assert_close(ours(x), layer(x, x, x, need_weights=weights)[0], rtol=1e-4, atol=1e-4)
