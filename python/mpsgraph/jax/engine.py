"""A Trainer engine that runs training steps with JAX and XLA, on one or several devices and hosts.

A step is one jitted function with donated variables. On a mesh, batches are split along their first axis, variables are
placed as specified by shardings (replicated by default), and XLA inserts the communication. Batch statistics, random
numbers, and losses are computed for the whole batch, as on a single device.
"""

from __future__ import annotations

import importlib
import os
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
from ..graph import Graph, guest_of, set_guest
from ..training.engine import DeviceArray
from .functions import PRECISIONS, Program, guarded

jax: Any = require("jax", "jax", "mpsgraph.jax.Engine")


_ATTENTION = ("auto", "cudnn", "xla", "composed")


class Engine:
    """An engine that runs a Trainer's steps with JAX.

    With several hosts, each process calls jax.distributed.initialize first, creates an identical trainer, and feeds its
    own part of each batch.

    Args:
        mesh: A jax.sharding.Mesh. Defaults to None, which selects JAX's default device.
        data_axis: The mesh axis along which batches are split. Defaults to the first axis of the mesh.
        shardings: Dict of jax.sharding.PartitionSpec values, keyed by a pattern of variable names, such as "*/weight".
            The first matching pattern applies. The names of optimizer states start with the name of their variable,
            followed by a suffix. Defaults to replicating all variables.
        precision: Precision of float32 matmuls and convolutions: "highest", "high", or "default" (TF32 on NVIDIA GPUs).
            Defaults to "highest".
        loop_limit: Maximum number of iterations of differentiated loops whose length is known only at run time.
            Defaults to 0.
        attention: How half-precision attention without a mask operand and dropout is computed: "cudnn", which stores no
            scores, "xla", or "composed" from matmuls and a softmax in float32. Defaults to "auto": "cudnn" on NVIDIA
            GPUs since Ampere, else "composed".
        cache: Folder in which JAX keeps compiled steps, so that later processes start faster, or None for none. It
            applies to all of JAX. Defaults to "auto": the folder that JAX is configured with, or else
            $XDG_CACHE_HOME/mpsgraph/xla (~/.cache if XDG_CACHE_HOME is not set).

    Raises:
        GraphError: If an argument is invalid, or data_axis or shardings are given without a mesh.

    Example:
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
        attention: str = "auto",
        cache: str | os.PathLike[str] | None = "auto",
    ) -> None:
        if mesh is not None and not isinstance(mesh, jax.sharding.Mesh):
            raise GraphError(f"[jax.Engine] mesh must be a jax.sharding.Mesh, got {shown(mesh)}")
        if mesh is None and (data_axis is not None or shardings):
            raise GraphError("[jax.Engine] data_axis and shardings need a mesh: pass mesh=")
        if precision not in PRECISIONS:
            raise GraphError(f"[jax.Engine] precision must be one of {', '.join(PRECISIONS)}, got {shown(precision)}")
        self.mesh = None if mesh is None else _automatic(mesh)
        self.precision, self.loop_limit = precision, loop_limit
        self.data_axis = data_axis if mesh is None or data_axis is not None else mesh.axis_names[0]
        if mesh is not None and self.data_axis not in mesh.axis_names:
            raise GraphError(
                f"[jax.Engine] data_axis must be one of the mesh axes {mesh.axis_names}, got '{self.data_axis}'"
            )
        self.shardings = dict(shardings or {})
        if attention not in _ATTENTION:
            raise GraphError(f"[jax.Engine] attention must be one of {', '.join(_ATTENTION)}, got {shown(attention)}")
        self.attention = attention
        _keep_compiled_steps(cache)

    @property
    def has_tensor_cores(self) -> bool:
        """Whether the engine runs on NVIDIA GPUs."""
        return self.device.platform == "gpu" and "nvidia" in str(self.device.device_kind).lower()

    @property
    def attention_implementation(self) -> str | None:
        """The implementation of jax.nn.dot_product_attention to use, or None if attention is composed."""
        if self.attention != "auto":
            return None if self.attention == "composed" else self.attention
        capability = getattr(self.device, "compute_capability", None)
        return "cudnn" if self.device.platform == "gpu" and capability and float(capability) >= 8 else None

    @property
    def device(self) -> Any:
        """The first device of the mesh, or JAX's default device."""
        return jax.devices()[0] if self.mesh is None else self.mesh.devices.flat[0]

    def on(self, graph: Graph) -> Runner:
        """Return a runner for a graph, starting from the current values of its variables.

        Args:
            graph: The graph to run.

        Returns:
            A Runner.
        """
        return Runner(self, graph)

    # --- placement -------------------------------------------------------------------------------------------------

    def sharding_of(self, name: str) -> Any:
        """Return the sharding of a variable.

        Args:
            name: Name of the variable.

        Returns:
            A NamedSharding, or None without a mesh.
        """
        if self.mesh is None:
            return None
        spec = next((s for pattern, s in self.shardings.items() if fnmatchcase(name, pattern)), None)
        return jax.sharding.NamedSharding(self.mesh, spec if spec is not None else jax.sharding.PartitionSpec())

    @property
    def whole(self) -> Any:
        """The sharding that replicates an array on all devices, or None without a mesh."""
        return None if self.mesh is None else jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec())

    def feed_sharding(self, shape: tuple[int, ...], is_batch: bool) -> Any:
        """Return the sharding of a feed, which is split along the batch axis if the devices divide it evenly.

        Args:
            shape: Shape of the feed across all hosts.
            is_batch: Whether the first axis is a batch axis.

        Returns:
            A NamedSharding, which replicates the feed if it cannot be split, or None without a mesh.

        Raises:
            ShapeError: If there are several hosts and the batch cannot be split evenly.
        """
        if self.mesh is None:
            return None
        parts = self.mesh.shape[self.data_axis]
        if not is_batch or not shape or shape[0] % parts:
            if is_batch and jax.process_count() > 1:
                raise ShapeError(
                    f"[jax.Engine] with several hosts, the batch size must be a multiple of the {parts} devices, got "
                    f"shape {shape}"
                )
            return self.whole
        return jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec(self.data_axis))

    def on_device(self, batch: Any) -> Any:
        """Copy a batch to the devices once, for steps that use it again or that should not wait for the copy.

        Args:
            batch: An array, or a tuple, list, or dict of arrays, whose first axis is the batch. With several hosts,
                each passes its own part.

        Returns:
            The same structure of arrays, to be passed to `Trainer.train_step`.

        Raises:
            ShapeError: If there are several hosts and the batch cannot be split evenly.

        Example:
            >>> engine = mg.jax.Engine()
            >>> trainer = mg.Trainer(mg.nn.Linear(1), "mse", engine=engine)
            >>> batch = engine.on_device((np.ones((4, 2), np.float32), np.ones((4, 1), np.float32)))
            >>> float(trainer.train_step(*batch)) > float(trainer.train_step(*batch))
            True
        """
        if isinstance(batch, Mapping):
            return {key: self.on_device(value) for key, value in batch.items()}
        if isinstance(batch, (tuple, list)):
            return type(batch)(self.on_device(value) for value in batch)
        value = batch.numpy() if isinstance(batch, NDArray) else np.asarray(batch)
        hosts = jax.process_count() if self.mesh is not None else 1
        shape = (value.shape[0] * hosts, *value.shape[1:]) if value.ndim else ()
        with jax.enable_x64(True) if value.dtype.itemsize == 8 else nullcontext():
            made = self.placed(value, self.feed_sharding(shape, True), True)
        return DeviceArray(made, value.dtype, value.shape)

    def placed(self, value: Any, sharding: Any, is_part: bool = False) -> Any:
        """Place an array according to a sharding.

        Args:
            value: The array.
            sharding: A NamedSharding, or None for the default device.
            is_part: Whether each host passes only its own part of the array. Defaults to False.

        Returns:
            A jax.Array.
        """
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


