"""Fixtures and hooks shared by all tests: the repository, reproducible random numbers, Hypothesis, and the device.

Tests import the installed package; the source tree is not added to the path. On device metal (harness/device.py), tests
marked `both_devices` run, and those in tests/metal, which only run there. What the device does not support must raise
UnsupportedError.
"""

import gc
import os
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest
from harness import device, grouped_cases
from hypothesis import HealthCheck, settings

# No deadline, as timing on a shared machine says nothing about correctness; derandomized, so that failures repeat.
settings.register_profile(
    "mpsgraph", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("mpsgraph")

# Keeps compiled custom operations with other temporary files for later runs, apart from the user's cache.
os.environ.setdefault("MPSGRAPH_CUSTOM_CACHE", str(Path(tempfile.gettempdir()) / f"mpsgraph-custom-{os.getuid()}"))

METAL_FOLDER = Path(__file__).resolve().parent / "metal"


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the root of the source tree."""
    return grouped_cases.REPOSITORY


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a random generator that is the same in every run of a test."""
    return grouped_cases.random_numbers()


def pytest_runtest_setup() -> None:
    """Make the seeds of trainers reproducible. The first trainer of each test gets seed 0."""
    device.mg.random.seed(0)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> object:
    """Keep the garbage collector from repeatedly scanning sixty thousand test cases, which live until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Collect tests/metal only on device metal; there, skip importing files without the marker."""
    if not device.IS_METAL:
        return True if collection_path == METAL_FOLDER else None
    if not collection_path.match("test_*.py") or collection_path.parent == METAL_FOLDER:
        return None
    return None if "both_devices" in collection_path.read_text() else True


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> object:
    """On an older system (MPSGRAPH_MOCK_MACOS), skip a test whose error states that a newer system is needed."""
    if not device.OLD_SYSTEM:
        return (yield)
    try:
        return (yield)
    except device.mg.UnsupportedError as error:
        if device.needs_newer(str(error)):
            pytest.skip(f"not supported on macOS {device.OLD_SYSTEM}: {error}")
        raise


def pytest_configure(config: pytest.Config) -> None:
    """Group the cases of a test if several processes share the tests."""
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(grouped_cases.OneOfSeveral(config))
    elif config.getoption("numprocesses", None):
        config.pluginmanager.register(grouped_cases.OverSeveral(config))


def _first_match(name: str, patterns: dict[str, str]) -> str | None:
    return next((text for pattern, text in patterns.items() if fnmatchcase(name, pattern)), None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On device metal, select the marked tests and tests/metal, and expect UnsupportedError where the device has no
    support.
    """
    if hasattr(config, "workerinput"):  # Run files that take long first, as several processes take files in turn.
        items.sort(key=lambda item: item.get_closest_marker("begins_early") is None)
    if not device.IS_METAL:
        return
    from harness.unsupported import GRADIENTS, NODES, OPEN, REASONS

    wanted = {i for i in items if i.path.parent == METAL_FOLDER or i.get_closest_marker("both_devices")}
    config.hook.pytest_deselected(items=[i for i in items if i not in wanted])
    items[:] = [i for i in items if i in wanted]
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        case = params.get("case")
        ids = (f"{case.id}-{params.get('dtype')}", case.id, case.operation) if hasattr(case, "operation") else ()
        # Tests of gradients have separate reasons, as computing a gradient does not always need the operation itself.
        reasons = GRADIENTS if "gradient" in item.originalname else REASONS
        reason = next((reasons[name] for name in ids if name in reasons), None)
        if item.path.parent.name == "nngraph":
            reason = _first_match(item.name, NODES)
            if undefined := _first_match(item.name, OPEN):
                item.add_marker(pytest.mark.skip(reason=f"Apple does not document {undefined}"))
        if reason:
            item.add_marker(pytest.mark.xfail(raises=device.mg.UnsupportedError, strict=True, reason=reason))
