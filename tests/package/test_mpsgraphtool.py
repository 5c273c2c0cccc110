"""Test the output and the written files of the `mpsgraphtool` command on a saved model.

Conversion is tested in tests/onnx.
"""

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph.tool import main as tool

rng = np.random.default_rng(0)
WEIGHTS = rng.normal(size=(16, 4)).astype(np.float32)


@pytest.fixture
def package(tmp_path):
    """Save y = (x - 1) / sqrt(4) @ w, normalized by constants so that `optimize` has something to fold."""
    g = mg.Graph()
    x = g.placeholder((-1, 16), name="x")
    product = g.matrix_multiplication(x, g.variable(WEIGHTS, name="w"))
    y = g.normalization(product, g.constant(np.ones(4, np.float32)), g.constant(np.full(4, 4, np.float32)), epsilon=0.0)
    mg.save(tmp_path / "m.mpsgraph", g, [x], {"y": y})
    return tmp_path / "m.mpsgraph"


def expected(x):
    return (x @ WEIGHTS - 1) / 2


def test_inspect_command_prints_types_sizes_and_operations(package, capsys):
    assert tool(["inspect", str(package)]) == 0
    said = capsys.readouterr().out
    assert "float32[-1, 16]" in said and "float32[-1, 4]" in said and "64 parameters in 1 variables, 0.00 MB" in said
    assert "1 matrix_multiplication" in said and "1 normalization" in said
    assert "yes; " in said.split("runs on")[1]


def test_inspect_command_prints_plan_for_given_shapes(package, capsys):
    assert tool(["inspect", str(package), "--shape", "x=8,16", "--plan"]) == 0
    assert "8" in capsys.readouterr().out.split("\nplan\n")[1]


def test_run_command_writes_model_outputs(package, tmp_path, capsys):
    x = rng.normal(size=(5, 16)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    assert tool(["run", str(package), "--input", f"x={tmp_path / 'x.npy'}", "--output", str(tmp_path / "out")]) == 0
    assert "y.npy  float32[5, 4]" in capsys.readouterr().out
    np.testing.assert_allclose(np.load(tmp_path / "out" / "y.npy"), expected(x), rtol=1e-5, atol=1e-5)


def test_bench_command_prints_first_run_time_and_median(package, capsys):
    assert tool(["bench", str(package), "--shape", "x=5,16", "--runs", "7"]) == 0
    said = capsys.readouterr().out
    assert "compiled and first run in" in said and "7 runs: median" in said


def test_optimize_command_folds_normalization(package, tmp_path, capsys):
    assert tool(["optimize", str(package), "--output", str(tmp_path / "o.mpsgraph")]) == 0
    assert "became" in capsys.readouterr().out
    ready = mg.load(tmp_path / "o.mpsgraph")
    assert "normalization" not in {operation.kind for operation in ready.graph.operations}
    x = rng.normal(size=(3, 16)).astype(np.float32)
    np.testing.assert_allclose(ready(x).numpy(), expected(x), rtol=1e-5, atol=1e-5)


def test_quantize_command_writes_int8_weights_and_prints_error(package, tmp_path, capsys):
    x = rng.normal(size=(70, 16)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    calibration = ["--calibration", f"x={tmp_path / 'x.npy'}"]
    assert tool(["quantize", str(package), *calibration, "--output", str(tmp_path / "q.mpsgraph")]) == 0
    differs = float(capsys.readouterr().out.split("differs by ")[1].split()[0])
    quantized = mg.load(tmp_path / "q.mpsgraph")
    assert "int8[" in str(quantized.graph)
    found = np.abs(quantized(x[:32]).numpy() - expected(x[:32])).max()
    assert 0 < differs < 0.2 and found == pytest.approx(differs, abs=1e-3)


def test_prepare_command_records_library_version(tmp_path, capsys):
    g = mg.Graph()
    x = g.placeholder((-1, 8, 8, 64), name="x")
    y = g.convolution2d(x, g.variable(np.ones((3, 3, 64, 64), np.float32)), padding="TF_SAME")
    mg.Model(g, {"x": x}, {"y": y}).optimize_for_inference().save(tmp_path / "c.mpsgraph")
    assert tool(["prepare", str(tmp_path / "c.mpsgraph"), "--shape", "x=1,8,8,64"]) == 0
    said = capsys.readouterr().out
    assert "1 weights" in said and mg.library_version() in said
    assert tool(["inspect", str(tmp_path / "c.mpsgraph")]) == 0
    assert f"prepared for\n  mpsgraph {mg.library_version()}" in capsys.readouterr().out
    assert mg.load(tmp_path / "c.mpsgraph")(np.ones((1, 8, 8, 64), np.float32)).shape == (1, 8, 8, 64)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "PACKAGE"], "--input x="),
        (["run", "PACKAGE", "--input", "z=FILE"], "no input 'z'"),
        (["run", "PACKAGE", "--input", "x=TEXT"], "is not an array written by numpy.save"),
        (["bench", "PACKAGE"], "--shape x=N,N"),
        (["bench", "PACKAGE", "--runs", "0", "--shape", "x=1,16"], "--runs must be at least 1"),
        (["inspect", "MISSING"], "MISSING"),
        (["bench", "PACKAGE", "--shape", "x=five"], "expected integers separated by commas"),
        (["quantize", "PACKAGE", "--calibration", "x=EMPTY", "--output", "OUT"], "at least one, for every input"),
    ],
)
def test_invalid_command_arguments_print_a_one_line_error(arguments, words, package, tmp_path, capsys):
    np.save(tmp_path / "FILE", np.ones((2, 16), np.float32))
    np.save(tmp_path / "EMPTY", np.ones((0, 16), np.float32))
    (tmp_path / "TEXT").write_text("text")
    places = {"PACKAGE": package, "TEXT": tmp_path / "TEXT", "OUT": tmp_path / "OUT", "MISSING": tmp_path / "MISSING"}
    places |= {"FILE": tmp_path / "FILE.npy", "EMPTY": tmp_path / "EMPTY.npy"}
    for name, path in places.items():
        arguments = [part.replace(name, str(path)) for part in arguments]
    assert tool(arguments) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and words in said and not (tmp_path / "OUT").exists()
