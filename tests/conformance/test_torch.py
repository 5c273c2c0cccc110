"""Compare samples of PyTorch's operators and modules, exported to ONNX, with PyTorch's outputs and gradients.

data/ holds cases created by make_torch_cases.py, so PyTorch is not needed here. `make conformance` creates more cases,
which exclusions.py also covers.
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
def test_exported_pytorch_outputs_match_eager(name: str):
    assert not output_differences(case(name))


@pytest.mark.parametrize("name", [name for name in HELD if case(name).numbered("gradient") and name not in GRADIENTS])
def test_exported_pytorch_gradients_match_eager(name: str):
    assert not gradient_differences(case(name))


@pytest.mark.parametrize("name", sorted((OUTPUTS | GRADIENTS) & set(NAMES)))
def test_excluded_torch_case_still_differs_from_eager(name: str):
    try:
        found = (output_differences if name in OUTPUTS else gradient_differences)(case(name))
    except mg.Error:  # mpsgraph may also reject a model instead of returning wrong results.
        return
    assert found, "the case passes: remove it from exclusions.py"


def test_every_torch_exclusion_is_an_existing_case():
    unknown = (OUTPUTS | GRADIENTS) - set(NAMES)
    assert not unknown if DRAWN else all(not name.endswith(".0") for name in unknown)
