"""A Trainer engine that runs training steps with JAX and XLA, on one or several devices and hosts.

A step is one jitted function with donated variables (`runner.py`). `placement.py` decides how variables and batches are
divided on a mesh, and XLA inserts the communication. Batch statistics, random numbers, and losses are computed for the
whole batch, as on a single device.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from .._core import NDArray
from .._display import shown
from .._optional import require
from ..errors import GraphError
from ..graph import Graph
from ..training.engine import DeviceArray, Share
from .functions import PRECISIONS
from .placement import Placement
from .runner import Runner, local, multihost

jax: Any = require("jax", "jax", "mpsgraph.jax.Engine")


_ATTENTION = ("auto", "cudnn", "xla", "composed")


class Engine:
    """An engine that runs a Trainer's steps with JAX.

    With several hosts, start the processes with `mpsgraph launch --engine jax`, or call jax.distributed.initialize
    first. Each process then creates an identical trainer.

    Args:
        mesh: A jax.sharding.Mesh. Defaults to None, which selects JAX's default device.
        data_axis: The mesh axis along which batches are divided, or a tuple of axes. Defaults to the first axis of the
            mesh.
        shardings: Dict of jax.sharding.PartitionSpec values, keyed by a pattern of variable names, which are the paths
            of layers and parameters, such as "layers.*.up.weight". The first matching pattern applies. Optimizer states
            of the same shape are divided like their parameter. Defaults to replicating all variables.
        fully_sharded: Whether parameters and optimizer states are also divided along the data axis, so that each device
            stores only a part of them (FSDP, ZeRO-3): for each, the longest axis that is divisible and that no pattern
            divides. The parts are collected when a layer needs them. The name of another mesh axis divides along that
            axis. Variables with fewer than 1,024 elements are not divided. Defaults to False.
        precision: Precision of float32 matmuls and convolutions: "highest", "high", or "default" (TF32 on NVIDIA GPUs).
            Defaults to "highest".
        loop_limit: Maximum number of iterations of differentiated loops whose length is known only at run time.
            Defaults to 0.
        attention: How half-precision attention without a mask operand and dropout is computed: "cudnn", which stores no
            scores, "xla", or "composed" from matmuls and a softmax in float32. Defaults to "auto": "cudnn" on NVIDIA
            GPUs since Ampere, else "composed".
        steps_per_dispatch: Number of training steps of equal shapes that are started together, as one loop on the
            device. Small models, whose kernels take less time than starting them, train faster. A step is started
            earlier if its result or the value of a variable is read. `fit` calls callbacks for a step up to twice as
            many steps later. Not for several processes or accumulated gradients. Defaults to 1.
        cache: Folder in which JAX keeps compiled steps, so that later processes start faster, or None for none. It
            applies to all of JAX. Defaults to "auto": the folder that JAX is configured with, or else
            $XDG_CACHE_HOME/mpsgraph/xla (~/.cache if XDG_CACHE_HOME is not set).

    Raises:
        GraphError: If an argument is invalid, names an axis that the mesh does not have, or needs a mesh. In the first
            step, if a pattern of shardings matches no variable.
        ShapeError: In the first step, if a pattern divides an axis whose size is not divisible.

    Example:
        >>> import jax
        >>> mesh = jax.make_mesh((2,), ("data",))
        >>> trainer = mg.Trainer(mg.nn.Linear(1), "mse", engine=mg.jax.Engine(mesh))
    """

    def __init__(
        self,
        mesh: Any = None,
        *,
        data_axis: str | Sequence[str] | None = None,
        shardings: Mapping[str, Any] | None = None,
        fully_sharded: bool | str = False,
        precision: str = "highest",
        loop_limit: int = 0,
        attention: str = "auto",
        steps_per_dispatch: int = 1,
        cache: str | os.PathLike[str] | None = "auto",
    ) -> None:
        self.placement = Placement(mesh, data_axis, shardings, fully_sharded)
        if precision not in PRECISIONS:
            raise GraphError(f"[jax.Engine] precision must be one of {', '.join(PRECISIONS)}, got {shown(precision)}")
        self.precision, self.loop_limit = precision, loop_limit
        if attention not in _ATTENTION:
            raise GraphError(f"[jax.Engine] attention must be one of {', '.join(_ATTENTION)}, got {shown(attention)}")
        self.attention = attention
        if not isinstance(steps_per_dispatch, int) or isinstance(steps_per_dispatch, bool) or steps_per_dispatch < 1:
            raise GraphError(f"[jax.Engine] steps_per_dispatch must be a positive int, got {shown(steps_per_dispatch)}")
        self.steps_per_dispatch = steps_per_dispatch
        if steps_per_dispatch > 1 and self.process[1] > 1:
            raise GraphError(
                f"[jax.Engine] steps_per_dispatch={steps_per_dispatch} needs a single process, got {self.process[1]}: "
                "leave it at 1, because all processes must start the same steps together"
            )
        _keep_compiled_steps(cache)

    @property
    def has_tensor_cores(self) -> bool:
        """Whether the engine runs on NVIDIA GPUs."""
        return self.device.platform == "gpu" and "nvidia" in str(self.device.device_kind).lower()

    @property
    def mesh(self) -> Any:
        """The mesh, or None for JAX's default device."""
        return self.placement.mesh

    @property
    def attention_implementation(self) -> str | None:
        """The implementation of jax.nn.dot_product_attention to use, or None if attention is composed."""
        if self.attention != "auto":
            return None if self.attention == "composed" else self.attention
        capability = getattr(self.device, "compute_capability", None)
        return "cudnn" if self.device.platform == "gpu" and capability and float(capability) >= 8 else None

    @property
    def device(self) -> Any:
        """The first device of this process in the mesh, or JAX's default device."""
        return jax.devices()[0] if self.mesh is None else self.mesh.local_devices[0]

    @property
    def process(self) -> tuple[int, int]:
        """The index of this process, and the number of processes that train together."""
        return (0, 1) if self.mesh is None else (jax.process_index(), jax.process_count())

    @property
    def share(self) -> Share:
        """The share of each batch that this process passes."""
        return self.placement.share

    def on(self, graph: Graph) -> Runner:
        """Return a runner for a graph, starting from the current values of its variables.

        Args:
            graph: The graph to run.

        Returns:
            A Runner.
        """
        return Runner(self, graph)

    def of_first(self, number: int) -> int:
        """Return the number that the first process passes. All processes must call this.

        Args:
            number: A number from 0 to 2**31 - 1.

        Returns:
            The number of the first process.
        """
        return number if self.process[1] == 1 else int(multihost().broadcast_one_to_all(np.int32(number)))

    def first_failure(self, failed: bool) -> int | None:
        """Return the index of the first process that passes True, or None. All processes must call this.

        Args:
            failed: Whether this process failed.

        Returns:
            The index of a process, or None if none failed.
        """
        if self.process[1] == 1:
            return 0 if failed else None
        everywhere = multihost().process_allgather(np.int32(failed))
        return int(everywhere.argmax()) if everywhere.any() else None

    def on_device(self, batch: Any, whole: bool = False) -> Any:
        """Copy a batch to the devices once, for steps that use it again or that should not wait for the copy.

        Args:
            batch: An array, or a tuple, list, or dict of arrays, whose first axis is the batch. With several hosts,
                each passes its own share.
            whole: Whether all hosts pass the same whole batch instead. Defaults to False.

        Returns:
            The same structure of arrays, to be passed to `Trainer.train_step`.

        Raises:
            ShapeError: If there are several hosts and the batch cannot be divided evenly.

        Example:
            >>> engine = mg.jax.Engine()
            >>> trainer = mg.Trainer(mg.nn.Linear(1), "mse", engine=engine)
            >>> batch = engine.on_device((np.ones((4, 2), np.float32), np.ones((4, 1), np.float32)))
            >>> float(trainer.train_step(*batch)) > float(trainer.train_step(*batch))
            True
        """
        if isinstance(batch, Mapping):
            return {key: self.on_device(value, whole) for key, value in batch.items()}
        if isinstance(batch, (tuple, list)):
            return type(batch)(self.on_device(value, whole) for value in batch)
        if batch is None or isinstance(batch, DeviceArray):
            return batch
        value = batch.numpy() if isinstance(batch, NDArray) else np.asarray(batch)
        share = Share(0, 1, 1) if whole else self.share
        with jax.enable_x64(True) if value.dtype.itemsize == 8 else nullcontext():
            made = self.placement.joined(value, share.count)
        return OnDevice(made, value.dtype, made.shape)

    def __repr__(self) -> str:
        return f"Engine({'default device' if self.mesh is None else self.mesh}, precision={self.precision!r})"


class OnDevice(DeviceArray):
    """An array in the memory of JAX's devices."""

    __slots__ = ()

    def numpy(self) -> np.ndarray:
        """Return a copy of the whole array on this host. With several processes, all must call this method."""
        return local(self.value)


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
