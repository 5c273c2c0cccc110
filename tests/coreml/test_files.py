"""Test Core ML files without coremltools: stored models against PyTorch's results, damaged files, and the command line.

The files were written by tests/data/make_coreml.py.
"""

import json
import shutil
import struct
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from harness.protobuf import message
from mpsgraph import tool
from mpsgraph.coreml._wire import Message, messages

FOLDER = Path(__file__).parents[1] / "data" / "coreml"
EXPECTED = np.load(FOLDER / "expected.npz")
FILES = {"image": "image.mlpackage", "steps": "steps.mlpackage", "older": "older.mlmodel"}


def of(name):
    return EXPECTED[f"{name}.x"], EXPECTED[f"{name}.y"]


@pytest.mark.parametrize("name", ["image", "steps"])
def test_imported_coreml_programs_match_pytorch(name):
    """The models use dynamic sizes, a bidirectional LSTM, and 4-bit weights in palettes and in blocks."""
    model = mg.coreml.load(FOLDER / FILES[name])
    x, y = of(name)
    assert list(model.inputs) == ["x"] and list(model.outputs) == ["y"]
    assert -1 in model.inputs["x"].shape
    np.testing.assert_allclose(model(x).numpy(), y, rtol=1e-4, atol=1e-5)


def test_imported_coreml_image_classifier_matches_pytorch():
    model = mg.coreml.load(FOLDER / FILES["older"])
    x, y = of("older")
    results = model.run({"image": x})
    np.testing.assert_allclose(results["scores"].numpy(), y, rtol=1e-4, atol=1e-5)
    assert model.classes["label"][results["label"].item()] == "abcde"[y.argmax()]
    assert model.classes["scores"] == list("abcde")


def test_coreml_trainable_argument_selects_the_parameters():
    x, y = of("steps")
    model = mg.coreml.load(FOLDER / FILES["steps"])
    assert model.parameters and set(model.graph.trainable_variables) == set(model.parameters.values())
    name = next(iter(model.parameters))
    assert list(mg.coreml.load(FOLDER / FILES["steps"], trainable=[name]).parameters) == [name]
    fixed = mg.coreml.load(FOLDER / FILES["steps"], trainable=False)
    assert not fixed.parameters
    np.testing.assert_allclose(fixed(x).numpy(), y, rtol=1e-4, atol=1e-5)


def test_coreml_load_can_fix_input_shapes_and_values(tmp_path):
    x, y = of("steps")
    model = mg.coreml.load(FOLDER / FILES["steps"], shapes={"x": x.shape})
    assert model.inputs["x"].shape == x.shape
    assert not mg.coreml.load(FOLDER / FILES["steps"], values={"x": x}).inputs
    with pytest.raises(mg.GraphError, match="no input 'z'; its inputs are 'x'"):
        mg.coreml.load(FOLDER / FILES["steps"], shapes={"z": (1,)})
    model.save(tmp_path / "steps.mpsgraph")
    np.testing.assert_allclose(mg.load(tmp_path / "steps.mpsgraph")(x).numpy(), y, rtol=1e-4, atol=1e-5)


def test_command_line_tool_converts_inspects_and_runs_coreml_models(tmp_path, capsys):
    x, y = of("image")
    source = str(FOLDER / FILES["image"])
    assert tool.main(["convert", "--coreml", source, "--output", str(tmp_path), "--name", "net"]) == 0
    np.testing.assert_allclose(mg.load(tmp_path / "net.mpsgraph")(x).numpy(), y, rtol=1e-4, atol=1e-5)
    assert tool.main(["inspect", source]) == 0
    assert "float32[-1, 3, -1, -1]" in capsys.readouterr().out
    np.save(tmp_path / "x.npy", x)
    assert tool.main(["run", source, "--input", f"x={tmp_path / 'x.npy'}", "--output", str(tmp_path)]) == 0
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), y, rtol=1e-4, atol=1e-5)


# --- invalid files ----------------------------------------------------------------------------------------------------
def copied(tmp_path, name="image"):
    return Path(shutil.copytree(FOLDER / FILES[name], tmp_path / FILES[name]))


def test_missing_and_invalid_coreml_files_raise(tmp_path):
    for name in ("no.mlmodel", "long" * 100, "null\0character"):
        with pytest.raises(mg.GraphError, match="cannot read"):
            mg.coreml.load(tmp_path / name)
    with pytest.raises(mg.GraphError, match="not a Core ML package"):
        mg.coreml.load(tmp_path)
    (tmp_path / "text.mlmodel").write_text("no model")
    with pytest.raises(mg.GraphError, match="damaged|not a Core ML model"):
        mg.coreml.load(tmp_path / "text.mlmodel")
    (tmp_path / "empty.mlmodel").write_bytes(b"")
    with pytest.raises(mg.GraphError, match="not a Core ML model"):
        mg.coreml.load(tmp_path / "empty.mlmodel")
    with pytest.raises(mg.UnsupportedError, match="is a compiled model"):
        mg.coreml.load(tmp_path / "net.mlmodelc")


