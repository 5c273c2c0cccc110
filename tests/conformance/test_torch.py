"""PyTorch's own samples of its operators and modules, exported by torch: outputs and gradients against torch's.

The cases lie in data/, made by make_torch_cases.py; torch is not needed here. `make conformance` makes more of them:
exclusions.py names what does not pass of those, too.
"""

import mpsgraph as mg
import pytest
from conformance.exclusions import TORCH_GRADIENTS, TORCH_OUTPUTS, reasons
from conformance.running_torch import gradient_differences, output_differences
from conformance.torch_cases import DRAWN, cases_of

KINDS = ("operators", "modules")
NAMES = [f"{kind}/{name}" for kind in KINDS for name in cases_of(kind)]
OUTPUTS, GRADIENTS = set(reasons(TORCH_OUTPUTS)), set(reasons(TORCH_GRADIENTS))


def case(name: str):
    kind, _, own = name.partition("/")
    return cases_of(kind)[own]


HELD = [name for name in NAMES if name not in OUTPUTS]


@pytest.mark.parametrize("name", HELD)
def test_outputs(name: str):
    assert not output_differences(case(name))


@pytest.mark.parametrize("name", [name for name in HELD if case(name).numbered("gradient") and name not in GRADIENTS])
def test_gradients(name: str):
    assert not gradient_differences(case(name))


@pytest.mark.parametrize("name", sorted((OUTPUTS | GRADIENTS) & set(NAMES)))
def test_exclusion_still_differs(name: str):
    try:
        found = (output_differences if name in OUTPUTS else gradient_differences)(case(name))
    except mg.Error:  # a model that is wrong may be refused
        return
    assert found, "it passes: take it out of exclusions.py"


def test_exclusions_are_of_cases_that_there_are():
    unknown = (OUTPUTS | GRADIENTS) - set(NAMES)
    assert not unknown if DRAWN else all(not name.endswith(".0") for name in unknown)
