"""Read the cases that make_torch_cases.py created: a model with PyTorch's inputs, outputs, and gradients."""

from __future__ import annotations

import io
import os
import tarfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import onnx

# Folder of the archives; `make conformance` creates larger ones and sets the variable.
DRAWN = os.environ.get("MPSGRAPH_TORCH_CASES")
DIRECTORY = Path(DRAWN or Path(__file__).parent / "data")


@dataclass
class Case:
    """One call of a PyTorch function or module."""

    name: str
    model: onnx.ModelProto = field(default_factory=onnx.ModelProto)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    def numbered(self, what: str) -> dict[int, np.ndarray]:
        """Return the arrays named what_0, what_1, ... by number."""
        found = (key.rpartition("_") for key in self.arrays)
        return {int(number): self.arrays[f"{what}_{number}"] for name, _, number in found if name == what}

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        """The inputs by name; the exporter keeps their order."""
        names = [info.name for info in self.model.graph.input]
        return {names[i]: array for i, array in self.numbered("input").items()}


@cache
def cases_of(kind: str) -> dict[str, Case]:
    """Return all cases of an archive, "operators" or "modules", by name."""
    cases: dict[str, Case] = {}
    with tarfile.open(DIRECTORY / f"torch_{kind}.tar.xz") as archive:
        for entry in archive:
            name, _, part = entry.name.partition("/")
            data = archive.extractfile(entry).read()
            case = cases.setdefault(name, Case(name))
            if part == "model.onnx":
                case.model.ParseFromString(data)
            else:
                with np.load(io.BytesIO(data)) as arrays:
                    case.arrays = dict(arrays)
    return cases
