"""Create random cases of single operators: ONNX nodes computed by ONNX Runtime, and functions computed by PyTorch.

`make conformance` runs this in an environment with torch, onnx, and onnxruntime; mpsgraph is not used. The seed is
random unless given, and printed, so that a failure can be reproduced with `--seed`. A case is one operator with random
dtype, shapes, attributes, and values, a quarter of which are extreme; the file holds its description and arrays.
"""

from __future__ import annotations

import argparse
import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Draw = np.random.Generator
FLOATS, WHOLE = ("float32",), ("int32", "int64")
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 88.0, -104.0, 3e38, -3e38, 1e-30]


def shape_of(rng: Draw, rank: int | None = None) -> tuple[int, ...]:
    rank = int(rng.integers(1, 4)) if rank is None else rank
    return tuple(int(n) for n in rng.choice([1, 2, 3, 5, 17], rank))


def numbers(rng: Draw, shape: tuple[int, ...], dtype: str, special: bool = True) -> np.ndarray:
    """Return random values of a dtype; in one of four cases they include extreme ones."""
    if dtype == "bool":
        return rng.random(shape) < 0.5
    with_extremes = special and rng.random() < 0.25
    if dtype.startswith("float"):
        x = np.round(rng.normal(0, 2, shape), 2)
        return np.where(rng.random(shape) < 0.4, rng.choice(SPECIAL, shape), x).astype(dtype) if with_extremes else (
            x.astype(dtype)
        )  # fmt: skip
    limits = np.iinfo(dtype)
    if with_extremes:
        return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    return rng.integers(-9, 10, shape).astype(dtype)


# --- ONNX: each entry draws (inputs, attributes) ---------------------------------------------------------------------
Node = tuple[list[np.ndarray], dict[str, Any]]


def unary(dtypes: tuple[str, ...], **attributes: Callable[[Draw], Any]) -> Callable[[Draw], Node]:
    def draw(rng: Draw) -> Node:
        given = {key: value(rng) for key, value in attributes.items() if rng.random() < 0.7}
        return [numbers(rng, shape_of(rng), str(rng.choice(dtypes)))], given

    return draw


def binary(dtypes: tuple[str, ...], divisor: bool = False, **attributes: Any) -> Callable[[Draw], Node]:
    def draw(rng: Draw) -> Node:
        dtype, shape = str(rng.choice(dtypes)), shape_of(rng)
        other = tuple(1 if rng.random() < 0.3 else n for n in shape[int(rng.integers(0, len(shape))) :])
        y = numbers(rng, other, dtype)
        # ONNX Runtime crashes on integer division by 0, and on dividing the smallest integer by -1.
        if divisor and dtype in WHOLE:
            y = np.where((y == 0) | (y == -1), 3, y).astype(dtype)
        return [numbers(rng, shape, dtype), y], attributes

    return draw


def reduction(dtypes: tuple[str, ...], special: bool = True) -> Callable[[Draw], Node]:
    def draw(rng: Draw) -> Node:
        x = numbers(rng, shape_of(rng), str(rng.choice(dtypes)), special)
        axes = np.sort(rng.permutation(x.ndim)[: int(rng.integers(1, x.ndim + 1))]).astype(np.int64)
        return [x, axes], {"keepdims": int(rng.integers(0, 2))}

    return draw


def along(dtypes: tuple[str, ...], **attributes: Callable[[Draw], Any]) -> Callable[[Draw], Node]:
    def draw(rng: Draw) -> Node:
        x = numbers(rng, shape_of(rng), str(rng.choice(dtypes)))
        return [x], {"axis": int(rng.integers(-x.ndim, x.ndim)), **{k: v(rng) for k, v in attributes.items()}}

    return draw


def clip(rng: Draw) -> Node:
    dtype = str(rng.choice(FLOATS + WHOLE))
    return [numbers(rng, shape_of(rng), dtype), np.array(-2, dtype), np.array(3, dtype)], {}


def gather(rng: Draw) -> Node:
    x = numbers(rng, shape_of(rng), str(rng.choice(FLOATS + WHOLE)))
    axis = int(rng.integers(0, x.ndim))
    n = x.shape[axis]
    return [x, rng.integers(-n, n, shape_of(rng, 2)).astype(np.int64)], {"axis": axis}


