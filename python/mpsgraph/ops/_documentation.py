"""Docstrings of the operations in the schema.

The C++ definition has a text with the summary, the formula, and whatever is specific to the operation, in the sections
of a docstring. `docstring` adds the sections that follow from the names and dtypes of the operands: a section or an
argument that the text describes is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import Signature

from .schema import Parameter, Schema

_SECTION = re.compile(r"(Args|Returns|Raises|Gradient|Source): *")
_WORDS = {
    "algebraic": "floating-point, integer, or complex",
    "numbers": "floating-point or integer",
    "analytic": "floating-point or complex",
    "floats": "floating-point",
    "integers": "integer",
    "booleans": "bool",
    "complexes": "complex",
}
_TENSORS = {
    "any": "Tensor of any dtype",
    "ordered": "Tensor, not complex",
    "floats": "Floating-point tensor",
    "integers": "Integer tensor",
    "booleans": "Bool tensor",
    "complexes": "Complex tensor",
}
_TENSORS_OR_NUMBERS = {
    "any": "Tensor or number of any dtype",
    "ordered": "Tensor or number, not complex",
    "integers": "Integer tensor, or an int",
    "booleans": "Bool tensor, or a bool",
    "complexes": "Complex tensor or number",
}
_AXES = """Axes to reduce: an int, a sequence of ints, or None (the default) for all; negative values count from
        the end."""


def docstring(schema: Schema) -> str:
    """Return the docstring of the method that builds an operation."""
    summary, own = sections(schema.documentation)
    described = _entries(own.get("Args", ""))
    args = [
        f"    {p.name}: {_with_default(described.get(p.name) or _argument(schema, p), p)}" for p in schema.parameters
    ]
    parts = [
        summary,
        "Args:\n" + "\n".join(args),
        "Returns:\n" + _indented(own.get("Returns") or _returns(schema)),
    ]
    if raises := own.get("Raises") or "\n".join(_raises(schema)):
        parts.append("Raises:\n" + _indented(raises))
    parts.append("Gradient: " + (own.get("Gradient") or _gradient(schema)))
    parts.append("Source: " + own.get("Source", ""))
    parts.append("Example:\n    >>> g = mg.Graph()\n" + _indented(own.get("Example", "")))
    return "\n\n".join(parts)


def sections(text: str) -> tuple[str, dict[str, str]]:
    """Split a text of the schema into the part above its sections, and the sections by name, in any order.

    The example is the part that starts with `>>>`.
    """
    found: dict[str, list[str]] = {}
    above: list[str] = []
    lines = above
    for line in text.strip().split("\n"):
        if (heading := _SECTION.match(line)) is not None:
            lines = found.setdefault(heading[1], [])
            lines += [line[heading.end() :]] if heading.end() < len(line) else []
        elif line.startswith(">>>"):
            lines = found.setdefault("Example", [])
            lines.append(line)
        else:
            lines.append(line)
    return "\n".join(above).strip(), {name: "\n".join(lines).rstrip() for name, lines in found.items()}


def _indented(text: str) -> str:
    return text if text.startswith("    ") else "    " + text.replace("\n", "\n    ")


def _entries(text: str) -> dict[str, str]:
    """Return the descriptions in a section `Args`, by argument."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.split("\n"):
        name, colon, about = line[4:].partition(": ")
        if colon and line.startswith("    ") and name.isidentifier():
            found[name] = lines = [about]
        else:
            lines.append(line)
    return {name: "\n".join(lines).strip() for name, lines in found.items()}


