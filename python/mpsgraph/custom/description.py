"""Generate the C++ code that describes an operation and is appended to the operation's source.

A compiled source is therefore a complete library (see include/mpsgraph/custom_operation.h). Programs without Python can
load it and use everything except functions written in Python.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .._core import DType

KINDS = {bool: "boolean", int: "integer", float: "real", str: "string", tuple: "integers", list: "integers"}
"""Dict from the Python type of an attribute's default value to the kind of the attribute."""
# (name, kind, default), where default is None if the attribute has no default
AttributeSpec: TypeAlias = tuple[str, str, Any]
_ORDER = (
    *("float32", "float16", "bfloat16", "float64", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "bool", "complex64", "complex128"),
)


@dataclass
class Description:
    """Properties of a custom operation that are known before its source is compiled."""

    name: str
    key: str
    function: str  # Name of the kernel function in C++ and Metal.
    attributes: list[AttributeSpec] = field(default_factory=list)
    dtypes: list[list[DType]] = field(default_factory=list)
    operands: int = -1
    effect: bool = False
    infer: str = ""  # Name of the shape inference function in C++.
    infers_elsewhere: bool = False
    metal: str | None = None
    gradient: str = ""

    def text(self) -> str:
        """Return C++ code that defines mpsgraph_custom_operations()."""
        attributes = ",\n".join("    " + self._attribute(one) for one in self.attributes)
        dtypes = ", ".join(_set_of(one) for one in self.dtypes)
        return f"""
#line 1 "the description of {self.name}"
namespace {{
{_integers(self.attributes)}const mpsgraph_custom_attribute mpsgraph_attributes[] = {{
{attributes or "    {}"}}};
const uint32_t mpsgraph_dtypes[] = {{{dtypes}}};
const mpsgraph_custom_operation mpsgraph_described[] = {{{{
    {_quoted(self.name)}, {_quoted(self.key)}, mpsgraph_attributes, {len(self.attributes)}, {self.operands},
    {int(self.effect)}, mpsgraph_dtypes, {len(self.dtypes)},
    {f"mpsgraph::custom::infer<&::{self.infer}>" if self.infer else "nullptr"},
    mpsgraph::custom::kernel<&::{self.function}>,
    {_quoted(self.metal)}, {_quoted(self.metal and self.function.rpartition("::")[2])}, nullptr,
    {_quoted(self.gradient or None)}, {int(self.infers_elsewhere)}}}}};
}}  // namespace
MPSGRAPH_CUSTOM_OPERATIONS(mpsgraph_described)
"""

    def _attribute(self, spec: AttributeSpec) -> str:
        name, kind, default = spec
        integer, real, text, integers, count = "0", "0", "nullptr", "nullptr", 0
        if default is not None:
            if kind in ("boolean", "integer"):
                integer = _int64(int(default))
            elif kind == "real":
                real = _double(float(default))
            elif kind == "string":
                text = _quoted(default)
            elif default:
                integers, count = f"mpsgraph_integers_{name}", len(default)
        start = f"{{{_quoted(name)}, MPSGRAPH_CUSTOM_{kind.upper()}, {int(default is None)}"
        return f"{start}, {integer}, {real}, {text}, {integers}, {count}}}"


def _integers(attributes: Sequence[AttributeSpec]) -> str:
    return "".join(
        f"const int64_t mpsgraph_integers_{name}[] = {{{', '.join(map(_int64, default))}}};\n"
        for name, kind, default in attributes
        if kind == "integers" and default
    )


def _int64(value: int) -> str:
    return f"INT64_C({value})" if value > -(2**63) else "INT64_MIN"


def _double(value: float) -> str:
    if math.isnan(value):
        return '__builtin_nan("")'
    if math.isinf(value):
        return "__builtin_huge_val()" if value > 0 else "-__builtin_huge_val()"
    return value.hex()


def _set_of(dtypes: Sequence[DType]) -> str:
    return f"UINT32_C({sum({1 << _ORDER.index(one.name) for one in dtypes})})"


def _quoted(text: str | None) -> str:
    """Return a C++ string literal with one source line per line of text."""
    if text is None:
        return "nullptr"
    return "\n    ".join('"' + _escaped(line) + '"' for line in text.splitlines(keepends=True) or [""])


def _escaped(line: str) -> str:
    plain = {ord("\\"): "\\\\", ord('"'): '\\"', ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", ord("?"): "\\?"}
    return "".join(plain.get(byte, chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in line.encode())
