"""Compare every kind of filter with a formula in numpy, and its gradients with central differences."""

import pytest
from harness import node_cases, node_window_cases
from harness.nodes import NodeCase, check_gradient, check_value
from mpsgraph import nngraph as nn

pytestmark = pytest.mark.both_devices

CASES = [*node_cases.CASES, *node_window_cases.CASES]
ELSEWHERE = {  # These kinds need labels or random numbers and have their own tests.
    "loss": "test_losses.py",
    "forward_loss": "test_losses.py",
    "yolo_loss": "test_yolo_loss.py",
    "dropout": "test_dropout.py",
    "dropout_gradient": "test_states.py",
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_filter_value_matches_numpy(case: NodeCase):
    check_value(case)


@pytest.mark.parametrize("case", [c for c in CASES if c.gradient], ids=str)
def test_filter_gradient_matches_finite_differences(case: NodeCase):
    check_gradient(case)


def test_every_filter_node_class_has_a_test_case():
    table = {row["name"]: row for row in nn.node_table()}
    tried = {case.kind for case in CASES}
    assert tried | ELSEWHERE.keys() == table.keys()
    assert tried.isdisjoint(ELSEWHERE)
    derived = {case.kind for case in CASES if case.gradient} | {"dropout", "forward_loss"}
    assert derived == {name for name, row in table.items() if row["apple_gradient"]}
    assert all(bool(row["without"]) != bool(row["apple_gradient"]) for row in table.values())
