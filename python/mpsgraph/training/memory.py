"""memory_estimate: the memory that a training step needs, from its compiled program and its variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._core import Device, Tensor
from ..errors import UnsupportedError
from ..optim.by_hand import states_in
from .batch import checked_batch
from .builder import StepBuilder


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of memory that a training step needs, by purpose. With an engine, those of each of its devices.

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
        UnsupportedError: If the trainer runs on a device that plans memory itself.
    """
    state, engine = builder.state, builder.engine
    used = Device.default() if state.device is None else state.device
    name = used.name if isinstance(used, Device) else used
    if name != "cpu" and engine is None:
        raise UnsupportedError(
            "Trainer.memory_estimate: MPSGraph plans memory itself, so it cannot report the memory of a step: create "
            "the trainer with device='cpu', or with an engine"
        )
    if labels is None and isinstance(batch, tuple) and len(batch) in (2, 3):
        batch, labels, weights = (*batch, None)[:3]
    given = builder.converted(checked_batch(batch, labels, weights))
    steps = builder.steps_for(given)
    built = steps[0][1]
    size_of = _allocated if engine is None else engine.bytes_of
    model = set(state.network.named_variables().values())
    states = [variable for variable in state.variables().values() if variable not in model]
    of_optimizer = {v for made in built.minimized for v in states_in(made.optimizer)}
    weights = sum(size_of(v) for v in model)
    optimizer = sum(size_of(v) for v in states if v in of_optimizer)
    others = sum(size_of(v) for v in states if v not in of_optimizer)
    fed = sum(array.nbytes for array in given.arrays())
    if engine is not None:
        found = [prepared.memory((*builder.rates(made), *given.arrays())) for prepared, made in steps]
        intermediates, constants, results = (max(parts) for parts in zip(*found, strict=True))
        return MemoryEstimate(weights, optimizer, others, intermediates, constants, results, fed)
    executables = [executable for executable, _ in steps]
    intermediates = _rounded(max(executable.shared_bytes for executable in executables))
    constants = sum(executable.own_bytes for executable in executables)
    return MemoryEstimate(
        weights, optimizer, others, intermediates, constants, 2 * sum(map(_allocated, built.fetched)), fed
    )


def _allocated(tensor: Tensor) -> int:
    return _rounded(_count(tensor) * tensor.dtype.itemsize)


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
