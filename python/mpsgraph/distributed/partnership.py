"""A trainer's part in the training of all processes: options, agreement at the start, slots, checkpoints.

What the trainer's step says to the others stands in `weighing.py`, the thread that adds up in `reducer.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from .. import _core
from .._checks import Size, checked
from .._core import DType, NDArray, Operation, Tensor
from .._dtypes import DTypeLike, as_dtype
from ..data.batches import Batches
from ..errors import CheckpointError, Error, GraphError
from ..graph import Graph
from ..nn.normalization import moments_of_all
from .by_mpi import sum_of_halves
from .processes import Processes, everyone
from .reducer import Reducer, Types
from .weighing import Weighing, weight_of_batch

T = TypeVar("T")
_STREAM = 4  # the word of a random state that a process has of its own
REFERENCE = 32  # samples that count as 1 where no batch has been seen


@checked
@dataclass(frozen=True)
class DataParallel:
    """How a trainer works together with those of the other processes; `Trainer(distributed=True)` takes the defaults.

    Args: wire, the dtype in which gradients travel, "bfloat16" or "float16", which are summed in float32; None: their
    own; bucket_bytes, how much is reduced at a time; synchronize_batch_norm, whether statistics are of the batch of
    all processes, as one process would have them, at the price of waiting for the others twice in each such layer and
    twice in its gradient; shard, whether `fit` gives each process its part of arrays and of mpsgraph.data's batches:
    False where each has data of its own; shared_memory, whether processes of one machine add up in memory that they
    share: False by MPI's messages, as where there is no such memory (`explain` says which). Errors: GraphError for
    another wire.

    >>> mg.distributed.DataParallel(wire="bfloat16").bucket_bytes
    8388608
    """

    wire: DTypeLike | None = None
    bucket_bytes: Size = 8 << 20
    synchronize_batch_norm: bool = False
    shard: bool = True
    shared_memory: bool = True

    def __post_init__(self) -> None:
        if self.wire is not None and str(as_dtype(self.wire)) not in ("bfloat16", "float16", "float32", "float64"):
            raise GraphError(f"DataParallel: gradients travel as floats, wire cannot be {as_dtype(self.wire)}")

    @property
    def wire_dtype(self) -> DType | None:
        """The wire as a dtype."""
        return None if self.wire is None else as_dtype(self.wire)


class Slot:
    """A place of the exchange as operations of a graph see it."""

    def __init__(self, partnership: Partnership, name: str, types: Types) -> None:
        self.name, self.types = name, list(types)
        exchange, number = partnership.exchange, partnership.reducer.add(name, self.types)
        callables = partnership.callables
        callables[f"give {name}"] = exchange.giver(number)
        callables[f"take {name}"] = exchange.taker(number)
        callables[name] = exchange.through(number)

    def give(self, g: Graph, tensors: Sequence[Tensor]) -> Operation:
        """Hands them over."""
        return g.call_operation(f"give {self.name}", tensors, name="give")

    def take(self, g: Graph) -> list[Tensor]:
        """Their sums over the processes."""
        return g.call(f"take {self.name}", [], [(shape, dtype) for dtype, shape in self.types], name="take")


class Partnership:
    """The state of one trainer's."""

    def __init__(self, options: DataParallel) -> None:
        self.options = options
        self.processes: Processes = everyone()
        self.reference: int | None = None
        self.callables: dict[str, Any] = {}
        self.agreed = False
        self._reducer: Reducer | None = None
        self._slots: dict[Any, Slot] = {}
        self._sums = 0  # that a build has made so far, of batch normalizations

    @property
    def reducer(self) -> Reducer:
        """Made at the first step, when all agree that there is one."""
        assert self._reducer is not None
        return self._reducer

    @property
    def exchange(self) -> Any:
        return self.reducer.exchange

    @property
    def is_first(self) -> bool:
        """Is this the process that writes files and prints?"""
        return self.processes.rank == 0

    def slot(self, name: str, types: Types) -> Slot:
        """The slot of this name and these types: what is built anew for other sizes uses the same."""
        key = name, tuple(types)
        if key not in self._slots:
            unique = name if all(known != name for known, _ in self._slots) else f"{name} ({len(self._slots)})"
            self._slots[key] = Slot(self, unique, types)
        return self._slots[key]

    # --- building a step -------------------------------------------------------------------------------------------

    @contextmanager
    def building(self, facts: Mapping[str, Any], samples: int, variables: Callable[[], Any]) -> Iterator[None]:
        """Around the building of a step. The first time all processes compare what they are about to do and have done.

        Args: facts, what must be the same, by the name that an error gives it; samples, of the batch; variables, gives
        graph, device, all variables by name, and those that hold random states. Errors: GraphError, in every process.
        """
        if self.agreed:
            self._sums = 0
            yield
            return
        self._compare("started with another", {"version of mpsgraph": _core.library_version(), **facts})
        if self.reference is None:
            self.reference = self.processes.exchanged(samples, "the first batch")[0] or REFERENCE
        if self._reducer is None:
            self._reducer = Reducer(self.processes, self.options.shared_memory)
        self._sums = 0
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            failure = error
        told = None if failure is None else f"{type(failure).__name__}: {failure}"
        all_told = self.processes.exchanged(told, "the building of the step")
        if failure is not None:
            raise failure
        for other, its in enumerate(all_told):
            if its is not None:
                raise GraphError(f"process {other} could not build its training step: {its}")
        graph, device, named, states = variables()
        described = {f"variable '{name}'": f"{v.dtype} {tuple(v.shape or ())}" for name, v in sorted(named.items())}
        described |= {f"bucket '{slot.name}'": str(slot.types) for slot in self._slots.values()}
        self._compare("has another model: another", described)
        self._broadcast(graph, device, [v for _, v in sorted(named.items())], states)
        self.agreed = True

    def _compare(self, verb: str, facts: Mapping[str, Any]) -> None:
        """GraphError in every process that names the first difference."""
        mine = {name: str(value) for name, value in facts.items()}
        everybody = self.processes.exchanged(mine, "a comparison of the processes")
        first = everybody[0]
        for other, its in enumerate(everybody):
            for name in [*first, *(n for n in its if n not in first)]:
                here, there = first.get(name, "nothing"), its.get(name, "nothing")
                if here != there:
                    raise GraphError(
                        f"process {other} {verb} {name} than process 0: {there} instead of {here}. All processes "
                        "train the same model with the same seed; what a process does alone hangs on "
                        "mpsgraph.distributed.rank()"
                    )

    def _broadcast(self, graph: Graph, device: Any, variables: Sequence[Tensor], states: Sequence[Tensor]) -> None:
        """The first process's values for all; random states with a stream of each process's own."""
        own = set(states)
        for variable in variables:
            value = graph.variable_value(variable, device=device)
            data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
            if data.size:
                self.processes.finish(self.processes.common.Ibcast(data, 0), "the broadcast of first values", data)
            if not self.is_first:
                value = data.view(value.dtype).reshape(value.shape)
                if variable in own:
                    value = self.stream(value)
                graph.set_variable(variable, value, device=device)

    def stream(self, state: np.ndarray) -> np.ndarray:
        """A random state of the first process as this one's: other numbers by another word of the counter."""
        moved = np.array(state)
        moved[_STREAM] += self.processes.rank
        return moved

    def weighing(
        self,
        graph: Graph,
        name: str,
        samples: Tensor,
        wide: DType,
        counted: tuple[Tensor, Tensor] | None,
        results: Mapping[str, Tensor],
        buffers: Sequence[Tensor],
    ) -> Weighing:
        """An optimizer's part in the step that is being built."""
        weight = weight_of_batch(graph, samples, wide, self.reference or REFERENCE, counted)
        options = self.options
        return Weighing(self.slot, options.wire_dtype, options.bucket_bytes, graph, name, weight, results, buffers)

    @contextmanager
    def one_batch(self) -> Iterator[None]:
        """Meanwhile batch normalization takes the batch of all processes for one, where that is asked for."""
        if not self.options.synchronize_batch_norm:
            yield
            return
        with moments_of_all(self.sum):
            yield

    def sum(self, x: Tensor) -> Tensor:
        """The sum over all processes, in the middle of a step, which waits for them; so does its gradient."""
        g: Graph = x.graph  # type: ignore[assignment]
        types: Types = [(x.dtype, tuple(x.shape or ()))]
        there = self.slot(f"statistics {self._sums}", types)
        back = self.slot(f"statistics {self._sums} gradient", types)
        self._sums += 1
        (total,) = g.call(there.name, [x], [(shape, dtype) for dtype, shape in types], transpose=back.name)
        return total

    # --- data ------------------------------------------------------------------------------------------------------

    def sharded(self, source: Any) -> Any:
        """Batches of which this process gets its part; what has been made otherwise stays as it is."""
        order = getattr(source, "batches", source)
        if self.options.shard and isinstance(order, Batches) and order.shards == (0, 1):
            order.shard(self.processes.rank, self.processes.size)
        return source

    def while_all_have(self, batches: Iterator[T]) -> Iterator[T]:
        """Batches up to where the first process has none left."""
        while True:
            batch = next(batches, None)
            has = np.array([batch is not None], np.int32)
            request = self.processes.common.Iallreduce(self.processes.MPI.IN_PLACE, has, self.processes.MPI.MIN)
            self.processes.finish(request, "the question whether all have another batch", has)
            if not has[0] or batch is None:
                return
            yield batch

    # --- checkpoints -----------------------------------------------------------------------------------------------

    def by_first(self, function: Callable[[], T], what: str) -> T:
        """What the first process's call gives, in all of them. CheckpointError in all where it raises one of ours."""
        result: tuple[str, Any] = ("", None)
        if self.is_first:
            try:
                result = "", function()
            except Error as error:
                result = str(error), None
        message, value = self.processes.exchanged(result, what)[0]
        if message:
            raise CheckpointError(message)
        return value  # type: ignore[no-any-return]

    def description(self, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """What a checkpoint keeps of the processes: their number, and the random states of each."""
        mine = {name: value.tolist() for name, value in states.items()}
        everybody = self.processes.exchanged(mine, "the checkpoint")
        return {"processes": self.processes.size, "reference": self.reference, "states": everybody}

    def states(self, described: Mapping[str, Any], names: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """This process's random states from a checkpoint: its own, or of as many processes as there were not, a
        stream of the first one's. Args: names, the first one's states."""
        if described.get("processes") == self.processes.size:
            kept = described["states"][self.processes.rank]
            return {name: np.array(kept[name], value.dtype) for name, value in names.items()}
        return {name: self.stream(value) for name, value in names.items()}

    def total(self, value: np.ndarray, dtype: str) -> np.ndarray:
        """The sum over the processes of an array on the host, of halves in float32."""
        if dtype in ("float16", "bfloat16"):
            parts = NDArray((self.processes.size, value.size), as_dtype(dtype))
            bits = parts.numpy().view(np.uint16)
            for row, its in zip(bits, self.processes.exchanged(value.view(np.uint16), "the checkpoint"), strict=True):
                row[:] = its.reshape(-1)
            total = sum_of_halves(parts.dtype, *parts.shape).run([parts])[0]
            return total.numpy().view(value.dtype).reshape(value.shape)
        buffer = np.array(value, order="C")
        request = self.processes.common.Iallreduce(self.processes.MPI.IN_PLACE, buffer)
        self.processes.finish(request, "the checkpoint", buffer)
        return buffer


def statistics(trainer: Any) -> dict[str, float]:
    """What a trainer's steps have said to the other processes so far, and what it cost.

    Args: trainer, made with distributed=True. Result: "reductions"; seconds of "communication", the thread's beside the
    kernels; "waited", those in which the step stood still for it; "copied", in and out of the buckets; "hidden", the
    share of communication that the step did not wait for, 0 to 1. All are 0 where there is one process, or no step yet.

    >>> trainer = mg.Trainer(mg.nn.Linear(1), distributed=True)
    >>> mg.distributed.statistics(trainer)["reductions"]
    0
    """
    partnership = getattr(trainer, "_partnership", None)
    if partnership is None or not partnership.agreed:
        return {"reductions": 0, "communication": 0.0, "waited": 0.0, "copied": 0.0, "hidden": 0.0}
    found = partnership.exchange.statistics
    hidden = max(1 - found["waited"] / found["worked"], 0.0) if found["worked"] else 0.0
    return {
        "reductions": found["given"],
        "communication": found["worked"],
        "waited": found["waited"],
        "copied": found["copied"],
        "hidden": hidden,
    }


def explain(trainer: Any) -> str:
    """How a trainer's sums go from process to process, and why not in shared memory where they do not.

    Args: trainer, made with distributed=True. Result: text of a few lines, of what this process's steps have done so
    far.

    >>> trainer = mg.Trainer(mg.nn.Linear(1), distributed=True)
    >>> print(mg.distributed.explain(trainer))
    1 process: nothing is added up
    """
    partnership = getattr(trainer, "_partnership", None)
    if partnership is None or partnership.processes.size == 1:
        return "1 process: nothing is added up"
    if not partnership.agreed:
        return f"{partnership.processes.size} processes, which have not made a step"
    routes = partnership.reducer.routes
    where = "one machine" if routes.machines == 1 else f"{routes.machines} machines"
    lines = [f"{partnership.processes.size} processes on {where}"]
    if routes.shared:
        between = "" if routes.machines == 1 else ", and by MPI between the machines"
        lines.append(f"in shared memory: {_amount(routes.shared)}{between}")
    if routes.sent:
        lines.append(f"by MPI: {_amount(routes.sent)}, since {'; '.join(routes.reasons)}")
    return "\n".join(lines)


def _amount(slots: Mapping[int, int]) -> str:
    sizes = list(slots.values())  # at once: the thread that adds up may be at a new one
    return f"{len(sizes)} sums, {sum(sizes) / 1e6:.2f} MB a step"
