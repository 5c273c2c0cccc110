"""Test packages in Python: mpsgraph.save, mpsgraph.load, and the converter that creates packages from ONNX.

The format itself and damaged files are tested in cpp/test_package.cpp.
"""

import json
import subprocess
import sys
from pathlib import Path

import mpsgraph as mg
import numpy as np
import onnx
import pytest
from harness.onnx_model import FLOAT, linear, model, node, reshape, value
from mpsgraph import tool

X = np.float32(np.random.default_rng(1).normal(size=(4, 3)))


def network():
    """Build a graph with everything a package stores: variables, constants of several sizes, control flow, a
    random state.
    """
    g = mg.Graph(seed=3)
    x = g.placeholder((-1, 3), name="x")
    training = g.placeholder((), mg.bool_, name="training")
    w = g.variable(np.arange(9, dtype=np.float32).reshape(3, 3), name="weights")
    fixed = g.variable(np.ones(3, np.float32), name="fixed", trainable=False)
    table = g.constant(np.float32(np.random.default_rng(0).normal(size=(64, 3))), name="table")
    small = g.constant([1.0, 2.0, 3.0], name="small")
    y = g.matrix_multiplication(x, w) * fixed + small + g.reduction_sum(table, 0)
    y = g.if_(training, lambda: g.dropout(y, 0.5), lambda: y)[0]
    unused = g.square(y)
    return g, {"x": x, "training": training}, {"y": y}, unused


def test_graph_round_trips_through_package(tmp_path):
    g, inputs, outputs, unused = network()
    mg.save(tmp_path / "net.mpsgraph", g, inputs, outputs)
    loaded = mg.load(tmp_path / "net.mpsgraph")
    assert list(loaded.inputs) == ["x", "training"] and list(loaded.outputs) == ["y"]
    assert loaded.inputs["x"].shape == (-1, 3) and loaded.inputs["x"].graph is loaded.graph
    assert {"weights", "fixed"} < set(loaded.parameters)
    assert [v.name for v in loaded.graph.trainable_variables] == ["weights"]
    assert loaded.graph.find(unused.operation.name) is None
    feeds = {"x": X, "training": np.array(False)}
    expected = g.run({inputs["x"]: X, inputs["training"]: np.array(False)}, outputs["y"])
    np.testing.assert_array_equal(loaded.run(feeds)["y"], expected)
    loaded.save(tmp_path / "again.mpsgraph")
    np.testing.assert_array_equal(mg.load(tmp_path / "again.mpsgraph").run(feeds)["y"], expected)


def test_package_stores_current_variable_values(tmp_path):
    g = mg.Graph()
    x = g.placeholder((2,), name="x")
    v = g.variable([1.0, 2.0], name="v")
    mg.save(tmp_path / "first.mpsgraph", g, [x], [x * v])
    g.set_variable(v, np.float32([3, 4]))
    mg.save(tmp_path / "now.mpsgraph", g, [x], {"y": x * v})
    ones = np.ones(2, np.float32)
    assert mg.load(tmp_path / "first.mpsgraph")(ones).tolist() == [1, 2]
    assert mg.load(tmp_path / "now.mpsgraph")(ones).tolist() == [3, 4]
    assert mg.load(tmp_path / "now.mpsgraph", verify=False)(ones).tolist() == [3, 4]


def test_assigned_variables_are_copied_and_read_only_ones_stay_mapped(tmp_path):
    g = mg.Graph()
    x = g.placeholder((-1, 200), name="x")
    changing, fixed = (g.variable(np.full((200, 200), n, np.float32), name=f"w{n}", trainable=n == 1) for n in (1, 2))
    y = x @ (changing + fixed)
    mg.save(
        tmp_path / "a.mpsgraph", g, [x], {"y": g.control_dependency([g.assign(changing, changing * 2)], lambda: y * 1)}
    )
    weights = (tmp_path / "a.mpsgraph" / "weights.safetensors").read_bytes()
    one, two = mg.load(tmp_path / "a.mpsgraph"), mg.load(tmp_path / "a.mpsgraph")
    assert [float(one(np.ones((1, 200), np.float32)).numpy()[0, 0]) for _ in range(3)] == [600, 800, 1200]
    assert float(two(np.ones((1, 200), np.float32)).numpy()[0, 0]) == 600
    assert (one.graph.variable_value(one.parameters["w2"]) == 2).all()
    assert (tmp_path / "a.mpsgraph" / "weights.safetensors").read_bytes() == weights


