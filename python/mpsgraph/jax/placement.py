"""Placement: the sharding of every variable and batch on a mesh of devices, which is decided only here.

A variable is divided by the first rule that matches its name, and with `fully_sharded` also along one more axis.
Optimizer states are divided like their variable. Where a fully sharded variable is used, its parts are first collected
into the sharding of the rule alone (`lax/_gathering.py`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from .._core import NDArray, Tensor
from .._display import shown
from .._optional import require
from ..errors import GraphError, ShapeError
from ..training.engine import Share

jax: Any = require("jax", "jax", "mpsgraph.jax.Engine")

_SMALL = 1024
"""Variables with fewer elements are not fully sharded, because collecting their parts takes longer than it saves."""

Spec = tuple[tuple[str, ...], ...]
"""The mesh axes along which each axis of an array is divided."""


class Rule(NamedTuple):
    """A pattern of variable names, and how variables with such a name are divided."""

    pattern: str
    spec: Spec


class Placement:
    """Decides how arrays are divided among the devices of a mesh.

    Args:
        mesh: A jax.sharding.Mesh, or None for JAX's default device.
        data_axis: Mesh axes along which batches are divided, or None for the first axis.
        rules: Dict of jax.sharding.PartitionSpec values, keyed by a pattern of variable names.
        fully_sharded: Whether variables are also divided along the data axes, or the mesh axis to use instead.

    Raises:
        GraphError: If an argument is invalid, or names an axis that the mesh does not have.
    """

    def __init__(
        self,
        mesh: Any,
        data_axis: str | Sequence[str] | None,
        rules: Mapping[str, Any] | None,
        fully_sharded: bool | str,
    ) -> None:
        if mesh is not None and not isinstance(mesh, jax.sharding.Mesh):
            raise GraphError(f"[jax.Engine] mesh must be a jax.sharding.Mesh, got {shown(mesh)}")
        if mesh is None and (data_axis is not None or rules or fully_sharded):
            raise GraphError("[jax.Engine] data_axis, shardings, and fully_sharded need a mesh: pass mesh=")
        self.mesh: Any = None if mesh is None else _automatic(mesh)
        self.data_axes: tuple[str, ...] = ()
        self.extra: tuple[str, ...] = ()
        """Mesh axes along which variables are divided in addition to their rule."""
        self.rules: list[Rule] = []
        if mesh is None:
            return
        given = mesh.axis_names[0] if data_axis is None else data_axis
        self.data_axes = self._axes_of("data_axis", (given,) if isinstance(given, str) else given)
        if not isinstance(fully_sharded, (bool, str)):
            raise GraphError(f"[jax.Engine] fully_sharded must be a bool or a mesh axis, got {shown(fully_sharded)}")
        if isinstance(fully_sharded, str):
            self.extra = self._axes_of("fully_sharded", (fully_sharded,))
        elif fully_sharded:
            self.extra = self.data_axes
        self.rules = [Rule(pattern, self._checked(pattern, spec)) for pattern, spec in dict(rules or {}).items()]

    def _axes_of(self, what: str, names: Any) -> tuple[str, ...]:
        if not isinstance(names, (tuple, list)) or not names or any(n not in self.mesh.axis_names for n in names):
            raise GraphError(
                f"[jax.Engine] {what} must be one of the mesh axes {self.mesh.axis_names}, got {shown(names)}"
            )
        return tuple(names)

    def _checked(self, pattern: str, spec: Any) -> Spec:
        """Return the mesh axes of a rule, or raise GraphError if it is not a PartitionSpec of axes of the mesh."""
        if not isinstance(spec, jax.sharding.PartitionSpec):
            raise GraphError(
                f"[jax.Engine] shardings['{pattern}'] must be a jax.sharding.PartitionSpec, such as "
                f"PartitionSpec(None, '{self.mesh.axis_names[-1]}'), got {shown(spec)}"
            )
        axes = tuple(() if part is None else (part,) if isinstance(part, str) else tuple(part) for part in spec)
        used = [axis for part in axes for axis in part]
        for axis in used:
            if axis not in self.mesh.axis_names:
                raise GraphError(
                    f"[jax.Engine] shardings['{pattern}'] names the axis '{axis}', but the mesh has the axes "
                    f"{self.mesh.axis_names}: use one of these, or add the axis to the mesh"
                )
            if used.count(axis) > 1:
                raise GraphError(
                    f"[jax.Engine] shardings['{pattern}'] names the axis '{axis}' twice: a mesh axis can divide only "
                    "one axis of a variable"
                )
        return axes

    # --- variables -------------------------------------------------------------------------------------------------

    def require_matches(self, variables: Iterable[Tensor]) -> None:
        """Raise GraphError if a rule matches none of the variables."""
        names = [variable.name for variable in variables]
        for rule in self.rules:
            if not any(fnmatchcase(name, rule.pattern) for name in names):
                layers = [name for name in names if "/" not in name]
                raise GraphError(
                    f"[jax.Engine] shardings['{rule.pattern}'] matches no variable: use a pattern of the names "
                    f"{', '.join(layers[:8])}{', ...' * (len(layers) > 8)}"
                )

    def shardings_of(self, variables: Iterable[Tensor]) -> dict[str, tuple[Any, Any]]:
        """Return how variables are stored, and how operations other than element-wise ones read them.

        Args:
            variables: All variables of a graph.

        Returns:
            Pairs of NamedSharding, keyed by variable name. They differ only for fully sharded variables. Without a
            mesh, pairs of None.

        Raises:
            ShapeError: If a rule divides an axis that a variable does not have or that is not divisible.
        """
        shapes = {variable.name: tuple(variable.shape or ()) for variable in variables}
        found = {}
        for name, shape in shapes.items():
            owner = name.partition("/")[0]
            is_like_owner = shapes.get(owner) == shape
            rule = self._rule_for(owner) if is_like_owner else None
            rule = rule or self._rule_for(name)
            used = () if rule is None else self._fitted(rule, name, shape)
            stored = used if not self.extra else self._further(used, shape)
            found[name] = self._named(stored), self._named(used)
        return found

    def _rule_for(self, name: str) -> Rule | None:
        return next((rule for rule in self.rules if fnmatchcase(name, rule.pattern)), None)

    def _parts(self, axes: Iterable[str]) -> int:
        return math.prod(self.mesh.shape[axis] for axis in axes)

    def _fitted(self, rule: Rule, name: str, shape: tuple[int, ...]) -> Spec:
        if len(rule.spec) > len(shape):
            raise ShapeError(
                f"[jax.Engine] shardings['{rule.pattern}'] divides {len(rule.spec)} axes, but '{name}' has shape "
                f"{shape}: use a pattern that does not match it, or put a rule for it first"
            )
        for axis, parts in enumerate(rule.spec):
            if shape[axis] % self._parts(parts):
                raise ShapeError(
                    f"[jax.Engine] shardings['{rule.pattern}'] divides axis {axis} of '{name}', of shape {shape}, into "
                    f"{self._parts(parts)} parts: divide another axis, or make {shape[axis]} a multiple of "
                    f"{self._parts(parts)}"
                )
        return rule.spec

    def _further(self, spec: Spec, shape: tuple[int, ...]) -> Spec:
        """Return a spec that also divides the longest axis that is divisible and not divided yet, if there is one."""
        extra = tuple(axis for axis in self.extra if all(axis not in used for used in spec))
        full = [*spec, *((),) * (len(shape) - len(spec))]
        count = self._parts(extra)
        free = [axis for axis, used in enumerate(full) if not used and shape[axis] and shape[axis] % count == 0]
        if count == 1 or not free or math.prod(shape) < _SMALL:
            return spec
        full[max(free, key=lambda axis: shape[axis])] = extra
        return tuple(full)

    def _named(self, spec: Spec) -> Any:
        if self.mesh is None:
            return None
        parts = [used[0] if len(used) == 1 else used or None for used in spec]
        while parts and parts[-1] is None:
            parts.pop()
        return jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec(*parts))

    # --- batches ---------------------------------------------------------------------------------------------------

    @property
    def whole(self) -> Any:
        """The sharding that replicates an array on all devices, or None without a mesh."""
        return self._named(())

    @property
    def batch_parts(self) -> int:
        """The number of parts into which batches are divided."""
        return self._parts(self.data_axes)

    def feed_sharding(self, shape: tuple[int, ...], is_batch: bool) -> Any:
        """Return the sharding of a feed, which is divided along the data axes if its size is divisible.

        Args:
            shape: Shape of the feed across all hosts.
            is_batch: Whether the first axis is a batch axis.

        Returns:
            A NamedSharding, which replicates the feed if it cannot be divided, or None without a mesh.
        """
        if self.mesh is None or not is_batch or not shape or shape[0] % self.batch_parts:
            return self.whole
        return self._named((self.data_axes,))

    def placed(self, value: Any, sharding: Any) -> Any:
        """Copy an array, which all hosts pass, to the devices.

        Args:
            value: The array, or any object with a shape and a dtype whose slices are arrays.
            sharding: A NamedSharding, or None for the default device.

        Returns:
            A jax.Array.
        """
        if sharding is None:
            return jax.device_put(value)  # Unlike jax.numpy.asarray, this compiles nothing.
        if jax.process_count() > 1:
            return jax.make_array_from_callback(value.shape, sharding, lambda index: np.asarray(value[index]))
        return jax.device_put(value, sharding)

    @functools.cached_property
    def share(self) -> Share:
        """The share of each batch that this process passes.

        Processes whose devices compute different samples pass different shares, if these are blocks of equal size.
        """
        if self.mesh is None:
            return Share(0, 1, 1)
        names, devices = self.mesh.axis_names, self.mesh.devices
        order = [names.index(axis) for axis in self.data_axes]
        rows = np.moveaxis(devices, order, range(len(order))).reshape(self.batch_parts, -1)
        parts: dict[int, set[int]] = {}
        for row, on_row in enumerate(rows):
            for device in on_row:
                parts.setdefault(device.process_index, set()).add(row)
        blocks = sorted({tuple(sorted(part)) for part in parts.values()})
        if [row for block in blocks for row in block] != list(range(self.batch_parts)) or len(
            set(map(len, blocks))
        ) > 1:
            return Share(0, 1, self.batch_parts)
        own = tuple(sorted(parts.get(jax.process_index(), parts[min(parts)])))
        return Share(blocks.index(own), len(blocks), self.batch_parts)

    def joined(self, value: Any, shares: int) -> Any:
        """Copy a batch, of which each process passes its own share, to the devices.

        Args:
            value: The share of this process. All shares have the same size.
            shares: Number of shares.

        Returns:
            A jax.Array of the whole batch.

        Raises:
            ShapeError: If the devices cannot divide the batch evenly.
        """
        array = value.numpy() if isinstance(value, NDArray) else np.asarray(value)
        if shares == 1 or not array.ndim:
            return self.placed(array, self.feed_sharding(array.shape, True))
        shape = (array.shape[0] * shares, *array.shape[1:])
        if shape[0] % self.batch_parts:
            raise ShapeError(
                f"[jax.Engine] with several hosts, the size of the whole batch must be divisible by the "
                f"{self.batch_parts} parts of the mesh's data axes, got {shares} shares of shape {array.shape}: pass "
                "other shares, or the same batch in all processes to on_device(batch, whole=True)"
            )
        return jax.make_array_from_process_local_data(self.feed_sharding(shape, True), array, shape)


def _automatic(mesh: Any) -> Any:
    """Return a mesh of the same devices with automatic axes only, so that XLA decides on all communication."""
    return jax.sharding.Mesh(
        mesh.devices, mesh.axis_names, axis_types=(jax.sharding.AxisType.Auto,) * mesh.devices.ndim
    )
