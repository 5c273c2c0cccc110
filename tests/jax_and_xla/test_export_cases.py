"""Run every case of tests/cases as a JAX function on the CPU and compare it with the CPU device.

Values are compared in all dtypes, and gradients in the exact dtypes. The cases of an operation are compiled together,
which takes a tenth of the time. Cases that cannot be exported are listed in harness/not_in_xla.py and must raise.
"""

from collections.abc import Callable
from itertools import groupby

import cases
import mpsgraph as mg
import numpy as np
import pytest
from harness import dtypes
from harness.case import Case
from harness.case_selection import dtypes_of
from harness.derivatives import loss_of
from harness.differentiable import CHECKED
from harness.not_in_xla import EXCLUDED, reason
from harness.running import build, feeds

# JAX is optional: `make test-jax` creates an environment with it.
jax = pytest.importorskip("jax", reason="JAX is not installed: make test-jax")

pytestmark = [pytest.mark.begins_early, pytest.mark.filterwarnings("ignore")]
LOOP_LIMIT = 16  # The limit exceeds the iteration count of every loop with a dynamic end in the cases.
FIRST = ("float32", "bfloat16", "complex64", "int32", "uint8", "bool")
OTHERS = ("float64", "float16", "complex128", "int8", "int16", "int64", "uint16", "uint32", "uint64")
GRADIENT_TOLERANCE = 1e-9


def by_operation(chosen: list[Case]) -> dict[str, list[Case]]:
    included = sorted((case for case in chosen if reason(case) is None), key=lambda case: case.operation)
    return {operation: list(group) for operation, group in groupby(included, lambda case: case.operation)}


VALUES, GRADIENTS = by_operation(cases.ALL), by_operation(CHECKED)
LEFT_OUT = [case for case in cases.ALL if reason(case) is not None]


class Outside:
    """The results of one case on the CPU device, and the exported function that must return the same."""

    def __init__(self, name: str, built: object, arrays: list[np.ndarray], targets: list[mg.Tensor]) -> None:
        self.name = name
        fed = dict(zip(built.placeholders, arrays, strict=True))
        on_device = built.graph.run(fed, targets)
        self.wanted = [on_device[target] for target in targets]
        inputs = {f"x{i}": tensor for i, tensor in enumerate(built.placeholders)}
        self.function = mg.jax.function(built.graph, targets, inputs=inputs, loop_limit=LOOP_LIMIT)
        self.arguments = self.function.state(), dict(zip(inputs, arrays, strict=True))


def run(all_of_them: list[Outside]) -> list[list[np.ndarray]]:
    """Run all functions as a single jitted one, with 64-bit types enabled."""

    def together(arguments: list) -> list:
        return [one.function(*given)[0] for one, given in zip(all_of_them, arguments, strict=True)]

    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(together)([one.arguments for one in all_of_them]))


def assert_all_equal(all_of_them: list[Outside], tolerance: Callable[[Outside, str], float]) -> None:
    for one, found in zip(all_of_them, run(all_of_them), strict=True):
        for value, device in zip(found, one.wanted, strict=True):
            assert (value.dtype, value.shape) == (device.numpy().dtype, device.shape), one.name
            name = str(device.dtype)
            got, wanted = dtypes.plain(value, name), dtypes.plain(device.numpy(), name)
            if device.dtype.is_float or device.dtype.is_complex:
                allowed = tolerance(one, name)
                np.testing.assert_allclose(got, wanted, rtol=allowed, atol=allowed, err_msg=one.name)
            else:
                np.testing.assert_array_equal(got, wanted, err_msg=one.name)


def assert_values(operation: str, chosen: tuple[str, ...]) -> None:
    factors, made = {}, []
    for case in VALUES[operation]:
        for dtype in dtypes_of(case):
            if dtype in chosen:
                name = f"{case.id}-{dtype}"
                factors[name] = 2 * case.tolerance
                built = build(case, dtype)
                made.append(Outside(name, built, feeds(case.inputs, dtype), built.results))
    if not made:
        pytest.skip("supports none of these dtypes")
    assert_all_equal(made, lambda one, dtype: factors[one.name] * dtypes.TOLERANCE[dtype])


@pytest.mark.parametrize("operation", VALUES)
def test_exported_values_match_cpu_device(operation: str):
    assert_values(operation, FIRST)


@pytest.mark.slow
@pytest.mark.parametrize("operation", VALUES)
def test_exported_operations_match_graph_in_other_dtypes(operation: str):
    assert_values(operation, OTHERS)


@pytest.mark.parametrize("operation", GRADIENTS)
def test_exported_gradients_match_cpu_device(operation: str):
    made = []
    for case in GRADIENTS[operation]:
        built, loss, wanted, arrays = loss_of(case)
        made.append(Outside(case.id, built, arrays, list(built.graph.gradients(loss, wanted).values())))
    assert_all_equal(made, lambda one, dtype: GRADIENT_TOLERANCE)


@pytest.mark.parametrize("case", LEFT_OUT, ids=lambda case: case.id)
def test_excluded_cases_raise(case: Case):
    dtype = dtypes_of(case)[0]
    built, arrays = build(case, dtype), feeds(case.inputs, dtype)
    function = mg.jax.function(built.graph, built.results)
    with jax.enable_x64(True), pytest.raises(mg.Error):
        function.program(
            {p.name: a for p, a in zip(built.placeholders, arrays, strict=True) if p.name in function.inputs}
        )


def test_every_export_exclusion_is_an_existing_case():
    used = {name for name in EXCLUDED for case in LEFT_OUT if reason(case) == EXCLUDED[name]}
    assert used == set(EXCLUDED)