def test_loaded_model_can_be_trained(tmp_path):
    g, inputs, outputs, _ = network()
    mg.save(tmp_path / "net.mpsgraph", g, inputs, outputs)
    loaded = mg.load(tmp_path / "net.mpsgraph")
    graph = loaded.graph
    loss = graph.reduction_sum(graph.square(loaded.outputs["y"]))
    gradients = graph.gradients(loss, graph.trainable_variables)
    step = [graph.assign(v, v - 1e-4 * d) for v, d in gradients.items()]
    feeds = {loaded.inputs["x"]: X, loaded.inputs["training"]: np.array(False)}
    losses = [float(graph.run(feeds, loss, step)) for _ in range(50)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "int64", "uint16", "bool", "complex64"])
def test_constants_of_every_dtype_round_trip(tmp_path, dtype):
    g = mg.Graph()
    values = np.arange(1000) % 2 if dtype == "bool" else np.arange(1000) % 100
    data = g.constant(values.astype(np.float32) if dtype == "bfloat16" else values.astype(dtype), dtype=dtype)
    mg.save(tmp_path / "p.mpsgraph", g, [], {"y": g.identity(data)})
    np.testing.assert_array_equal(mg.load(tmp_path / "p.mpsgraph").run({})["y"].numpy(), g.run({}, data).numpy())


def test_saving_invalid_inputs_and_outputs_raises(tmp_path):
    g, inputs, outputs, _ = network()
    with pytest.raises(mg.GraphError, match="outputs is required"):
        mg.save(tmp_path / "p", g, inputs)
    with pytest.raises(mg.GraphError, match="must be a placeholder"):
        mg.save(tmp_path / "p", g, outputs, outputs)
    with pytest.raises(mg.GraphError, match="must be a tensor of the graph"):
        mg.save(tmp_path / "p", g, inputs, {"y": mg.Graph().constant(1.0)})
    (tmp_path / "file").write_text("precious")
    with pytest.raises(mg.PackageError, match="is not a package"):
        mg.save(tmp_path / "file", g, inputs, outputs)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"format": "mpsgraph"}', '{"format": "mpsgraph", "format_version": 2}']
)
def test_invalid_manifests_raise(tmp_path, text):
    (tmp_path / "package.json").write_text(text)
    with pytest.raises(mg.PackageError, match=r"package\.json"):
        mg.load(tmp_path)


def test_manifest_with_unknown_names_raises(tmp_path):
    g, inputs, outputs, _ = network()
    path = tmp_path / "net.mpsgraph"
    mg.save(path, g, inputs, outputs)
    manifest = json.loads((path / "package.json").read_text())
    manifest["outputs"][0]["operation"] = "nowhere"
    (path / "package.json").write_text(json.dumps(manifest, indent=1) + "\n")
    with pytest.raises(mg.PackageError, match="checksum"):
        mg.load(path)


def test_weights_are_readable_by_safetensors_library(tmp_path):
    from safetensors.numpy import load_file

    g, inputs, outputs, _ = network()
    mg.save(tmp_path / "net.mpsgraph", g, inputs, outputs)
    tensors = load_file(tmp_path / "net.mpsgraph" / "weights.safetensors")
    assert {"weights", "fixed", "table"} <= set(tensors) and "small" not in tensors
    np.testing.assert_array_equal(tensors["weights"], np.arange(9).reshape(3, 3))


