"""Check that every public name has a docstring with an example and is listed in the API reference.

tools/site/reference.py generates the reference from these docstrings without the tools that build the site.
"""

from __future__ import annotations

import doctest
import enum
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
from docstrings import arguments, has_example, markdown

NAMES = reference.public_names()
PAGES = reference.pages()
DESCRIBED = set(re.findall(r"^`+\{py:\w+\} ([\w.]+)", "\n".join(PAGES.values()), re.MULTILINE))


def test_reference_includes_all_known_modules():
    """Listing some of the modules by name ensures that the search does not miss them silently."""
    found = set(reference.rooms())
    assert {"mpsgraph", "mpsgraph.nn", "mpsgraph.nn.losses", "mpsgraph.optim", "mpsgraph.training.callbacks"} <= found
    assert {"mpsgraph.onnx", "mpsgraph.nngraph", "mpsgraph.profiler", "mpsgraph.random", "mpsgraph.data"} <= found
    assert len(NAMES) > 300
    assert set(reference.optional_rooms()) <= set(OPTIONAL_ROOMS) <= found, (
        "optional modules must be listed without importing them"
    )


@pytest.mark.parametrize("each", NAMES, ids=lambda each: each.path)
def test_public_names_have_examples_and_reference_entries(each: reference.Public):
    assert each.name in DESCRIBED, f"{each.path} is missing from the reference"
    if not each.is_value:
        assert has_example(each.docstring), f"{each.path}'s docstring has no example"


@pytest.mark.parametrize("each", [n for n in NAMES if n.is_value], ids=lambda each: each.path)
def test_public_values_are_documented(each: reference.Public):
    """For values such as dtypes, limits and policies, either the type has an example or a docstring follows
    the assignment.
    """
    kind = type(each.value)
    ours = kind.__module__.startswith("mpsgraph") and has_example(inspect.getdoc(kind))
    assert ours or each.docstring


def test_reference_lists_all_operations():
    operations = {f"Graph.{name}" for methods in reference.families().values() for name, _ in methods}
    assert len(operations) > 200 and operations <= DESCRIBED


CORE = [each for each in NAMES if str(getattr(each.value, "__module__", "")) == "mpsgraph._core"]


@pytest.mark.parametrize("each", [n for n in CORE if not n.is_value], ids=lambda each: each.path)
def test_docstring_examples_of_core_classes_run(each: reference.Public):
    """These docstrings are defined in C++; tests/package runs the examples of all others."""
    parser, said = doctest.DocTestParser(), list[str]()
    test = parser.get_doctest(each.docstring, {"mg": mg, "np": np}, each.path, None, 0)
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert not said, "".join(said)


def test_docstrings_convert_to_markdown():
    text = """Rectified linear unit.

    result = a*b*c.

    Args:
        x: Tensor of any shape, that is:
            also a `DType`.
        *rest: Further tensors.

    Returns:
        A tensor with the dtype of x.

    Raises:
        DTypeError: If x is complex.

    Source: MPSGraph reLUWithTensor:name:.

    Example:
        >>> 1 + 1
        2
    """
    assert markdown(text).splitlines() == [
        *("Rectified linear unit.", "", r"result = a\*b\*c.", ""),
        *(":Arguments:", "  - `x`: Tensor of any shape, that is: also a {py:obj}`DType`."),
        *("  - `*rest`: Further tensors.", ":Returns:", "  A tensor with the dtype of x."),
        *(":Raises:", "  - `DTypeError`: If x is complex.", ":Source:", "  MPSGraph reLUWithTensor:name:."),
        *("", "```pycon", ">>> 1 + 1", "2", "```"),
    ]
    assert arguments(text) == ["x", "rest"]


def test_reference_describes_inherited_members():
    """Classes list the members that they inherit from private bases."""
    assert {"fit", "train_step", "minimize", "save"} <= {
        name for name, _ in reference.members_of(mg.Trainer, {id(mg.Trainer): "mpsgraph.Trainer"})
    }
    module = importlib.import_module("mpsgraph.nn")
    public = {id(each.value): each.path for each in NAMES}
    assert "state_dict" not in dict(reference.members_of(module.Linear, public)), (
        "state_dict must be described only with Module"
    )


RETURNED = {  # classes that only the package constructs, so their docstrings describe attributes instead of arguments
    "mpsgraph.StepResult",
    "mpsgraph.TrainableModel",
    "mpsgraph.coreml.DeferredModel",
    "mpsgraph.onnx.DeferredModel",
    "mpsgraph.jax.Function",
    "mpsgraph.jax.Jitted",
}
PARAMETERS = [
    (path, value)
    for each in NAMES
    if not each.is_value and not (inspect.isclass(each.value) and issubclass(each.value, (BaseException, enum.Enum)))
    for path, value in [(each.path, each.value), *reference.methods_of(each)]
    if path not in RETURNED
]


@pytest.mark.parametrize(("path", "value"), PARAMETERS, ids=[path for path, _ in PARAMETERS])
def test_args_section_lists_every_parameter(path: str, value: object):
    try:
        parameters = inspect.signature(value).parameters.values()
    except ValueError:  # a function bound from C++ has no signature at run time
        return
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = {p.name for p in parameters if p.name not in ("self", "cls") and p.kind not in variadic}
    open_ended = {p.name for p in parameters if p.kind in variadic}
    described = set(arguments(inspect.getdoc(value) or ""))
    assert named <= described, f"{path} does not describe {sorted(named - described)}"
    assert open_ended or described <= named, f"{path} has no parameters {sorted(described - named)}"
