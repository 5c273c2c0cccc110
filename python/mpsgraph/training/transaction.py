"""all_or_nothing: undo the changes of a failed load to a trainer, its state, its model, and its optimizers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..graph import Graph
from ..nn.module import Module
from ..optim.by_hand import optimizers_in
from .builder import StepBuilder


@contextmanager
def all_or_nothing(builder: StepBuilder) -> Iterator[None]:
    """Restore a trainer, its model, and its optimizers if an error occurs within a `with` block.

    Variables created in the block stay in the graph if it already had variables before, but no longer belong to the
    trainer.
    """
    state, settings = builder.state, builder.settings
    owners: list[object] = [settings, state, state.steps, builder, builder.program, builder.changed, settings.objective]
    owners += [*optimizers_in(settings.optimizer), *state.scalings.values(), *state.sums.values()]
    if isinstance(settings.model, Module):
        owners += {id(module): module for _, module in settings.model.named_modules()}.values()
    before = [(owner, _copied(vars(owner))) for owner in owners]
    forms = [(form, list(form.shapes)) for form in builder.forms.values()]
    variables, empty = set(state.graph.variables), not state.graph.operation_count
    try:
        yield
    except BaseException:
        for owner, attributes in before:
            vars(owner).clear()
            vars(owner).update(attributes)
        for form, shapes in forms:
            form.shapes = shapes
        if empty and builder.engine is None and state.partnership is None:
            # A new graph draws the same initial values and seeds that the trainer would have drawn without the failed
            # load.
            state.network.graph = Graph(seed=state.seed)
        else:
            state.foreign |= set(state.graph.variables) - variables
        raise


def _copied(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes, with copies of the containers that building a step changes in place."""

    def copied(value: Any) -> Any:
        if type(value) is dict:
            return {key: copied(item) if type(item) is dict else item for key, item in value.items()}
        return value.copy() if type(value) in (list, set, deque) else value

    return {name: copied(value) for name, value in attributes.items()}
