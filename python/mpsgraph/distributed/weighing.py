"""Operations with which a training step communicates with other processes.

A process's batch is weighted by its number of samples w: the loss is multiplied by w before differentiation, and sums
over the processes are divided by the sum of all w. Shards of unequal size therefore give the same result as one process
with the whole batch.

Gradients are collected in buckets, in the order in which the backward pass computes them. A call without results passes
a bucket to the reducer; the compiler pass `schedule` places the call right after the bucket's last gradient. A call
without operands returns the sums and is placed before the first update that needs them. Between these two calls, the
run continues to compute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from .._core import DType, Operation, Tensor
from ..graph import Graph
from .reducer import Types

FIRST_BUCKET = 1 << 20  # Bytes of the first bucket; small, so that communication starts early.


class Slot(Protocol):
    """Protocol of a named group of tensors that is summed over all processes."""

    def give(self, g: Graph, tensors: Sequence[Tensor]) -> Operation:
        """Add an operation that passes tensors to the communication thread."""

    def take(self, g: Graph) -> list[Tensor]:
        """Add an operation that returns the sums of the tensors over all processes."""


class Weighing:
    """Operations with which one optimizer communicates in a step.

    The first group of tensors to be summed consists of the weight w of the batch, the reported results times w, and the
    modified buffers times w. Gradients follow in buckets.
    """

    def __init__(
        self,
        slot: Callable[[str, Types], Slot],
        wire: DType | None,
        bucket_bytes: int,
        graph: Graph,
        name: str,
        weight: Tensor,
        results: Mapping[str, Tensor],
        buffers: Sequence[Tensor],
    ) -> None:
        self._make, self.wire, self.bucket_bytes = slot, wire, bucket_bytes
        self.graph, self.name, self.weight = graph, name, weight
        self.results, self.buffers = dict(results), [b for b in buffers if b.dtype.is_float]
        g, self.dtype = graph, weight.dtype
        numbers = [weight]
        numbers += [self._wide(value) * weight for value in self.results.values()]
        numbers += [self._wide(g.read(buffer)) * weight for buffer in self.buffers]
        self._slot = slot(f"{name}: numbers", [(self.dtype, tuple(t.shape or ())) for t in numbers])
        self.always: list[Operation] = [self._slot.give(g, numbers)]
        """Operations of every step, whether or not it updates weights."""
        self.gives: list[Operation] = []
        """Operations of steps that update weights."""
        self.averages: dict[int, Tensor] = {}
        """Dict from the id of each result to its mean over the processes."""
        self._factor: Tensor | None = None
        self._total: Tensor | None = None

    def seed(self, loss: Tensor, scale: Tensor | None) -> Tensor:
        """Return the initial gradient of the loss, which is the weight w of the batch times the loss scale."""
        weight = self.weight if self.weight.dtype == loss.dtype else self.graph.cast(self.weight, loss.dtype)
        weight = self.graph.reshape(weight, loss.shape or ())
        return weight if scale is None else scale * weight

    def hear(self) -> Tensor:
        """Return 1 / (sum of the weights w of all processes).

        Also replaces the reported results and the buffers with their means over all processes, weighted by w. The
        operations that do this wait until the weights, results, and buffers have been summed over all processes.
        """
        if self._factor is None:
            g = self.graph
            total, *sums = self._slot.take(g)
            self._total = total
            self._factor = g.division_no_nan(g.constant(1.0, dtype=self.dtype), total)
            for result, summed in zip(self.results.values(), sums, strict=False):
                self.averages[id(result)] = self._narrow(summed * self._factor, result.dtype)
            for buffer, summed in zip(self.buffers, sums[len(self.results) :], strict=True):
                self.always.append(g.assign(buffer, self._narrow(summed * self._factor, buffer.dtype)))
        return self._factor

    def total_weight(self) -> Tensor:
        """Return the sum of the weights w of all processes."""
        self.hear()
        assert self._total is not None
        return self._total

    def normalized(self, gradients: Mapping[Tensor, Tensor]) -> dict[Tensor, Tensor]:
        """Divide summed gradients by the sum of the weights w of all processes."""
        factor = self.hear()
        return {v: d * self._narrow(factor, d.dtype) for v, d in gradients.items()}

    def summed(self, gradients: Mapping[Tensor, Tensor]) -> dict[Tensor, Tensor]:
        """Return the sums of gradients over all processes, keyed by variable.

        Gradients must be in the order in which the backward pass computes them.
        """
        g = self.graph
        buckets = _buckets(list(gradients.items()), self.wire, self.bucket_bytes)
        slots = []
        for number, (dtype, variables) in enumerate(buckets):
            types = [(dtype, tuple(v.shape or ())) for v in variables]
            slot = self._make(f"{self.name}: bucket {number}", types)
            sent = [gradients[v] if gradients[v].dtype == dtype else g.cast(gradients[v], dtype) for v in variables]
            self.gives.append(slot.give(g, sent))
            slots.append(slot)
        result = {}
        for slot, (_, variables) in zip(slots, buckets, strict=True):
            for v, total in zip(variables, slot.take(g), strict=True):
                wanted = gradients[v].dtype
                result[v] = total if total.dtype == wanted else g.cast(total, wanted)
        return {v: result[v] for v in gradients}

    def _wide(self, x: Tensor) -> Tensor:
        return x if x.dtype == self.dtype else self.graph.cast(x, self.dtype)

    def _narrow(self, x: Tensor, dtype: DType) -> Tensor:
        return x if x.dtype == dtype else self.graph.cast(x, dtype)


def weight_of_batch(
    g: Graph, samples: Tensor, wide: DType, reference: int, counted: tuple[Tensor, Tensor] | None
) -> Tensor:
    """Return the weight of a batch: its number of samples divided by `reference`, times the fraction of labels that are
    not ignored.

    Args:
        g: Graph of the step.
        samples: Any tensor with the batch as its first axis.
        wide: dtype of the result.
        reference: Number of samples with weight 1.
        counted: (number of labels that are not ignored, labels), or None if no labels are ignored.
    """
    length = g.cast(g.reshape(g.shape_of(samples)[0:1], ()), wide)
    weight = length * (1.0 / reference)
    if counted is None:
        return weight
    number, labels = counted
    every = g.reshape(g.reduction_product(g.cast(g.shape_of(labels), wide), 0), ())
    return weight * (number if number.dtype == wide else g.cast(number, wide)) / every


def in_order(gradients: Mapping[Tensor, Tensor]) -> dict[Tensor, Tensor]:
    """Sort gradients by the order in which the backward pass computes them."""
    return dict(sorted(gradients.items(), key=lambda pair: pair[1].operation.id))


def _buckets(
    gradients: list[tuple[Tensor, Tensor]], wire: DType | None, limit: int
) -> list[tuple[DType, list[Tensor]]]:
    """Group consecutive gradients of one dtype into buckets of at most `limit` bytes.

    A gradient larger than the limit gets a bucket of its own.
    """
    buckets: list[tuple[DType, list[Tensor]]] = []
    size = 0
    for variable, gradient in gradients:
        dtype = wire if wire is not None and gradient.dtype.itemsize > 2 else gradient.dtype
        bytes_ = dtype.itemsize
        for n in variable.shape or ():
            bytes_ *= n
        full = limit if len(buckets) > 1 else min(limit, FIRST_BUCKET)
        if not buckets or buckets[-1][0] != dtype or size + bytes_ > full:
            buckets.append((dtype, []))
            size = 0
        buckets[-1][1].append(variable)
        size += bytes_
    return buckets
