"""What all tests share: where the repository is, random numbers that repeat, how Hypothesis runs, and the device.

Tests import the installed package; nothing here puts the source tree on the path. On device metal (harness/device.py)
those run that say the same there, and those in tests/apple; what the device cannot do must raise UnsupportedError.
"""

from pathlib import Path

import numpy as np
import pytest
from harness import device
from hypothesis import HealthCheck, settings

# Timing on a shared machine says nothing about correctness, so no deadline; derandomised, so that a failure repeats.
settings.register_profile(
    "mpsgraph", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("mpsgraph")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the source tree."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers that are the same in every run of a test."""
    return np.random.default_rng(20240911)


ON_METAL = {
    "test_operations.py": "",
    "test_gradients.py": "test_single_gradients",
    "test_batch_normalization.py": "test_every_form_is_the",
    "test_batch_normalization_bfloat16.py": "test_every_form_is_the",
    "test_call.py": "",
    "test_control_flow.py": "",
    "test_deciding_values.py": "",
    "test_exact_integers.py": "",
    "test_extremes.py": ("test_relu_of", "test_remainders", "test_the_gradient"),
    "test_half_precision.py": "",
    "test_inference.py": "",
    "test_loop_gradients.py": "",
    "test_mixed_precision.py": "",
    "test_nn_extremes.py": "",
    "test_nn_half.py": "",
    "test_nn_padding.py": "",
    "test_nn_real_steps.py": "",
    "test_onnx_numbers.py": "",
    "test_onnx_standard.py": "",
    "test_out_of_range.py": "",
    "test_random.py": "",
    "test_recurrent.py": "",
    "test_running.py": "",
    "test_runtime.py": "",
    "test_runtime_process.py": "",
    "test_sharing_memory.py": "",
    "test_starts_as_data.py": "",
    "test_trainer.py": "",
    "test_trainer_meaning.py": "",
    "test_zero_copy.py": "",
}  # file: what the names of its tests begin with
# What tests/apple/test_metal_training.py says instead.
TOO_LONG = {
    "test_the_demo",
    "test_the_digit_classifier_reaches_95_percent",
    "test_the_digit_classifier_is_as_good_in_every_precision",
}


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """On each device its own files."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    of_apple = collection_path.parent.name == "apple"
    if device.IS_METAL:
        return None if of_apple or collection_path.name in ON_METAL else True
    return True if of_apple else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What device metal cannot do is expected to say so."""
    if not device.IS_METAL:
        return
    from apple.unsupported import GRADIENTS, REASONS

    wanted = [i for i in items if i.originalname not in TOO_LONG]
    items[:] = [i for i in wanted if i.originalname.startswith(ON_METAL.get(i.path.name, ""))]
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        case = params.get("case")
        ids = (f"{case.id}-{params.get('dtype')}", case.id, case.operation) if case else ()
        reasons = GRADIENTS if "gradient" in item.originalname else REASONS  # a derivative may do without the operation
        reason = next((reasons[name] for name in ids if name in reasons), None)
        if reason:
            item.add_marker(pytest.mark.xfail(raises=device.mg.UnsupportedError, strict=True, reason=reason))
