"""Change tracking: detection of settings that change after operations were built from them.

A trainer builds its step from the attributes of modules and optimizers, such as a dropout rate or a weight decay.
Assignments to attributes of `Tracked` objects advance a counter. A trainer reads the counter before each step, and
takes a new snapshot only if the counter has advanced. Short lists, dicts, and sets in attributes are compared with a
copy before each step, because changes within them do not advance the counter.

Attributes that are assigned while operations are built, such as the variables of a layer, are results of building
rather than settings, and are left out of snapshots.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

LONGEST = 256
"""Largest number of items of a container, or of elements of an array, whose changes are noticed."""
_DEEPEST = 4
_OWN = __name__.rpartition(".")[0] + "."
_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))
_LEAVES = (FunctionType, BuiltinFunctionType, MethodType, ModuleType, type)


class _Changes:
    """Number of the latest change, in any thread."""

    latest = 0


class _Builds(threading.local):
    """Number of nested `building` blocks of a thread."""

    depth = 0


changes, _numbers, _builds = _Changes(), itertools.count(1), _Builds()


@contextmanager
def building() -> Iterator[None]:
    """Treat assignments to attributes as results of building within a `with` block."""
    _builds.depth += 1
    try:
        yield
    finally:
        _builds.depth -= 1


def is_building() -> bool:
    """Return whether this thread is in a `building` block."""
    return _builds.depth > 0


class Tracked:
    """Base class of objects whose attributes are settings from which operations are built.

    Attributes named in `_unwatched` are not settings.
    """

    _unwatched: frozenset[str] = frozenset()

    def __setattr__(self, name: str, value: Any) -> None:
        known = vars(self).get(name, self)
        super().__setattr__(name, value)
        if value is not known:
            note(self, name)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        note(self, name)


def note(owner: Any, name: str) -> None:
    """Record that an attribute of a tracked object was assigned."""
    if name in owner._unwatched:
        return
    if _builds.depth:
        if name != "training":  # Calls switch the mode and restore it.
            vars(owner).setdefault("_assigned", set()).add(name)
        return
    assigned = vars(owner).get("_assigned")
    if assigned:
        assigned.discard(name)
    changes.latest = next(_numbers)


def touch() -> None:
    """Make all trainers compare their settings before the next step, after changes that no assignment shows."""
    changes.latest = next(_numbers)


class Snapshot:
    """The settings of objects at one time.

    Args:
        roots: Tracked objects. Tracked objects in their attributes are included, too.
        left_out: Pairs of an object's id and the name of an attribute to leave out.
    """

    def __init__(self, roots: Iterable[Any], left_out: Iterable[tuple[int, str]] = ()) -> None:
        self.settings: dict[tuple[int, str], Any] = {}
        self.left_out = set(left_out)
        self._owners: list[Any] = []  # Keeps the objects alive, so that their ids stay unique.
        # The containers in attributes, and copies of them. Comparing two lists is much faster than a loop in Python.
        self._containers: list[Any] = []
        self._copies: list[Any] = []
        self._arrays: list[tuple[Any, bytes]] = []
        self._seen: set[int] = set()
        self._open: list[Any] = []  # Containers around the value being frozen, to notice one that contains itself.
        for root in roots:
            self._take(root, 0)

    def _take(self, owner: Any, depth: int) -> None:
        if id(owner) in self._seen:
            return
        self._seen.add(id(owner))
        self._owners.append(owner)
        own = vars(owner)
        skipped = {"_assigned", "_arguments", *own.get("_assigned", ())}
        unwatched = owner._unwatched if hasattr(type(owner), "_unwatched") else ()
        for name, value in own.items():
            if name not in skipped and name not in unwatched and (id(owner), name) not in self.left_out:
                self.settings[id(owner), name] = self._frozen(value, depth)

    def _frozen(self, value: Any, depth: int) -> Any:
        """Return a copy of a value that later changes of the original do not affect."""
        if type(value) in _PLAIN:
            return value
        if isinstance(value, (list, tuple)):
            self._watch(value, list)
            return self._of_items(value, (type(value),), value, depth)
        if isinstance(value, dict):
            self._watch(value, dict)
            return self._of_items(value, (dict, tuple(map(_key, value))), value.values(), depth)
        if isinstance(value, (set, frozenset)):
            self._watch(value, set)
            return (type(value), frozenset(value)) if len(value) <= LONGEST else _Same(value)
        if type(value) is np.ndarray and value.dtype != object:
            if value.size > LONGEST:
                return _Same(value)
            self._arrays.append((value, value.tobytes()))
            return (np.ndarray, value.dtype.str, value.shape, value.tobytes())
        if isinstance(value, functools.partial):
            return tuple(self._frozen(part, depth) for part in (value.func, value.args, value.keywords))
        if isinstance(value, (int, float, complex, str, bytes)):
            return value
        if isinstance(value, Tracked):
            self._take(value, 0)
        elif depth < _DEEPEST and _holds_settings(value):
            self._watch(vars(value), dict)
            self._take(value, depth + 1)
        return _Same(value)

    def _of_items(self, container: Any, start: tuple[Any, ...], items: Iterable[Any], depth: int) -> Any:
        if len(container) > LONGEST or any(other is container for other in self._open):
            return _Same(container)
        self._open.append(container)
        frozen = (*start, *[self._frozen(item, depth) for item in items])
        self._open.pop()
        return frozen

    def _watch(self, value: Any, kind: type) -> None:
        if not isinstance(value, (tuple, frozenset)) and len(value) <= LONGEST:
            self._containers.append(value)
            self._copies.append(kind(value))

    def altered_in_place(self) -> bool:
        """Return whether the items of a container or of an array have changed since the snapshot."""
        try:
            if self._containers != self._copies:
                return True
        except Exception:  # Some values, such as arrays, cannot be compared with other ones.
            return True
        return bool(self._arrays) and any(array.tobytes() != content for array, content in self._arrays)

    def differences(self, other: Snapshot) -> set[tuple[int, str]]:
        """Return the settings that differ from another snapshot, as pairs of an object's id and a name."""
        absent = object()
        mine, theirs = self.settings, other.settings
        ignored = self.left_out | other.left_out
        return {
            key
            for key in mine.keys() | theirs.keys()
            if key not in ignored and not _equal(mine.get(key, absent), theirs.get(key, absent))
        }

    def names(self, keys: Iterable[tuple[int, str]]) -> list[str]:
        """Return readable names of settings, such as "Dropout.rate"."""
        kinds = {id(owner): type(owner).__name__ for owner in self._owners}
        return sorted({f"{kinds.get(owner, 'object')}.{name}" for owner, name in keys})


def _holds_settings(value: Any) -> bool:
    """Return whether the attributes of an object may be settings, as those of a user's configuration class may be."""
    if isinstance(value, _LEAVES) or type(value).__module__.startswith(_OWN) or not hasattr(value, "__dict__"):
        return False
    return len(vars(value)) <= LONGEST


class _Same:
    """Wrapper that equals only wrappers of the same object. It keeps the object alive, so that its id stays unique."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _key(key: Any) -> Any:
    return key if type(key) in _PLAIN else _Same(key)


def _equal(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return type(a) in (int, float) and type(b) in (int, float) and a == b
    if isinstance(a, _Same):
        return a.value is b.value
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    return a is b or a == b
