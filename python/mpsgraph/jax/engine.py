"""Engine: JAX and XLA as what a Trainer's steps run on: cards, several of them, several hosts.

A step is one jitted function whose assigned variables are donated. On a mesh, batches are divided along their first
axis, and variables are where the shardings say, by default whole on each device; XLA adds what travels between. The
numbers are those of the whole batch: statistics of batch normalization, random numbers and losses are as on one device.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from .._core import DeviceGraph, NDArray, Operation, Tensor, asarray
from .._display import shown
from .._dtypes import as_dtype
from .._optional import require
from ..errors import GraphError, OutOfRangeError, ShapeError, TimeoutError
from ..graph import Graph
from .functions import PRECISIONS, Program, guarded

jax: Any = require("jax", "jax", "mpsgraph.jax.Engine")


class Engine:
    """JAX as the engine of a Trainer.

    Args: mesh, a jax.sharding.Mesh, None for JAX's default device; data_axis, the mesh's axis along which batches are
    divided, by default its first; shardings, jax.sharding.PartitionSpec by patterns of variables' names ("*/weight"),
    the first that fits counts: optimizers' states have the names of what they are of with something behind; precision,
    of products and convolutions of float32: "highest", "high" or "default" (TF32 on NVIDIA's cards); loop_limit, as
    `mpsgraph.jax.function` has it. Of several hosts, each calls jax.distributed.initialize first, makes the same
    trainer, and feeds its own part of each batch.
    Errors: GraphError. Source: ours.

    >>> import jax
    >>> mesh = jax.make_mesh((2,), ("data",))
    >>> trainer = mg.Trainer(mg.nn.Linear(1), "mse", engine=mg.jax.Engine(mesh))
    """

    def __init__(
        self,
        mesh: Any = None,
        *,
        data_axis: str | None = None,
        shardings: Mapping[str, Any] | None = None,
        precision: str = "highest",
        loop_limit: int = 0,
    ) -> None:
        if mesh is not None and not isinstance(mesh, jax.sharding.Mesh):
            raise GraphError(f"[jax.Engine] mesh must be a jax.sharding.Mesh, got {shown(mesh)}")
        if mesh is None and (data_axis is not None or shardings):
            raise GraphError("[jax.Engine] data_axis and shardings are of a mesh: give one")
        if precision not in PRECISIONS:
            raise GraphError(f"[jax.Engine] precision must be one of {', '.join(PRECISIONS)}, got {shown(precision)}")
        self.mesh = None if mesh is None else _automatic(mesh)
        self.precision, self.loop_limit = precision, loop_limit
        self.data_axis = data_axis if mesh is None or data_axis is not None else mesh.axis_names[0]
        if mesh is not None and self.data_axis not in mesh.axis_names:
            raise GraphError(f"[jax.Engine] the mesh has axes {mesh.axis_names}, none is '{self.data_axis}'")
        self.shardings = dict(shardings or {})

    def on(self, graph: Graph) -> Runner:
        """The graph on this engine, with the values that its variables have now."""
        return Runner(self, graph)

    # --- where arrays are ------------------------------------------------------------------------------------------

    def sharding_of(self, name: str) -> Any:
        """Where a variable is; None without a mesh."""
        if self.mesh is None:
            return None
        spec = next((s for pattern, s in self.shardings.items() if fnmatchcase(name, pattern)), None)
        return jax.sharding.NamedSharding(self.mesh, spec if spec is not None else jax.sharding.PartitionSpec())

    @property
    def whole(self) -> Any:
        """On all devices; None without a mesh."""
        return None if self.mesh is None else jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec())

    def feed_sharding(self, shape: tuple[int, ...], is_batch: bool) -> Any:
        """Divided along the batch, where the devices divide it; else whole on each."""
        if self.mesh is None:
            return None
        parts = self.mesh.shape[self.data_axis]
        if not is_batch or not shape or shape[0] % parts:
            if is_batch and jax.process_count() > 1:
                raise ShapeError(
                    f"[jax.Engine] batches of {shape} do not divide among {parts} devices of several hosts"
                )
            return self.whole
        return jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec(self.data_axis))

    def placed(self, value: Any, sharding: Any, is_part: bool = False) -> Any:
        """An array where its sharding says; `is_part`: each host has its own part of it."""
        if sharding is None:
            return jax.numpy.asarray(value)
        if is_part and jax.process_count() > 1:
            return jax.make_array_from_process_local_data(sharding, np.asarray(value))
        if jax.process_count() > 1:
            array = np.asarray(value)
            return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])
        return jax.device_put(value, sharding)

    def __repr__(self) -> str:
        return f"Engine({'default device' if self.mesh is None else self.mesh}, precision={self.precision!r})"


def _automatic(mesh: Any) -> Any:
    """The mesh, with all that travels along its axes left to XLA."""
    return jax.sharding.Mesh(
        mesh.devices, mesh.axis_names, axis_types=(jax.sharding.AxisType.Auto,) * mesh.devices.ndim
    )


class Runner:
    """A graph on an engine: the values of its variables there, and its steps."""

    def __init__(self, engine: Engine, graph: Graph) -> None:
        self.engine, self.graph = engine, graph
        self._home: DeviceGraph | None = None
        self._values: dict[str, Any] = {}
        self._changed: set[str] = set()
        self._prepared: dict[Any, Prepared] = {}

    def compile(
        self,
        feeds: Mapping[Tensor, tuple[Any, tuple[int, ...]]],
        targets: Sequence[Tensor],
        target_operations: Sequence[Operation] = (),
        batched: Sequence[Tensor] = (),
    ) -> Prepared:
        """Targets and operations for these types of feeds; of the same before, the same."""
        types = {tensor: (as_dtype(dtype), tuple(shape)) for tensor, (dtype, shape) in feeds.items()}
        key = tuple(types.items()), tuple(targets), tuple(o.id for o in target_operations), tuple(batched)
        if key not in self._prepared:
            self._prepared[key] = Prepared(self, types, targets, target_operations, batched)
        return self._prepared[key]

    def run(self, feeds: Mapping[Tensor, Any], targets: Sequence[Tensor]) -> list[NDArray]:
        """Runs on batches, and waits."""
        types = {tensor: (tensor.dtype, tuple(array.shape)) for tensor, array in feeds.items()}
        return self.compile(types, targets, (), list(feeds)).run_async(list(feeds.values())).results

    # --- the variables' values -------------------------------------------------------------------------------------

    def values(self, variables: Iterable[Tensor]) -> list[Any]:
        """What variables have; of those that were not here yet, what the graph has."""
        if self.graph._guest is not self:
            self._home = self.graph.on()  # whoever had the values has given them back
            self._values, self._changed = {}, set()
            self.graph._guest = self
        assert self._home is not None  # set with the guest
        found = []
        for variable in variables:
            name = variable.name
            if name not in self._values:
                value = self._home.variable_value(variable).numpy()
                self._values[name] = self.engine.placed(value, self.engine.sharding_of(name))
            found.append(self._values[name])
        return found

    def keep(self, changed: Mapping[str, Any]) -> None:
        """What a step has made of variables."""
        self._values.update(changed)
        self._changed.update(changed)

    def give_back(self) -> None:
        """Gives the graph the values that its variables have here."""
        if self.graph._guest is not self or self._home is None:
            return
        self.graph._guest = None
        variables = {v.name: v for v in self.graph.variables}
        for name in sorted(self._changed):
            self._home.set_variable(variables[name], local(self._values[name]))
        self._values, self._changed = {}, set()


class Prepared:
    """One jitted function of a graph, over the runner's variables."""

    def __init__(
        self,
        runner: Runner,
        types: Mapping[Tensor, tuple[Any, tuple[int, ...]]],
        targets: Sequence[Tensor],
        operations: Sequence[Operation],
        batched: Sequence[Tensor],
    ) -> None:
        engine, self.runner = runner.engine, runner
        hosts = jax.process_count() if engine.mesh is not None else 1
        self._parts = [tensor in set(batched) for tensor in types]
        whole = {
            tensor: (dtype, (shape[0] * hosts, *shape[1:]) if part and shape else shape)
            for part, (tensor, (dtype, shape)) in zip(self._parts, types.items(), strict=True)
        }
        self._feeds = [engine.feed_sharding(shape, part) for part, (_, shape) in zip(
            self._parts, whole.values(), strict=True)]  # fmt: skip
        self.program = program = Program(runner.graph, whole, targets, operations)
        by_name = {v.name: v for v in runner.graph.variables}
        read = [name for name in program.variables if name not in program.assigned]
        self._assigned, self._read = ([by_name[n] for n in names] for names in (program.assigned, read))

        def step(assigned: list[Any], others: list[Any], feeds: list[Any]) -> tuple[list[Any], list[Any], Any]:
            state = dict(zip([*program.assigned, *read], [*assigned, *others], strict=True))
            made, changed, outside = program.run(state, feeds, engine.precision, engine.loop_limit)
            if program.checks is not None:
                made, changed = guarded(made, changed, state, outside)
            return made, [changed[name] for name in program.assigned], outside

        shardings = {}
        if engine.mesh is not None:
            kept = [engine.sharding_of(name) for name in program.assigned]
            shardings["out_shardings"] = (engine.whole, kept, engine.whole)
        self.step = jax.jit(step, donate_argnums=0, **shardings)

    def width(self) -> AbstractContextManager[Any]:
        """JAX with types of 64 bits, where the program has such."""
        return jax.enable_x64(True) if self.program.is_wide else nullcontext()

    def arguments(self, inputs: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """What the jitted step is called with: assigned variables, others, feeds."""
        engine, runner = self.runner.engine, self.runner
        feeds = [
            engine.placed(value.numpy() if isinstance(value, NDArray) else value, sharding, part)
            for value, sharding, part in zip(inputs, self._feeds, self._parts, strict=True)
        ]
        return runner.values(self._assigned), runner.values(self._read), feeds

    def run_async(self, inputs: Sequence[Any]) -> Execution:
        """Starts a run; JAX works behind the caller."""
        with self.width():
            targets, changed, outside = self.step(*self.arguments(inputs))
        self.runner.keep(dict(zip(self.program.assigned, changed, strict=True)))
        return Execution(targets, outside if self.program.checks is not None else None, self.program)


class Execution:
    """A run that has been started."""

    def __init__(self, targets: list[Any], outside: Any, program: Program) -> None:
        self._targets, self._outside, self._program = targets, outside, program

    @property
    def done(self) -> bool:
        """Has it finished? Never waits."""
        return all(array.is_ready() for array in self._waited())

    def _waited(self) -> list[Any]:
        return self._targets if self._outside is None else [*self._targets, self._outside]

    def wait(self, timeout: float | None = None) -> Execution:
        """Waits, at most so many seconds. Errors: mg.TimeoutError; OutOfRangeError where an index lay outside."""
        end = None if timeout is None else time.monotonic() + timeout
        while end is not None and not self.done:
            if time.monotonic() >= end:
                raise TimeoutError(f"the run is not over after {timeout} seconds")
            time.sleep(1e-4)
        for array in self._waited():
            array.block_until_ready()
        if self._outside is not None and bool(local(self._outside)):
            check = self._program.checks
            assert check is not None  # it has made the flag
            raise OutOfRangeError(
                f"[{check.attributes['of']}] an index lies outside of its axis, or that of another operation which "
                f"wants them inside does; variables are as they were; {check.location}"
            )
        return self

    @property
    def error(self) -> Exception | None:
        """What the run raised, if anything yet."""
        if not self.done:
            return None
        try:
            self.wait()
        except Exception as error:
            return error
        return None

    @property
    def results(self) -> list[NDArray]:
        """Arrays in the order of the targets; waits."""
        self.wait()
        return [asarray(local(array), copy=True) for array in self._targets]


def local(array: Any) -> np.ndarray:
    """An array of JAX's as numpy's, gathered from all hosts where it is divided among them."""
    if array.is_fully_addressable:
        return np.asarray(array)
    if array.is_fully_replicated:
        return np.asarray(array.addressable_data(0))
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(array, tiled=True))
