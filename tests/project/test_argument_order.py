"""Check that no C++ expression leaves the order of a graph's operations to the compiler (tools/argument_order.py)."""

import importlib.util

import pytest
from harness.grouped_cases import REPOSITORY

spec = importlib.util.spec_from_file_location("argument_order", REPOSITORY / "tools" / "argument_order.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)
WRITTEN = tool.written()
BUILDER = {
    path: text for path, text in WRITTEN.items() if path.startswith(("include/mpsgraph/core/", "src/core/builder"))
}

HELPERS = """
struct Pair { Tensor *a, *b; };
Tensor* helper(Builder& b, Tensor* x) { return b.neg(x); }
Pair both(Builder& b, Tensor* x) { return {b.neg(x), x}; }
int rank_of(Builder& b, Tensor* x) { return x->shape().rank(); }
"""
OPERATORS = (
    "Term operator*(Term a, Term b) { return {a.b, a.b->mul(a.x, b.x)}; }\nstruct Term { Builder* b; Tensor* x; };\n"
)


def test_no_expression_leaves_the_order_of_operations_to_the_compiler():
    assert tool.found(WRITTEN) == []


def planted(statement: str, before: str = HELPERS) -> list[str]:
    """Return what the tool finds in a file that has one statement in a function."""
    found = tool.found(BUILDER | {"src/planted.cpp": f"{before}void planted() {{\n  {statement}\n}}\n"})
    assert all(line.startswith(f"src/planted.cpp:{before.count(chr(10)) + 2}: ") for line in found), found
    return found


@pytest.mark.parametrize(
    "statement",
    [
        "return b.div(b.sum(x, axes), b.reduced_count(x, axes));",
        "return builder->binary(kind, helper(b, x), b.scalar_like(x, 0));",
        "return weighed(both(b, x), helper(b, y));",
        "set(0, {b.cast(x, dtype)}, b.graph().add(kind, {x}));",
        "Site site(helper(b, x), b.ints({1}));",
        "const auto twice = [&](Tensor* t) { return b.mul(t, 2.0); }; use(twice(x), twice(y));",
        "if (x) run([&] { use(b.neg(x), b.neg(y)); });",
        'return b.binary("(", b.neg(x),  // a comment with a )\n                  b.neg(y));',
    ],
)
def test_two_arguments_that_create_operations_are_found(statement: str):
    assert len(planted(statement)) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "return b.div(b.sum(x, axes), count);",
        "use({b.neg(x), b.neg(y)});",
        "use(Pair{b.neg(x), b.neg(y)}, x->shape());",
        "use(b.neg(x), [&] { return b.neg(y); });",
        'use(b.neg(x), rank_of(b, x), g.input(0), g.incoming(), r.now(x), text("b.neg(x)"));',
        "Tensor *p = b.neg(x), *q = b.neg(y);",
        "b.neg(b.neg(b.neg(x)));",
        "for (Tensor* t = b.neg(x); t; t = b.neg(t)) use(t);",
    ],
)
def test_expressions_that_create_operations_in_order_are_accepted(statement: str):
    assert planted(statement) == []


@pytest.mark.parametrize(
    ("statement", "count"),
    [
        ("return (x * y) * (y * z);", 1),
        ("return x * y + y * z;", 1),
        ("return x + y - of(kind, x * y);", 1),
        ("use(x * y, y * z);", 1),
        ("const Term right = y * z;  return x * -0.5 * right;", 0),
        ("return x * (y * z);", 0),
        ("return x == y ? x * y : y * z;", 0),
    ],
)
def test_operands_of_operators_on_tensors_are_found(statement: str, count: int):
    assert len(planted(statement, OPERATORS)) == count
