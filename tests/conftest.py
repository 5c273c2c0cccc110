"""What all tests share: where the repository is, random numbers that repeat, how Hypothesis runs, and the device.

Tests import the installed package; nothing here puts the source tree on the path. On device metal (harness/device.py)
those run that are marked `both_devices`, and those in the room metal, which run there only; what the device cannot do
must raise UnsupportedError.
"""

import gc
import os
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest
from harness import device, together
from hypothesis import HealthCheck, settings

# Timing on a shared machine says nothing about correctness, so no deadline; derandomised, so that a failure repeats.
settings.register_profile(
    "mpsgraph", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("mpsgraph")

# Compiled sources of custom operations are kept with other temporary files, for the next run too, not with the user's.
os.environ.setdefault("MPSGRAPH_CUSTOM_CACHE", str(Path(tempfile.gettempdir()) / f"mpsgraph-custom-{os.getuid()}"))

METAL_ROOM = Path(__file__).resolve().parent / "metal"


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the source tree."""
    return together.REPOSITORY


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers that are the same in every run of a test."""
    return together.random_numbers()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> object:
    """Sixty thousand cases stay until the end: nothing that the garbage collector should walk over again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """The room metal is for device metal only; there, files without the marker need not be imported."""
    if not device.IS_METAL:
        return True if collection_path == METAL_ROOM else None
    if not collection_path.match("test_*.py") or collection_path.parent == METAL_ROOM:
        return None
    return None if "both_devices" in collection_path.read_text() else True


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> object:
    """On a system that is older than the newest (MPSGRAPH_MOCK_MACOS) what needs a newer one must say so."""
    if not device.OLD_SYSTEM:
        return (yield)
    try:
        return (yield)
    except device.mg.UnsupportedError as error:
        if device.needs_newer(str(error)):
            pytest.skip(f"as it must on macOS {device.OLD_SYSTEM}: {error}")
        raise


def pytest_configure(config: pytest.Config) -> None:
    """Where several processes share the tests, the cases of one are together."""
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(together.OneOfSeveral(config))
    elif config.getoption("numprocesses", None):
        config.pluginmanager.register(together.OverSeveral(config))


def _first_match(name: str, patterns: dict[str, str]) -> str | None:
    return next((text for pattern, text in patterns.items() if fnmatchcase(name, pattern)), None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On device metal what is marked and the room metal; what the device cannot do is expected to say so."""
    if hasattr(config, "workerinput"):  # this process and others take files in turn
        items.sort(key=lambda item: item.get_closest_marker("begins_early") is None)
    if not device.IS_METAL:
        return
    from harness.unsupported import GRADIENTS, NODES, OPEN, REASONS

    wanted = {i for i in items if i.path.parent == METAL_ROOM or i.get_closest_marker("both_devices")}
    config.hook.pytest_deselected(items=[i for i in items if i not in wanted])
    items[:] = [i for i in items if i in wanted]
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        case = params.get("case")
        ids = (f"{case.id}-{params.get('dtype')}", case.id, case.operation) if hasattr(case, "operation") else ()
        reasons = GRADIENTS if "gradient" in item.originalname else REASONS  # a derivative may do without the operation
        reason = next((reasons[name] for name in ids if name in reasons), None)
        if item.path.parent.name == "nngraph":
            reason = _first_match(item.name, NODES)
            if undefined := _first_match(item.name, OPEN):
                item.add_marker(pytest.mark.skip(reason=f"Apple does not say: {undefined}"))
        if reason:
            item.add_marker(pytest.mark.xfail(raises=device.mg.UnsupportedError, strict=True, reason=reason))
