"""ONNX Runtime's nearest-neighbor Resize along one axis, written with numpy's float32 scalars, and random cases of it.

`tests/onnx_runtime` compares this reference with ONNX Runtime, and `tests/onnx` compares the importer with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from harness.onnx_model import FLOAT, model, value

COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric",
               "tf_half_pixel_for_nn")  # fmt: skip
ROUNDING = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
COUNT = 4000  # Number of random cases.


@dataclass(frozen=True)
class Case:
    """One axis to resize, either to a size or by a scale."""

    size: int
    result: int | None
    scale: float | None
    coordinates: str
    rounding: str


def cases(count: int = COUNT, seed: int = 55) -> Iterator[Case]:
    """Yield random cases, many of which have coordinates that are ties, or almost ties."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        size = int(rng.integers(1, 40 if i % 3 else 400))
        result = int(rng.integers(1, 40 if i % 5 else 400))
        coordinates, rounding = COORDINATES[int(rng.integers(6))], ROUNDING[int(rng.integers(4))]
        if i % 2:
            yield Case(size, result, None, coordinates, rounding)
            continue
        scale = np.float32(np.round(result / size, int(rng.integers(1, 4))))
        if np.floor(scale * np.float32(size)) >= 1:
            yield Case(size, None, float(scale), coordinates, rounding)


def expected(case: Case) -> list[int]:
    """Return the index of the input element that each output element takes."""
    f, n = np.float32, np.float32(case.size)
    scale = f(case.scale) if case.scale is not None else f(case.result) / n
    count = case.result if case.result is not None else int(scale * n)
    if count == case.size:
        return list(range(count))
    m, indices = f(count), []
    for i in map(f, range(count)):
        match case.coordinates:
            case "half_pixel":
                x = (i + f(0.5)) / scale - f(0.5)
            case "pytorch_half_pixel":
                x = (i + f(0.5)) / scale - f(0.5) if count > 1 else f(0)
            case "asymmetric":
                x = i / scale
            case "align_corners":
                x = i * (n - f(1)) / (m - f(1)) if count > 1 else f(0)
            case "half_pixel_symmetric":
                offset = n / f(2) * (f(1) - m / (scale * n))
                x = f(float(offset) + (float(i) + 0.5) / float(scale) - 0.5)
            case "tf_half_pixel_for_nn":
                x = (i + f(0.5)) / scale
        indices.append(min(max(_rounded(float(x), case.rounding), 0), case.size - 1))
    return indices


def _rounded(x: float, rounding: str) -> int:
    below = int(np.floor(x))
    if rounding in ("floor", "ceil"):
        return below if rounding == "floor" else int(np.ceil(x))
    if abs(x - below - 0.5) < 1e-6:
        return below if rounding == "round_prefer_floor" else below + 1
    return below + (x - below > 0.5)


def resizing(group: list[Case], rank: int = 1) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return a model that resizes the last axis of one input for each case, and inputs whose elements are indices."""
    nodes, inputs, outputs, constants, feeds = [], [], [], {}, {}
    for i, case in enumerate(group):
        lead = [1] * (rank - 1)
        feeds[f"x{i}"] = np.arange(case.size, dtype=np.float32).reshape(*lead, -1)
        by_scale = case.scale is not None
        constants[f"s{i}"] = np.float32([*lead, case.scale]) if by_scale else np.int64([*lead, case.result])
        how = {"coordinate_transformation_mode": case.coordinates, "nearest_mode": case.rounding, "mode": "nearest"}
        operands = [f"x{i}", "", f"s{i}"] if by_scale else [f"x{i}", "", "", f"s{i}"]
        nodes.append(helper.make_node("Resize", operands, [f"y{i}"], name=f"resize{i}", **how))
        inputs.append(value(f"x{i}", FLOAT, (*lead, case.size)))
        outputs.append(value(f"y{i}", FLOAT, None))
    return model(nodes, inputs, outputs, constants, opset=18), feeds
