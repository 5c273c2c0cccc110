"""Calls of modules with arrays: built and compiled once for each combination of dtypes and shapes, then reused.

The operations belong to the module's graph, so the results follow the current values of its variables, for example
while a trainer updates them. They are built again if a setting of the module has changed, such as a list of layers.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from .._core import NDArray, Tensor, float64
from .._display import shown
from .._tracking import Snapshot, changes
from ..errors import DTypeError, GraphError
from ..graph import Graph, device_with_values
from ..random import next_seed
from .module import Module, mode_of, run_on_arrays_with
from .moving import graph_of_parts, move
from .parts import built_graph

_MANY = 64
"""Number of shapes for which a module is built before a warning; the operations of each stay in its graph."""


class _Programs:
    """The operations that a module's calls with arrays have built."""

    def __init__(self, module: Module, graph: Graph) -> None:
        self.graph = graph
        self.forms: dict[Any, tuple[list[Tensor], Any, list[Tensor]]] = {}
        """Placeholders, structure of outputs, and outputs, for each form of the arguments."""
        self.executables: dict[Any, tuple[Any, Any]] = {}
        """Executable and structure of outputs, for each form and size of the first axes."""
        self.count = 0
        self.note_settings(module)

    def note_settings(self, module: Module) -> None:
        self.changes, self.settings = changes.latest, Snapshot([module])

    def follow(self, module: Module, graph: Graph | None) -> bool:
        """Return whether the operations are still those of the module."""
        if graph is not self.graph:
            return False
        if changes.latest == self.changes and not self.settings.altered_in_place():
            return True
        before = self.settings
        self.note_settings(module)
        return not self.settings.differences(before)


_programs: WeakKeyDictionary[Module, _Programs] = WeakKeyDictionary()


def run(module: Module, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """Call a module with arrays; see Module.__call__."""
    programs = _programs.get(module)
    if programs is None or not programs.follow(module, built_graph(module)):
        graph = graph_of_parts(module)
        if graph is None:
            graph = Graph(next_seed())
        move(module, graph)
        programs = _programs[module] = _Programs(module, graph)
    arrays: list[Any] = []
    form = tuple(_form(each, arrays) for each in (*arguments, *options.values())), tuple(options)
    if not arrays:
        raise DTypeError(f"a call of a module needs a tensor or an array, got {', '.join(map(shown, arguments))}")
    wide = any(array.dtype == np.float64 for array in arrays if isinstance(array, np.ndarray))
    if wide and not _is_wide(module):
        arrays = [a.astype(np.float32) if a.dtype == np.float64 else a for a in arrays]
    key = form, tuple([(str(array.dtype), array.shape) for array in arrays])
    known = programs.executables.get(key)
    if known is None:
        known = programs.executables[key] = _compiled(module, programs, form, arguments, options, arrays)
    executable, structure = known
    return _filled(structure, iter(executable.run(arrays)))


def _compiled(
    module: Module,
    programs: _Programs,
    form: Any,
    arguments: tuple[Any, ...],
    options: Mapping[str, Any],
    arrays: list[Any],
) -> tuple[Any, Any]:
    """Return the executable of a call, and the structure of its outputs."""
    shapes = tuple([(str(array.dtype), array.shape[1:], array.ndim) for array in arrays])
    graph, key = programs.graph, (form, shapes)
    if key not in programs.forms:
        made = [graph.placeholder((-1, *a.shape[1:]) if a.ndim else (), a.dtype) for a in arrays]
        rest = iter(made)
        given = [_filled(part, rest) for part in form[0]]
        positional, named = given[: len(arguments)], dict(zip(options, given[len(arguments) :], strict=True))
        with mode_of(module, False):
            outputs = module(*positional, **named)
        tensors: list[Tensor] = []
        programs.forms[key] = made, _structure(outputs, tensors), tensors
        programs.note_settings(module)
        programs.count += 1
        if programs.count == _MANY:
            warnings.warn(
                f"{type(module).__name__} was built for {_MANY} different shapes of arrays, whose operations stay in "
                "its graph: use arrays that differ only in the size of their first axis",
                stacklevel=5,
            )
    placeholders, structure, outputs = programs.forms[key]
    feeds = {p: (p.dtype, tuple(array.shape)) for p, array in zip(placeholders, arrays, strict=True)}
    return graph.on(device_with_values(graph)).compile(feeds, outputs, []), structure


class _Slot:
    """Position of an array or a tensor in a structure."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Slot)

    def __hash__(self) -> int:
        return 1


_SLOT = _Slot()


def _form(value: Any, arrays: list[Any]) -> Any:
    """Return an argument with slots in place of its arrays, which are appended to `arrays`."""
    kind = type(value)
    if kind is np.ndarray or kind is NDArray:
        arrays.append(value)
        return _SLOT
    if isinstance(value, Tensor):
        raise GraphError(f"a module's arguments must be all tensors or all arrays, got {shown(value)} next to arrays")
    if isinstance(value, Mapping):
        return _Items(dict, tuple((key, _form(item, arrays)) for key, item in value.items()))
    if isinstance(value, tuple):
        return _Items(tuple, tuple((i, _form(item, arrays)) for i, item in enumerate(value)))
    if value is None or isinstance(value, (str, bool, int, float)) and arrays:
        return value
    array = np.asarray(value.to_numpy() if hasattr(value, "to_numpy") else value)
    if array.dtype.kind not in "biufc" and "float" not in str(array.dtype):
        raise DTypeError(f"inputs of a module, x and others, must be tensors or numeric arrays, got {shown(value)}")
    if isinstance(value, (list, int, float)) and array.dtype == np.int64:
        array = array.astype(np.int32)
    elif isinstance(value, (list, int, float)) and array.dtype == np.float64:
        array = array.astype(np.float32)
    arrays.append(array)
    return _SLOT


class _Items:
    """A container in a structure, as a hashable value."""

    def __init__(self, kind: type, items: tuple[tuple[Any, Any], ...]) -> None:
        self.kind, self.items = kind, items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Items) and (self.kind, self.items) == (other.kind, other.items)

    def __hash__(self) -> int:
        return hash((self.kind, self.items))


def _structure(value: Any, tensors: list[Tensor]) -> Any:
    """Return a result of `forward` with slots in place of its tensors, which are appended to `tensors`."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return _SLOT
    if isinstance(value, Mapping):
        return _Items(dict, tuple((key, _structure(item, tensors)) for key, item in value.items()))
    if isinstance(value, (tuple, list)):
        return _Items(type(value), tuple((i, _structure(item, tensors)) for i, item in enumerate(value)))
    return value


def _filled(structure: Any, values: Any) -> Any:
    """Return a structure with values in place of its slots, in order."""
    if structure is _SLOT:
        return next(values)
    if not isinstance(structure, _Items):
        return structure
    items = [(key, _filled(item, values)) for key, item in structure.items]
    return dict(items) if structure.kind is dict else structure.kind(item for _, item in items)


def _is_wide(module: Module) -> bool:
    """Return whether a module has float64 parameters."""
    if graph_of_parts(module) is None:
        return False
    return any(variable.dtype == float64 for variable in module.parameters())


run_on_arrays_with(run)