def _keep_compiled_steps(cache: str | os.PathLike[str] | None) -> None:
    """Configure JAX's persistent cache of compiled programs."""
    if cache == "auto":
        if jax.config.jax_compilation_cache_dir is not None:
            return
        caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        cache = os.path.join(caches, "mpsgraph", "xla")
    folder = None if cache is None else os.fspath(cache)
    if jax.config.jax_compilation_cache_dir != folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        importlib.import_module("jax.experimental.compilation_cache.compilation_cache").reset_cache()
    if folder is not None:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def _automatic(mesh: Any) -> Any:
    """Return a mesh of the same devices with automatic axes only, so that XLA decides on all communication."""
    return jax.sharding.Mesh(
        mesh.devices, mesh.axis_names, axis_types=(jax.sharding.AxisType.Auto,) * mesh.devices.ndim
    )


class Runner:
    """Runs the steps of one graph on a JAX engine, and stores the values of its variables and its compiled steps."""

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
            feeds: Dict of arrays, keyed by placeholder. The first axis of each array is a batch axis.
            targets: Tensors to compute.

        Returns:
            One array per target.
        """
        types = {tensor: (tensor.dtype, tuple(array.shape)) for tensor, array in feeds.items()}
        return self.compile(types, targets, (), list(feeds)).run_async(list(feeds.values())).results

    # --- values of variables ---------------------------------------------------------------------------------------

    def values(self, variables: Iterable[Tensor]) -> list[Any]:
        """Return the values of variables on the engine, copying them from the graph on first use.

        Args:
            variables: Variables of the graph.

        Returns:
            One jax.Array per variable.
        """
        if guest_of(self.graph) is not self:
            self._home = self.graph.on()  # The graph's previous runner, if any, has returned its values to the graph.
            self._values, self._changed = {}, set()
            set_guest(self.graph, self)
        assert self._home is not None  # `_home` is set whenever the graph's guest is this runner.
        variables = list(variables)
        missing = [variable for variable in variables if variable.name not in self._values]
        for variable, value in zip(missing, self._home.variable_values(missing), strict=True):
            sharding = self.engine.sharding_of(variable.name)
            self._values[variable.name] = self.engine.placed(value.numpy(), sharding)
        return [self._values[variable.name] for variable in variables]

    def keep(self, changed: Mapping[str, Any]) -> None:
        """Store new values of variables.

        Args:
            changed: Dict of arrays, keyed by variable name.
        """
        self._values.update(changed)
        self._changed.update(changed)

    def give_back(self) -> None:
        """Copy changed values of variables back to the graph, so that another runner can use the graph."""
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
        hosts = jax.process_count() if engine.mesh is not None else 1
        self._parts = [tensor in set(batched) for tensor in types]
        whole = {
            tensor: (dtype, (shape[0] * hosts, *shape[1:]) if part and shape else shape)
            for part, (tensor, (dtype, shape)) in zip(self._parts, types.items(), strict=True)
        }
        self._feeds = [engine.feed_sharding(shape, part) for part, (_, shape) in zip(
            self._parts, whole.values(), strict=True)]  # fmt: skip
        self.program = program = Program(
            runner.graph, whole, targets, operations, engine.attention_implementation, engine.has_tensor_cores
        )
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
        # cuBLAS is as fast as Triton here, and choosing among Triton's kernels takes several seconds of a first step.
        options = {"xla_gpu_enable_triton_gemm": False} if engine.device.platform == "gpu" else None
        self.step = jax.jit(step, donate_argnums=0, compiler_options=options, **shardings)

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
        engine, runner = self.runner.engine, self.runner
        feeds = [
            value.value
            if isinstance(value, DeviceArray)
            else engine.placed(value.numpy() if isinstance(value, NDArray) else value, sharding, part)
            for value, sharding, part in zip(inputs, self._feeds, self._parts, strict=True)
        ]
        return runner.values(self._assigned), runner.values(self._read), feeds

    def run_async(self, inputs: Sequence[Any]) -> Execution:
        """Start a run and return without waiting for it.

        Args:
            inputs: One array per feed.

        Returns:
            An Execution to wait for.
        """
        with self.width():
            targets, changed, outside = self.step(*self.arguments(inputs))
        self.runner.keep(dict(zip(self.program.assigned, changed, strict=True)))
        return Execution(targets, outside if self.program.checks is not None else None, self.program)


class Execution:
    """A run that may still be in progress."""

    def __init__(self, targets: list[Any], outside: Any, program: Program) -> None:
        self._targets, self._outside, self._program = targets, outside, program

    @property
    def done(self) -> bool:
        """Whether the run has finished, without waiting for it."""
        return all(array.is_ready() for array in self._waited())

    def _waited(self) -> list[Any]:
        return self._targets if self._outside is None else [*self._targets, self._outside]

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
            check = self._program.checks
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
        return [asarray(local(array), copy=True) for array in self._targets]


def local(array: Any) -> np.ndarray:
    """Convert a jax.Array to a NumPy array, gathering it from all hosts if necessary."""
    if array.is_fully_addressable:
        return np.asarray(array)
    if array.is_fully_replicated:
        return np.asarray(array.addressable_data(0))
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(array, tiled=True))
