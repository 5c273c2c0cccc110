"""Parameter groups: learning rates, weight decay and freezing by the paths of parameters."""

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
    """An optimizer for all parameters but those of the groups, which have options, or optimizers, of their own.

    Args: optimizer; groups, by pattern of the parameters' paths: "head" or "encoder.3" for all beneath it, or with `*`
    and `?`, such as "*.bias"; the first that fits counts. Each is a dict of options that differ, such as
    {"learning_rate": 1e-4, "weight_decay": 0.0}; an optimizer; or None: frozen. Clipping goes around the whole, and
    sees only what trains. Errors: GraphError for unknown options, and for a pattern that no parameter fits.
    PyTorch's parameter groups.

    >>> model = mg.nn.Sequential(mg.nn.Linear(4), mg.nn.ReLU(), mg.nn.Linear(2))
    >>> groups = {"0": None, "*.bias": {"weight_decay": 0.0, "learning_rate": 1e-2}}
    >>> optimizer = mg.optim.ParameterGroups(mg.optim.AdamW(1e-3), groups)
    >>> trainer = mg.Trainer(model, optimizer=mg.optim.ClipByNorm(optimizer, 1.0))
    >>> x, y = np.eye(3, dtype=np.float32), np.array([0, 1, 1], np.int32)
    >>> before = trainer.evaluate(x, y) and model.state_dict()
    >>> _ = trainer.fit(x, y, progress=False)
    >>> [path for path, value in model.state_dict().items() if (value != before[path]).any()]
    ['2.weight', '2.bias']
    """

    @checked
    def __init__(self, optimizer: Optimizer, groups: Mapping[str, Optimizer | Mapping[str, Any] | None]) -> None:
        self.optimizer = optimizer
        self.groups: dict[str, Optimizer | None] = {}
        for pattern, group in groups.items():
            self.groups[pattern] = optimizer.with_options(**group) if isinstance(group, Mapping) else group
        own = [optimizer, *(group for group in self.groups.values() if group is not None)]
        if len({id(each) for each in own}) < len(own):
            raise GraphError("each group needs an optimizer of its own: it has the state of its parameters")
        if any(isinstance(each, ParameterGroups) for each in own):
            raise GraphError(f"groups within groups: give all patterns to one ParameterGroups, got {shown(groups)}")
        self._graph = None
        self._states = {}

    @property
    def _all(self) -> list[Optimizer]:
        return [self.optimizer, *(group for group in self.groups.values() if group is not None)]

    @property
    def learning_rate(self) -> Schedule:
        """That of the parameters without a group."""
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
        pattern = self._pattern_of(variable)
        own = self.optimizer if pattern is None else self.groups[pattern]
        return own is None or own.freezes(variable)

    def _pattern_of(self, variable: Tensor) -> str | None:
        name = variable.name
        return next((p for p in self.groups if fnmatchcase(name, p) or name.startswith(f"{p}.")), None)

    def updates(self, gradients: Mapping[Tensor, Tensor], learning_rate: Tensor) -> list[Operation]:
        if not gradients:
            raise GraphError("there is nothing to train: no gradients were given")
        self._graph = graph = next(iter(gradients)).graph  # type: ignore[assignment]
        names = [v.name for v in graph.variables]
        for pattern in self.groups:
            if not any(fnmatchcase(name, pattern) or name.startswith(f"{pattern}.") for name in names):
                raise GraphError(f"no parameter fits the group '{pattern}'; there are {shown(names)}")
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
            raise GraphError("there is nothing to train: all parameters are frozen")
        return operations

    def _owner(self, variable: Tensor) -> Optimizer | None:
        pattern = self._pattern_of(variable)
        return self.optimizer if pattern is None else self.groups[pattern]