def _argument(schema: Schema, parameter: Parameter) -> str:
    """Describe an argument that the text does not describe."""
    first, name, words = schema.parameters[0].name, parameter.name, schema.dtypes
    kinds = {p.kind for p in schema.parameters}
    plain, known = ("Tensor or number", _TENSORS_OR_NUMBERS) if parameter.kind == "number" else ("Tensor", _TENSORS)
    if name == "name":
        return "Name of the operation."
    if parameter.kind == "axes":
        return _AXES
    if name == "incoming":
        return f"Floating-point gradient with respect to the result of {schema.forward}."
    if first == "incoming" and name == "source" and kinds.isdisjoint(("shape", "window")):
        same = "the dtype and normally the shape" if schema.elementwise else "the shape and dtype"
        return f"The input of {schema.forward}, with {same} of incoming."
    if first == "incoming" and parameter.kind == "shape":
        of = "weights" if "_weights_" in schema.name else "source"
        return f"Shape of the {of}, as ints or as an integer tensor of rank 1."
    if first == "incoming":
        return f"The {name} given to {schema.forward}."
    if name == first:
        return known.get(words, f"{plain}, {_WORDS.get(words)}") + "."
    if parameter.is_operand:
        return f"{plain} with the dtype of {first} and a shape that broadcasts with it."
    raise ValueError(f"the documentation of {schema.name} must describe the attribute {name}")


def _with_default(text: str, parameter: Parameter) -> str:
    """Add the default value to the description of an argument, unless the description states it."""
    value = parameter.default
    if value is None or value is Signature.empty or "efault" in text:
        return text
    words = f"{value:g}" if type(value) is float else str(value)
    if type(value) is str and parameter.annotation != "DTypeLike":
        words = f'"{value}"'
    if parameter.name == "axis" and value == -1:
        words = "the last axis"
    last = text if "\n" not in text else text[text.rindex("\n") :]
    gap = "\n        " if len(f"{parameter.name}{last}{words}") > 90 else " "
    return f"{text}{gap}Defaults to {words}."


def _returns(schema: Schema) -> str:
    first = schema.parameters[0].name
    tensor = "A bool tensor" if schema.is_bool else "A tensor"
    if shape := next((p.name for p in schema.parameters if p.kind == "shape"), ""):
        return f"{tensor} of shape {shape}, with the dtype of {first}."
    if schema.elementwise and schema.operand_count > 1:
        return f"{tensor} of the broadcast shape" + ", with the dtype of the operands" * (not schema.is_bool) + "."
    first = next((p.name for p in schema.parameters if p.name == "source"), first)
    if any(p.kind == "axes" for p in schema.parameters):
        return (
            tensor + f" with the dtype of {first}" * (not schema.is_bool) + ", in which the reduced axes have size 1."
        )
    return f"{tensor} with the shape{' and dtype' * (not schema.is_bool)} of {first}."


def _raises(schema: Schema) -> Iterator[str]:
    names, several = [p.name for p in schema.parameters], schema.operand_count > 1
    if schema.elementwise and several:
        yield "ShapeError: If the shapes do not broadcast."
    elif any(p.kind == "axes" for p in schema.parameters):
        yield "ShapeError: If an axis is out of range or repeated, or axes is empty."
    elif "axis" in names:
        yield f"ShapeError: If {'the shapes differ or ' if several else ''}axis is out of range."
    elif "kernel" in names:
        yield "ShapeError: If the shapes do not match, or the kernel, strides, dilations, or padding are invalid."
    elif "padding" in names:
        yield "ShapeError: If the shapes do not match, or the padding is malformed."
    wrong = {"any": "", "ordered": "complex"}.get(schema.dtypes, f"not {_WORDS.get(schema.dtypes)}")
    clauses = [f"the dtypes differ{' or are ' if wrong else ''}{wrong}"] if several else []
    clauses += [f"{names[0]} is {wrong}"] if wrong and not several else []
    if schema.tensor_attributes:
        clauses.append(f"{' or '.join(schema.tensor_attributes)} is a tensor that is not integer")
    if clauses:
        yield f"DTypeError: If {', or '.join(clauses)}."
    if "padding" in names:
        yield f"GraphError: If the padding style{' or a layout' * ('data_layout' in names)} is not supported."


def _gradient(schema: Schema) -> str:
    if schema.is_bool:
        return "none, because the result is bool."
    return "none, because integers are not differentiable." if schema.dtypes == "integers" else "zero."
