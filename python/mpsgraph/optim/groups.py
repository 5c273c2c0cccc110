"""Parameter groups: separate learning rates, weight decay, and freezing by parameter path."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from .._checks import checked
from .._core import Operation, Tensor
from .._display import shown
from ..errors import GraphError
from .optimizers import Optimizer
from .schedules import Schedule


class ParameterGroups(Optimizer):
    """An optimizer with different options, or different optimizers, for groups of parameters.

    Corresponds to PyTorch's parameter groups. To clip gradients, wrap the ParameterGroups in a clipping optimizer, not
    the other way round, so that the clipping applies to all parameters that train.

    Args:
        optimizer: Optimizer of the parameters that match no group.
        groups: Dict of groups, keyed by a pattern of parameter paths. A pattern such as "head" or "encoder.3" matches
            all parameters under that path, and may contain `*` and `?`, as in "*.bias". A group is a dict of options
            that differ, such as {"learning_rate": 1e-4, "weight_decay": 0.0}, an optimizer, or None to freeze its
            parameters. If a parameter matches several patterns, the first of them applies, and the others do not.
        merge: Whether a parameter instead gets the options of all patterns that it matches; if several have the same
            option, the first of them applies. A parameter that matches a pattern whose group is None is frozen. Groups
            must be dicts or None. Defaults to False.

    Raises:
        GraphError: If an option is unknown, an optimizer is used for two groups or merged, groups are nested, or, at
            the first step, a pattern matches no parameter.

    Example:
        >>> model = mg.nn.Sequential(mg.nn.Linear(4), mg.nn.ReLU(), mg.nn.Linear(2))
        >>> groups = {"0": None, "*.bias": {"weight_decay": 0.0, "learning_rate": 1e-2}}
        >>> optimizer = mg.optim.ParameterGroups(mg.optim.AdamW(1e-3), groups)
        >>> trainer = mg.Trainer(model, optimizer=mg.optim.ClipByNorm(optimizer, 1.0))
        >>> x, y = np.eye(3, dtype=np.float32), np.array([0, 1, 1], np.int32)
        >>> before = trainer.evaluate(x, y) and model.state_dict()
        >>> _ = trainer.fit(x, y, progress=False)
        >>> [path for path, value in model.state_dict().items() if (value != before[path]).any()]
        ['2.weight', '2.bias']
        >>> groups = {"2": {"learning_rate": 1e-2}, "*.bias": {"weight_decay": 0.0}}
        >>> merged = mg.optim.ParameterGroups(mg.optim.AdamW(1e-3), groups, merge=True)
        >>> _ = mg.Trainer(model, optimizer=merged).fit(x, y, progress=False)
        >>> own = merged.optimizer_of("2.bias")
        >>> float(own.learning_rate), own.weight_decay
        (0.01, 0.0)
    """

    _unwatched = Optimizer._unwatched | {"_merged", "_options", "_paths"}

    @checked
    def __init__(
        self,
        optimizer: Optimizer,
        groups: Mapping[str, Optimizer | Mapping[str, Any] | None],
        *,
        merge: bool = False,
    ) -> None:
        self.optimizer, self.merge = optimizer, merge
        self._paths: dict[Tensor, str] = {}
        self._merged: dict[tuple[str, ...], Optimizer] = {}  # Optimizers of parameters that match the same patterns.
        self._options: dict[tuple[str, ...], dict[str, Any]] = {}
        self.groups: dict[str, Any] = {}
        for pattern, group in groups.items():
            own = optimizer.with_options(**group) if isinstance(group, Mapping) else group
            if merge and isinstance(group, Optimizer):
                raise GraphError(
                    f"ParameterGroups: with merge=True, groups must be dicts of options or None, got {shown(group)} "
                    f"for '{pattern}'"
                )
            self.groups[pattern] = dict(group) if merge and isinstance(group, Mapping) else own
        self._require_distinct(self._all)
        self._graph = None
        self._states = {}

    def _require_distinct(self, own: list[Optimizer]) -> None:
        """Raise GraphError if an optimizer is used twice, or a group is a ParameterGroups."""
        if len({id(each) for each in own}) < len(own):
            raise GraphError(
                "ParameterGroups: an optimizer holds the state of its parameters and cannot serve two groups: create "
                "one for each"
            )
        if any(isinstance(each, ParameterGroups) for each in own):
            raise GraphError(
                f"ParameterGroups cannot be nested: pass all patterns to one ParameterGroups, got {shown(self.groups)}"
            )

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "merge" and vars(self).get("merge", value) != value:
            raise GraphError("ParameterGroups.merge cannot be changed: create a new ParameterGroups with merge=True")
        super().__setattr__(name, dict(value) if name == "groups" and isinstance(value, Mapping) else value)

    @property
    def _all(self) -> list[Optimizer]:
        if self.merge:
            return [self.optimizer, *self._merged.values()]
        for pattern, group in self.groups.items():
            if isinstance(group, Mapping):  # The group was assigned after construction.
                self.groups[pattern] = self.optimizer.with_options(**group)
        return [self.optimizer, *(group for group in self.groups.values() if group is not None)]

    @property
    def learning_rate(self) -> Schedule:
        """Schedule of the parameters that match no group."""
        return self.optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float | Schedule) -> None:
        self.optimizer.learning_rate = rate

    def rates(self) -> list[Schedule]:
        return [rate for each in self._all for rate in each.rates()]

    def scale_learning_rate(self, factor: float) -> None:
        for each in self._all:
            each.scale_learning_rate(factor)

    def _innermost(self) -> list[Optimizer]:
        return [inner for each in self._all for inner in each._innermost()]

    def freezes(self, variable: Tensor) -> bool:
        own = self._owner(variable)
        return own is None or own.freezes(variable)

    def know_paths(self, paths: Mapping[Tensor, str]) -> None:
        self._paths = dict(paths)

    def optimizer_of(self, path: str) -> Optimizer | None:
        """Return the optimizer of a parameter, or None if the parameter is frozen.

        Args:
            path: Path of the parameter, such as "2.bias".
        """
        found = [p for p in self.groups if fnmatchcase(path, p) or path.startswith(f"{p}.")]
        if not found:
            return self.optimizer
        if not self.merge:
            own: Optimizer | None = self.groups[found[0]]
            return own
        if any(self.groups[pattern] is None for pattern in found):
            return None
        options: dict[str, Any] = {}
        for pattern in reversed(found):
            options |= self.groups[pattern]
        key = tuple(found)
        if key not in self._merged:
            self._merged[key] = self.optimizer.with_options(**options)
        elif options != self._options[key]:
            for name, value in options.items():
                if name not in self._options[key] or self._options[key][name] != value:
                    setattr(self._merged[key], name, value)
        self._options[key] = options
        return self._merged[key]

    def updates(self, gradients: Mapping[Tensor, Tensor], learning_rate: Tensor) -> list[Operation]:
        if not gradients:
            raise GraphError("there is nothing to train: gradients is empty")
        self._graph = graph = next(iter(gradients)).graph  # type: ignore[assignment]
        names = [self._paths.get(v, v.name) for v in graph.variables]
        for pattern in self.groups:
            if not any(fnmatchcase(name, pattern) or name.startswith(f"{pattern}.") for name in names):
                raise GraphError(
                    f"ParameterGroups: no parameter matches the pattern '{pattern}'; the parameters are {shown(names)}"
                )
        operations, place = [], 0
        for own in self._all:
            count = len(own.rates())
            rate = learning_rate if len(learning_rate.shape or ()) == 0 else learning_rate[place : place + count]
            if count == 1 and rate is not learning_rate:
                rate = self.graph.reshape(rate, ())
            place += count
            mine = {v: d for v, d in gradients.items() if self._owner(v) is own}
            if mine:
                operations += own.updates(mine, rate)
        if not operations:
            raise GraphError("there is nothing to train: ParameterGroups freezes all parameters")
        return operations

    def _owner(self, variable: Tensor) -> Optimizer | None:
        self._require_distinct(self._all)
        return self.optimizer_of(self._paths.get(variable, variable.name))
