"""Read ONNX's backend cases: models with sets of inputs and expected outputs.

Wheels of onnx up to 1.20 contain the cases as files; newer ones create them in memory and no longer include those
exported by PyTorch. This module reads both kinds, depending on the installed version.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
ON_DISK = (DATA / "node").is_dir()
KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted") if ON_DISK else ("node", "simple")
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A case identified by its name: a directory, or an object in memory."""

    name: str  # The case's name, such as "node/test_abs".

    @property
    def directory(self) -> Path:
        return DATA / self.name

    def proto(self) -> onnx.ModelProto:
        """Return a new copy of the model."""
        if ON_DISK:
            return onnx.load(self.directory / "model.onnx")
        model = onnx.ModelProto()
        model.CopyFrom(_in_memory()[self.name].model)
        return model

    def tolerances(self) -> tuple[float, float]:
        """Return the relative and absolute tolerance: those of the case, or else of the suite."""
        if not ON_DISK:
            return _in_memory()[self.name].rtol, _in_memory()[self.name].atol
        stated = self.directory / "data.json"
        given = json.loads(stated.read_text()) if stated.exists() else {}
        return given.get("rtol", 1e-3), given.get("atol", 1e-7)

    def data_sets(self) -> Iterator[tuple[Arrays, Arrays]]:
        """Yield inputs and expected outputs by name."""
        graph = self.proto().graph
        initialisers = {tensor.name for tensor in graph.initializer}
        inputs = [info.name for info in graph.input if info.name not in initialisers]
        outputs = [info.name for info in graph.output]
        if ON_DISK:
            for directory in sorted(self.directory.glob("test_data_set_*")):
                yield _files(directory, "input", inputs), _files(directory, "output", outputs)
        else:
            for given, expected in _in_memory()[self.name].data_sets:
                yield _arrays(inputs, given), _arrays(outputs, expected)


def all_cases() -> list[Case]:
    """Return all cases sorted by name."""
    if not ON_DISK:
        return [Case(name) for name in sorted(_in_memory())]
    return [Case(f"{kind}/{path.name}") for kind in KINDS for path in sorted((DATA / kind).iterdir()) if path.is_dir()]


@cache
def _in_memory() -> dict[str, Any]:
    """Return onnx's case objects by the names that the case files have."""
    from onnx.backend.test.case.model import collect_testcases
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy warns while onnx computes expected values.
        cases = {f"node/{case.name}": case for case in load_model_tests(kind="node")}
        return cases | {f"simple/{case.name}": case for case in collect_testcases() if case.kind == "simple"}


def _arrays(names: Iterable[str], values: Iterable[Any]) -> Arrays:
    """Return the values as arrays by name; trailing optional values may be missing."""
    found = zip(names, values, strict=False)
    return {n: numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else np.asarray(v) for n, v in found}


def _files(directory: Path, what: str, names: list[str]) -> Arrays:
    """Read tensors from files in the order of the names; trailing optional tensors may be missing."""
    result = {}
    for i, name in enumerate(names):
        path = directory / f"{what}_{i}.pb"
        if path.exists():
            result[name] = numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))
    return result
