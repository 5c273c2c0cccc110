"""Run part of PyTorch's own operator samples through the backend; `operators.py` runs and counts all of them."""

import contextlib
import io
import json

import pytest

# PyTorch is optional: `make test-torch` creates an environment with it.
torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
pytest.importorskip("expecttest", reason="PyTorch's own tests need expecttest: make test-torch")
from pytorch import operators  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

EVERY = 37
"""Samples come in pairs, so an odd step selects both first and last samples."""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, tuple[str, str]]:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        operators.run_part("", EVERY, 0, 1)
    return {name: (kind, why) for name, kind, why in map(json.loads, text.getvalue().splitlines())}


def test_operator_samples_match_pytorch_or_are_rejected_with_a_reason(outcomes):
    assert {name: why for name, (kind, why) in outcomes.items() if kind == "wrong"} == {}
    kinds = [kind for kind, _ in outcomes.values()]
    # A refused sample without a listed reason counts as wrong; few samples are refused.
    assert kinds.count("passed") >= 25 and kinds.count("refused") <= 3, outcomes


@pytest.mark.parametrize("name", ["linalg.solve.0", "special.airy_ai.0", "nn.functional.grid_sample.1", "cumprod.1"])
def test_samples_of_composite_operators_match_pytorch(name: str):
    (make,) = (make for known, make in operators.samples() if known == name)
    assert operators.outcome(name, make) == ("passed", "")


def test_data_dependent_size_falls_back_and_is_reported():
    (make,) = (make for known, make in operators.samples() if known == "masked_select.0")
    kind, why = operators.outcome("masked_select.0", make)
    assert kind == "refused" and "masked_select" in why
