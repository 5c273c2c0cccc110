"""Test that the methods of Graph that derive from the C++ definitions match them, and how they bind arguments."""

from __future__ import annotations

import inspect
import subprocess
import sys

import mpsgraph as mg
import pytest
from mpsgraph.ops.schema import Schema, elementwise, schema, schemas

DERIVED = {name: one for name, one in schemas().items() if one.parameters}
BY_OTHERS = {"padding_style"}  # The argument `padding` becomes two attributes.


def test_most_operations_derive_from_their_definitions():
    public = [one for one in schemas().values() if not one.definition["internal"]]
    assert len(DERIVED) > 160 and len(DERIVED) > 0.75 * len(public)


@pytest.mark.parametrize("one", DERIVED.values(), ids=DERIVED)
def test_parameters_cover_operands_and_attributes(one: Schema):
    definition, operands = one.definition, one.operands
    attributes = {p.name for p in one.parameters if not p.is_operand and p.kind != "name"}
    assert attributes == set(definition["attributes"]) - BY_OTHERS
    most = definition["max_inputs"] - len(one.tensor_attributes)
    if any(p.kind == "tensors" for p in operands):
        assert most < 0
    else:
        assert len(operands) == most
        assert len(operands) - sum(p.kind == "optional" for p in operands) == definition["min_inputs"]


@pytest.mark.parametrize("one", DERIVED.values(), ids=DERIVED)
def test_documentation_has_no_long_lines(one: Schema):
    text = inspect.getdoc(getattr(mg.Graph, one.__name__)) or ""
    assert not [line for line in text.splitlines() if len(line) > 116]


def test_elementwise_lists_operations_by_number_of_operands():
    assert {"exponent", "relu", "not"} <= elementwise(1) and {"addition", "relu_gradient"} <= elementwise(2)
    assert {"select", "clamp"} <= elementwise(3) and "softmax" not in elementwise(1)


def test_schema_of_unknown_kind_suggests_similar_names():
    with pytest.raises(mg.GraphError, match="exponent"):
        schema("exponnt")


def test_operands_attributes_and_name_bind_by_position_and_by_name():
    g = mg.Graph()
    x = g.placeholder((2, 3))
    by_position, by_name = (
        g.cumulative_sum(x, 1, True, False, "y"),
        g.cumulative_sum(name="z", exclusive=True, axis=1, x=x),
    )
    assert by_position.name == "y" and by_name.name == "z"
    assert dict(by_position.operation.attributes) == dict(by_name.operation.attributes)
    assert g.gather(x, g.constant([0]), out_of_range="clip").operation.attributes["axis"] == 0


def test_defaults_of_methods_differ_from_definitions_only_where_stated():
    g = mg.Graph()
    x = g.placeholder((2, 3))
    assert g.softmax_cross_entropy(x, x).operation.attributes["reduction"] == "sum"
    assert list(g.reduction_sum(x).operation.attributes["axes"]) == []
    assert g.leaky_relu(x).operation.inputs[1].operation.kind == "constant"


def test_missing_arguments_are_named():
    with pytest.raises(TypeError, match=r"Graph\.addition\(\) missing 2 required positional arguments: 'primary' and"):
        mg.Graph().addition()


def test_mask_does_not_determine_the_dtype_of_numbers():
    g = mg.Graph()
    assert g.select(g.constant([True, False]), 1.0, 2.0).dtype == mg.float32


def test_import_makes_no_derived_method():
    program = (
        "import inspect; import mpsgraph as mg; from mpsgraph.ops.derived import Derived; "
        "print(sum(inspect.isfunction(m) for m in vars(Derived).values()), inspect.isfunction(mg.Graph.exponent))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    made, exponent = run.stdout.split()
    assert int(made) <= 1 and exponent == "True"
