"""Part, the base class of modules: its variables, their values, and the graph that they are in.

Functions answer questions about parts for code outside the class, so that they do not take names away from subclasses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from .._checks import checked
from .._core import Tensor
from ..errors import GraphError
from ..graph import Graph
from .state import IncompatibleKeys, copied, fitting, slot_of

Self = TypeVar("Self", bound="Part")
_DEEPEST = 8  # A container may contain itself.


def graph_of(x: Tensor) -> Graph:
    """Return the graph that a tensor belongs to."""
    return x.graph  # type: ignore[return-value]


@checked
class Part:
    """Base class of modules, with what a model needs to know of its parts."""

    frozen: bool = False
    """Whether trainers leave the parameters of this module and its descendants unchanged."""
    _graph: Graph | None = None
    _path = ""
    _waiting: Callable[[Any], object] | None = None

    def build(self, x: Tensor) -> None:
        """Create the variables of the module.

        Called once, before the first `forward`. Subclasses override it to call `add_parameter` and `add_buffer`; the
        default creates nothing.

        Args:
            x: First input of the first call, from which sizes are inferred.
        """

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Part]]:
        """Iterate over this part and all its descendants with their dotted paths; see Module.named_modules."""
        raise NotImplementedError

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Iterate over the trainable variables with their dotted paths.

        Returns:
            An iterator over (path, variable) pairs. A shared variable appears once, under its first path.

        Raises:
            GraphError: If the module has not been called yet and so has no variables.
        """
        return self._named("_parameters")

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Iterate over the variables that are not trained, with their dotted paths.

        Returns:
            An iterator over (path, variable) pairs. A shared variable appears once, under its first path.

        Raises:
            GraphError: If the module has not been called yet and so has no variables.
        """
        return self._named("_buffers")

    def parameters(self) -> list[Tensor]:
        """Return the trainable variables of this module and its descendants.

        Raises:
            GraphError: If the module has not been called yet and so has no variables.
        """
        return [variable for _, variable in self.named_parameters()]

    def buffers(self) -> list[Tensor]:
        """Return the variables of this module and its descendants that are not trained.

        Raises:
            GraphError: If the module has not been called yet and so has no variables.
        """
        return [variable for _, variable in self.named_buffers()]

    def _named(self, where: str) -> Iterator[tuple[str, Tensor]]:
        """Yield each variable once, with the first path that leads to it.

        Variables that modules hold in attributes without `add_parameter` or `add_buffer` follow those that were added.
        """
        modules = list(self.named_modules())
        if not any(is_built(module) for _, module in modules):
            self._require_built()
        seen: set[Tensor] = set()
        for path, module in modules:
            for name, variable in vars(module).get(where, {}).items():
                if variable not in seen:
                    seen.add(variable)
                    yield (f"{path}.{name}" if path else name), variable
        for path, _, variable, trainable in _held_variables(modules):
            if trainable == (where == "_parameters") and variable not in seen:
                seen.add(variable)
                yield path, variable

    def _require_built(self) -> Graph:
        graph = self._graph or next((m._graph for _, m in self.named_modules() if m._graph is not None), None)
        if graph is None:
            raise GraphError(f"{type(self).__name__} has no variables yet: call it with a tensor first")
        return graph

    def _wholly_built(self) -> bool:
        """Return whether all layers with variables are built, as those of a slice of a built Sequential are."""
        modules = [module for _, module in self.named_modules()]
        own = [module for module in modules if type(module).build is not Part.build]
        return bool(own) and all(module._graph is not None for module in own)

    # --- freezing ----------------------------------------------------------------------------------------------------

    def freeze(self: Self) -> Self:
        """Exclude the parameters of this module and its descendants from training.

        Takes effect at the next step of a trainer; optimizer state is kept for `unfreeze`. Batch normalization still
        updates its moving averages in training mode unless `eval` is called on the module as well. Corresponds to
        PyTorch's requires_grad_(False).

        Returns:
            The module itself.

        Example:
            >>> model = mg.nn.Sequential(mg.nn.Linear(4), mg.nn.Linear(2))
            >>> _ = model[0].freeze(), model(mg.Graph().placeholder((-1, 3)))
            >>> [path for path, _ in model.named_trainable_parameters()]
            ['1.weight', '1.bias']
        """
        return self.requires_grad_(False)

    def unfreeze(self: Self) -> Self:
        """Include the parameters of this module and its descendants in training again.

        Returns:
            The module itself.
        """
        return self.requires_grad_(True)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Freeze or unfreeze the module, under PyTorch's name.

        Args:
            requires_grad: Whether the parameters train. Defaults to True.

        Returns:
            The module itself.
        """
        for _, module in self.named_modules():
            module.frozen = not requires_grad
        return self

    def named_trainable_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Iterate over the parameters that are not frozen, with their dotted paths.

        A parameter of a module used in several positions is frozen in all of them if the module is frozen.

        Returns:
            An iterator over (path, variable) pairs.

        Raises:
            GraphError: If the module has not been called yet and so has no variables.
        """
        modules = list(self.named_modules())
        frozen = {variable for _, m in modules if m.frozen for variable in own_parameters(m).values()}
        frozen |= {variable for _, m, variable, _ in _held_variables(modules) if m.frozen}
        return ((path, variable) for path, variable in self.named_parameters() if variable not in frozen)

    # --- values -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return copies of the values of all parameters and buffers.

        Returns:
            A dict of arrays, keyed by dotted path.

        Raises:
            GraphError: If the module has not been called yet and so has no variables.
        """
        self._require_built()
        variables = all_variables(self)
        values: dict[Tensor, np.ndarray] = {}
        for graph, own in _by_graph(variables.values()).items():
            values |= dict(zip(own, graph.variable_values(own), strict=True))
        return {path: values[variable] for path, variable in variables.items()}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys | None:
        """Set the values of parameters and buffers. If any part of the state does not match, nothing changes.

        A module that has not been called yet keeps copies of the values and loads them at the end of its first call,
        which then raises the errors below. To load PyTorch's names and layouts, use `mpsgraph.nn.load_torch`; to load a
        file, use `load_safetensors`.

        Args:
            state: Dict of arrays, keyed by dotted path, as returned by `state_dict`.
            strict: Whether the names in state must match the module's exactly. Defaults to True.

        Returns:
            The missing and the unexpected names, both empty if strict. None if the module has not been called yet.

        Raises:
            GraphError: If strict and names are missing or unexpected; the message lists all of them.
            ShapeError: If shapes differ; the message lists all of them.
            DTypeError: If element types differ; the message lists all of them.

        Example:
            >>> layer = mg.nn.Linear(2)
            >>> layer.load_state_dict({"weight": np.eye(2, dtype=np.float32), "bias": np.float32([0, 1])})
            >>> g = mg.Graph()
            >>> g.run({}, layer(g.constant([[3.0, 5.0]]))).tolist()
            [[3.0, 6.0]]
            >>> layer.load_state_dict({"bias": np.float32([0, 2]), "scale": np.float32([1])}, strict=False)
            IncompatibleKeys(missing_keys=['weight'], unexpected_keys=['scale'])
        """
        if self._graph is None and not self._wholly_built():
            self._waiting = partial(take_state, copied(state), strict=strict, cast=False)
            return None
        return take_state(state, self, strict=strict, cast=False)

    def load_waiting(self) -> None:
        """Load the values passed to `load_state_dict` before the variables existed. Called at the end of each call."""
        take, self._waiting = self._waiting, None
        if take is not None:
            take(self)


