"""Runner: the values of one graph's variables on a JAX engine, and the graph's steps as jitted functions."""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np

from .._core import DeviceGraph, NDArray, Operation, Tensor, asarray
from .._dtypes import as_dtype
from .._optional import require
from ..errors import OutOfRangeError, TimeoutError, UnsupportedError
from ..graph import Graph, guest_of, set_guest
from ..training.engine import DeviceArray, StepMemory
from ..training.sharded_checkpoint import Part
from .functions import Program, guarded
from .placement import Placement

jax: Any = require("jax", "jax", "mpsgraph.jax.Engine")


class Settings(Protocol):
    """Protocol of the part of an Engine that a Runner needs."""

    placement: Placement
    precision: str
    loop_limit: int
    steps_per_dispatch: int

    @property
    def has_tensor_cores(self) -> bool:
        """Whether the engine runs on NVIDIA GPUs."""

    @property
    def attention_implementation(self) -> str | None:
        """The implementation of jax.nn.dot_product_attention to use, or None if attention is composed."""

    @property
    def device(self) -> Any:
        """A device of this process."""


class Runner:
    """Runs the steps of one graph on a JAX engine, and stores the values of its variables and its compiled steps."""

    def __init__(self, engine: Settings, graph: Graph) -> None:
        self.engine, self.graph = engine, graph
        self._home: DeviceGraph | None = None
        self._values: dict[str, Any] = {}
        self._changed: set[str] = set()
        self._prepared: dict[Any, Prepared] = {}
        self._queue: list[Execution] = []
        self._shardings: dict[str, tuple[Any, Any]] = {}

    def compile(
        self,
        feeds: Mapping[Tensor, tuple[Any, tuple[int, ...]]],
        targets: Sequence[Tensor],
        target_operations: Sequence[Operation] = (),
        batched: Sequence[Tensor] = (),
    ) -> Prepared:
        """Return the step for the given feed types, compiling it on first use.

        Args:
            feeds: Dict of (dtype, shape) pairs, keyed by placeholder.
            targets: Tensors to compute.
            target_operations: Operations to run besides computing the targets. Defaults to none.
            batched: Placeholders whose first axis is a batch axis. Defaults to none.

        Returns:
            A Prepared step.
        """
        types = {tensor: (as_dtype(dtype), tuple(shape)) for tensor, (dtype, shape) in feeds.items()}
        key = tuple(types.items()), tuple(targets), tuple(o.id for o in target_operations), tuple(batched)
        if key not in self._prepared:
            self._prepared[key] = Prepared(self, types, targets, target_operations, batched)
        return self._prepared[key]

    def run(self, feeds: Mapping[Tensor, Any], targets: Sequence[Tensor]) -> list[NDArray]:
        """Compute targets for batches and wait for the results.

        Args:
            feeds: Dict of arrays, keyed by placeholder. The first axis of each array is a batch axis. With several
                hosts, all pass the same arrays.
            targets: Tensors to compute.

        Returns:
            One array per target.
        """
        types = {tensor: (tensor.dtype, tuple(array.shape)) for tensor, array in feeds.items()}
        return self.compile(types, targets, (), list(feeds)).run_async(list(feeds.values())).results

    # --- queued steps ----------------------------------------------------------------------------------------------

    def submit(self, execution: Execution) -> None:
        """Queue a training step, and start the queue once it has as many steps as one dispatch.

        Args:
            execution: A step that has not been started.
        """
        if self._queue and self._queue[0].prepared is not execution.prepared:
            self.flush()
        self._queue.append(execution)
        if len(self._queue) == self.engine.steps_per_dispatch:
            self.flush()

    def flush(self) -> None:
        """Start all queued steps, because there are enough or because their results are needed."""
        queue, self._queue = self._queue, []
        try:
            if len(queue) > 1 and len(queue) == self.engine.steps_per_dispatch:
                queue[0].prepared.start_together(queue)
            else:
                for execution in queue:
                    execution.prepared.start(execution)
        except Exception as failure:
            for execution in queue:
                execution.fail(failure)
            raise

    # --- values of variables ---------------------------------------------------------------------------------------

    def shardings(self) -> dict[str, tuple[Any, Any]]:
        """Return how the graph's variables are stored and used; see Placement.shardings_of."""
        variables = self.graph.variables
        if len(variables) != len(self._shardings):
            self._shardings = self.engine.placement.shardings_of(variables)
        return self._shardings

    def values(self, variables: Iterable[Tensor]) -> list[Any]:
        """Return the values of variables on the engine, copying them from the graph on first use.

        Args:
            variables: Variables of the graph.

        Returns:
            One jax.Array per variable.
        """
        self.flush()
        if guest_of(self.graph) is not self:
            self._home = self.graph.on()  # The graph's previous runner, if any, has returned its values to the graph.
            self._values, self._changed = {}, set()
            set_guest(self.graph, self)
        assert self._home is not None  # `_home` is set whenever the graph's guest is this runner.
        variables = list(variables)
        missing = [variable for variable in variables if variable.name not in self._values]
        shardings = self.shardings() if missing else {}
        for variable, value in zip(missing, self._home.variable_values(missing), strict=True):
            stored, _ = shardings[variable.name]
            self._values[variable.name] = self.engine.placement.placed(value.numpy(), stored)
        return [self._values[variable.name] for variable in variables]

    def parts(self, variables: Mapping[str, Tensor]) -> list[Part]:
        """Return the parts of variables that this process writes to a sharded checkpoint, copied from the devices.

        Args:
            variables: Variables of the graph, keyed by their name in the checkpoint.

        Returns:
            One Part for each block that a device of this process holds, in one copy.
        """
        held = dict(zip(variables, self.values(variables.values()), strict=True))
        own = [
            (name, value.shape, shard)
            for name, value in held.items()
            for shard in value.addressable_shards
            if shard.replica_id == 0
        ]
        for _, _, shard in own:
            shard.data.copy_to_host_async()
        found = []
        for name, shape, shard in own:
            block = np.array(shard.data)  # A copy, because the next step may overwrite the memory.
            bits = block.view(np.uint16) if block.dtype.name == "bfloat16" else block
            found.append(Part(name, shape, tuple(index.start or 0 for index in shard.index), bits))
        return found

    def bytes_of(self, variable: Tensor) -> int:
        """Return the number of bytes that a variable takes on one device.

        Args:
            variable: A variable of the graph.

        Returns:
            The size of the largest part.
        """
        shape, (stored, _) = tuple(variable.shape or ()), self.shardings()[variable.name]
        return math.prod(shape if stored is None else stored.shard_shape(shape)) * variable.dtype.itemsize

    def keep(self, changed: Mapping[str, Any]) -> None:
        """Store new values of variables.

        Args:
            changed: Dict of arrays, keyed by variable name.
        """
        self._values.update(changed)
        self._changed.update(changed)

    def give_back(self) -> None:
        """Copy changed values of variables back to the graph, so that another runner can use the graph."""
        self.flush()
        if guest_of(self.graph) is not self or self._home is None:
            return
        set_guest(self.graph, None)
        variables = {v.name: v for v in self.graph.variables}
        self._home.set_variables({variables[name]: local(self._values[name]) for name in sorted(self._changed)})
        self._values, self._changed = {}, set()


