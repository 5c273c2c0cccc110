"""Test loading weights from safetensors files written by other programs, and errors for damaged files."""

import json
import struct

import ml_dtypes
import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn
from safetensors.numpy import save_file

RNG = np.random.default_rng(5)
STATE = {
    "body.0.weight": RNG.normal(size=(3, 4)).astype(np.float32), "body.0.bias": RNG.normal(size=3).astype(np.float32),
    "body.2.weight": RNG.normal(size=(2, 3)).astype(np.float32), "body.2.bias": RNG.normal(size=2).astype(np.float32),
}  # fmt: skip


def model():
    made = nn.Sequential(nn.Linear(3), nn.ReLU(), nn.Linear(2))
    made(mg.Graph().placeholder((-1, 4)))
    return made


def written(path, entries, data=b""):
    header = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    return path


def assert_loaded(made):
    for name, value in nn.to_torch(made, arrays=True).items():
        assert np.array_equal(value, STATE[f"body.{name}"]), name


def test_files_written_by_the_safetensors_library_are_loaded(tmp_path):
    save_file(STATE, tmp_path / "weights.safetensors", {"format": "pt"})
    made = model()
    assert nn.load_safetensors(made, tmp_path / "weights.safetensors", {"body": ""}) == ([], [])
    assert_loaded(made)


def test_sharded_safetensors_are_loaded_through_their_index(tmp_path):
    parts = {
        "model-1.safetensors": ["body.0.weight", "body.2.bias"],
        "model-2.safetensors": ["body.0.bias", "body.2.weight"],
    }
    for file, names in parts.items():
        save_file({name: STATE[name] for name in names}, tmp_path / file)
    index = {"metadata": {}, "weight_map": {name: file for file, names in parts.items() for name in names}}
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    for place in (path, tmp_path):
        made = model()
        nn.load_safetensors(made, place, [(r"^body\.", "")])
        assert_loaded(made)
    for broken, words in (
        ({"weight_map": {"a": "../model-1.safetensors"}}, "must be in the same folder as the index"),
        ({"weight_map": {"a": "model-1.safetensors"}}, "lists tensors that are missing from their files: 'a'"),
        ({"weight_map": {"a": "model-3.safetensors"}}, "model-3.safetensors cannot be read"),
        ({"weight_map": [1]}, "weight_map must map tensor names to file names"),
        ({}, "has no valid weight_map"),
    ):
        path.write_text(json.dumps(broken))
        with pytest.raises(mg.errors.CheckpointError, match=words):
            nn.load_safetensors(model(), path)


def test_safetensors_folder_loads_into_unbuilt_model(tmp_path):
    save_file({name.removeprefix("body."): value for name, value in STATE.items()}, tmp_path / "model.safetensors")
    made = nn.Sequential(nn.Linear(3), nn.ReLU(), nn.Linear(2))
    assert nn.load_safetensors(made, tmp_path) is None
    (tmp_path / "model.safetensors").unlink()
    made(mg.Graph().placeholder((-1, 4)))
    assert_loaded(made)


def test_checkpoint_with_mpsgraph_parameter_names_is_loaded(tmp_path):
    made, other = model(), model()
    mg.checkpoint.save(tmp_path / "own", made.state_dict())
    nn.load_safetensors(other, tmp_path / "own", layout="mpsgraph")
    assert all(np.array_equal(v, other.state_dict()[k]) for k, v in made.state_dict().items())
    with pytest.raises(mg.errors.GraphError, match='layout must be "torch" or "mpsgraph"'):
        nn.load_safetensors(other, tmp_path / "own", layout="keras")


