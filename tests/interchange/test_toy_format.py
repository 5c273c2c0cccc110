"""A small format, to show that interchange needs only a reader and tables: one line of text per layer."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph.interchange.node_list import ListedNode, NodeList, exported, imported
from mpsgraph.interchange.registry import Registry

layer: Registry = Registry("layer")
writes: Registry = Registry("writer of the kind")
SAME = {"Sine": "sin", "Add": "addition", "Clip0": "relu"}


# --- the format: its reader, its writer, and its tables ---------------------------------------------------------------
def read(text: str) -> NodeList:
    """Read lines such as `input x 2 3`, `weight w = 1 2`, `y = Scale x by=2`, and `output y`."""
    contents = NodeList({}, [], [])
    for word, *rest in (line.split() for line in text.splitlines()):
        if word == "input":
            contents.inputs[rest[0]] = mg.float32, tuple(int(size) for size in rest[1:])
        elif word == "weight":
            contents.tensors[rest[0]] = np.float32(rest[rest.index("=") + 1 :])
        elif word == "output":
            contents.outputs.append(rest[0])
        else:
            options = dict(one.split("=") for one in rest[2:] if "=" in one)
            contents.nodes.append(ListedNode(rest[1], [one for one in rest[2:] if "=" not in one], [word], options))
    return contents


def written(contents: NodeList) -> str:
    lines = [f"input {name} {' '.join(map(str, shape))}" for name, (_, shape) in contents.inputs.items()]
    lines += [f"weight {name} = {' '.join(map(str, v.ravel()))}" for name, v in contents.tensors.items()]
    for node in contents.nodes:
        options = [f"{key}={value}" for key, value in node.attributes.items()]
        lines.append(" ".join([node.outputs[0], "=", node.name, *node.inputs, *options]))
    return "\n".join([*lines, *(f"output {name}" for name in contents.outputs)])


@layer.rows(SAME)
def same(node, method):
    return getattr(node.g, method)(*node.tensors())


@layer("Scale")
def scale(node):
    factor = float(node.attribute("by"))
    if factor == 0:
        node.refuse("a factor of 0 is not supported")
    return node.tensor(0) * factor


@writes.rows({kind: name for name, kind in SAME.items()})
def write_same(w, name, operation):
    return w.add(name, *w.all(operation))


# --- tests ------------------------------------------------------------------------------------------------------------
TEXT = "input x 2\nweight w = 1 2\na = Sine x\nb = Add a w\nc = Scale b by=3\noutput c"
X = np.float32([0.5, -0.5])


def test_imported_model_computes_its_layers():
    model = imported(read(TEXT), layer, "toy")
    np.testing.assert_allclose(model(X), (np.sin(X) + [1, 2]) * 3, rtol=1e-6)
    assert list(model.parameters) == ["w"] and list(model.outputs) == ["c"]


def test_weights_excluded_from_training_are_constants():
    model = imported(read(TEXT), layer, "toy", trainable=False)
    np.testing.assert_allclose(model(X), (np.sin(X) + [1, 2]) * 3, rtol=1e-6)
    assert not model.parameters


def test_model_round_trips():
    g = mg.Graph()
    x = g.placeholder((2,), "float32", "x")
    model = mg.Model(g, {"x": x}, {"y": g.relu(g.sin(x) + g.variable(np.float32([1, -2]), name="w"))})
    text = written(exported(model, writes, "toy"))
    lines = [
        "input x 2",
        "weight w = 1.0 -2.0",
        "Sine = Sine x",
        "Add = Add Sine w",
        "Clip0 = Clip0 Add",
        "output Clip0",
    ]
    assert text.splitlines() == lines
    back = imported(read(text), layer, "toy")
    np.testing.assert_array_equal(back(X), model(X))
    assert list(back.parameters) == ["w"]


def test_export_lists_all_operations_without_a_writer():
    g = mg.Graph()
    x = g.placeholder((2,), "float32", "x")
    model = mg.Model(g, {"x": x}, {"y": g.erf(g.sin(g.tanh(x)))})
    with pytest.raises(mg.UnsupportedError, match=r"2 operations cannot be expressed in toy:\n  tanh .*\n  erf "):
        exported(model, writes, "toy")


def test_unknown_layers_are_listed_in_one_error():
    with pytest.raises(mg.UnsupportedError, match=r"\[toy\] the model has 2 nodes .*: Blur 'a', Warp 'b'"):
        imported(read("input x 2\na = Blur x\nb = Warp a\noutput b"), layer, "toy")


@pytest.mark.parametrize(
    ("line", "error", "text"),
    [
        ("a = Scale x by=0", mg.UnsupportedError, r"\[toy\] Scale 'a': a factor of 0 is not supported"),
        ("a = Scale x by=2 twice=1", mg.UnsupportedError, r"Scale 'a': attributes twice are not supported"),
        ("a = Scale x", mg.GraphError, r"Scale 'a': required attribute by is missing"),
        ("a = Scale x by=two", mg.GraphError, r"Scale 'a' is malformed: ValueError"),
        ("a = Add x y", mg.GraphError, r"Add 'a': 'y' is neither an input nor the result of a preceding node"),
    ],
)
def test_errors_name_the_layer(line, error, text):
    with pytest.raises(error, match=text):
        imported(read(f"input x 2\n{line}\noutput a"), layer, "toy")


def test_registering_a_name_twice_raises():
    with pytest.raises(ValueError, match=r"layer 'Sine' already has a translation, .*same: a name can be"):
        layer("Sine")(scale)
    assert layer.known() == ["Add", "Clip0", "Scale", "Sine"]