class Prepared:
    """One step of a graph as a jitted JAX function of the variables that a Runner stores."""

    def __init__(
        self,
        runner: Runner,
        types: Mapping[Tensor, tuple[Any, tuple[int, ...]]],
        targets: Sequence[Tensor],
        operations: Sequence[Operation],
        batched: Sequence[Tensor],
    ) -> None:
        engine, self.runner = runner.engine, runner
        placement, every = engine.placement, set(batched)
        if operations:
            placement.require_matches(runner.graph.variables)
        self._feeds = [placement.feed_sharding(shape, tensor in every) for tensor, (_, shape) in types.items()]
        self.program = program = Program(
            runner.graph, types, targets, operations, engine.attention_implementation, engine.has_tensor_cores
        )
        shardings = runner.shardings()
        divided = {name: pair for name, pair in shardings.items() if pair[0] != pair[1]}
        by_name = {v.name: v for v in runner.graph.variables}
        read = [name for name in program.variables if name not in program.assigned]
        self._assigned, self._read = ([by_name[n] for n in names] for names in (program.assigned, read))

        def step(assigned: list[Any], others: list[Any], feeds: list[Any]) -> tuple[list[Any], list[Any], Any]:
            state = dict(zip([*program.assigned, *read], [*assigned, *others], strict=True))
            made, changed, outside = program.run(state, feeds, engine.precision, engine.loop_limit, divided)
            if program.checks is not None:
                made, changed = guarded(made, changed, state, outside)
            return made, [changed[name] for name in program.assigned], outside

        kept, whole = [shardings[name][0] for name in program.assigned], placement.whole
        results = {} if whole is None else {"out_shardings": (whole, kept, whole)}
        computes_again = bool(divided) or any(
            operation.kind == "optimization_barrier" for operation in program.operations
        )
        options = _compiler_options(engine.device.platform, computes_again)
        self.step = jax.jit(step, donate_argnums=0, compiler_options=options, **results)
        self._is_step = bool(operations)

        def steps(assigned: list[Any], others: list[Any], feeds: list[list[Any]]) -> tuple[Any, list[Any], Any]:
            def one(state: list[Any], given: list[Any]) -> tuple[list[Any], Any]:
                made, changed, outside = step(state, others, given)
                return changed, (made, outside)

            stacked = [jax.numpy.stack(values) for values in zip(*feeds, strict=True)]
            changed, found = jax.lax.scan(one, assigned, stacked, length=len(feeds))
            made, outside = zip(*(jax.tree.map(lambda v, i=i: v[i], found) for i in range(len(feeds))), strict=True)
            return list(made), changed, list(outside)

        self._steps = jax.jit(steps, donate_argnums=0, compiler_options=options, **results)

    def width(self) -> AbstractContextManager[Any]:
        """Return a context manager that enables 64-bit types in JAX if the program needs them."""
        return jax.enable_x64(True) if self.program.is_wide else nullcontext()

    def arguments(self, inputs: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the arguments of the jitted step.

        Args:
            inputs: One array per feed.

        Returns:
            The values of assigned variables, the values of other variables, and the feeds, as three lists.
        """
        return *self._variables(), self._placed(inputs)

    def _variables(self) -> tuple[list[Any], list[Any]]:
        return self.runner.values(self._assigned), self.runner.values(self._read)

    def _placed(self, inputs: Sequence[Any]) -> list[Any]:
        placement = self.runner.engine.placement
        return [
            value.value
            if isinstance(value, DeviceArray)
            else placement.placed(value.numpy() if isinstance(value, NDArray) else np.asarray(value), sharding)
            for value, sharding in zip(inputs, self._feeds, strict=True)
        ]

    def memory(self, inputs: Sequence[Any]) -> StepMemory:
        """Return the bytes that the step needs on one device, according to XLA's memory analysis.

        Args:
            inputs: One array per feed.

        Returns:
            A StepMemory.

        Raises:
            UnsupportedError: If XLA reports no memory for the device.
        """
        with self.width():
            found = self.step.lower(*self.arguments(inputs)).compile().memory_analysis()
        if found is None:
            raise UnsupportedError(
                f"Trainer.memory_estimate: XLA reports no memory for {self.runner.engine.device.platform} devices: "
                "estimate on another device, such as JAX_PLATFORMS=cpu"
            )
        results = found.output_size_in_bytes - found.alias_size_in_bytes
        return StepMemory(found.temp_size_in_bytes, found.generated_code_size_in_bytes, results)

    def run_async(self, inputs: Sequence[Any]) -> Execution:
        """Start a run and return without waiting for it.

        Args:
            inputs: One array per feed.

        Returns:
            An Execution to wait for.
        """
        with self.width():
            execution = Execution(self, self._placed(inputs))
        if self._is_step and self.runner.engine.steps_per_dispatch > 1:
            self.runner.submit(execution)
        else:
            self.start(execution)
        return execution

    def start(self, execution: Execution) -> None:
        """Start one run.

        Args:
            execution: A run that has not been started.
        """
        with self.width():
            targets, changed, outside = self.step(*self._variables(), execution.feeds)
        self.runner.keep(dict(zip(self.program.assigned, changed, strict=True)))
        execution.begin(targets, outside)

    def start_together(self, executions: Sequence[Execution]) -> None:
        """Start several runs in one dispatch, each with the variables that the previous one has changed.

        Args:
            executions: Runs that have not been started, in order.
        """
        with self.width():
            every, changed, outside = self._steps(*self._variables(), [execution.feeds for execution in executions])
        self.runner.keep(dict(zip(self.program.assigned, changed, strict=True)))
        for execution, *found in zip(executions, every, outside, strict=True):
            execution.begin(*found)


def _compiler_options(platform: str, computes_again: bool) -> dict[str, Any] | None:
    """Return XLA's options for a platform, and for steps that compute or collect values again to save memory."""
    if platform == "gpu":
        # cuBLAS is as fast as Triton here, and choosing among Triton's kernels takes several seconds of a first step.
        # Merging matmuls of the same operand, such as those for keys and values, copies their results and gradients.
        return {"xla_gpu_enable_triton_gemm": False, "xla_gpu_dot_merger_threshold_mb": 0}
    if platform == "cpu" and computes_again:
        # This pass of XLA for CPUs removes the barriers before equal values are merged, so nothing is computed again.
        return {"xla_disable_hlo_passes": "cse_barrier_expander,cpu-all-reduce-combiner"}
    return None


class Execution:
    """A run that may still be in progress, or in the queue of its runner."""

    def __init__(self, prepared: Prepared, feeds: list[Any]) -> None:
        self.prepared, self.feeds = prepared, feeds
        self._targets: list[Any] | None = None
        self._outside: Any = None
        self._failure: Exception | None = None

    def begin(self, targets: list[Any], outside: Any) -> None:
        """Store the results of the run once it has been started, and release the feeds.

        Args:
            targets: The arrays of the targets.
            outside: Whether an index was out of range, as an array.
        """
        self._targets, self.feeds = targets, []
        self._outside = outside if self.prepared.program.checks is not None else None

    def fail(self, failure: Exception) -> None:
        """Store the exception with which starting the run failed, unless the run has been started.

        Args:
            failure: The exception.
        """
        if self._targets is None:
            self._failure, self.feeds = failure, []

    @property
    def done(self) -> bool:
        """Whether the run has finished, without waiting for it."""
        return self._failure is not None or all(array.is_ready() for array in self._waited())

    def _started(self) -> list[Any]:
        if self._targets is None and self._failure is None:
            self.prepared.runner.flush()
        if self._failure is not None:
            raise self._failure
        assert self._targets is not None
        return self._targets

    def _waited(self) -> list[Any]:
        targets = self._started()
        return targets if self._outside is None else [*targets, self._outside]

    def wait(self, timeout: float | None = None) -> Execution:
        """Wait for the run to finish.

        Args:
            timeout: Maximum time to wait in seconds. Defaults to None, which waits indefinitely.

        Returns:
            This execution.

        Raises:
            TimeoutError: If the run does not finish in time.
            OutOfRangeError: If an index was out of range.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while end is not None and not self.done:
            if time.monotonic() >= end:
                raise TimeoutError(f"the run did not finish within {timeout} seconds")
            time.sleep(1e-4)
        for array in self._waited():
            array.block_until_ready()
        if self._outside is not None and bool(local(self._outside)):
            check = self.prepared.program.checks
            assert check is not None  # The flag is set only by a check, so there is one.
            raise OutOfRangeError(
                f"[{check.attributes['of']}] an index is out of range in this operation or in a later operation that "
                f"requires valid indices; variables were not changed; {check.location}"
            )
        return self

    @property
    def error(self) -> Exception | None:
        """The exception raised by the run, or None if it succeeded or has not finished."""
        if not self.done:
            return None
        try:
            self.wait()
        except Exception as error:
            return error
        return None

    @property
    def results(self) -> list[NDArray]:
        """The results of the run, one array per target. Reading them waits for the run to finish."""
        self.wait()
        return [asarray(local(array), copy=True) for array in self._started()]


def local(array: Any) -> np.ndarray:
    """Convert a jax.Array to a NumPy array, gathering it from all hosts if necessary."""
    if array.is_fully_addressable:
        return np.asarray(array)
    if array.is_fully_replicated:
        return np.asarray(array.addressable_data(0))
    return np.asarray(multihost().process_allgather(array, tiled=True))


def multihost() -> Any:
    return importlib.import_module("jax.experimental.multihost_utils")
