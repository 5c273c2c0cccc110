"""Every public name of the package has a docstring with an example, and stands in the reference.

The reference is made of the same docstrings by tools/site/reference.py, which needs nothing of what builds the site.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import sys

import mpsgraph as mg
import numpy as np
import pytest
from harness.entry_points import OPTIONAL_ROOMS
from harness.pages import ROOT

sys.path.insert(0, str(ROOT / "tools" / "site"))
import reference
from docstrings import has_example, markdown

NAMES = reference.public_names()
PAGES = reference.pages()
DESCRIBED = set(re.findall(r"^`+\{py:\w+\} ([\w.]+)", "\n".join(PAGES.values()), re.MULTILINE))


def test_rooms_are_found():
    """With what they are called, so that a room that nobody names is not left out unseen."""
    found = set(reference.rooms())
    assert {"mpsgraph", "mpsgraph.nn", "mpsgraph.nn.losses", "mpsgraph.optim", "mpsgraph.training.callbacks"} <= found
    assert {"mpsgraph.onnx", "mpsgraph.nngraph", "mpsgraph.profiler", "mpsgraph.random", "mpsgraph.data"} <= found
    assert len(NAMES) > 300
    assert set(reference.optional_rooms()) <= set(OPTIONAL_ROOMS) <= found, "read, not imported"


@pytest.mark.parametrize("each", NAMES, ids=lambda each: each.path)
def test_public_names_have_an_example_and_stand_in_the_reference(each: reference.Public):
    assert each.name in DESCRIBED, f"{each.path} is in no page of the reference"
    if not each.is_value:
        assert has_example(each.docstring), f"{each.path}'s docstring has no example"


@pytest.mark.parametrize("each", [n for n in NAMES if n.is_value], ids=lambda each: each.path)
def test_values_are_explained(each: reference.Public):
    """An element type, a limit, a policy: its type has an example, or a sentence stands behind its assignment."""
    kind = type(each.value)
    ours = kind.__module__.startswith("mpsgraph") and has_example(inspect.getdoc(kind))
    assert ours or each.docstring


def test_operations_stand_in_the_reference():
    operations = {f"Graph.{name}" for methods in reference.families().values() for name, _ in methods}
    assert len(operations) > 200 and operations <= DESCRIBED


CORE = [each for each in NAMES if str(getattr(each.value, "__module__", "")) == "mpsgraph._core"]


@pytest.mark.parametrize("each", [n for n in CORE if not n.is_value], ids=lambda each: each.path)
def test_examples_of_the_core_run(each: reference.Public):
    """Those that C++ carries; tests/package runs all others."""
    parser, said = doctest.DocTestParser(), list[str]()
    test = parser.get_doctest(each.docstring, {"mg": mg, "np": np}, each.path, None, 0)
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert not said, "".join(said)


def test_docstrings_become_markdown():
    text = """Rectified linear unit.

    result = a*b*c. Args: x, any shape. Result: `DType` of x. Errors: DTypeError.
    Source: MPSGraph reLUWithTensor:name:.

    >>> 1 + 1
    2
    """
    assert markdown(text).splitlines() == [
        "Rectified linear unit.",
        "",
        r"result = a\*b\*c.",
        "",
        *(":Arguments:", "  x, any shape.", ":Result:", "  {py:obj}`DType` of x.", ":Errors:", "  DTypeError."),
        *(":Source:", "  MPSGraph reLUWithTensor:name:."),
        "",
        *("```pycon", ">>> 1 + 1", "2", "```"),
    ]
    block = "Trains.\n\nArgs:\n    model: a module,\n        that is: or a `Model`.\n    loss: a name.\n"
    assert markdown(block).splitlines()[2:] == [
        *(":Arguments:", "  - `model`: a module, that is: or a {py:obj}`Model`.", "  - `loss`: a name."),
    ]


def test_members_are_described():
    """Of classes, what they and their private bases offer."""
    assert {"fit", "train_step", "minimize", "save"} <= {
        name for name, _ in reference.members_of(mg.Trainer, {id(mg.Trainer): "mpsgraph.Trainer"})
    }
    module = importlib.import_module("mpsgraph.nn")
    public = {id(each.value): each.path for each in NAMES}
    assert "state_dict" not in dict(reference.members_of(module.Linear, public)), "it is described with Module"
