"""Cases of the memory family, whose results equal their inputs.

Execution order and lifetime of variables are tested in tests/core/test_control_flow.py.
"""

import numpy as np
from harness.case import ANY, Case, apart

X = apart(2, 3, seed=120)


def fed(graph, x):
    return graph.identity(x)


def beside_constant(graph, x):
    return graph.select(graph.constant(True), x, x)


def through_variable(graph, x):
    """Assign x to a variable and read it back."""
    variable = graph.variable(np.zeros(X.shape, x.dtype.numpy), dtype=x.dtype)
    return graph.control_dependency([graph.assign(variable, x)], lambda: graph.read(variable))


def moved(operation, build, oracle, label):
    return Case(
        operation, [X], oracle, build=build, label=label, dtypes=ANY, exact=True, gradient=False, unranked=False
    )


CASES = [
    moved("placeholder", fed, lambda x: x, "fed"),
    moved("constant", beside_constant, lambda x: x, "predicate"),
    moved("variable", through_variable, lambda x: x, "assigned"),
    moved("assign", through_variable, lambda x: x, "then_read"),
    moved("read", through_variable, lambda x: x, "after_assign"),
]
