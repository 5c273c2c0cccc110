"""Fuzz the importers that are written in Python: mutate valid files and load them.

Usage: python tests/fuzzing/importers.py TARGET [--seconds 60] [--executions 0] [--seed 0]

A load must end with a result or with an error of mpsgraph.errors, within a time limit, and within the memory limit of
the process. Everything else is a finding. Each finding is stored in build/fuzz-findings; move a file to
corpora/TARGET once its cause is fixed, and `test_corpora.py` loads it again in every run of the tests.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import unittest.mock
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import mpsgraph as mg
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
CORPORA = Path(__file__).resolve().parent / "corpora"
COREML = ROOT / "tests" / "data" / "coreml"
FINDINGS = ROOT / "build" / "fuzz-findings"
SECONDS = 10  # of processor time for one load, because the machine may be busy
WAITING = 120  # of real time, for a load that waits
MEMORY = 4 << 30
TOKENS = (
    b"\0", b"\xff" * 4, b"\xff" * 8, b"\x7f", b"-1", b"0", b"9223372036854775807", b"18446744073709551615", b"1e400",
    b"NaN", b"null", b"[]", b"{}", b'""', b"[[[[", b"true", b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
)  # fmt: skip


# ---- what is fuzzed --------------------------------------------------------------------------------------------------


class Target:
    """A reader of files, and valid files that it reads."""

    def __init__(self, read: Callable[[Path], object], file: str, seeds: Callable[[], list[bytes]], wire: bool = False):
        self.read, self.file, self.seeds, self.wire = read, file, seeds, wire

    def run(self, data: bytes, folder: Path) -> None:
        path = folder / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.read(path)


def _load_onnx(path: Path) -> object:
    """Load an ONNX model. The digest of the description that mpsgraph exports counts as valid."""
    import mpsgraph.onnx

    with unittest.mock.patch("mpsgraph.onnx.rebuilding.original_graph._digest", return_value=unittest.mock.ANY):
        return mpsgraph.onnx.load(path)


def _load_coreml(path: Path) -> object:
    """Load a Core ML model next to the weights that the seeds refer to."""
    import mpsgraph.coreml

    if not (path.parent / "weights").exists():
        shutil.copytree(COREML / "steps.mlpackage" / "Data" / "com.apple.CoreML" / "weights", path.parent / "weights")
    return mpsgraph.coreml.load(path)


def _load_manifest(path: Path) -> object:
    """Load a Core ML package whose manifest was changed."""
    import mpsgraph.coreml

    if not (path.parent / "Data").exists():
        shutil.copytree(COREML / "steps.mlpackage" / "Data", path.parent / "Data")
    return mpsgraph.coreml.load(path.parent)


def _onnx_seeds() -> list[bytes]:
    from harness import onnx_model
    from harness.onnx_model import BOOL, FLOAT, INT64, model, node, value
    from onnx import helper

    x, y = value("x", FLOAT, (1, 2, 4, 4)), value("y", FLOAT, None)
    weights = {"w": np.ones((3, 2, 3, 3), np.float32), "b": np.zeros(3, np.float32)}
    convolution = [
        node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["c"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2]),
        node("Softmax", ["p"], ["y"], axis=1),
    ]
    then = helper.make_graph([node("Relu", ["x"], ["t"])], "then", [], [value("t", FLOAT, None)])
    other = helper.make_graph([node("Neg", ["x"], ["e"])], "else", [], [value("e", FLOAT, None)])
    branches = [node("If", ["condition"], ["y"], then_branch=then, else_branch=other)]
    shapes = {"start": np.int64([0, 1]), "end": np.int64([2, 3]), "axes": np.int64([2, 3]), "to": np.int64([0, -1])}
    slices = [
        node("Slice", ["x", "start", "end", "axes"], ["s"]),
        node("Transpose", ["s"], ["t"], perm=[0, 2, 3, 1]),
        node("Reshape", ["t", "to"], ["f"]),
        node("ReduceMean", ["f"], ["m"], keepdims=0),
        node("Cast", ["m"], ["y"], to=INT64),
    ]
    models = [
        onnx_model.linear(),
        onnx_model.reshape(),
        model(convolution, [x], [y], weights),
        model(branches, [x, value("condition", BOOL, ())], [y]),
        model(slices, [x], [value("y", INT64, None)], shapes),
    ]
    return [one.SerializeToString() for one in models] + [_written(_write_onnx)]


def _write_onnx(path: Path) -> None:
    """Write an ONNX model that mpsgraph exports, with its description of the graph."""
    import mpsgraph.onnx

    graph = mg.Graph()
    x = graph.placeholder((2, 3), name="x")
    weights = graph.variable(np.ones((3, 2), np.float32), name="w")
    model = mg.Model(graph, {"x": x}, {"y": graph.softmax(graph.matrix_multiplication(x, weights))})
    mpsgraph.onnx.export(model, path)


def _coreml_seeds() -> list[bytes]:
    package = COREML / "steps.mlpackage" / "Data" / "com.apple.CoreML" / "model.mlmodel"
    return [(COREML / "older.mlmodel").read_bytes(), package.read_bytes()]


def _coreml_manifests() -> list[bytes]:
    return [(COREML / "steps.mlpackage" / "Manifest.json").read_bytes()]


def _written(write: Callable[[Path], None]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "file")
        return (Path(folder) / "file").read_bytes()


def _checkpoint_seeds() -> list[bytes]:
    arrays = {"w": np.ones((2, 3), np.float32), "i": np.arange(4), "flag": np.array(True)}
    return [_written(lambda path: mg.checkpoint.save(path, arrays, {"note": "a"}))]


def _load_checkpoint(path: Path) -> object:
    """Load a checkpoint whose checksum is made to match, so that it does not stop every input."""
    import struct

    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0] if len(data) >= 8 else 0
    at = data.find(b'"sha256":"')
    if 8 < at + 10 and at + 74 <= 8 + length <= len(data):
        blank = data[: at + 10] + b"0" * 64 + data[at + 74 :]
        stated = hashlib.sha256(blank[8:]).hexdigest().encode()
        path.write_bytes(data[: at + 10] + stated + data[at + 74 :])
    return mg.checkpoint.load(path)


def _load_weights(path: Path) -> object:
    layer = mg.nn.Linear(2)
    layer(mg.Graph().placeholder((1, 3)))
    return mg.nn.load_safetensors(layer, path)


def _weights_seeds() -> list[bytes]:
    arrays = {"weight": np.ones((2, 3), np.float32), "bias": np.zeros(2, np.float32)}
    return [_written(lambda path: mg.checkpoint.save(path, arrays))]


def _idx_seeds() -> list[bytes]:
    import gzip

    plain = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4])
    return [plain, gzip.compress(plain, mtime=0), bytes([0, 0, 13, 1, 0, 0, 0, 1, 0, 0, 0, 0])]


def _cifar_seeds() -> list[bytes]:
    import pickle

    batch = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [3, 4]}
    return [pickle.dumps(batch, protocol=protocol) for protocol in (2, 4)]


def _load_cifar(path: Path) -> object:
    for name in ("data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"):
        if not (path.parent / name).exists():
            (path.parent / name).write_bytes(_cifar_seeds()[0])
    return mg.data.read_cifar10(path.parent)


def _load_package(path: Path) -> object:
    for name in ("graph.txt", "weights.safetensors"):
        if not (path.parent / name).exists():
            shutil.copy(ROOT / "tests" / "data" / "trained.mpsgraph" / name, path.parent / name)
    return mg.load(path.parent)


def _package_seeds() -> list[bytes]:
    return [(ROOT / "tests" / "data" / "trained.mpsgraph" / "package.json").read_bytes()]


TARGETS = {
    "onnx": Target(_load_onnx, "model.onnx", _onnx_seeds, wire=True),
    "coreml": Target(_load_coreml, "model.mlmodel", _coreml_seeds, wire=True),
    "coreml_manifest": Target(_load_manifest, "model.mlpackage/Manifest.json", _coreml_manifests),
    "checkpoint": Target(_load_checkpoint, "file.safetensors", _checkpoint_seeds),
    "weights": Target(_load_weights, "file.safetensors", _weights_seeds),
    "idx": Target(mg.data.read_idx, "images", _idx_seeds),
    "cifar10": Target(_load_cifar, "cifar/data_batch_1", _cifar_seeds),
    "manifest": Target(_load_package, "trained.mpsgraph/package.json", _package_seeds),
}


# ---- mutation --------------------------------------------------------------------------------------------------------


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("too long")


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _fields(data: bytes) -> list[tuple[int, bytes]] | None:
    """Return the fields of a protocol buffer as (key, contents), or None if the bytes are not one."""
    fields, at = [], 0
    try:
        while at < len(data):
            key, at = _varint(data, at)
            start = at
            if key >> 3 == 0:
                return None
            if key & 7 == 0:
                _, at = _varint(data, at)
            elif key & 7 in (1, 5):
                at += 8 if key & 7 == 1 else 4
            elif key & 7 == 2:
                size, start = _varint(data, at)
                at = start + size
            else:
                return None
            if at > len(data):
                return None
            fields.append((key, data[start:at]))
    except (IndexError, ValueError):
        return None
    return fields


def _joined(fields: list[tuple[int, bytes]]) -> bytes:
    return b"".join(
        _encoded(key) + (_encoded(len(contents)) if key & 7 == 2 else b"") + contents for key, contents in fields
    )


class Mutator:
    """Changes files at random. Protocol buffers are changed field by field, so that their lengths stay correct."""

    def __init__(self, seed: int, corpus: list[bytes], wire: bool):
        self.random, self.corpus, self.wire = random.Random(seed), corpus, wire
        self.pieces = [piece for data in corpus if wire for piece in self._pieces(data, 0)]

    def _pieces(self, data: bytes, depth: int) -> Iterator[tuple[int, bytes]]:
        for key, contents in _fields(data) or []:
            yield key, contents
            if key & 7 == 2 and depth < 8:
                yield from self._pieces(contents, depth + 1)

    def next(self) -> bytes:
        data = self.random.choice(self.corpus)
        for _ in range(self.random.choice((1, 1, 1, 2, 3, 5))):
            structured = self.wire and self.random.random() < 0.9
            data = self._of_message(data, 0) if structured else self._of_bytes(data)
        return data

    def _of_message(self, data: bytes, depth: int) -> bytes:
        fields = _fields(data)
        if not fields or depth > 12:
            return self._of_bytes(data)
        at = self.random.randrange(len(fields))
        key, contents = fields[at]
        action = self.random.random()
        if key & 7 == 2 and contents and action < 0.75:
            fields[at] = (key, self._of_message(contents, depth + 1))
        elif action < 0.8:
            del fields[at]
        elif action < 0.85:
            fields.insert(self.random.randrange(len(fields) + 1), fields[at])
        elif action < 0.9:
            fields.insert(at, self.random.choice(self.pieces))
        elif key & 7 == 0:
            fields[at] = (key, _encoded(self.random.choice((0, 1, 2, 7, 127, 1 << 31, (1 << 63) - 1, (1 << 64) - 1))))
        else:
            fields[at] = (key, self._of_bytes(contents) if key & 7 == 2 else contents)
        return _joined(fields)

    def _of_bytes(self, data: bytes) -> bytes:
        changed, pick = bytearray(data), self.random
        at = pick.randrange(len(changed) + 1)
        action = pick.randrange(6)
        if action == 0 and changed:
            changed[at % len(changed)] = pick.randrange(256)
        elif action == 1 and changed:
            changed[at % len(changed)] ^= 1 << pick.randrange(8)
        elif action == 2:
            del changed[at : at + pick.choice((1, 2, 4, 8, 64))]
        elif action == 3:
            token = pick.choice(TOKENS)
            changed[at : at + pick.choice((0, 1, len(token)))] = token
        elif action == 4:
            other = pick.choice(self.corpus)
            start = pick.randrange(len(other) + 1)
            changed[at:at] = other[start : start + pick.choice((4, 16, 64))]
        else:
            del changed[at:]
        return bytes(changed)


# ---- running ---------------------------------------------------------------------------------------------------------


class TooSlowError(BaseException):
    """Raised by the timers. No importer catches it."""


def _too_slow(*_: object) -> None:
    raise TooSlowError


def problem(target: Target, data: bytes, folder: Path) -> str:
    """Load a file, and return a description of the finding, or an empty string."""
    for kind in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(kind, _too_slow)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.alarm(WAITING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.run(data, folder)
    except mg.errors.Error:
        return ""
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return "".join(traceback.format_exception(error)[-12:])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
    return ""


def _place(found: str) -> str:
    """Return the last line of the package in a traceback, which identifies a finding."""
    lines = [line.strip() for line in found.splitlines() if "mpsgraph" in line and "File" in line]
    return (lines[-1] if lines else "") + found.splitlines()[-1].split(":")[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--executions", type=int, default=0, help="stop after this many; 0 means no limit")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    target = TARGETS[given.target]
    stored = [path.read_bytes() for path in sorted((CORPORA / given.target).glob("*"))]
    mutator = Mutator(given.seed, target.seeds() + stored, target.wire)
    findings: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for data in target.seeds():  # The first load imports modules, which takes seconds.
            target.run(data, Path(folder))
        count, end = 0, time.monotonic() + given.seconds
        while time.monotonic() < end and not 0 < given.executions <= count:
            data = mutator.next()
            found = problem(target, data, Path(folder))
            count += 1
            if found and _place(found) not in findings:
                findings[_place(found)] = found
                FINDINGS.mkdir(parents=True, exist_ok=True)
                file = FINDINGS / f"{given.target}-{hashlib.sha256(data).hexdigest()[:12]}"
                file.write_bytes(data)
                print(f"finding {file}\n{found}", flush=True)
    print(f"{given.target}: {count} executions, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
