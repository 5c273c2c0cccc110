"""Every public function and method with arguments that it takes, and every value that nobody should give it.

Valid arguments are not written down here: the examples in the docstrings are run under observation, and what each
public function was called with is kept. A function without an example, or whose example does not call it, is missing,
which the test says. What is bound from C++ is called by a table in the test.
"""

from __future__ import annotations

import builtins
import contextlib
import doctest
import importlib
import inspect
import io
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import Any

import mpsgraph as mg
import numpy as np

SKIPPED = ("mpsgraph.selftest", "mpsgraph.demo", "mpsgraph.__main__", "mpsgraph._", "mpsgraph.onnx.ops")
"""Modules that nobody calls by hand."""
INNER = ("mpsgraph.cli", "mpsgraph.tool", "mpsgraph.layer_precision", "mpsgraph.quantization", "mpsgraph.onnx.importer")
"""Modules behind an entry point of another module; the two commands take text only."""


@dataclass
class EntryPoint:
    """A public function or method, and one way to call it."""

    name: str  # "Graph.softmax", "nn.Linear", "nn.Linear.__call__", "optim.SGD", "save"
    function: FunctionType
    owner: type | None
    arguments: dict[str, Any] | None = None  # by parameter, `self` included; None: not seen yet

    @property
    def constructs(self) -> bool:
        """Is it a class's constructor?"""
        return self.owner is not None and self.function.__name__ == "__init__"

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """Without `self`."""
        found = dict(inspect.signature(self.function).parameters)
        if self.owner is not None:
            found.pop(next(iter(found)))
        return found

    def call(self, name: str, value: Any) -> Any:
        """With one parameter replaced."""
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


def modules() -> Iterator[Any]:
    for info in pkgutil.walk_packages(mg.__path__, "mpsgraph."):
        if not info.name.startswith(SKIPPED) and not info.name.rsplit(".", 1)[-1].startswith("_"):
            if info.name not in INNER:
                yield importlib.import_module(info.name)


def entry_points() -> dict[CodeType, EntryPoint]:
    """All that the package's own modules define and do not hide, by its code."""
    found: dict[CodeType, EntryPoint] = {}
    families = [f for f in mg.Graph.__mro__ if f.__module__.startswith("mpsgraph.ops.") and f.__name__ != "Family"]
    for family in families:
        for name, method in vars(family).items():
            if inspect.isfunction(method) and not name.startswith("_"):
                _add(found, f"Graph.{name}", method, mg.Graph)
    for module in modules():
        where = module.__name__.removeprefix("mpsgraph.")
        if where.startswith("ops"):
            continue
        for name, value in vars(module).items():
            if name.startswith("_") or getattr(value, "__module__", "") != module.__name__:
                continue
            if inspect.isfunction(value):
                _add(found, f"{where}.{name}", value, None)
            elif inspect.isclass(value) and not issubclass(value, Exception):
                for key, method in vars(value).items():
                    if inspect.isfunction(method) and (key in ("__init__", "__call__") or not key.startswith("_")):
                        label = f"{where}.{name}" + ("" if key == "__init__" else f".{key}")
                        _add(found, label, method, value)
    return found


def _add(found: dict[CodeType, EntryPoint], name: str, function: FunctionType, owner: type | None) -> None:
    found[inspect.unwrap(function).__code__] = EntryPoint(name, function, owner)


def observe(found: dict[CodeType, EntryPoint], run: Callable[[], Any]) -> None:
    """Runs something and keeps the arguments of the first call of each entry point."""

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (point := found.get(frame.f_code)) is not None and point.arguments is None:
            code = frame.f_code
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            arguments = {name: frame.f_locals[name] for name in names if name in frame.f_locals}
            places = code.co_argcount + code.co_kwonlyargcount
            for flag in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS):
                if code.co_flags & flag:
                    arguments[code.co_varnames[places]] = frame.f_locals[code.co_varnames[places]]
                    places += 1
            own = next(iter(arguments), None) if point.owner is not None else None
            if own is None or isinstance(arguments[own], point.owner or object):
                point.arguments = arguments

    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)


def observe_examples(found: dict[CodeType, EntryPoint]) -> None:
    """Runs all examples of the documentation under observation."""
    everywhere = [importlib.import_module(i.name) for i in pkgutil.walk_packages(mg.__path__, "mpsgraph.")
                  if not i.name.startswith(("mpsgraph._core", "mpsgraph.__main__", "mpsgraph.selftest"))]  # fmt: skip
    finder, parser = doctest.DocTestFinder(), doctest.DocTestRunner(verbose=False)
    tests = [t for m in everywhere for t in finder.find(m, globs={"mg": mg, "np": np}) if t.examples]
    for test in tests:
        observe(found, lambda test=test: parser.run(test, out=lambda _: None, clear_globs=False))


# --- wrong values ----------------------------------------------------------------------------------------------------


class Odd:
    """An object of somebody else's, with a long repr of many lines."""

    def __repr__(self) -> str:
        return "odd\n" * 500


def wrong_values() -> dict[str, Any]:
    """By a name that says of which kind they are."""
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


def outcome(call: Callable[[], Any]) -> BaseException | None:
    """What a call raises; warnings are errors."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("error")
        try:
            call()
        except Exception as error:
            return error
    return None