def test_half_precision_weights_load_into_float32_with_cast(tmp_path):
    wide = np.float32([[1.5, -2.0], [0.25, 3.0]])
    bits = (wide.view(np.uint32) >> 16).astype(np.uint16)
    entries = {
        "weight": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]},
        "bias": {"dtype": "F16", "shape": [2], "data_offsets": [8, 12]},
    }
    path = written(tmp_path / "halves", entries, bits.tobytes() + np.float16([1, 2]).tobytes())
    layer = nn.Linear(2)
    layer(mg.Graph().placeholder((-1, 2)))
    with pytest.raises(mg.errors.DTypeError, match="'weight' must be float32, got bfloat16"):
        nn.load_safetensors(layer, path)
    nn.load_safetensors(layer, path, cast=True)
    found = nn.to_torch(layer, arrays=True)
    assert np.array_equal(found["weight"], wide)
    assert found["bias"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("kind", "numpy_kind"), [("F8_E4M3", "float8_e4m3fn"), ("F8_E5M2", "float8_e5m2"),
                             ("F8_E4M3FNUZ", "float8_e4m3fnuz"), ("F8_E5M2FNUZ", "float8_e5m2fnuz")],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_float8_weights_load_exactly_into_every_dtype(kind, numpy_kind, dtype, tmp_path):
    every = np.arange(256, dtype=np.uint8)
    entries = {"weight": {"dtype": kind, "shape": [2, 128], "data_offsets": [0, 256]}}
    path = written(tmp_path / "eight", entries, every.tobytes())
    layer = nn.Linear(2, bias=False)
    layer(mg.Graph().placeholder((-1, 128), dtype))
    nn.load_safetensors(layer, path)
    found = nn.to_torch(layer, arrays=True)["weight"]
    wide = (found.astype(np.uint32) << 16).view(np.float32) if found.dtype == np.uint16 else found.astype(np.float32)
    exact = every.view(np.dtype(getattr(ml_dtypes, numpy_kind))).astype(np.float32).reshape(2, 128)
    np.testing.assert_array_equal(wide, exact)


FLOAT = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
DAMAGED = {
    "too short": (b"abc", "not a safetensors file or is truncated"),
    "a header that is not there": (struct.pack("<Q", 1 << 40) + b"{}", "not a safetensors file or is truncated"),
    "no header": (struct.pack("<Q", 2) + b"xx", "its header cannot be read"),
    "a list": (struct.pack("<Q", 2) + b"[]", "its header cannot be read"),
    "beyond the end": ({"a": FLOAT}, "lies outside the file"),
    "another length": ({"a": FLOAT | {"shape": [3]}}, "has 8 bytes, but float32 of shape \\(3,\\) needs 12"),
    "backwards": ({"a": FLOAT | {"data_offsets": [8, 0]}}, "has -8 bytes"),
    "before the start": ({"a": FLOAT | {"data_offsets": [-8, 0]}}, "lies outside the file"),
    "no numbers": ({"a": FLOAT | {"shape": ["2"]}}, "lies outside the file"),
    "another type": (
        {"a": FLOAT | {"dtype": "F8_E8M0"}},
        "'a' has dtype 'F8_E8M0', which mpsgraph does not support: convert the tensor to float32",
    ),
    "another length of float8": (
        {"a": FLOAT | {"dtype": "F8_E4M3"}},
        "has 8 bytes, but float8_e4m3fn of shape \\(2,\\) needs 2",
    ),
    "nothing said": ({"a": {}}, "its header cannot be read"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_safetensors_files_raise(kind, tmp_path):
    content, words = DAMAGED[kind]
    path = tmp_path / "damaged.safetensors"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        written(path, content, b"" if kind == "beyond the end" else bytes(8))
    with pytest.raises(mg.errors.CheckpointError, match=words):
        nn.load_safetensors(model(), path)


def test_missing_safetensors_files_raise(tmp_path):
    invalid = tmp_path / ("long" * 100), tmp_path / "null\0character"
    for path in (tmp_path, tmp_path / "none.safetensors", tmp_path / "none.json", *invalid):
        with pytest.raises(mg.errors.CheckpointError, match="cannot be read"):
            nn.load_safetensors(model(), path)
