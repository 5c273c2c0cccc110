"""Test limits for untrusted input, and typed errors for malformed files."""

from __future__ import annotations

import json
import struct
import threading
from contextlib import suppress
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest


def chain(length: int) -> mg.Graph:
    g = mg.Graph()
    y = g.placeholder((2,), name="x")
    for _ in range(length):
        y = -y
    return g


def nested(depth: int) -> mg.Graph:
    g = mg.Graph()

    def level(depth: int, value: mg.Tensor) -> mg.Tensor:
        if depth == 0:
            return value + 1.0
        return g.for_(2, initial=[value], body=lambda i, v: [level(depth - 1, v)])[0]

    level(depth, g.constant(np.float32(0)))
    return g


def test_number_of_operations_is_limited():
    text = str(chain(100))
    with mg.limits(nodes=101):
        mg.parse(text)
    with mg.limits(nodes=50), pytest.raises(mg.LimitError, match="more than 50 operations.*raise the limit `nodes`"):
        mg.parse(text)
    with mg.limits(nodes=50), pytest.raises(mg.LimitError):
        chain(100)
    mg.parse(text)  # limits end with their block


def test_depth_is_limited():
    text = str(nested(5))
    with mg.limits(depth=5):
        mg.parse(text)
        nested(5)
    with mg.limits(depth=4):
        with pytest.raises(mg.LimitError, match="deeper than 4 levels"):
            mg.parse(text)
        with pytest.raises(mg.LimitError, match="deeper than 4 levels"):
            nested(5)


def test_time_is_limited():
    with mg.limits(time=0), pytest.raises(mg.LimitError, match="longer than 0 s"):
        chain(10)


def test_nested_limits_all_apply():
    text = str(chain(100))
    with mg.limits(nodes=150), mg.limits(nodes=None, bytes=None, depth=None, time=None):
        mg.parse(text)
        with pytest.raises(mg.LimitError, match="more than 150"):
            mg.parse(text)


def test_limits_apply_to_their_thread_only():
    errors = []

    def other() -> None:
        try:
            chain(100)
        except mg.LimitError as error:
            errors.append(error)

    with mg.limits(nodes=10):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert not errors


@pytest.mark.parametrize("wrong", [{"nodes": -1}, {"time": float("nan")}, {"bytes": 1.5}, {"depth": "8"}])
def test_invalid_limits_raise(wrong: dict):
    with pytest.raises((mg.GraphError, mg.DTypeError, TypeError)):
        mg.limits(**wrong)


def test_bytes_of_packages_and_files_are_limited(tmp_path: Path):
    g = mg.Graph()
    x = g.placeholder((1000,), name="x")
    package, weights = tmp_path / "m.mpsgraph", tmp_path / "w.safetensors"
    mg.save(package, g, [x], {"y": x * g.variable(np.arange(1000, dtype=np.float32))})
    mg.checkpoint.save(weights, {"w": np.zeros(1000, np.float32)})
    with mg.limits(bytes=100_000):
        mg.load(package)
        mg.checkpoint.load(weights)
    layer = mg.nn.Linear(4)
    for read in (
        lambda: mg.load(package),
        lambda: mg.checkpoint.load(weights),
        lambda: mg.nn.load_safetensors(layer, weights),
        lambda: mg.Graph().constant(np.zeros(1000, np.float32)),
    ):
        with mg.limits(bytes=3000), pytest.raises(mg.LimitError, match="exceeds the limit of 3000 bytes"):
            read()


def checkpoint_with(path: Path, header: object) -> Path:
    """Write a checkpoint with a valid checksum and the given header, in which "sha256" is replaced."""
    import hashlib

    blank = "0" * 64
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    digest = hashlib.sha256(text + b"\0" * 8).hexdigest()
    text = text.replace(blank.encode(), digest.encode(), 1)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"\0" * 8)
    return path


ABOUT = {"sha256": "0" * 64, "format": "mpsgraph", "format_version": "1"}
GOOD = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def test_checkpoint_written_by_the_helper_is_read(tmp_path: Path):
    tensors, _ = mg.checkpoint.load(checkpoint_with(tmp_path / "c", {"__metadata__": ABOUT, "w": GOOD}))
    assert tensors["w"].tolist() == [0, 0]


@pytest.mark.parametrize(
    "header",
    [
        {"__metadata__": {k: v for k, v in ABOUT.items() if k != "format_version"}, "w": GOOD},
        {"__metadata__": {**ABOUT, "note": 3}, "w": GOOD},
        {"__metadata__": ABOUT, "w": {"dtype": "F32", "shape": [2]}},
        {"__metadata__": ABOUT, "w": {**GOOD, "dtype": "F99"}},
        {"__metadata__": ABOUT, "w": {**GOOD, "dtype": ["F32"]}},
        {"__metadata__": ABOUT, "w": {**GOOD, "shape": [3]}},
        {"__metadata__": ABOUT, "w": {**GOOD, "shape": "2"}},
        {"__metadata__": ABOUT, "w": {**GOOD, "data_offsets": [0]}},
        {"__metadata__": ABOUT, "w": {**GOOD, "data_offsets": [-8, 8]}},
        {"__metadata__": ABOUT, "w": {**GOOD, "data_offsets": [0, 800]}},
        {"__metadata__": ABOUT, "w": {**GOOD, "data_offsets": ["0", "8"]}},
        {"__metadata__": ABOUT, "w": 7},
        {"__metadata__": ABOUT, "w": None},
        {"__metadata__": [1]},
        {"__metadata__": None},
        [1, 2],
        "[" * 100_000 + "]" * 100_000,
        "\udcff".encode("utf-8", "surrogateescape").decode("latin1"),
    ],
)
def test_malformed_checkpoint_raises_checkpoint_error(tmp_path: Path, header: object):
    with pytest.raises(mg.CheckpointError):
        mg.checkpoint.load(checkpoint_with(tmp_path / "c.safetensors", header))
    with suppress(mg.Error):  # some of these are valid safetensors files of other programs
        mg.nn.load_safetensors(mg.nn.Linear(2), tmp_path / "c.safetensors")


@pytest.mark.parametrize(
    "manifest", [b"", b"[]", b"{", b'{"format": 3}', b"\xff\xfe", b"[" * 100_000, b'{"format": "mpsgraph"}']
)
def test_malformed_manifest_raises_package_error(tmp_path: Path, manifest: bytes):
    path = tmp_path / "m.mpsgraph"
    g = mg.Graph()
    x = g.placeholder((2,), name="x")
    mg.save(path, g, [x], {"y": x + 1.0})
    (path / "package.json").write_bytes(manifest)
    with pytest.raises(mg.PackageError, match="package.json"):
        mg.load(path)


@pytest.mark.parametrize("place", ["missing/model.mpsgraph", "file/model.mpsgraph", "a" * 300, "null\0character"])
def test_unusable_paths_raise_package_error(tmp_path: Path, place: str):
    (tmp_path / "file").write_text("")
    g = mg.Graph()
    x = g.placeholder((2,), name="x")
    path = tmp_path / place
    with pytest.raises(mg.PackageError):
        mg.load(path)
    if place != "missing/model.mpsgraph":
        with pytest.raises(mg.PackageError):
            mg.save(path, g, [x], {"y": x + 1.0})


def test_import_in_a_subinterpreter_raises_import_error():
    interpreters = pytest.importorskip("_xxsubinterpreters")
    number = interpreters.create(isolated=False)
    try:
        with pytest.raises(Exception, match="subinterpreter"):
            interpreters.run_string(number, "import mpsgraph")
    finally:
        interpreters.destroy(number)
