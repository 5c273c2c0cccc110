"""State that a trainer keeps for distributed training: options, consistency checks, the groups of tensors to sum, and
checkpoints.

The communication within a step is defined in `weighing.py`; the thread that sums gradients is in `reducer.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from .. import _core
from .._checks import Size, checked
from .._core import Device, DType, NDArray, Operation, Tensor
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
_STREAM = 4  # Index of the word in a random state that differs between processes.
REFERENCE = 32  # Number of samples of a batch with weight 1, until a batch has been seen.


@checked
@dataclass(frozen=True)
class DataParallel:
    """Options of distributed training; `Trainer(distributed=True)` uses the defaults.

    Args:
        wire: dtype in which gradients are sent: "bfloat16" or "float16", which are summed in float32, "float32", or
            "float64". None (the default) means the dtype of each gradient.
        bucket_bytes: Size of the buckets in which gradients are reduced, in bytes. Defaults to 8 MiB.
        synchronize_batch_norm: Whether batch normalization uses statistics over the batches of all processes, as one
            process with the whole batch would. Every such layer then waits for the other processes twice in the forward
            pass and twice in the backward pass. Defaults to False.
        shard: Whether `fit` gives each process its part of arrays and of mpsgraph.data's batches. Pass False if each
            process has its own data. Defaults to True.
        shared_memory: Whether processes on one machine sum gradients in shared memory. Otherwise, or if shared memory
            is not available, they use MPI messages; `explain` reports which. Defaults to True.

    Raises:
        GraphError: If wire is not one of these dtypes.

    Example:
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
            raise GraphError(
                "DataParallel: wire must be bfloat16, float16, float32 or float64, the dtype in which gradients are "
                f"sent; got {as_dtype(self.wire)}"
            )

    @property
    def wire_dtype(self) -> DType | None:
        """The argument wire as a DType."""
        return None if self.wire is None else as_dtype(self.wire)


class Shared(Protocol):
    """Protocol of the state of training, which is equal in all processes apart from random states."""

    device: Device | str | None
    random_states: list[Tensor]

    @property
    def graph(self) -> Graph:
        """The graph of the variables."""

    def variables(self) -> dict[str, Tensor]:
        """Return all variables, keyed by name."""


class Slot:
    """A named group of tensors that a training step sums over all processes.

    The step passes the tensors to the communication thread (the reducer) with `give` and receives the sums with `take`.
    """

    def __init__(self, partnership: Partnership, name: str, types: Types) -> None:
        self.name, self.types = name, list(types)
        exchange, number = partnership.exchange, partnership.reducer.add(name, self.types)
        callables = partnership.callables
        callables[f"give {name}"] = exchange.giver(number)
        callables[f"take {name}"] = exchange.taker(number)
        callables[name] = exchange.through(number)

    def give(self, g: Graph, tensors: Sequence[Tensor]) -> Operation:
        """Add an operation that passes tensors to the communication thread."""
        return g.call_operation(f"give {self.name}", tensors, name="give")

    def take(self, g: Graph) -> list[Tensor]:
        """Add an operation that returns the sums of the tensors over all processes."""
        return g.call(f"take {self.name}", [], [(shape, dtype) for dtype, shape in self.types], name="take")


