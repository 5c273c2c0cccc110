"""Format call signatures for the reference: names, annotations, and defaults, short enough to read.

Signatures of classes bound from C++ come from the package's stub, `_core.pyi`.
"""

from __future__ import annotations

import ast
import functools
import inspect
from pathlib import Path
from typing import Any

import mpsgraph as mg


def signature(value: Any, owner: type | None = None) -> str:
    """Return a callable's parameters in parentheses, with its return type after an arrow."""
    bound = value if inspect.isclass(value) else (owner or value)
    if str(getattr(bound, "__module__", "")) == "mpsgraph._core":
        return _of_stub(value, owner)
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return _of_stub(value, owner)
    parameters = list(found.parameters.values())
    if parameters and parameters[0].name in ("self", "cls") and not inspect.isclass(value):
        parameters = parameters[1:]
    written = [_parameter(p) for p in parameters]
    kinds = [p.kind for p in parameters]
    named = inspect.Parameter.KEYWORD_ONLY
    if named in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        written.insert(kinds.index(named), "*")
    result = _annotation(found.return_annotation)
    arrow = f" -> {result}" if result and not inspect.isclass(value) and result != "None" else ""
    return f"({', '.join(written)}){arrow}"


def _parameter(parameter: inspect.Parameter) -> str:
    several = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    stars = next((mark for kind, mark in several.items() if kind is parameter.kind), "")
    annotation = _annotation(parameter.annotation)
    text = f"{stars}{parameter.name}" + (f": {annotation}" if annotation else "")
    if parameter.default is inspect.Parameter.empty:
        return text
    default = "..." if parameter.default is ... else repr(parameter.default)
    if default.startswith("<") or len(default) > 40:
        default = getattr(parameter.default, "__name__", "...")
    return f"{text} = {default}" if annotation else f"{text}={default}"


def _annotation(annotation: Any) -> str:
    """Return an annotation as the source writes it; Annotated is reduced to its type."""
    if annotation is inspect.Parameter.empty or annotation is None:
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return ""
    return ast.unparse(_Plain().visit(tree))


class _Plain(ast.NodeTransformer):
    """Removes Annotated, and the modules in front of names."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "Annotated" and isinstance(node.slice, ast.Tuple):
            return node.slice.elts[0]
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return ast.Name(node.attr)


@functools.cache
def _stub() -> dict[str, str]:
    """Return the stub's signatures by "Class.method" and "function"."""
    tree = ast.parse((Path(mg.__file__).parent / "_core.pyi").read_text())
    found: dict[str, str] = {}
    for node in tree.body:
        for part in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(part, ast.FunctionDef):
                name = f"{node.name}.{part.name}" if isinstance(node, ast.ClassDef) else part.name
                found.setdefault(name, _written(part))
    return found


def _written(function: ast.FunctionDef) -> str:
    arguments = _Plain().visit(function.args)
    for each in (arguments.posonlyargs, arguments.args):
        if each and each[0].arg in ("self", "cls"):
            del each[0]
    result = ast.unparse(_Plain().visit(function.returns)) if function.returns else ""
    return f"({ast.unparse(arguments)})" + (f" -> {result}" if result not in ("", "None") else "")


def _of_stub(value: Any, owner: type | None) -> str:
    if inspect.isclass(value):
        return _stub().get(f"{value.__name__}.__init__", "()")
    name = getattr(value, "__name__", "")
    return _stub().get(f"{owner.__name__}.{name}" if owner else name, "(...)")
