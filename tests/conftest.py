"""What all tests share: where the repository is, random numbers that repeat, and how Hypothesis runs.

Tests import the installed package; nothing here puts the source tree on the path.
"""

from pathlib import Path

import numpy as np
import pytest
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
