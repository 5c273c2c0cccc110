"""Test checkpoint files: round trips, compatibility with the safetensors library, and errors for damaged files."""

import hashlib
import json
import os
import struct

import mpsgraph as mg
import numpy as np
import pytest
from safetensors import safe_open

TENSORS = {
    "weight": np.arange(12, dtype=np.float32).reshape(3, 4) / 7,
    "mask": np.array([True, False, True]),
    "scalar": np.array(-3, np.int64),
    "empty": np.zeros((0, 5), np.float16),
    "bits": np.array([0x3F80, 0x4000], np.uint16),
    "wide": np.array([1.5e300]),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def test_checkpoint_round_trip_keeps_tensors_and_metadata(path):
    mg.checkpoint.save(path, TENSORS, {"note": "größer", "step": "3"}, {"bits": "bfloat16"})
    tensors, metadata = mg.checkpoint.load(path)
    assert tensors.keys() == TENSORS.keys()
    for name, array in TENSORS.items():
        assert tensors[name].dtype == array.dtype and tensors[name].shape == array.shape
        assert tensors[name].tobytes() == array.tobytes()
        assert tensors[name].flags.aligned
    assert metadata == {"note": "größer", "step": "3", "format": "mpsgraph", "format_version": "1"}


def test_safetensors_library_reads_checkpoints(path):
    mg.checkpoint.save(path, {k: v for k, v in TENSORS.items() if k != "bits"}, {"note": "x"})
    with safe_open(path, "np") as file:
        assert set(file.keys()) == TENSORS.keys() - {"bits"}
        assert file.metadata()["note"] == "x"
        np.testing.assert_array_equal(file.get_tensor("weight"), TENSORS["weight"])


def test_strided_arrays_are_saved_by_value(path):
    array = np.arange(24.0).reshape(4, 6)
    mg.checkpoint.save(path, {"t": array.T, "s": array[::2, 1::3]})
    tensors, _ = mg.checkpoint.load(path)
    np.testing.assert_array_equal(tensors["t"], array.T)
    np.testing.assert_array_equal(tensors["s"], array[::2, 1::3])


def test_every_truncated_or_altered_checkpoint_raises(path):
    mg.checkpoint.save(path, {"w": np.arange(3, dtype=np.float32)}, {"a": "b"})
    good = path.read_bytes()
    for length in range(len(good)):
        path.write_bytes(good[:length])
        with pytest.raises(mg.CheckpointError):
            mg.checkpoint.load(path)
    for position in range(len(good)):
        for bit in (0x01, 0x20, 0x80):
            damaged = bytearray(good)
            damaged[position] ^= bit
            path.write_bytes(damaged)
            with pytest.raises(mg.CheckpointError):
                mg.checkpoint.load(path)
    path.write_bytes(good + b"\0")
    with pytest.raises(mg.CheckpointError, match="altered"):
        mg.checkpoint.load(path)
    path.write_bytes(good)
    assert mg.checkpoint.load(path)[0]["w"].tolist() == [0, 1, 2]


def test_files_not_written_by_mpsgraph_raise(path):
    with pytest.raises(mg.CheckpointError, match="cannot be read"):
        mg.checkpoint.load(path)
    header = json.dumps({"__metadata__": {"format": "pt"}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(mg.CheckpointError, match="not written by mpsgraph"):
        mg.checkpoint.load(path)
    for garbage in (b"[1, 2]", b'"text"', b'{"__metadata__": 3}', b"\xff\xfe{}"):
        path.write_bytes(struct.pack("<Q", len(garbage)) + garbage)
        with pytest.raises(mg.CheckpointError):
            mg.checkpoint.load(path)


MALFORMED = {
    "no version": {"__metadata__": {"format": "mpsgraph"}},
    "metadata of numbers": {"__metadata__": {"format": "mpsgraph", "format_version": "1", "n": 1}},
    "metadata that is a list": {"__metadata__": []},
    "entry that is a list": {"w": [1]},
    "no offsets": {"w": {"dtype": "F32", "shape": [1]}},
    "unknown dtype": {"w": {"dtype": "F3", "shape": [1], "data_offsets": [0, 4]}},
    "dtype that is a list": {"w": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}},
    "shape of text": {"w": {"dtype": "F32", "shape": ["1"], "data_offsets": [0, 4]}},
    "negative size": {"w": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}},
    "fractional size": {"w": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}},
    "size that is true": {"w": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}},
    "many dimensions": {"w": {"dtype": "F32", "shape": [1] * 100, "data_offsets": [0, 4]}},
    "huge sizes without elements": {"w": {"dtype": "F32", "shape": [0, 1 << 62, 1 << 62], "data_offsets": [0, 0]}},
    "one offset": {"w": {"dtype": "F32", "shape": [1], "data_offsets": [0]}},
    "offsets past the end": {"w": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}},
    "offsets in the wrong order": {"w": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}},
    "fewer bytes than the shape": {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
    "bool of 2": {"w": {"dtype": "BOOL", "shape": [1], "data_offsets": [0, 1]}},
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_headers_with_valid_checksum_raise(path, case):
    metadata = {"__metadata__": {"format": "mpsgraph", "format_version": "1"}} | MALFORMED[case]
    if isinstance(metadata["__metadata__"], dict):
        metadata["__metadata__"]["sha256"] = "0" * 64
    header, body = json.dumps(metadata).encode(), bytes([2] * 8)
    header = header.replace(b"0" * 64, hashlib.sha256(header + body).hexdigest().encode())
    path.write_bytes(struct.pack("<Q", len(header)) + header + body)
    with pytest.raises(mg.errors.CheckpointError):
        mg.checkpoint.load(path)


def test_deeply_nested_header_raises(path):
    header = b"[" * 100_000
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(mg.errors.CheckpointError):
        mg.checkpoint.load(path)


def test_checkpoint_of_newer_format_version_raises(path, monkeypatch):
    monkeypatch.setattr(mg.checkpoint, "FORMAT_VERSION", "2")
    mg.checkpoint.save(path, {})
    monkeypatch.undo()
    with pytest.raises(mg.CheckpointError, match="format version 2"):
        mg.checkpoint.load(path)


def test_failed_save_keeps_the_old_checkpoint(path, monkeypatch):
    mg.checkpoint.save(path, {"w": np.ones(4, np.float32)})

    def broken(descriptor):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(mg.CheckpointError, match="no space left"):
        mg.checkpoint.save(path, {"w": np.zeros(4, np.float32)})
    monkeypatch.undo()
    assert [p.name for p in path.parent.iterdir()] == [path.name], "no temporary file may remain"
    assert mg.checkpoint.load(path)[0]["w"].tolist() == [1, 1, 1, 1]
    with pytest.raises(mg.CheckpointError, match="cannot be written"):
        mg.checkpoint.save(path.parent / "missing" / "file", {})
    with pytest.raises(mg.CheckpointError, match="complex64"):
        mg.checkpoint.save(path, {"z": np.zeros(1, np.complex64)})


def test_unsupported_checkpoint_contents_raise(path):
    with pytest.raises(mg.CheckpointError, match="__metadata__"):
        mg.checkpoint.save(path, {"__metadata__": np.ones(1)})
    for metadata in ({"step": 3}, {3: "step"}):
        with pytest.raises(mg.GraphError, match="metadata must be a dict of strings"):
            mg.checkpoint.save(path, {}, metadata)
    assert not path.exists()