def take_state(
    state: Mapping[str, Any], module: Part, *, strict: bool, cast: bool, where: str = "load_state_dict"
) -> IncompatibleKeys:
    """Load a state with this package's parameter names into a module whose variables already exist."""
    variables = all_variables(module)
    slots = {path: slot_of(variable) for path, variable in variables.items()}
    values, keys = fitting(where, slots, state, strict=strict, cast=cast)
    paths = {variables[path]: path for path in values}
    for graph, own in _by_graph(paths).items():
        graph.set_variables({variable: values[paths[variable]] for variable in own})
    return keys


def _by_graph(variables: Iterable[Tensor]) -> dict[Graph, list[Tensor]]:
    """Return variables by graph. The parts of a model are in several graphs if another model has taken some of them."""
    found: dict[Graph, list[Tensor]] = {}
    for variable in variables:
        found.setdefault(graph_of(variable), []).append(variable)
    return found


def wait_for(module: Part, take: Callable[[Any], object]) -> None:
    """Register a function to call when the module's first call has created its variables.

    It replaces any function registered earlier.
    """
    module._waiting = take


def is_built(module: Part) -> bool:
    """Return whether the module's variables exist. The first call creates them."""
    return module._graph is not None


def built_graph(module: Part) -> Graph | None:
    """Return the graph that contains the module's variables, or None if they do not exist."""
    return module._graph


def all_variables(module: Part) -> dict[str, Tensor]:
    """Return the parameters and buffers of a module and its descendants, keyed by path."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def name_children(module: Part) -> None:
    """Store the dotted path of each descendant, which becomes part of its variables' names."""
    for path, part in module.named_modules(module._path):
        part._path = path


def adopt(module: Part, graph: Graph) -> None:
    """Mark all modules of a model as built in a graph, although only some of them were called.

    For example, the two networks of a GAN are called separately; their container then has parameters as well. Modules
    that override `build` are skipped, because they create their variables when they are called.
    """
    for _, part in module.named_modules():
        if part._graph is None and type(part).build is Part.build:
            part._graph = graph


def _variables_in(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Tensor]]:
    """Yield the variables in an attribute of a module, with their names."""
    if isinstance(value, Tensor):
        if value.operation.kind == "variable":
            yield name, value
    elif depth < _DEEPEST and isinstance(value, (list, tuple, dict)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(item, (Tensor, list, tuple, dict)):
                yield from _variables_in(f"{name}.{key}", item, depth + 1)


def _held_variables(modules: Sequence[tuple[str, Part]]) -> Iterator[tuple[str, Part, Tensor, bool]]:
    """Yield variables that modules hold in attributes without `add_parameter` or `add_buffer`.

    Each variable comes with its dotted path, its module, and whether it is trainable.
    """
    added = {variable for _, module in modules for variable in own_variables(module).values()}
    trainable: dict[Graph, set[Tensor]] = {}
    for path, module in modules:
        for name, value in vars(module).items():
            if name in ("_parameters", "_buffers"):
                continue
            for inner, variable in _variables_in(name, value):
                if variable in added:
                    continue
                graph = graph_of(variable)
                if graph not in trainable:
                    trainable[graph] = set(graph.trainable_variables)
                yield (f"{path}.{inner}" if path else inner), module, variable, variable in trainable[graph]


def own_parameters(module: Part) -> dict[str, Tensor]:
    """Return the trainable variables created by the module itself, not by its children, as a dict keyed by name."""
    return dict(vars(module).get("_parameters", {}))


def own_variables(module: Part) -> dict[str, Tensor]:
    """Return the parameters and buffers created by the module itself, not by its children, as a dict keyed by name."""
    return {**own_parameters(module), **vars(module).get("_buffers", {})}


def settings_of(module: Part) -> dict[str, Any]:
    """Return the module's own attributes that are numbers, strings, flags, or tuples, except its path in the model."""
    plain = (int, float, str, bool, tuple)
    return {name: value for name, value in vars(module).items() if isinstance(value, plain) and name != "_path"}
