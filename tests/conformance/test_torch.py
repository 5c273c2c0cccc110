"""PyTorch's own samples of its operators and modules, exported by torch: outputs and gradients against torch's.

The cases lie in data/, made by make_torch_cases.py; torch is not needed here. `make conformance` makes more of them.
"""

import mpsgraph as mg
import pytest
from conformance.exclusions import TORCH_DIFFERENT, TORCH_MISSING, reasons
from conformance.running_torch import gradient_differences, output_differences
from conformance.torch_cases import cases_of

KINDS = ("operators", "modules")
NAMES = [f"{kind}/{name}" for kind in KINDS for name in cases_of(kind)]
DIFFERENT, MISSING = set(reasons(TORCH_DIFFERENT)), set(reasons(TORCH_MISSING))


def case(name: str):
    kind, _, own = name.partition("/")
    return cases_of(kind)[own]


HELD = [name for name in NAMES if name not in DIFFERENT | MISSING]


@pytest.mark.parametrize("name", HELD)
def test_outputs(name: str):
    assert not output_differences(case(name))


@pytest.mark.parametrize("name", [name for name in HELD if case(name).numbered("gradient")])
def test_gradients(name: str):
    assert not gradient_differences(case(name))


@pytest.mark.parametrize("name", sorted(MISSING))
def test_what_is_missing_is_said(name: str):
    with pytest.raises(mg.UnsupportedError, match=r"\[onnx\]"):
        mg.onnx.load(case(name).model)


def test_exclusions_are_of_cases_that_there_are():
    assert DIFFERENT | MISSING <= set(NAMES)
