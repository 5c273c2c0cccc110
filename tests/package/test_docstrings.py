"""Test that docstring examples run and print the documented output, and that every operation is completely documented.

Examples can use `mg` and `np`; each docstring is a separate session.
"""

import doctest
import importlib
import inspect
import pkgutil
import re

import mpsgraph as mg
import numpy as np
import pytest
from harness.entry_points import OPTIONAL_ROOMS

MODULES = [
    importlib.import_module(info.name)
    for info in pkgutil.walk_packages(mg.__path__, "mpsgraph.")
    if not info.name.endswith(("_core", "__main__")) and not info.name.startswith(OPTIONAL_ROOMS)
]
EXAMPLES = [
    test
    for module in MODULES
    for test in doctest.DocTestFinder().find(module, globs={"mg": mg, "np": np})
    if test.examples
]
METHODS = {
    name: method
    for family in mg.Graph.__mro__
    if family.__module__.startswith("mpsgraph.ops.")
    for name, method in ((name, getattr(family, name)) for name in vars(family))
    if inspect.isfunction(method) and not name.startswith("_")
}

INFALLIBLE = {"conjugate", "identity", "shape_of"}  # Accept any operand, so their docstrings have no Raises section.


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda test: test.name.removeprefix("mpsgraph."))
def test_docstring_example_prints_documented_output(example: doctest.DocTest):
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_operation_docstring_has_all_sections(name: str):
    text = inspect.getdoc(METHODS[name]) or ""
    assert re.match(r"[A-Z].+\.\n\n", text), "must start with a one-line summary"
    found = re.findall(r"^(Args|Returns|Raises|Gradient|Source|Example):", text, re.MULTILINE)
    wanted = ["Args", "Returns", "Raises", "Gradient", "Source", "Example"]
    assert found == [section for section in wanted if section != "Raises" or name not in INFALLIBLE]
    assert "Example:\n    >>> " in text


@pytest.mark.parametrize("name", sorted(METHODS))
def test_operation_docstring_describes_every_argument_in_order(name: str):
    text = inspect.getdoc(METHODS[name]) or ""
    section = text.partition("Args:\n")[2].partition("\n\n")[0]
    described = re.findall(r"^    (\w+): [A-Z0-9\"\[(]?\S", section, re.MULTILINE)
    assert described == [argument for argument in inspect.signature(METHODS[name]).parameters if argument != "self"]


def test_every_public_operation_kind_has_a_method():
    """Methods are named after their kind, plus an underscore for Python keywords; users define custom operations."""
    kinds = {item["name"] for item in mg._core.definitions() if not item["internal"]}
    methods = {name.rstrip("_") for name in METHODS}
    assert kinds - methods == {"custom"}
