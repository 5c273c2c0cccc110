"""Every case of tests/cases as a function of JAX on its CPU: the values of the CPU device, and its gradients in the exact
types. What cannot go out stands in harness/not_in_xla.py with its reason, and must say so."""

import cases
import mpsgraph as mg
import numpy as np
import pytest
from harness import dtypes
from harness.case import Case
from harness.chosen import dtypes_of
from harness.derivatives import loss_of
from harness.differentiable import CHECKED
from harness.running import build, feeds

# JAX is no requirement of these tests: `make test-jax` has an environment with it.
jax = pytest.importorskip("jax", reason="JAX is not installed: make test-jax")
from harness.not_in_xla import EXCLUDED  # noqa: E402

pytestmark = [pytest.mark.begins_early, pytest.mark.filterwarnings("ignore")]
LOOP_LIMIT = 16  # more iterations than a loop of the cases makes that only the run ends


def reason(case: Case) -> str | None:
    return EXCLUDED.get(case.id, EXCLUDED.get(case.operation))


INCLUDED = [case for case in cases.ALL if reason(case) is None]
LEFT_OUT = [case for case in cases.ALL if reason(case) is not None]
BY_TYPE = [(case, dtype) for case in INCLUDED for dtype in dtypes_of(case)]


def outside(graph: mg.Graph, placeholders: list, arrays: list, targets: list) -> list[np.ndarray]:
    """The targets by the function, jitted, in types of 64 bits as they come."""
    inputs = {f"x{i}": tensor for i, tensor in enumerate(placeholders)}
    function = mg.jax.function(graph, targets, inputs=inputs, loop_limit=LOOP_LIMIT)
    with jax.enable_x64(True):
        found, _ = jax.jit(function)(function.state(), dict(zip(inputs, arrays, strict=True)))
        return [np.asarray(value) for value in found]


def as_number_types(value: np.ndarray, like: mg.NDArray) -> tuple[np.ndarray, np.ndarray]:
    return dtypes.plain(value, str(like.dtype)), dtypes.plain(like.numpy(), str(like.dtype))


def assert_equal(case: Case, found: np.ndarray, device: mg.NDArray) -> None:
    assert found.dtype == device.numpy().dtype and found.shape == device.shape
    got, wanted = as_number_types(found, device)
    if not (device.dtype.is_float or device.dtype.is_complex):
        np.testing.assert_array_equal(got, wanted)
        return
    tolerance = 2 * dtypes.TOLERANCE[str(device.dtype)] * case.tolerance
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("case", "dtype"), BY_TYPE, ids=[f"{c.id}-{d}" for c, d in BY_TYPE])
def test_values(case: Case, dtype: str):
    built, arrays = build(case, dtype), feeds(case.inputs, dtype)
    on_device = built.run(arrays)
    for found, wanted in zip(outside(built.graph, built.placeholders, arrays, built.results), on_device, strict=True):
        assert_equal(case, found, wanted)


@pytest.mark.parametrize("case", [c for c in CHECKED if reason(c) is None], ids=lambda case: case.id)
def test_gradients(case: Case):
    built, loss, wanted, arrays = loss_of(case)
    gradients = list(built.graph.gradients(loss, wanted).values())
    on_device = built.run(arrays) and built.graph.run(dict(zip(built.placeholders, arrays, strict=True)), gradients)
    for found, gradient in zip(outside(built.graph, built.placeholders, arrays, gradients), gradients, strict=True):
        np.testing.assert_allclose(found, on_device[gradient].numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", LEFT_OUT, ids=lambda case: case.id)
def test_what_is_left_out_says_so(case: Case):
    dtype = dtypes_of(case)[0]
    built, arrays = build(case, dtype), feeds(case.inputs, dtype)
    with pytest.raises(mg.UnsupportedError):
        outside(built.graph, built.placeholders, arrays, built.results)


def test_the_exclusions_are_of_cases_that_are():
    assert EXCLUDED.keys() <= {case.id for case in cases.ALL} | {case.operation for case in cases.ALL}
