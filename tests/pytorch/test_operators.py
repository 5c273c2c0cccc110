"""A part of PyTorch's own samples of its operators through the backend; `operators.py` runs and counts all of them."""

import contextlib
import io
import json

import pytest

# PyTorch is no requirement of these tests: `make test-torch` has an environment with it.
torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
pytest.importorskip("expecttest", reason="PyTorch's own tests need expecttest: make test-torch")
from pytorch import operators  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

EVERY = 37
"""Samples stand two by two, so that an odd step takes first and last ones."""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, tuple[str, str]]:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        operators.run_part("", EVERY, 0, 1)
    return {name: (kind, why) for name, kind, why in map(json.loads, text.getvalue().splitlines())}


def test_samples_run_here_and_agree(outcomes):
    assert {name: why for name, (kind, why) in outcomes.items() if kind == "wrong"} == {}
    kinds = [kind for kind, _ in outcomes.values()]
    # What is refused is listed with its reason, or it would be wrong; few of a part are.
    assert kinds.count("passed") >= 25 and kinds.count("refused") <= 3, outcomes


@pytest.mark.parametrize("name", ["linalg.solve.0", "special.airy_ai.0", "nn.functional.grid_sample.1", "cumprod.1"])
def test_samples_of_families_that_are_compositions(name: str):
    (make,) = (make for known, make in operators.samples() if known == name)
    assert operators.outcome(name, make) == ("passed", "")


def test_what_depends_on_values_falls_to_pytorch_and_says_so():
    (make,) = (make for known, make in operators.samples() if known == "masked_select.0")
    kind, why = operators.outcome("masked_select.0", make)
    assert kind == "refused" and "masked_select" in why