def test_manifest_with_paths_outside_the_package_raises(tmp_path):
    package = copied(tmp_path)
    manifest = json.loads((package / "Manifest.json").read_text())
    for entry in manifest["itemInfoEntries"].values():
        entry["path"] = "../../../elsewhere"
    (package / "Manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(mg.GraphError, match="which is outside"):
        mg.coreml.load(package)
    (package / "Manifest.json").write_text("{}")
    with pytest.raises(mg.GraphError, match="is malformed"):
        mg.coreml.load(package)


def test_damaged_weight_blobs_raise(tmp_path):
    package = copied(tmp_path)
    file = package / "Data" / "com.apple.CoreML" / "weights" / "weight.bin"
    whole = file.read_bytes()
    file.write_bytes(whole[:200])
    with pytest.raises(mg.GraphError, match="outside the file|is malformed"):
        mg.coreml.load(package)
    file.write_bytes(struct.pack("<II", 1, 1) + whole[8:])
    with pytest.raises(mg.GraphError, match="must be a weight file of version 2"):
        mg.coreml.load(package)
    file.unlink()
    with pytest.raises(mg.GraphError, match="cannot read"):
        mg.coreml.load(package)


@pytest.mark.parametrize("name", FILES)
def test_corrupted_coreml_model_raises_or_loads(name, tmp_path):
    """A changed byte or a truncation must never raise any other exception."""
    rng = np.random.default_rng(0)
    source = FOLDER / FILES[name]
    inner = source if source.is_file() else source / "Data" / "com.apple.CoreML" / "model.mlmodel"
    whole = inner.read_bytes()
    target = tmp_path / "net.mlmodel"
    if source.is_dir():
        shutil.copytree(inner.parent / "weights", tmp_path / "weights")
    refused = 0
    for i in range(150):
        data = bytearray(whole)
        place = int(rng.integers(0, len(data)))
        if i % 3:
            data[place] ^= int(rng.integers(1, 256))
        else:
            del data[place:]
        target.write_bytes(bytes(data))
        try:
            mg.coreml.load(target)
        except mg.Error:
            refused += 1
    assert refused > 50


def test_import_error_lists_all_unsupported_operations_and_model_types(tmp_path):
    operations = [message((1, kind), (3, message((1, result)))) for kind, result in ((b"warp", b"a"), (b"fold", b"b"))]
    block = message((2, b"b"), *((3, operation) for operation in operations))
    function = message((2, b"CoreML7"), (3, message((1, b"CoreML7"), (2, block))))
    program = message((1, 1), (2, message((1, b"main"), (2, function))))
    file = tmp_path / "net.mlmodel"
    file.write_bytes(message((1, 8), (2, b""), (502, program)))
    with pytest.raises(
        mg.UnsupportedError, match="the model has 2 operations that mpsgraph does not support: warp 'a', fold 'b'"
    ):
        mg.coreml.load(file)
    file.write_bytes(message((1, 1), (2, b""), (300, b"")))
    with pytest.raises(mg.UnsupportedError, match="got glmRegressor"):
        mg.coreml.load(file)
    file.write_bytes(message((1, 99), (2, b""), (4000, b"")))
    with pytest.raises(mg.UnsupportedError, match="got a model of unknown type"):
        mg.coreml.load(file)


def test_protobuf_messages_are_decoded():
    whole = message((1, b"x"), (3, message((5, message((1, 2), (1, 300), (2, 65568))))))
    feature = Message("FeatureDescription", memoryview(whole))
    assert feature.name == "x" and feature.type.which("Type") == "multiArrayType"
    assert feature.type.multiArrayType.shape.tolist() == [2, 300]
    assert feature.type.multiArrayType.dataType == "FLOAT32" and not feature.type.isOptional
    assert {"Model", "MIL.Operation", "NeuralNetworkLayer"} <= set(messages())


def test_known_coreml_operations_and_layers_include_common_kinds():
    assert {"conv", "lstm", "constexpr_lut_to_dense"} <= set(mg.coreml.known_operations())
    assert {"convolution", "uniDirectionalLSTM"} <= set(mg.coreml.known_layers())
    assert "scaled_dot_product_attention" in mg.coreml.exported_operations()


@pytest.mark.parametrize("mark", ["operations", "layers"])
def test_coreml_page_lists_all_supported_operations_and_layers(mark, repository):
    page = (repository / "docs" / "coreml.md").read_text()
    listed = page.partition(f"<!-- {mark} -->\n")[2].partition("\n<!-- end -->")[0]
    assert listed.replace("`", "").split(", ") == getattr(mg.coreml, f"known_{mark}")()