# --- the converter --------------------------------------------------------------------------------------------------
def test_convert_command_creates_package_from_onnx(tmp_path, capsys):
    onnx.save(linear(), tmp_path / "linear.onnx")
    arguments = [
        "convert",
        "--onnx",
        str(tmp_path / "linear.onnx"),
        "--output",
        str(tmp_path / "out"),
        "--name",
        "line",
    ]
    assert tool.main(arguments) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'out' / 'line.mpsgraph'}\n"
    loaded = mg.load(tmp_path / "out" / "line.mpsgraph")
    np.testing.assert_array_equal(loaded(X), mg.onnx.load(tmp_path / "linear.onnx")(X))
    assert {v.name for v in loaded.graph.trainable_variables} == {"w", "b"}
    assert tool.main([*arguments, "--fixed"]) == 0
    assert not mg.load(tmp_path / "out" / "line.mpsgraph").parameters


def test_convert_command_accepts_constant_inputs(tmp_path, capsys):
    onnx.save(reshape(), tmp_path / "reshape.onnx")
    arguments = ["convert", "--onnx", str(tmp_path / "reshape.onnx"), "--output", str(tmp_path)]
    assert tool.main([*arguments, "--value", "shape=2,3", "--shape", "x=6"]) == 0
    assert mg.load(tmp_path / "reshape.mpsgraph")(np.zeros(6, np.float32)).shape == (2, 3)


def test_convert_command_reports_errors(tmp_path, capsys):
    assert tool.main(["convert", "--onnx", str(tmp_path / "absent.onnx")]) == 1
    assert f"cannot read {tmp_path / 'absent.onnx'}" in capsys.readouterr().err
    onnx.save(
        model([node("Unheard", ["x"], ["y"])], [value("x", FLOAT, (1,))], [value("y", FLOAT, (1,))]),
        tmp_path / "m.onnx",
    )
    assert tool.main(["convert", "--onnx", str(tmp_path / "m.onnx"), "--output", str(tmp_path)]) == 1
    assert "Unheard" in capsys.readouterr().err and not list(tmp_path.glob("*.mpsgraph"))
    assert tool.main(["convert", "--onnx", str(tmp_path / "m.onnx"), "--shape", "x=a,b"]) == 1
    assert "expected integers separated by commas" in capsys.readouterr().err


def test_loading_converted_package_does_not_import_onnx(tmp_path):
    onnx.save(linear(), tmp_path / "linear.onnx")
    tool.main(["convert", "--onnx", str(tmp_path / "linear.onnx"), "--output", str(tmp_path)])
    program = (
        "import sys; sys.modules['onnx'] = None\n"
        "import mpsgraph as mg, numpy as np\n"
        f"print(mg.load({str(tmp_path / 'linear.mpsgraph')!r})(np.ones((1, 3), np.float32)).tolist())\n"
        "try: mg.onnx\n"
        "except ImportError as error: print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=Path(tmp_path), check=True
    )
    assert run.stdout == "[[9.5, 11.5]]\nmpsgraph.onnx needs the onnx package: pip install mpsgraph[onnx]\n"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("x.safetensors", r"mg\.nn\.load_safetensors\(model, path\).*trainer\.load"),
        ("x.onnx", r"mg\.onnx\.load"),
        ("x.mlmodel", r"mg\.coreml\.load"),
        ("x.pth", r"mg\.nn\.load_torch"),
        ("x.mpsgraph", "a package is a directory$"),
        ("x", "a package is a directory$"),
    ],
)
def test_error_of_loading_another_file_type_names_the_right_function(tmp_path, name, advice):
    (tmp_path / name).write_bytes(b"12345678")
    with pytest.raises(mg.PackageError, match=f"is a file, but a package is a directory.*{advice}|{advice}"):
        mg.load(tmp_path / name)
    with pytest.raises(mg.PackageError, match="does not exist"):
        mg.load(tmp_path / "missing" / name)


def test_error_of_loading_a_core_ml_package_names_the_right_function(tmp_path):
    (tmp_path / "x.mlpackage").mkdir()
    with pytest.raises(mg.PackageError, match=r"has no package\.json; .*mg\.coreml\.load"):
        mg.load(tmp_path / "x.mlpackage")