class Partnership:
    """State of distributed training for one trainer."""

    def __init__(self, options: DataParallel) -> None:
        self.options = options
        self.processes: Processes = everyone()
        self.reference: int | None = None
        self.callables: dict[str, Any] = {}
        self.agreed = False
        self._reducer: Reducer | None = None
        self._slots: dict[Any, Slot] = {}
        self._sums = 0  # Number of batch-normalization sums in the step that is being built.

    @property
    def reducer(self) -> Reducer:
        """The reducer, which is created at the first step, after all processes have agreed on the step."""
        assert self._reducer is not None
        return self._reducer

    @property
    def exchange(self) -> Any:
        return self.reducer.exchange

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and prints."""
        return self.processes.rank == 0

    def slot(self, name: str, types: Types) -> Slot:
        """Return the group of tensors with this name and these types, creating it if necessary.

        A step that is rebuilt for other batch sizes reuses its groups.
        """
        key = name, tuple(types)
        if key not in self._slots:
            unique = name if all(known != name for known, _ in self._slots) else f"{name} ({len(self._slots)})"
            self._slots[key] = Slot(self, unique, types)
        return self._slots[key]

    # --- building a step -------------------------------------------------------------------------------------------

    @contextmanager
    def building(self, facts: Mapping[str, Any], samples: int, state: Shared) -> Iterator[None]:
        """Build a step within a `with` block; for the first step, check that all processes agree.

        Args:
            facts: Dict from names, for error messages, to values that must be equal in all processes.
            samples: Number of samples in the batch.
            state: State of training. The first process's values are sent to all others.

        Raises:
            GraphError: In every process, if the processes disagree or one of them fails to build the step.
        """
        if self.agreed:
            self._sums = 0
            yield
            return
        self._compare("at the start of training", {"version of mpsgraph": _core.library_version(), **facts})
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
        named = state.variables()
        described = {f"variable '{name}'": f"{v.dtype} {tuple(v.shape or ())}" for name, v in sorted(named.items())}
        described |= {f"bucket '{slot.name}'": str(slot.types) for slot in self._slots.values()}
        self._compare("after the first step was built", described)
        self._broadcast(state, [v for _, v in sorted(named.items())])
        self.agreed = True

    def _compare(self, when: str, facts: Mapping[str, Any]) -> None:
        """If values differ between processes, raise a GraphError with the first difference in every process."""
        mine = {name: str(value) for name, value in facts.items()}
        everybody = self.processes.exchanged(mine, "a comparison of the processes")
        first = everybody[0]
        for other, its in enumerate(everybody):
            for name in [*first, *(n for n in its if n not in first)]:
                here, there = first.get(name, "nothing"), its.get(name, "nothing")
                if here != there:
                    raise GraphError(
                        f"{name} differs between processes {when}: process {other} has {there}, process 0 has {here}. "
                        "All processes must train the same model with the same seed; actions of single processes, such "
                        "as writing files, should depend on mpsgraph.distributed.rank()"
                    )

    def _broadcast(self, state: Shared, variables: Sequence[Tensor]) -> None:
        """Copy the variables of the first process to all others, and give each process its own random stream."""
        own, graph = set(state.random_states), state.graph
        received = {}
        for variable, value in zip(variables, graph.variable_values(variables, device=state.device), strict=True):
            data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
            if data.size:
                self.processes.finish(self.processes.common.Ibcast(data, 0), "the broadcast of initial values", data)
            if not self.is_first:
                value = data.view(value.dtype).reshape(value.shape)
                if variable in own:
                    value = self.stream(value)
                received[variable] = value
        graph.set_variables(received, device=state.device)

    def stream(self, state: np.ndarray) -> np.ndarray:
        """Return a random state for this process.

        Adding the rank to one counter word of the given state makes the streams of all processes distinct.
        """
        moved = np.array(state)
        moved[_STREAM] += self.processes.rank
        return moved

    @property
    def reference_samples(self) -> int:
        """Number of samples of a batch with weight 1."""
        return self.reference or REFERENCE

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
        """Create the object that adds an optimizer's communication to the step that is being built."""
        weight = weight_of_batch(graph, samples, wide, self.reference_samples, counted)
        options = self.options
        return Weighing(self.slot, options.wire_dtype, options.bucket_bytes, graph, name, weight, results, buffers)

    @contextmanager
    def one_batch(self) -> Iterator[None]:
        """Within a `with` block, build batch normalization with statistics over the batches of all processes.

        Does nothing unless the option synchronize_batch_norm is set.
        """
        if not self.options.synchronize_batch_norm:
            yield
            return
        with moments_of_all(self.sum):
            yield

    def sum(self, x: Tensor) -> Tensor:
        """Return the sum of x over all processes. The step waits until the sum is available.

        In the backward pass, the gradient of the sum is summed over all processes, too.
        """
        g: Graph = x.graph  # type: ignore[assignment]
        types: Types = [(x.dtype, tuple(x.shape or ()))]
        there = self.slot(f"statistics {self._sums}", types)
        back = self.slot(f"statistics {self._sums} gradient", types)
        self._sums += 1
        (total,) = g.call(there.name, [x], [(shape, dtype) for dtype, shape in types], transpose=back.name)
        return total

    # --- data ------------------------------------------------------------------------------------------------------

    def sharded(self, source: Any) -> Any:
        """Restrict a `Batches` object to this process's part of each batch. Return other sources unchanged."""
        order = getattr(source, "batches", source)
        if self.options.shard and isinstance(order, Batches) and order.shards == (0, 1):
            order.shard(self.processes.rank, self.processes.size)
        return source

    def while_all_have(self, batches: Iterator[T]) -> Iterator[T]:
        """Yield batches until one of the processes has none left."""
        while True:
            batch = next(batches, None)
            has = np.array([batch is not None], np.int32)
            request = self.processes.common.Iallreduce(self.processes.MPI.IN_PLACE, has, self.processes.MPI.MIN)
            self.processes.finish(request, "the check whether all processes have another batch", has)
            if not has[0] or batch is None:
                return
            yield batch

    # --- checkpoints -----------------------------------------------------------------------------------------------

    def by_first(self, function: Callable[[], T], what: str) -> T:
        """Call a function in the first process and return its result in all processes, or raise CheckpointError in all
        processes.
        """
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
        """Return what a checkpoint stores about the processes: their number, and the random states of each process."""
        mine = {name: value.tolist() for name, value in states.items()}
        everybody = self.processes.exchanged(mine, "the checkpoint")
        return {"processes": self.processes.size, "reference": self.reference, "states": everybody}

    def states(self, described: Mapping[str, Any], names: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return this process's random states from a checkpoint.

        If the number of processes has changed since the checkpoint was written, the states start new random streams,
        derived from the first process's states.

        Args:
            described: Result of `description` when the checkpoint was written.
            names: Dict from names to random states of the first process.
        """
        if described.get("processes") == self.processes.size:
            kept = described["states"][self.processes.rank]
            return {name: np.array(kept[name], value.dtype) for name, value in names.items()}
        return {name: self.stream(value) for name, value in names.items()}

    def total(self, value: np.ndarray, dtype: str) -> np.ndarray:
        """Return the sum of a host array over all processes; half-precision arrays are summed in float32."""
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


def _partnership_of(trainer: Any) -> Partnership | None:
    """Return the connection of a trainer to the other processes, or None for other objects and single processes."""
    partnership = getattr(getattr(trainer, "state", None), "partnership", None)
    return partnership if isinstance(partnership, Partnership) else None


def statistics(trainer: Any) -> dict[str, float]:
    """Return how much a trainer's steps have communicated, and how long it took.

    All values are 0 if there is one process or no step has run.

    Args:
        trainer: Trainer created with distributed=True.

    Returns:
        A dict with the number of "reductions"; the seconds of "communication" in the communication thread; the seconds
        that steps "waited" for this thread; the seconds for which data was "copied" to and from buckets; and "hidden",
        the fraction of the communication that steps did not wait for, from 0 to 1.

    Example:
        >>> trainer = mg.Trainer(mg.nn.Linear(1), distributed=True)
        >>> mg.distributed.statistics(trainer)["reductions"]
        0
    """
    partnership = _partnership_of(trainer)
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
    """Describe how a trainer exchanges sums between processes. If shared memory is not used, give the reason.

    Args:
        trainer: Trainer created with distributed=True.

    Returns:
        A string of a few lines about the steps of this process so far.

    Example:
        >>> trainer = mg.Trainer(mg.nn.Linear(1), distributed=True)
        >>> print(mg.distributed.explain(trainer))
        1 process: no communication
    """
    partnership = _partnership_of(trainer)
    if partnership is None or partnership.processes.size == 1:
        return "1 process: no communication"
    if not partnership.agreed:
        return f"{partnership.processes.size} processes; no step has run yet"
    routes = partnership.reducer.routes
    where = "one machine" if routes.machines == 1 else f"{routes.machines} machines"
    lines = [f"{partnership.processes.size} processes on {where}"]
    if routes.shared:
        between = "" if routes.machines == 1 else ", and by MPI between the machines"
        lines.append(f"in shared memory: {_amount(routes.shared)}{between}")
    if routes.sent:
        lines.append(f"by MPI: {_amount(routes.sent)}, because {'; '.join(routes.reasons)}")
    return "\n".join(lines)


def _amount(slots: Mapping[int, int]) -> str:
    # Copy the values first, because the communication thread may add a slot during the iteration.
    sizes = list(slots.values())
    return f"{len(sizes)} sums, {sum(sizes) / 1e6:.2f} MB per step"
