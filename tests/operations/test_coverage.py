"""Test that every operation is covered: by cases, gradient checks, and documentation.

Every differentiable operand needs a gradient check, and the documentation of every public method must name the source
of its definition. A new operation fails here until tests/cases covers it.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import cases
import mpsgraph as mg
import pytest
from harness.case import Case, method_name
from harness.derivatives import has_slope
from harness.differentiable import CHECKED, NOT_EMPTY
from harness.running import build
from mpsgraph import _core

DEFINITIONS = {d["name"]: d for d in _core.definitions()}
PUBLIC = {name: d for name, d in DEFINITIONS.items() if not d["internal"]}
# Operations that cannot run with feeds alone, or do more than return results, and the tests that cover them.
OF_THEIR_OWN = {
    **{"call": "core/test_call.py", "check": "core/test_debugging.py", "print": "core/test_debugging.py"},
    "custom": "custom/test_custom_operation.py",
}


def cases_of(operation: str) -> list[Case]:
    return [c for c in cases.ALL if c.operation == operation]


def test_public_operations_include_common_kinds():
    assert len(PUBLIC) > 130 and {"convolution2d", "if", "random", "adam"} <= set(PUBLIC)


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - set(OF_THEIR_OWN)))
def test_every_operation_has_cases_in_the_file_of_its_family(name: str):
    own = cases_of(name)
    assert own, f"add a case of {name} to tests/cases/{PUBLIC[name]['family']}.py"
    assert all(c in cases.BY_FAMILY[PUBLIC[name]["family"]] for c in own)
    assert any(name in kinds_of(c) for c in own), "at least one case must build the operation"


def test_case_ids_are_unique_and_cover_all_public_operations():
    assert {c.operation for c in cases.ALL} == set(PUBLIC) - set(OF_THEIR_OWN)
    assert all((Path(__file__).parents[1] / file).exists() for file in OF_THEIR_OWN.values())
    ids = [c.id for c in cases.ALL]
    assert sorted({i for i in ids if ids.count(i) > 1}) == []


def operations_of(case: Case, dtype: str) -> list[_core.Operation]:
    """Return all operations that the case builds, including those in blocks."""
    found = []

    def visit(operations) -> None:
        for operation in operations:
            found.append(operation)
            for block in operation.blocks:
                visit(block.operations)

    visit(build(case, dtype).graph.operations)
    return found


def kinds_of(case: Case) -> set[str]:
    return {o.kind for o in operations_of(case, (*case.dtypes, "float32")[0])}


def exact_operations_of(case: Case) -> list[_core.Operation]:
    """Return the operations that the case builds in its gradient-check dtype, or none without such a dtype."""
    if case.dtypes and not case.exact_dtypes:
        return []
    return operations_of(case, (*case.exact_dtypes, "float64")[0])


def checked_operands(name: str, checked: list[Case]) -> tuple[set[int], set[int]]:
    """Return the operand indices that are floating point in some case, and those whose gradient is checked."""
    seen, compared = set(), set()
    for case in cases_of(name):
        for operation in exact_operations_of(case):
            if operation.kind != name:
                continue
            floats = {i for i, x in enumerate(operation.inputs) if has_slope(x)}
            seen |= floats
            if case in checked:
                compared |= {i for i in floats if operation.inputs[i].operation.kind == "placeholder"}
    return seen, compared


# Operations whose gradient does not depend on a fed operand, and the tests that check it instead.
ELSEWHERE = {
    "read": "test_variable_gradient_sums_over_reads",
    "if": "test_gradient_through_if_reaches_only_the_taken_branch",
    "straight_through": "test_straight_through_passes_gradient_to_source",
}
DIFFERENTIABLE = [
    name
    for name, d in PUBLIC.items()
    if (d["has_gradient"] or d["gradient_is_zero"] or d["is_composite"]) and name not in ELSEWHERE
]


@pytest.mark.parametrize("name", sorted(DIFFERENTIABLE))
def test_every_differentiable_operand_has_a_gradient_check(name: str):
    made = [o for c in cases_of(name) for o in exact_operations_of(c) if o.kind == name]
    if not any(has_slope(r) for o in made for r in o.outputs):
        return  # comparisons, logic, bits, arg reductions: no gradient can reach the operands
    seen, compared = checked_operands(name, CHECKED)
    assert seen == compared, (
        f"the gradients of operands {sorted(seen - compared)} are never compared with finite differences"
    )
    occurring = {i for o in made for i in range(len(o.inputs))}
    assert occurring >= set(range(PUBLIC[name]["max_inputs"])), (
        "every operand, including optional ones, must occur in a case"
    )


@pytest.mark.parametrize("name", sorted(n for n in DIFFERENTIABLE if PUBLIC[n]["has_gradient"]))
def test_every_gradient_rule_has_a_second_order_check(name: str):
    twice = any(c.operation == name for c in NOT_EMPTY)  # test_second_order covers these
    assert twice or name in ELSEWHERE or not checked_operands(name, CHECKED)[1]


def test_listed_gradient_tests_exist():
    from operations import test_gradients

    for name, test in ELSEWHERE.items():
        assert name in PUBLIC and callable(getattr(test_gradients, test))


# --- documentation ----------------------------------------------------------------------------------------------------
def public_methods() -> dict[str, object]:
    return {
        name: member
        for name, member in inspect.getmembers(mg.Graph, inspect.isfunction)
        if not name.startswith("_") and member.__module__.startswith("mpsgraph.")
    }


OF_FAMILIES = {n: m for n, m in public_methods().items() if ".ops." in m.__module__}


def test_every_operation_has_a_graph_method():
    names = {method_name(name) for name in PUBLIC}
    assert names - set(OF_FAMILIES) == {"custom"}, "only custom operations have their own function, mg.custom_operation"


@pytest.mark.parametrize("name", sorted(public_methods()))
def test_every_graph_method_is_documented(name: str):
    text = inspect.getdoc(public_methods()[name])
    assert text, f"{name} has no docstring"
    assert re.match(r".+[.?]$", text.split("\n\n")[0], re.DOTALL), "the docstring must begin with a sentence"


@pytest.mark.parametrize("name", sorted(OF_FAMILIES))
def test_every_operation_method_has_source_and_example(name: str):
    text = inspect.getdoc(OF_FAMILIES[name])
    assert re.search(r"Source:\s*\S", text), f"the docstring of {name} must name the source of its definition"
    assert ">>>" in text, f"the docstring of {name} must contain an example"
