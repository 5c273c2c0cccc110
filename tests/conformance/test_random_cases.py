"""Run random cases of single operators: ONNX nodes against ONNX Runtime, and graph operations against PyTorch.

make_random_cases.py creates the cases. data/ holds a few hundred with a fixed seed. `make conformance` creates
thousands with a random seed, which each failure message includes. Exclusions are listed by operator and operand, with
the reason.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import mpsgraph as mg
import numpy as np
import onnx
import pytest
from conformance.comparing import difference

DATA = Path(os.environ.get("MPSGRAPH_RANDOM_CASES", Path(__file__).parent / "data"))
TOLERANCE = {"rtol": 2e-4, "atol": 2e-5}
REDUCED = ("reduction_maximum_propagate_nan", "reduction_minimum_propagate_nan", "reduction_sum", "mean")

# Operators for which the reference differs, and why mpsgraph's result is kept.
ONNX_DIFFERS = {
    "ArgMax": "ONNX Runtime ignores NaN; mpsgraph takes the first NaN as the maximum, as numpy does",
    "ArgMin": "ONNX Runtime ignores NaN; mpsgraph takes the first NaN as the minimum, as numpy does",
    "Hardmax": "see ArgMax",
    "ReduceMax": "ONNX Runtime's result depends on the position of a NaN; mpsgraph returns NaN",
    "ReduceMin": "ONNX Runtime's result depends on the position of a NaN; mpsgraph returns NaN",
    "ReduceSum": "ONNX Runtime adds int64 in double precision; mpsgraph is exact and wraps around",
    "ReduceProd": "ONNX Runtime handles integer overflow differently; mpsgraph wraps around, as numpy does",
    "MatMul": "where products overflow, the summation order decides between infinity and NaN",
    "MaxPool": "ONNX Runtime's result depends on the position of a NaN; mpsgraph returns NaN",
}
VALUES_DIFFER = {
    "mean": "where large numbers cancel, the result depends on the summation order",
    "reduction_sum": "see mean",
    "modulo": "PyTorch returns NaN if the quotient overflows; mpsgraph is exact, as numpy is",
    "floor_modulo": "PyTorch returns NaN for large quotients; mpsgraph is exact, as numpy is",
    "matrix_multiplication": "where products overflow, the summation order decides between infinity and NaN",
}
GRADIENTS_DIFFER = {
    "relu": "mpsgraph's gradient is 0 where the source is NaN: it is g where x > 0",
    "absolute": "PyTorch's gradient is 0 where the source is NaN; mpsgraph's is NaN",
    "minimum": "ties share the gradient equally; PyTorch's fmin passes it to the first",
    "maximum": "ties share the gradient equally; PyTorch's fmax passes it to the first",
    "minimum_with_nan_propagation": "NaN where the result is NaN; PyTorch passes the gradient to both operands",
    "maximum_with_nan_propagation": "NaN where the result is NaN; PyTorch passes the gradient to both operands",
    "matrix_multiplication": "see its value",
    "division": "NaN where a quotient flushed to zero is multiplied by infinity",
    "modulo": "NaN for a divisor of 0; uses the exact quotient, which PyTorch may round to the next integer",
    "floor_modulo": "see modulo",
}


# The gradients of these operators differ for ordinary numbers, too.
ALWAYS = ("minimum", "maximum", "modulo", "floor_modulo")


def stored(kind: str) -> tuple[int, dict[str, dict[str, np.ndarray]]]:
    """Return the seed, and the arrays of each case by name."""
    cases: dict[str, dict[str, np.ndarray]] = {}
    with np.load(DATA / f"random_{kind}.npz") as archive:
        seed = json.loads(str(archive["about"]))["seed"]
        for key in archive.files:
            if key != "about":
                name, _, part = key.partition("/")
                cases.setdefault(name, {})[part] = archive[key]
    return seed, cases


def by_operator(cases: dict[str, dict[str, np.ndarray]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in cases:
        found.setdefault(name.partition("-")[2], []).append(name)
    return found


def operands(case: dict[str, np.ndarray], letter: str = "i") -> list[np.ndarray]:
    return [case[f"{letter}{i}"] for i in range(len(case)) if f"{letter}{i}" in case]


ONNX_SEED, ONNX = stored("onnx")
TORCH_SEED, TORCH = stored("torch")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", sorted(by_operator(ONNX)))
def test_random_onnx_nodes_match_onnx_runtime(kind: str):
    wrong = []
    for name in by_operator(ONNX)[kind]:
        case = ONNX[name]
        model = mg.onnx.load(onnx.ModelProto.FromString(case["model"].tobytes()))
        (result,) = model.run({f"i{i}": x for i, x in enumerate(operands(case))}).values()
        found = difference(result.numpy(), case["o"], **TOLERANCE)
        if found and not (kind in ONNX_DIFFERS and extreme(case)):
            wrong.append(f"{name}: {found}")
    report(wrong, ONNX_SEED, len(by_operator(ONNX)[kind]))


def extreme(case: dict[str, np.ndarray]) -> bool:
    """Return whether operands contain non-finite or extreme numbers; operators listed as different may differ only for
    these.
    """
    return any(not (np.abs(x.astype(float)) < 1e6).all() or (x == 0).any() for x in operands(case))


def report(wrong: list[str], seed: int, count: int) -> None:
    assert not wrong, f"seed {seed}, {len(wrong)} of {count}: " + "; ".join(wrong[:5])


def run_operation(kind: str, inputs: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the operation's value and the gradients of its sum."""
    g = mg.Graph()
    places = [g.placeholder(x.shape) for x in inputs]
    y = g.softmax(places[0], -1) if kind == "softmax" else (
        g.mean(places[0], list(range(inputs[0].ndim))) if kind == "mean" else getattr(g, kind)(*places)
    )  # fmt: skip
    gradients = g.gradients(y, places)
    results = g.run(dict(zip(places, inputs, strict=True)), [y, *(gradients[p] for p in places)])
    return results[y].numpy(), [results[gradients[p]].numpy() for p in places]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", sorted(by_operator(TORCH)))
def test_random_graph_operations_match_pytorch(kind: str):
    values, slopes = [], []
    for name in by_operator(TORCH)[kind]:
        case = TORCH[name]
        value, gradients = run_operation(kind, operands(case))
        found = difference(value.reshape(case["o"].shape), case["o"], **TOLERANCE)
        values += [f"{name}: {found}"] if found and not (kind in VALUES_DIFFER and extreme(case)) else []
        for i, (got, wanted) in enumerate(zip(gradients, operands(case, "g"), strict=False)):
            found = difference(got, wanted, **TOLERANCE)
            left_out = kind in GRADIENTS_DIFFER and (extreme(case) or kind in ALWAYS)
            slopes += [f"{name}: gradient {i}: {found}"] if found and not left_out else []
    count = len(by_operator(TORCH)[kind])
    report(values, TORCH_SEED, count)
    report(slopes, TORCH_SEED, count)
