"""ONNX's own backend cases through mpsgraph.onnx: 1,793 in the wheel onnx 1.20.1, 1,910 that onnx 1.23.2 makes.

Whichever of the two is installed is tested; `make conformance` tests both. exclusions.py lists by name and reason what
does not pass; a case there that passes, or one that is missing in a way other than it says, fails here.
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
COUNTS = {"1.20.1": (1793, 1520), "1.23.2": (1910, 1651)}  # cases, and those that give what they expect
TWO_IN_THE_LAST_PLACE = 2**-6  # of bfloat16: the suite's own tolerance
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
def test_case(case: Case):
    assert not differences(case)


@pytest.mark.parametrize("case", [c for c in HELD if c.name not in UNKNOWN], ids=lambda c: c.name)
def test_case_of_unknown_dimensions(case: Case):
    """The same with no size of any input stated, only how many axes there are."""
    proto = case.proto()
    initialisers = {tensor.name for tensor in proto.graph.initializer}
    for info in proto.graph.input:
        for i, dimension in enumerate(info.type.tensor_type.shape.dim if info.name not in initialisers else ()):
            dimension.dim_param = f"{info.name}_{i}"
    assert not differences(case, mg.onnx.load(proto))


@pytest.mark.parametrize("name", sorted(UNKNOWN))
def test_exclusion_of_unknown_dimensions_is_refused(name: str):
    with pytest.raises(mg.Error):
        test_case_of_unknown_dimensions(Case(name))


@pytest.mark.parametrize("kind", KINDS)
def test_packages_of_cases(kind: str, tmp_path):
    """What was loaded, written as a package and read again, is the same; models whose inputs decide shapes are none.

    Every fifth case; `make conformance` writes them all.
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
def test_exclusion_still_differs(name: str):
    assert differences(Case(name)), "it passes: take it out of exclusions.py"


@pytest.mark.parametrize("name", sorted(MISSING))
def test_what_is_missing_is_said(name: str):
    with pytest.raises(mg.UnsupportedError, match=r"\[onnx\]"):
        mg.onnx.load(Case(name).proto())


def test_the_suite_is_whole():
    assert DIFFERENT | MISSING <= NAMES, "exclusions.py names cases that there are not"
    assert (len(CASES), len(NAMES - DIFFERENT - MISSING)) == COUNTS[onnx.__version__]
