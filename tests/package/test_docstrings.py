"""Every example in a docstring runs and prints what it says, and every operation has one.

Examples see `mg` and `np`; each docstring is a session of its own.
"""

import doctest
import importlib
import inspect
import pkgutil

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
    for name, method in vars(family).items()
    if inspect.isfunction(method) and not name.startswith("_")
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda test: test.name.removeprefix("mpsgraph."))
def test_example(example: doctest.DocTest):
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_operations_are_documented(name: str):
    text = inspect.getdoc(METHODS[name]) or ""
    for part in ("\n\n", "Args", "Errors:", "Gradient:", "Source:", ">>>"):
        assert part in text, f"{name}'s docstring has no {part!r}"


def test_every_public_kind_has_a_method():
    """Under its own name, with an underscore behind where Python has a keyword; custom ones are functions of users."""
    kinds = {item["name"] for item in mg._core.definitions() if not item["internal"]}
    methods = {name.rstrip("_") for name in METHODS}
    assert kinds - methods == {"custom"}
