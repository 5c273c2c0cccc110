"""Some models of torchvision and transformers, five steps by the backend and by compile_step beside eager; `models.py`
trains all of them."""

import importlib.util

import pytest

# PyTorch is no requirement of these tests: `make test-torch` has an environment with it.
pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
from pytorch import models

pytestmark = pytest.mark.filterwarnings("ignore")

QUICK = {"resnet18": "torchvision", "bert": "transformers", "t5": "transformers"}


@pytest.mark.parametrize("name", QUICK)
def test_models_train_as_in_pytorch_and_nothing_falls(name: str):
    if importlib.util.find_spec(QUICK[name]) is None:
        pytest.skip(f"{QUICK[name]} is not installed: make test-torch")
    assert models.differs(models.trained(name)) == ""
