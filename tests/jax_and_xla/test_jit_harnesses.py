"""Run part of JAX's own primitive harnesses; tests/jax_and_xla/harnesses.py runs all of them."""

import importlib.util
import re
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="JAX is not installed: make test-jax")
pytest.importorskip("absl", reason="JAX's harnesses need absl-py: make test-jax")

pytestmark = pytest.mark.filterwarnings("default")


def load():
    spec = importlib.util.spec_from_file_location("jax_harnesses", Path(__file__).with_name("harnesses.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_two_jax_harnesses_per_group_pass_or_are_listed_as_unsupported():
    import jax

    runner = load()
    groups: dict[str, list] = {}
    with jax.enable_x64(True):
        for harness in runner.harnesses():
            groups.setdefault(harness.group_name, []).append(harness)
        assert len(groups) > 120
        outcomes = {}
        for chosen in groups.values():
            for harness in {chosen[len(chosen) // 3], chosen[-1]}:
                outcomes[harness.fullname] = runner.outcome(harness)
    listed = [pattern for pattern, _ in runner.WRONG]
    wrong = {
        name: why
        for name, (kind, why) in outcomes.items()
        if kind == "wrong" and not any(re.search(pattern, name) for pattern in listed)
    }
    refused = {name: why for name, (kind, why) in outcomes.items() if kind == "refused"}
    assert not wrong
    assert len(refused) <= 0.03 * len(outcomes), refused


def test_harness_runner_describes_differences_between_results():
    import numpy as np

    runner = load()
    one = np.float32([1, 2, np.nan])
    assert runner.differs(one, one, 1e-6) == ""
    assert "1 of 3" in runner.differs(one, np.float32([1, 3, np.nan]), 1e-6)
    assert "float64" in runner.differs(one, one.astype(np.float64), 1e-6)
    assert "2 of 2" in runner.differs(np.int32([1, 2]), np.int32([2, 1]), 0)
    a = np.diag([3.0, 2.0]) + 0.1
    u, s, vt = np.linalg.svd(a)
    assert runner.same_decomposition("svd", {}, a, (s, u, vt), (s, u, vt), 1e-10) == ""
    assert runner.same_decomposition("svd", {}, a, (s, u, vt[::-1]), (s, u, vt), 1e-10)
