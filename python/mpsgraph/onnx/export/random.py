"""Export of random-number operations to ONNX.

An ONNX runtime uses its own generator, so the numbers have the same distribution but differ from mpsgraph's. The state
of mpsgraph's generator is not stored in the file.
"""

from __future__ import annotations

from ..._core import Operation
from ...interchange.export import NotExpressible, known_array
from ._writer import Writer, type_number, writes


@writes("random")
def random(w: Writer, op: Operation) -> list[str]:
    """Export random numbers as RandomUniform or RandomNormal.

    If the shape is known only at run time, the variants RandomUniformLike and RandomNormalLike are used.
    """
    _refuse_uses_of_the_state(w, op)
    a, dtype = op.attributes, op.outputs[0].dtype
    if a["distribution"] == "truncated_normal":
        raise NotExpressible("ONNX has no truncated normal distribution")
    if "float" not in str(dtype) or str(dtype) == "bfloat16":
        raise NotExpressible(f"ONNX generates only float16, float32, and float64 random numbers, got {dtype}")
    normal = a["distribution"] == "normal"
    kind = "RandomNormal" if normal else "RandomUniform"
    numbers = {"mean": a["mean"], "scale": a["standard_deviation"]} if normal else {"low": a["min"], "high": a["max"]}
    shape = known_array(op.inputs[0])
    how = {"dtype": type_number(dtype), **{key: float(value) for key, value in numbers.items()}}
    if shape is not None and shape.size:
        return [w.add(kind, shape=shape.reshape(-1).tolist(), **how), ""]
    like = w.add("ConstantOfShape", w.shape_operand(op.inputs[0]))
    return [w.add(f"{kind}Like", like, **how), ""]


def _refuse_uses_of_the_state(w: Writer, op: Operation) -> None:
    state = op.outputs[1]
    if state in w.results or any(user.kind not in ("assign", "random") for user in w.users.get(state, [])):
        raise NotExpressible(
            "the graph uses the state of the random number generator, which ONNX runtimes do not expose: "
            "remove these uses"
        )


@writes("print")
def print_(w: Writer, op: Operation) -> str:
    """Export a print operation as an Identity node, because ONNX has no operator that prints."""
    return w.identity(w.name(op.inputs[0]))