def pad(rng: Draw) -> Node:
    x = numbers(rng, shape_of(rng), str(rng.choice(FLOATS + WHOLE)))
    value = numbers(rng, (), str(x.dtype))
    return [x, rng.integers(0, 3, 2 * x.ndim).astype(np.int64), np.asarray(value)], {}


def product(rng: Draw) -> Node:
    m, k, n = (int(rng.choice([1, 3, 4, 16, 33, 64])) for _ in range(3))
    return [numbers(rng, (m, k), "float32"), numbers(rng, (k, n), "float32")], {}


def pooling(rng: Draw) -> Node:
    side = int(rng.integers(1, 4))
    x = numbers(rng, (1, 3, int(rng.integers(4, 9)), int(rng.integers(4, 9))), "float32")
    pads = [int(p) for p in rng.integers(0, side, 4)]
    return [x], {"kernel_shape": [side, side], "strides": [int(s) for s in rng.integers(1, 3, 2)], "pads": pads}


def cumulative(rng: Draw) -> Node:
    x = numbers(rng, shape_of(rng), str(rng.choice(FLOATS + WHOLE)))
    attributes = {"exclusive": int(rng.integers(0, 2)), "reverse": int(rng.integers(0, 2))}
    return [x, np.array(int(rng.integers(0, x.ndim)), np.int64)], attributes


def where(rng: Draw) -> Node:
    dtype, shape = str(rng.choice(FLOATS + WHOLE)), shape_of(rng)
    return [numbers(rng, shape, "bool"), numbers(rng, shape, dtype), numbers(rng, shape, dtype)], {}


def flag(rng: Draw) -> int:
    return int(rng.integers(0, 2))


def small(rng: Draw) -> float:
    return float(np.float32(rng.uniform(0.1, 2)))


