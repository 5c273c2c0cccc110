"""Test user-defined kernels on the Metal device: command buffers, arguments, and sources that do not compile."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from harness import device
from harness.custom import meaning
from harness.mock_counts import taken

MOCK = device.mock()
SCALE = """
kernel void METAL_NAME(device const operand0_type* x [[buffer(0)]], device result0_type* y [[buffer(1)]],
                  constant Arguments& arguments [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  y[i] = x[i] * arguments.factor;
}
"""
MEMBERS = "float factor; int32_t operand0_shape[1]; int32_t result0_shape[1];"
BODY = "((float*)buffer(1))[i] = ((const float*)buffer(0))[i] * arguments.factor;"


def scaling(name: str, source: str = SCALE, **options) -> mg.CustomOperation:
    meaning(name, MEMBERS, BODY)
    return mg.custom_operation(
        name, metal=source.replace("METAL_NAME", name), **{"attributes": {"factor": 2.0}, **options}
    )


def run(operation: mg.CustomOperation, **attributes) -> list[float]:
    g = mg.Graph()
    x = g.placeholder((3,))
    return g.run({x: np.float32([1, 2, 3])}, operation(x, **attributes)).tolist()


def test_graph_and_custom_kernels_share_one_command_buffer():
    operation = scaling("scaled")
    g = mg.Graph()
    x = g.placeholder((64,))
    y = x
    for _ in range(3):
        y = g.tanh(operation(y + 1))
    executable = g.compile({x: (64,)}, [y])
    value = np.zeros(64, np.float32)
    executable.run([value])
    taken()
    (result,) = executable.run([value])
    counts = taken()
    assert counts["command_buffers"] == 1 and counts["host_waits"] == 0
    assert counts["encodes"] == 7  # four programs and three kernels
    expected = value
    for _ in range(3):
        expected = np.tanh(2 * (expected + 1))
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5)
    assert [name for name in executable.kernel_names() if name.startswith("scaled")] == [
        "scaled",
        "scaled_1",
        "scaled_2",
    ]


def test_python_operation_runs_between_metal_kernels():
    halved = mg.python_operation("halved", lambda x: x / 2)
    operation = scaling("scaled")
    g = mg.Graph()
    x = g.placeholder((3,))
    y = operation(halved(operation(x, factor=3.0)) + 1)
    assert g.run({x: np.float32([1, 2, 3])}, y).tolist() == [5.0, 8.0, 11.0]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (SCALE + "}", r"\[faulty\] the Metal source does not compile: program_source:\d+: error"),
        (SCALE.replace("METAL_NAME", "another"), r"has no kernel named 'faulty'"),
    ],
)
def test_metal_source_that_does_not_compile_raises(source, words):
    with pytest.raises(mg.GraphError, match=words):
        run(scaling("faulty", source))


def test_kernel_with_unbound_arguments_raises():
    """The mock rejects an encoding that does not bind all arguments of a kernel."""
    two = SCALE.replace(
        "device result0_type* y [[buffer(1)]]", "device float* y [[buffer(1)]], device float* z [[buffer(5)]]"
    )
    with pytest.raises(mg.DeviceError, match="takes a buffer at index 5, but none is bound"):
        run(scaling("two", two))
    swapped = SCALE.replace("constant Arguments& arguments [[buffer(2)]]", "device const float* z [[buffer(2)]]")
    with pytest.raises(mg.DeviceError, match="expects a device buffer at index 2"):
        run(scaling("swapped", swapped.replace("arguments.factor", "z[0]")))


def test_metal_kernel_reads_attributes_of_every_type():
    members = "int32_t count; int32_t flag; int32_t list[3]; int32_t none[1]; float real; "
    meaning(
        "kinds",
        members + "int32_t operand0_shape[2]; int32_t result0_shape[1];",
        """float* y = (float*)buffer(1);
        const float all[] = {float(arguments.count), float(arguments.flag), float(arguments.list[2]), arguments.real,
                             float(arguments.operand0_shape[1]), float(arguments.result0_shape[0]), float(grid[0])};
        y[i] = all[i];""",
    )
    operation = mg.custom_operation(
        "kinds",
        metal="""kernel void kinds(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                     constant Arguments& a [[buffer(2)]], uint i [[thread_position_in_grid]]) { y[i] = a.real; }""",
        infer=lambda x, **_: mg.TensorType(x.dtype, (7,)),
        attributes={"real": 0.5, "flag": True, "count": -3, "list": (1, 2, 9), "none": (), "word": "unseen"},
    )
    g = mg.Graph()
    x = g.placeholder((2, 5))
    feeds = {x: np.zeros((2, 5), np.float32)}
    assert g.run(feeds, operation(x)).tolist() == [-3, 1, 9, 0.5, 5, 7, 7]
    with pytest.raises(mg.UnsupportedError, match="attribute count must fit into a 32-bit integer, got 4294967296"):
        g.run(feeds, operation(x, count=2**32))
    with pytest.raises(mg.UnsupportedError, match="bytes of attributes and sizes, but the limit is 4096"):
        g.run(feeds, operation(x, list=tuple(range(2000))))


@pytest.mark.parametrize("threads", [lambda x, factor: (), lambda x, factor: (1, 2, 3, 4), lambda x, factor: -1])
def test_invalid_thread_counts_raise(threads):
    with pytest.raises(mg.ShapeError, match=r"\[threads\] threads must return one to three"):
        run(scaling("threads", threads=threads))


@pytest.mark.parametrize(("threads", "kernels"), [(0, 0), ((4, 0), 0), ((2, 3, 0), 0), (1, 1)], ids=str)
def test_zero_threads_skip_the_dispatch(threads, kernels):
    """Metal would reject an empty dispatch, so none is encoded. Later operations must still run."""
    operation = scaling("idle", threads=lambda x, factor: threads)
    g = mg.Graph()
    x = g.placeholder((3,))
    executable = g.compile({x: (3,)}, [operation(x), g.tanh(x)])
    value = np.float32([1, 2, 3])
    executable.run([value])
    taken()
    scaled, behind = executable.run([value])
    assert taken()["encodes"] == 1 + kernels  # the program with tanh, and the kernel
    assert scaled.shape == (3,) and (not kernels or scaled.numpy()[0] == 2)
    np.testing.assert_allclose(behind.numpy(), np.tanh(value), rtol=1e-6)


def test_dtypes_missing_in_metal_raise():
    meaning("wide", MEMBERS, BODY)
    operation = scaling("wide", dtypes=["complex64"])
    g = mg.Graph()
    x = g.placeholder((3,), dtype=mg.complex64)
    with pytest.raises(mg.UnsupportedError, match="complex64, which the Metal shading language does not support"):
        g.run({x: np.zeros(3, np.complex64)}, operation(x))


def test_device_fault_in_custom_kernel_fails_the_run():
    operation = scaling("scaled")
    g = mg.Graph()
    x = g.placeholder((3,))
    y = operation(x) + 1
    g.run({x: np.zeros(3, np.float32)}, y)
    MOCK.mock_fail_next_command_buffer(b"planned")
    with pytest.raises(mg.DeviceError, match="planned"):
        g.run({x: np.zeros(3, np.float32)}, y)
    assert g.run({x: np.float32([1, 2, 3])}, y).tolist() == [3.0, 5.0, 7.0]
