"""Test the costs of a training step on the Metal device, as counted by the mock.

The counts are those of command buffers, host waits, memory, and operations. docs/metal-steps.md explains the numbers.
The tests check that the numbers do not increase.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import mpsgraph as mg
import numpy as np
import pytest
from harness import device
from mpsgraph import nn
from mpsgraph import nngraph as nodes
from mpsgraph.demo import digits

MOCK = device.mock()


class Counts(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (
            "command_buffers",
            "hand_overs",
            "encodes",
            "host_waits",
            "buffers",
            "shared_buffers",
            "operations",
            "compilations",
        )
    )

    def named(self) -> dict[str, int]:
        """Return the counts without the command buffers that MPSGraph commits by itself, which the mock does
        at random.
        """
        named = {name: getattr(self, name) for name, _ in self._fields_}
        named["command_buffers"] -= named.pop("hand_overs")
        return named


MOCK.mock_take_counts.restype = Counts
STEPS = 10


class Signpost(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint64),
        ("id", ctypes.c_uint64),
        ("time", ctypes.c_uint64),
        ("name", ctypes.c_char * 32),
        ("message", ctypes.c_char * 128),
        ("subsystem", ctypes.c_char * 32),
        ("category", ctypes.c_char * 32),
    )


def signposts() -> set[str]:
    """Return the names of the signposts that the backend has emitted."""
    MOCK.mock_signpost_count.restype = ctypes.c_size_t
    MOCK.mock_signpost_at.argtypes = [ctypes.c_size_t, ctypes.POINTER(Signpost)]
    found, record = set(), Signpost()
    for index in range(MOCK.mock_signpost_count()):
        if MOCK.mock_signpost_at(index, ctypes.byref(record)):
            found.add(record.name.decode())
    return found


def batches(size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    while True:
        yield rng.random((size, 28, 28, 1), np.float32), rng.integers(0, 10, size).astype(np.int32)


def residual() -> nn.Module:
    """Build convolutions with batch normalization and a residual, as in workload W2."""

    class Block(nn.Module):
        def __init__(self) -> None:
            self.first, self.second = nn.Conv2d(4, 3, padding="TF_SAME"), nn.Conv2d(4, 3, padding="TF_SAME")
            self.norms, self.relu = [nn.BatchNorm(), nn.BatchNorm()], nn.ReLU()

        def forward(self, x: mg.Tensor) -> mg.Tensor:
            inner = self.relu(self.norms[0](self.first(x)))
            return self.relu(self.norms[1](self.second(inner)) + x)

    return nn.Sequential(nn.Conv2d(4, 3, strides=4), Block(), nn.GlobalAveragePooling2d(), nn.Linear(10))


NETWORKS = {"digits": digits.classifier, "residual": residual}


@pytest.mark.parametrize("network", NETWORKS)
def test_training_step_uses_one_command_buffer_and_does_not_wait(network: str):
    """A step compiles nothing, adds no operation, and does not wait; losses that are not read cost nothing."""
    data = batches(2)
    trainer = mg.Trainer(NETWORKS[network](), loss="cross_entropy", optimizer=mg.optim.SGD(1e-3), device="metal")
    for _ in range(4):
        float(trainer.train_step(*next(data)))
    MOCK.mock_take_counts()
    for _ in range(STEPS):
        last = trainer.train_step(*next(data))
    float(last)
    counts = MOCK.mock_take_counts().named()
    assert counts["command_buffers"] == STEPS, counts
    assert counts["encodes"] == STEPS, counts
    assert counts["operations"] == counts["compilations"] == 0, counts
    assert counts["host_waits"] == 0, counts
    assert counts["buffers"] <= 4, counts
    assert counts["shared_buffers"] <= 3 * STEPS, "only images, labels, and learning rate may be mapped"


def test_feeds_are_not_copied():
    """Images and labels are read in numpy's memory. Before macOS 15, this requires page alignment."""
    trainer = mg.Trainer(digits.classifier(), loss="cross_entropy", optimizer=mg.optim.SGD(1e-3), device="metal")
    data = batches(2)
    for _ in range(3):
        float(trainer.train_step(*next(data)))
    MOCK.mock_clear_signposts()
    float(trainer.train_step(*next(data)))
    names = signposts()
    reads_inside_pages = not device.OLD_SYSTEM or float(device.OLD_SYSTEM) >= 15
    assert "encode" in names and ("copy" not in names) == reads_inside_pages


def test_fifty_batch_sizes_compile_once_each():
    trainer = mg.Trainer(residual(), loss="cross_entropy", optimizer=mg.optim.SGD(1e-3), device="metal")
    MOCK.mock_take_counts()
    for size in range(1, 51):
        trainer.train_step(*next(batches(size)))
    float(trainer.train_step(*next(batches(50))))
    first = MOCK.mock_take_counts().named()
    for size in range(50, 40, -1):
        trainer.train_step(*next(batches(size)))
    float(trainer.train_step(*next(batches(41))))
    again = MOCK.mock_take_counts().named()
    assert first["operations"] > 0
    assert again["operations"] == again["compilations"] == 0, again


def test_node_batch_uses_one_command_buffer():
    """The command buffer of the nodes is between two empty ones that reserve its position."""
    descriptor = nodes.ConvolutionDescriptor(3, 3, 4, 4)
    source = nodes.TrainableConvolution(descriptor, optimizer=nodes.Adam(1e-3), seed=0)
    node = nodes.ConvolutionNode(nodes.ImageNode("x"), source)
    loss = nodes.LossNode(node.result_image, nodes.LossDescriptor("mean_squared_error", "sum"))
    graph = nodes.NNGraph("metal", loss.training_graph(None)[-1].result_image, False)
    x, queue = np.zeros((2, 4, 4, 4), np.float32), mg.CommandQueue("metal")

    def step() -> mg.CommandBuffer:
        buffer = queue.command_buffer()
        graph.encode_batch(buffer, [x], [nodes.LossLabelsBatch(x)])
        buffer.commit()
        return buffer

    step().wait_until_completed()
    MOCK.mock_take_counts()
    buffers = [step() for _ in range(STEPS)]
    buffers[-1].wait_until_completed()
    counts = MOCK.mock_take_counts().named()
    assert counts["command_buffers"] == 2 * STEPS, counts
    assert counts["host_waits"] == counts["operations"] == counts["compilations"] == 0, counts
