"""Random numbers, which a runtime draws by a generator of its own: of the same distributions, not the same numbers.

The state that a graph keeps of its own generator has no place in the file.
"""

from __future__ import annotations

from ..._core import Operation
from ...interchange.export import Unsaid, known_array
from ._writer import Writer, type_number, writes


@writes("random")
def random(w: Writer, op: Operation) -> list[str]:
    """RandomUniform and RandomNormal of a known shape, …Like of one that only a run knows."""
    _refuse_uses_of_the_state(w, op)
    a, dtype = op.attributes, op.outputs[0].dtype
    if a["distribution"] == "truncated_normal":
        raise Unsaid("ONNX has no normal numbers between bounds")
    if "float" not in str(dtype) or str(dtype) == "bfloat16":
        raise Unsaid(f"ONNX draws floating point, this is {dtype}")
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
        raise Unsaid("gives the state of its random numbers, which a runtime keeps to itself")


@writes("print")
def print_(w: Writer, op: Operation) -> str:
    """The tensor that is printed, which a runtime does not print."""
    return w.identity(w.name(op.inputs[0]))
