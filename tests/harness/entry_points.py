"""Every public function and method with valid arguments, and values that are invalid for most parameters.

The valid arguments are recorded while the examples in the docstrings run. A function that no example calls has no
recorded arguments, which the test reports. The test itself calls the functions that are bound from C++.
"""

from __future__ import annotations

import builtins
import doctest
import importlib
import inspect
import operator
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import CodeType, FrameType, FunctionType
from typing import Any

import mpsgraph as mg
import numpy as np
from mpsgraph.ops.schema import Schema

OPTIONAL_ROOMS = ("mpsgraph.distributed", "mpsgraph.jax", "mpsgraph.torch")
"""Packages with optional dependencies that these tests run without. tests/distributed, tests/jax_and_xla and
tests/pytorch test them where the dependencies are installed.
"""


@dataclass
class EntryPoint:
    """A public function or method, and one way to call it."""

    name: str  # For example "Graph.softmax", "nn.Linear", "nn.Linear.__call__", "optim.SGD" or "save".
    function: FunctionType
    owner: type | None
    arguments: dict[str, Any] | None = None  # By parameter name, including `self`. None if no call has been recorded.

    @property
    def constructs(self) -> bool:
        """Whether this is the constructor of a class."""
        return self.owner is not None and self.function.__name__ == "__init__"

    @cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The parameters without `self`."""
        found = dict(inspect.signature(self.function).parameters)
        if self.owner is not None:
            found.pop(next(iter(found)))
        return found

    def call(self, name: str, value: Any) -> Any:
        """Call the function with its recorded arguments, one of them replaced."""
        assert self.arguments is not None
        given = {**self.arguments, name: value}
        positional: list[Any] = []
        options: dict[str, Any] = {}
        variadic = any(p.kind is p.VAR_POSITIONAL for p in self.parameters.values())
        for key, parameter in self.parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                positional += [value] if key == name else list(given[key])
            elif parameter.kind is parameter.VAR_KEYWORD:
                options |= given[key] if key != name else {}
            elif parameter.kind is parameter.KEYWORD_ONLY or not variadic:
                options[key] = given[key]
            else:
                positional.append(given[key])
        if self.owner is None:
            return self.function(*positional, **options)
        if self.constructs:
            return self.owner(*positional, **options)
        own = next(iter(inspect.signature(self.function).parameters))
        return getattr(given[own], self.function.__name__)(*positional, **options)


def public_modules() -> dict[str, Any]:
    """Return the package and its public modules by their public names."""
    names = ("nn", "nn.losses", "nn.metrics", "nn.initialisers", "optim", "data", "coreml", "onnx", "checkpoint")
    more = ("profiler", "random", "mixed_precision")
    return {"": mg} | {name: operator.attrgetter(name)(mg) for name in names + more}


def entry_points() -> dict[CodeType | Schema, EntryPoint]:
    """Return all operations and the functions, constructors and methods of the public modules, by code object."""
    found: dict[CodeType | Schema, EntryPoint] = {}
    families = [f for f in mg.Graph.__mro__ if f.__module__.startswith("mpsgraph.ops.") and f.__name__ != "Family"]
    for family in families:
        for name in list(vars(family)):
            method = getattr(family, name)
            if inspect.isfunction(method) and not name.startswith("_"):
                _add(found, f"Graph.{name}", method, mg.Graph)
    for where, module in public_modules().items():
        for name in getattr(module, "__all__", _own(module)):
            value = getattr(module, name)
            label = f"{where}.{name}" if where else name
            if not str(getattr(value, "__module__", "")).startswith("mpsgraph") or name == "Initialiser":
                continue
            if inspect.isfunction(value):
                _add(found, label, value, None)
            elif inspect.isclass(value) and not issubclass(value, Exception) and value.__module__ != "mpsgraph._core":
                for part in reversed([part for part in value.__mro__ if part.__module__.startswith("mpsgraph")]):
                    if part.__module__ != "mpsgraph._core" and not part.__module__.startswith("mpsgraph.ops"):
                        _add_methods(found, label, value, part)
    return found


def _own(module: Any) -> list[str]:
    """Return the public names that a module without `__all__` defines itself."""
    return [n for n, v in vars(module).items() if n[0] != "_" and getattr(v, "__module__", "") == module.__name__]


def _add_methods(found: dict[CodeType | Schema, EntryPoint], label: str, owner: type, part: type) -> None:
    for key, method in vars(part).items():
        shown = key in ("__init__", "__call__") or not key.startswith("_")
        if inspect.isfunction(method) and shown and getattr(owner, key) is method and key != "describe":
            _add(found, label + ("" if key == "__init__" else f".{key}"), method, part)


def _add(found: dict[CodeType | Schema, EntryPoint], name: str, function: FunctionType, owner: type | None) -> None:
    inner = inspect.unwrap(function)
    found[inner if isinstance(inner, Schema) else inner.__code__] = EntryPoint(name, function, owner)


_DERIVED = mg.Graph.exponent.__code__  # shared by all methods that are derived from the schema


def _arguments(frame: FrameType) -> dict[str, Any]:
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    arguments = {name: frame.f_locals[name] for name in names if name in frame.f_locals}
    places = code.co_argcount + code.co_kwonlyargcount
    for flag in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS):
        if code.co_flags & flag:
            arguments[code.co_varnames[places]] = frame.f_locals[code.co_varnames[places]]
            places += 1
    return arguments


def _arguments_of_derived(point: EntryPoint, frame: FrameType) -> dict[str, Any]:
    args, options = frame.f_locals["args"], frame.f_locals["options"]
    bound = inspect.signature(point.function).bind(frame.f_locals["self"], *args, **options)
    bound.apply_defaults()
    return dict(bound.arguments)


def observe(found: dict[CodeType | Schema, EntryPoint], run: Callable[[], Any]) -> None:
    """Run a function and record the arguments of the first call of each entry point."""

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        derived = frame.f_code is _DERIVED
        point = found.get(frame.f_locals["schema"] if derived else frame.f_code)
        if point is not None and point.arguments is None:
            arguments = _arguments_of_derived(point, frame) if derived else _arguments(frame)
            own = next(iter(arguments), None) if point.owner is not None else None
            if own is None or isinstance(arguments[own], point.owner or object):
                point.arguments = arguments

    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)


def observe_examples(found: dict[CodeType | Schema, EntryPoint]) -> None:
    """Run all docstring examples and record the calls of entry points."""
    left_out = ("mpsgraph._core", "mpsgraph.__main__", "mpsgraph.selftest", *OPTIONAL_ROOMS)
    everywhere = [importlib.import_module(i.name) for i in pkgutil.walk_packages(mg.__path__, "mpsgraph.")
                  if not i.name.startswith(left_out)]  # fmt: skip
    finder, parser = doctest.DocTestFinder(), doctest.DocTestRunner(verbose=False)
    tests = [t for m in everywhere for t in finder.find(m, globs={"mg": mg, "np": np}) if t.examples]
    for test in tests:
        observe(found, lambda test=test: parser.run(test, out=lambda _: None, clear_globs=False))


# --- invalid values ---------------------------------------------------------------------------------------------------


class Odd:
    """An object of an unknown class with a very long multi-line repr."""

    def __repr__(self) -> str:
        return "odd\n" * 500


def wrong_values() -> dict[str, Any]:
    """Return the invalid values, by a tag that describes each."""
    other = mg.Graph()
    return {
        "text": "abc",
        "long text": "word " * 200,
        "digits": "3",
        "bytes": b"abc",
        "none": None,
        "bool": True,
        "half": 1.5,
        "nan": float("nan"),
        "negative": -7,
        "huge": 10**30,
        "list": [1.5, 2.5],
        "long list": list(range(5000)),
        "texts": ["a", "b"],
        "dict": {"a": 1},
        "set": {1, 2},
        "array": np.ones((2, 3), np.float32),
        "long array": np.arange(5000),
        "texts array": np.array(["a", "b"]),
        "layer": mg.nn.Linear(2),
        "module": builtins,
        "type": int,
        "object": Odd(),
        "foreign tensor": other.constant(np.ones((2, 3), np.float32)),
    }


def outcome(call: Callable[[], Any]) -> Exception | None:
    """Return the exception that a call raises, or None."""
    try:
        call()
    except Exception as error:
        return error
    return None
