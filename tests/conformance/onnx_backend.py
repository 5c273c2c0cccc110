"""The backend cases in the onnx wheel: a model, and data sets of inputs and the outputs that are expected."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")


@dataclass(frozen=True)
class Case:
    """One directory."""

    name: str  # "node/test_abs"

    @property
    def directory(self) -> Path:
        return DATA / self.name

    @property
    def model(self) -> Path:
        return self.directory / "model.onnx"

    def tolerances(self) -> tuple[float, float]:
        """Relative and absolute: the suite's own, unless the case states others."""
        stated = self.directory / "data.json"
        given = json.loads(stated.read_text()) if stated.exists() else {}
        return given.get("rtol", 1e-3), given.get("atol", 1e-7)

    def data_sets(self) -> Iterator[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
        """Inputs and expected outputs by name."""
        graph = onnx.load(self.model).graph
        initialisers = {tensor.name for tensor in graph.initializer}
        inputs = [info.name for info in graph.input if info.name not in initialisers]
        outputs = [info.name for info in graph.output]
        for directory in sorted(self.directory.glob("test_data_set_*")):
            yield _arrays(directory, "input", inputs), _arrays(directory, "output", outputs)


def all_cases() -> list[Case]:
    return [Case(f"{kind}/{path.name}") for kind in KINDS for path in sorted((DATA / kind).iterdir()) if path.is_dir()]


def _arrays(directory: Path, what: str, names: list[str]) -> dict[str, np.ndarray]:
    """Tensors that the files hold, in the order of the names; an optional one may be missing at the end."""
    result = {}
    for i, name in enumerate(names):
        path = directory / f"{what}_{i}.pb"
        if path.exists():
            result[name] = numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))
    return result
