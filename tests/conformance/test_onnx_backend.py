"""Run ONNX's own backend cases through mpsgraph.onnx: 1,793 cases of onnx 1.20.1 or 1,910 of onnx 1.23.2.

The installed version determines the cases; `make conformance` tests both. exclusions.py lists cases that do not pass,
by name and reason; a listed case fails here if it passes, or if it fails in a different way than listed.
"""

import mpsgraph as mg
import onnx
import pytest
from conformance.comparing import difference
from conformance.exclusions import (
    ONNX_DIFFERENT,
    ONNX_DIFFERENT_IN_MEMORY,
    ONNX_DIFFERENT_ON_DISK,
    ONNX_MISSING,
    ONNX_UNKNOWN,
    reasons,
)
from conformance.onnx_backend import KINDS, ON_DISK, Case, all_cases
from conformance.torch_cases import DRAWN

CASES = all_cases()
NAMES = {case.name for case in CASES}
OF_THESE = ONNX_DIFFERENT_ON_DISK if ON_DISK else ONNX_DIFFERENT_IN_MEMORY
DIFFERENT, MISSING = set(reasons(ONNX_DIFFERENT | OF_THESE)), set(reasons(ONNX_MISSING))
# Number of cases and number of passing cases, by version of onnx.
COUNTS = {"1.20.1": (1793, 1520), "1.23.2": (1910, 1651)}
TWO_IN_THE_LAST_PLACE = 2**-6  # Tolerance for bfloat16. Other dtypes use the suite's own tolerance.
UNKNOWN = set(reasons(ONNX_UNKNOWN))


def differences(case: Case, model: mg.Model | None = None) -> list[str]:
    model = mg.onnx.load(case.proto()) if model is None else model
    rtol, atol = case.tolerances()
    found = []
    for feeds, expected in case.data_sets():
        results = model.run(feeds)
        for name, value in expected.items():
            near = max(rtol, TWO_IN_THE_LAST_PLACE) if value.dtype.name == "bfloat16" else rtol
            wrong = difference(results[name].numpy(), value, near, atol)
            found += [f"{name}: {wrong}"] if wrong else []
    return found


HELD = [case for case in CASES if case.name not in DIFFERENT | MISSING]


@pytest.mark.parametrize("case", HELD, ids=lambda c: c.name)
def test_onnx_backend_case_matches_expected_outputs(case: Case):
    assert not differences(case)


@pytest.mark.parametrize("case", [c for c in HELD if c.name not in UNKNOWN], ids=lambda c: c.name)
def test_onnx_backend_cases_pass_with_dynamic_dimensions(case: Case):
    """Run each case with only the ranks of its inputs known."""
    proto = case.proto()
    initialisers = {tensor.name for tensor in proto.graph.initializer}
    for info in proto.graph.input:
        for i, dimension in enumerate(info.type.tensor_type.shape.dim if info.name not in initialisers else ()):
            dimension.dim_param = f"{info.name}_{i}"
    assert not differences(case, mg.onnx.load(proto))


@pytest.mark.parametrize("name", sorted(UNKNOWN))
def test_excluded_cases_with_dynamic_dimensions_raise(name: str):
    with pytest.raises(mg.Error):
        test_onnx_backend_cases_pass_with_dynamic_dimensions(Case(name))


@pytest.mark.parametrize("kind", KINDS)
def test_packages_of_imported_onnx_cases_give_equal_results(kind: str, tmp_path):
    """Save each imported model as a package and load it again, except models whose inputs define shapes.

    Runs every fifth case; `make conformance` runs all.
    """
    found, written = {}, 0
    for case in [case for case in HELD if case.name.startswith(f"{kind}/")][:: 1 if DRAWN else 5]:
        model = mg.onnx.load(case.proto())
        if not isinstance(model, mg.onnx.DeferredModel):
            model.save(tmp_path / "case.mpsgraph")
            read = mg.load(tmp_path / "case.mpsgraph")
            assert {name: x.type for name, x in read.inputs.items()} == {n: x.type for n, x in model.inputs.items()}
            found[case.name] = differences(case, read)
            written += 1
    assert written and not {name: wrong for name, wrong in found.items() if wrong}


@pytest.mark.parametrize("name", sorted(DIFFERENT))
def test_excluded_onnx_case_still_differs_from_reference(name: str):
    assert differences(Case(name)), "the case passes: remove it from exclusions.py"


@pytest.mark.parametrize("name", sorted(MISSING))
def test_unsupported_onnx_case_raises(name: str):
    with pytest.raises(mg.UnsupportedError, match=r"\[onnx\]"):
        mg.onnx.load(Case(name).proto())


def test_suite_is_complete():
    assert DIFFERENT | MISSING <= NAMES, "exclusions.py lists cases that do not exist"
    assert (len(CASES), len(NAMES - DIFFERENT - MISSING)) == COUNTS[onnx.__version__]
