"""memory_estimate: the memory that a training step needs, from its compiled program and its variables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .._core import Device, Tensor
from ..errors import UnsupportedError
from ..optim.by_hand import states_in
from .batch import checked_batch
from .builder import StepBuilder


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of memory that a training step needs, by purpose.

    Attributes:
        weights: The model's parameters and buffers.
        optimizer: States of the optimizer, such as Adam's two moments and float32 copies of weights.
        other_state: Moving averages of weights, accumulated gradients, and random states.
        intermediates: Values that a step computes: activations, gradients, and workspace of kernels. They share one
            block of memory, whose size is the largest amount in use at the same time.
        constants: Constants of the program, and weights packed for kernels.
        results: Values that a step returns, for the steps in flight.
        batch: Arrays of the batch. They belong to the caller, so the total does not include them.

    Example:
        >>> trainer = mg.Trainer(mg.nn.Sequential(mg.nn.Linear(64), mg.nn.ReLU(), mg.nn.Linear(2)), optimizer="adam")
        >>> x, y = np.zeros((32, 100), np.float32), np.zeros(32, np.int32)
        >>> estimate = trainer.memory_estimate((x, y))
        >>> estimate.weights <= estimate.optimizer / 2 < estimate.total
        True
    """

    weights: int
    optimizer: int
    other_state: int
    intermediates: int
    constants: int
    results: int
    batch: int

    @property
    def total(self) -> int:
        """All bytes that the device allocates for training."""
        return self.weights + self.optimizer + self.other_state + self.intermediates + self.constants + self.results

    def __str__(self) -> str:
        parts = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "batch"}
        lines = [f"{name.replace('_', ' '):<14}{size / 1e6:12,.2f} MB" for name, size in parts.items()]
        return "\n".join([*lines, f"{'total':<14}{self.total / 1e6:12,.2f} MB"])


def estimate(builder: StepBuilder, batch: Any, labels: Any, weights: Any) -> MemoryEstimate:
    """Return the memory that a step of a trainer needs for a batch. The step is built and compiled, but does not run.

    Raises:
        UnsupportedError: If the trainer does not run on the CPU.
    """
    state = builder.state
    used = Device.default() if state.device is None else state.device
    name = used.name if isinstance(used, Device) else used
    if name != "cpu" or builder.engine is not None:
        raise UnsupportedError(
            "Trainer.memory_estimate: MPSGraph and engines plan memory themselves, so only the CPU device can report "
            "the memory of a step: create the trainer with device='cpu'"
        )
    if labels is None and isinstance(batch, tuple) and len(batch) in (2, 3):
        batch, labels, weights = (*batch, None)[:3]
    given = builder.converted(checked_batch(batch, labels, weights))
    steps = builder.steps_for(given)
    built = steps[0][1]
    model = set(state.network.named_variables().values())
    states = [variable for variable in state.variables().values() if variable not in model]
    of_optimizer = {v for made in built.minimized for v in states_in(made.optimizer)}
    return MemoryEstimate(
        _allocated(model),
        _allocated(v for v in states if v in of_optimizer),
        _allocated(v for v in states if v not in of_optimizer),
        _rounded(max(executable.shared_bytes for executable, _ in steps)),
        sum(executable.own_bytes for executable, _ in steps),
        2 * _allocated(built.fetched),
        sum(array.nbytes for array in given.arrays()),
    )


def _allocated(tensors: Iterable[Tensor]) -> int:
    return sum(_rounded(_count(tensor) * tensor.dtype.itemsize) for tensor in tensors)


def _count(tensor: Tensor) -> int:
    count = 1
    for size in tensor.shape or ():
        count *= max(size, 1)
    return count


def _rounded(size: int) -> int:
    """Return the size of the block that the runtime allocates for a size in bytes, as in src/runtime/buffer.cpp.

    It is a multiple of 64 in which only the three leading bits can be nonzero.
    """
    size = max(size + 63, 64) // 64 * 64
    shift = (size - 1).bit_length() - 3
    whole = max((((size - 1) >> shift) + 1) << shift, 64)
    return (whole + 63) // 64 * 64
