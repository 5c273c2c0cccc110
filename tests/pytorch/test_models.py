"""Train some models of torchvision and transformers for five steps with the backend and compile_step.

Losses are compared with eager mode. `models.py` trains all models.
"""

import importlib.util

import pytest

# PyTorch is optional: `make test-torch` creates an environment with it.
pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
from pytorch import models

pytestmark = pytest.mark.filterwarnings("ignore")

QUICK = {"resnet18": "torchvision", "bert": "transformers", "t5": "transformers"}


@pytest.mark.parametrize("name", QUICK)
def test_models_train_as_in_pytorch_without_fallbacks(name: str):
    if importlib.util.find_spec(QUICK[name]) is None:
        pytest.skip(f"{QUICK[name]} is not installed: make test-torch")
    assert models.differs(models.trained(name)) == ""