ONNX: dict[str, Callable[[Draw], Node]] = {
    **{name: unary(FLOATS) for name in (
        "Ceil", "Floor", "Round", "Sqrt", "Exp", "Log", "Sigmoid", "Tanh", "Erf", "Softplus", "Softsign", "HardSwish",
        "Mish", "IsNaN", "IsInf", "Reciprocal", "Atan", "Asinh")},
    **{name: unary(FLOATS + WHOLE) for name in ("Abs", "Neg", "Sign")},
    "Relu": unary(FLOATS), "Elu": unary(FLOATS, alpha=small), "Celu": unary(FLOATS, alpha=small),
    "Selu": unary(FLOATS), "LeakyRelu": unary(FLOATS, alpha=small), "ThresholdedRelu": unary(FLOATS, alpha=small),
    "HardSigmoid": unary(FLOATS, alpha=small, beta=small),
    **{name: binary(FLOATS + WHOLE) for name in (
        "Add", "Sub", "Mul", "Max", "Min", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")},
    "Div": binary(FLOATS + WHOLE, divisor=True), "Mod": binary(WHOLE, divisor=True), "Pow": binary(FLOATS),
    "PRelu": binary(FLOATS),
    **{name: reduction(FLOATS + WHOLE) for name in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")},
    **{name: reduction(FLOATS, special=False) for name in (
        "ReduceMean", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare")},
    **{name: along(FLOATS) for name in ("Softmax", "LogSoftmax", "Hardmax")},
    **{name: along(FLOATS + WHOLE, keepdims=flag, select_last_index=flag) for name in ("ArgMax", "ArgMin")},
    "Clip": clip, "Gather": gather, "Pad": pad, "MatMul": product, "MaxPool": pooling, "AveragePool": pooling,
    "CumSum": cumulative, "Where": where,
}  # fmt: skip


def onnx_cases(rng: Draw, count: int) -> dict[str, np.ndarray]:
    import onnx
    import onnxruntime
    from onnx import helper

    onnxruntime.set_default_logger_severity(4)
    stored: dict[str, np.ndarray] = {}
    names, made = sorted(ONNX), 0
    while made < count:
        kind = names[made % len(names)]
        inputs, attributes = ONNX[kind](rng)
        infos = [helper.make_tensor_value_info(f"i{i}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
                 for i, x in enumerate(inputs)]  # fmt: skip
        node = helper.make_node(kind, [info.name for info in infos], ["o"], **attributes)
        output = onnx.ValueInfoProto(name="o")
        graph = helper.make_graph([node], kind, infos, [output])
        opset = [helper.make_opsetid("", 22)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=10)
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            (result,) = session.run(None, {f"i{i}": x for i, x in enumerate(inputs)})
        except Exception:  # ONNX Runtime has no kernel for this dtype; draw again.
            continue
        front = f"{made:05d}-{kind}"
        stored[f"{front}/model"] = np.frombuffer(model.SerializeToString(), np.uint8)
        stored |= {f"{front}/i{i}": x for i, x in enumerate(inputs)} | {f"{front}/o": result}
        made += 1
    return stored


# --- PyTorch: functions that mpsgraph has operations for, with gradients ----------------------------------------------
def torch_functions() -> dict[str, tuple[int, Callable[..., Any]]]:
    """Return the number of operands and PyTorch's function by the name of the graph operation."""
    import torch

    f = torch.nn.functional
    return {
        "exponent": (1, torch.exp), "logarithm": (1, torch.log), "square_root": (1, torch.sqrt),
        "tanh": (1, torch.tanh), "sigmoid": (1, torch.sigmoid), "erf": (1, torch.erf), "absolute": (1, torch.abs),
        "sin": (1, torch.sin), "cos": (1, torch.cos), "atan": (1, torch.atan), "asinh": (1, torch.asinh),
        "square": (1, torch.square), "reciprocal": (1, torch.reciprocal), "relu": (1, torch.relu),
        "floor": (1, torch.floor), "addition": (2, torch.add), "subtraction": (2, torch.sub),
        "multiplication": (2, torch.mul), "division": (2, torch.div), "minimum": (2, torch.fmin),
        "maximum": (2, torch.fmax), "modulo": (2, torch.fmod), "floor_modulo": (2, torch.remainder),
        "atan2": (2, torch.atan2), "minimum_with_nan_propagation": (2, torch.minimum),
        "maximum_with_nan_propagation": (2, torch.maximum), "softmax": (1, lambda x: f.softmax(x, -1)),
        "log_softmax": (1, lambda x: f.log_softmax(x, -1)), "reduction_sum": (1, torch.sum),
        "reduction_maximum_propagate_nan": (1, torch.amax), "reduction_minimum_propagate_nan": (1, torch.amin),
        "mean": (1, torch.mean), "matrix_multiplication": (0, torch.matmul),
    }  # fmt: skip


def torch_cases(rng: Draw, count: int) -> dict[str, np.ndarray]:
    import torch

    functions = torch_functions()
    stored: dict[str, np.ndarray] = {}
    for made in range(count):
        kind = sorted(functions)[made % len(functions)]
        operands, function = functions[kind]
        if operands == 0:
            inputs = product(rng)[0]
        else:
            shape = shape_of(rng)
            inputs = [numbers(rng, shape, "float32") for _ in range(operands)]
        places = [torch.tensor(x, requires_grad=True) for x in inputs]
        result = function(*places)
        result.sum().backward()
        front = f"{made:05d}-{kind}"
        stored |= {f"{front}/i{i}": x for i, x in enumerate(inputs)} | {f"{front}/o": result.detach().numpy()}
        stored |= {f"{front}/g{i}": p.grad.numpy() for i, p in enumerate(places) if p.grad is not None}
    return stored


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("onnx", "torch"))
    parser.add_argument("to", type=Path)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = secrets.randbits(32) if options.seed is None else options.seed
    print(f"random {options.kind} cases, seed {seed}")
    with np.errstate(all="ignore"):
        stored = (onnx_cases if options.kind == "onnx" else torch_cases)(np.random.default_rng(seed), options.count)
    with options.to.open("wb") as file:
        np.savez_compressed(file, about=np.array(json.dumps({"seed": seed, "count": options.count})), **stored)


if __name__ == "__main__":
    main()
