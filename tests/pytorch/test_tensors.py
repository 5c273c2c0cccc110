"""Test passing tensors into and out of an executable: which tensors are shared or copied, and who owns the memory."""

import gc
import os
import subprocess
import sys
import threading
import weakref

import pytest

# PyTorch is optional: `make test-torch` creates an environment with it.
torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
import mpsgraph as mg  # noqa: E402
from mpsgraph.torch import tensors  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's modules raise warnings about each other.


def doubling(shape, dtype="float32"):
    """Build an executable that returns x + x and x + 1."""
    g = mg.Graph()
    x = g.placeholder(shape, dtype)
    return g.compile({x: (shape, dtype)}, [x + x, x + 1])


@pytest.fixture(params=["in C", "one by one"], autouse=True)
def way(request, monkeypatch):
    """Run each test with PyTorch's C exchange functions and without them."""
    if request.param == "one by one":
        monkeypatch.setattr(tensors, "_EXCHANGE", None)
    elif tensors._EXCHANGE is None:
        pytest.skip("this PyTorch has no C functions for tensor exchange")


WAYS = {
    "plain": lambda: torch.arange(6.0).reshape(2, 3),
    "parameter": lambda: torch.nn.Parameter(torch.arange(6.0).reshape(2, 3)),
    "turned": lambda: torch.arange(6.0).reshape(3, 2).t(),
    "a part": lambda: torch.arange(20.0).reshape(4, 5)[1:3, 1:4],
    "behind an offset": lambda: torch.arange(9.0)[3:].reshape(2, 3),
    "expanded": lambda: torch.arange(3.0).expand(2, 3),
    "negated by a bit": lambda: torch._neg_view(torch.arange(6.0).reshape(2, 3)),
    "of a conjugate": lambda: torch.complex(torch.ones(2, 3), torch.arange(6.0).reshape(2, 3)).conj().imag,
    "not aligned": lambda: torch.frombuffer(bytearray(25), dtype=torch.float32, offset=1).reshape(2, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", WAYS)
def test_tensors_of_any_memory_layout_are_read_correctly(name: str):
    x = WAYS[name]()
    before = x.detach().clone()
    double, more = tensors.run(doubling((2, 3)), ["no tensor", x], [1])
    torch.testing.assert_close(double, before * 2)
    torch.testing.assert_close(more, before + 1)
    torch.testing.assert_close(x.detach(), before)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int64", "int32", "uint8", "complex64"])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0, 3), (2, 3)])
def test_tensor_dtypes_and_shapes_are_preserved(dtype: str, shape: tuple[int, ...]):
    x = torch.ones(shape, dtype=getattr(torch, dtype))
    double, _ = tensors.run(doubling(shape, dtype), (x,), [0])
    assert double.dtype == x.dtype and double.is_contiguous()
    torch.testing.assert_close(double, x + x)


def test_conjugate_tensors_are_resolved():
    x = torch.complex(torch.ones(3), torch.arange(3.0)).conj()
    double, _ = tensors.run(doubling((3,), "complex64"), [x], [0])
    torch.testing.assert_close(double, (x + x).resolve_conj())


def test_results_own_their_memory_and_outlive_the_executable():
    executable, x = doubling((4,)), torch.ones(4)
    first, other = tensors.run(executable, [x], [0])
    assert not first._is_view() and not first.requires_grad and first._version == 0
    first.mul_(10)
    assert other._version == 0 and other.tolist() == [2.0] * 4
    again = [tensors.run(executable, [x + i], [0])[0] for i in range(5)]
    assert first.tolist() == [20.0] * 4
    assert [int(t[0]) for t in again] == [2, 4, 6, 8, 10]
    assert len({t.data_ptr() for t in (first, other, *again)}) == 7
    del executable
    gc.collect()
    assert first.tolist() == [20.0] * 4 and other.tolist() == [2.0] * 4


def test_input_tensors_are_released_after_the_run():
    executable, x = doubling((4,)), torch.ones(4)
    gone = weakref.ref(x)
    results = tensors.run(executable, [x], [0])
    del x
    gc.collect()
    assert gone() is None and results[0].tolist() == [2.0] * 4


def test_invalid_tensors_raise_and_change_nothing():
    executable = doubling((2, 3))
    with pytest.raises(mg.ShapeError, match=r"must have the shape \(2,3\).*got \(3,2\)"):
        tensors.run(executable, [torch.ones(3, 2)], [0])
    with pytest.raises(mg.DTypeError, match="float64"):
        tensors.run(executable, [torch.ones(2, 3).double()], [0])
    with pytest.raises(
        (IndexError, mg.GraphError), match=r"valid indices of tensors \(0 in total\), got 0|out of range"
    ):  # Without the C functions, indexing the list raises.
        tensors.run(executable, [], [0])
    with pytest.raises(mg.GraphError, match=r"one index per feed \(1\), got 0|number of inputs must be 1, got 0"):
        tensors.run(executable, [torch.ones(2, 3)], [])
    with pytest.raises(TypeError, match="meta device"):  # PyTorch itself raises this error.
        tensors.run(executable, [torch.ones(2, 3, device="meta")], [0])
    assert tensors.run(executable, [torch.ones(2, 3)], [0])[0].sum() == 12


def test_threads_share_an_executable_for_tensors():
    executable, wrong = doubling((64,)), []

    def work(number: int) -> None:
        for i in range(200):
            x = torch.full((64,), float(number * 1000 + i))
            if not torch.equal(tensors.run(executable, [x], [0])[0], x * 2):
                wrong.append((number, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_tensor_types_without_dlpack_c_functions_raise():
    with pytest.raises(mg.UnsupportedError, match="__dlpack_c_exchange_api__"):
        mg._core.TensorExchange((float,), [], float)
    with pytest.raises(mg.GraphError, match="at least one tensor type"):
        mg._core.TensorExchange((), [], float)


FORKED = """
import os, sys, torch
import mpsgraph as mg
from mpsgraph.torch import tensors

torch.set_num_threads(2)
torch.ones(1 << 20).exp_()  # PyTorch's threads are there, in the parent
given = torch.eye(300)
child = os.fork()
if child == 0:
    g = mg.Graph()
    x = g.placeholder((300, 300))
    executable = g.compile({x: ((300, 300), "float32")}, [g.matrix_multiplication(x, x)])
    for _ in range(40):
        (found,) = tensors.run(executable, [given], [0])
    os._exit(0 if float(found[0, 0]) == 1 else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="uses os.fork")
def test_forked_child_does_not_wait_for_parent_threads():
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", FORKED], timeout=60, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_short_runs_use_pytorch_threads():
    """Run a matmul on two threads after a parallel loop of PyTorch.

    Results must be correct whichever threads take part, and PyTorch must still compute with subnormal numbers
    afterwards.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        g = mg.Graph()
        x = g.placeholder((256, 256))
        executable = g.compile({x: ((256, 256), "float32")}, [g.matrix_multiplication(x, x)])
        a, small = torch.randn(256, 256), torch.full((1 << 18,), 1e-39)
        for _ in range(100):
            found = small * 1.0
            assert torch.equal(found, small)
            torch.testing.assert_close(tensors.run(executable, [a], [0])[0], a @ a, rtol=1e-4, atol=1e-4)
    finally:
        torch.set_num_threads(before)
