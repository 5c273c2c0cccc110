"""Random cases of single operators: ONNX nodes against ONNX Runtime, graph operations against PyTorch.

make_random_cases.py draws them; a few hundred with a fixed seed lie in data/, and `make conformance` draws thousands
with a fresh one, whose number stands in each message. Exclusions are by operator and operand, with the reason.
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

# Where the peer says something else, and why ours stays.
ONNX_DIFFERS = {
    "ArgMax": "ONNX Runtime passes over NaN; the first NaN is the maximum, as in numpy",
    "ArgMin": "ONNX Runtime passes over NaN; the first NaN is the minimum, as in numpy",
    "Hardmax": "as ArgMax",
    "ReduceMax": "ONNX Runtime's result depends on where the NaN stands; ours is NaN",
    "ReduceMin": "ONNX Runtime's result depends on where the NaN stands; ours is NaN",
    "ReduceSum": "ONNX Runtime adds int64 in double precision; ours is exact and wraps",
    "ReduceProd": "ONNX Runtime multiplies integers that overflow otherwise; ours wraps, as numpy",
    "MatMul": "infinity or NaN where products overflow: the order of the sum decides",
    "MaxPool": "ONNX Runtime's result depends on where the NaN stands; ours is NaN",
}
VALUES_DIFFER = {
    "mean": "large numbers that cancel: the order of the sum decides",
    "reduction_sum": "as mean",
    "modulo": "PyTorch's is NaN where the quotient overflows; ours is exact, as numpy's",
    "floor_modulo": "PyTorch's overflows to NaN at large quotients; ours is exact, as numpy's",
    "matrix_multiplication": "infinity or NaN where products overflow: the order of the sum decides",
}
GRADIENTS_DIFFER = {
    "relu": "the gradient of relu is 0 where the source is NaN: g where x > 0",
    "absolute": "PyTorch's is 0 where the source is NaN; ours is NaN",
    "minimum": "ties share the gradient equally; PyTorch's fmin gives all to the first",
    "maximum": "ties share the gradient equally; PyTorch's fmax gives all to the first",
    "minimum_with_nan_propagation": "NaN where the result is NaN; PyTorch's passes to both operands",
    "maximum_with_nan_propagation": "NaN where the result is NaN; PyTorch's passes to both operands",
    "matrix_multiplication": "as its value",
    "division": "NaN where a quotient that is flushed to zero meets infinity",
    "modulo": "NaN for a divisor of 0; the quotient is the exact one, which PyTorch's may round to the next integer",
    "floor_modulo": "as modulo",
}


ALWAYS = ("minimum", "maximum", "modulo", "floor_modulo")  # gradients that differ at ordinary numbers, too


def stored(kind: str) -> tuple[int, dict[str, dict[str, np.ndarray]]]:
    """The seed, and by case its arrays."""
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
def test_onnx_nodes(kind: str):
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
    """Are there others than ordinary numbers among the operands? An operator that differs is held to these."""
    return any(not (np.abs(x.astype(float)) < 1e6).all() or (x == 0).any() for x in operands(case))


def report(wrong: list[str], seed: int, count: int) -> None:
    assert not wrong, f"seed {seed}, {len(wrong)} of {count}: " + "; ".join(wrong[:5])


def run_operation(kind: str, inputs: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """The operation's value, and the gradients of its sum."""
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
def test_operations_of_pytorch(kind: str):
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
