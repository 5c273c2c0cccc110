"""Errors for arguments that a function defined in C++ does not take. They show its signature from the stub `_core.pyi`.

C++ calls this only after a function has refused its arguments (src/bindings/arguments.cpp), so nothing here costs time
otherwise.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ._display import shown
from .errors import DTypeError

_LONGEST = 160

_PLAIN = (
    (r"\btyping\.SupportsInt \| typing\.SupportsIndex\b", "int"),
    (r"\btyping\.SupportsFloat \| typing\.SupportsIndex\b", "float"),
    (r"\btyping\.SupportsInt\b", "int"),
    (r"\btyping\.SupportsFloat\b", "float"),
    (r"\btyping\.Any\b", "object"),
    (r"\b(mpsgraph\._core|collections\.abc|typing|numpy)\.", ""),
)
"""Names in the stub's annotations, and what messages say instead."""


def refuse(owner: Any, name: str, is_method: bool, args: Sequence[Any], options: Mapping[str, Any]) -> NoReturn:
    """Raise the error for arguments that no overload of a function takes.

    Args:
        owner: The class or module that defines the function.
        name: Name of the function or property.
        is_method: Whether the first argument is the object on which the method was called.
        args: Arguments passed by position.
        options: Arguments passed by name.

    Raises:
        DTypeError: Always.
    """
    where = name
    if is_method and args:
        called = type(args[0]).__name__
        where, args = called if name == "__init__" else f"{called}.{name}", args[1:]
    forms = " or ".join(_forms(owner.__name__ if isinstance(owner, type) else "", name)) or "other arguments"
    got = ", ".join([*map(shown, args), *(f"{key}={shown(value)}" for key, value in options.items())])
    raise DTypeError(f"[{where}] takes {forms}, got ({got})")


def _forms(owner: str, name: str) -> list[str]:
    """Return the parameters of each overload, such as "(value: int, timeout: float | None = None)"."""
    functions = [f for f in _stub(owner) if isinstance(f, ast.FunctionDef) and f.name == name]
    setters = [f for f in functions if any(ast.unparse(d) == f"{name}.setter" for d in f.decorator_list)]
    attributes = [a for a in _stub(owner) if isinstance(a, ast.AnnAssign) and ast.unparse(a.target) == name]
    return [_form(f.args) for f in setters or functions] or [_form(a.annotation) for a in attributes]


def _form(node: ast.AST) -> str:
    text = ast.unparse(node)
    for stated, plain in _PLAIN:
        text = re.sub(stated, plain, text)
    text = re.sub(r"=(?=\S)", " = ", re.sub(r"^self(, /)?(, )?", "", text))
    return f"({text if len(text) < _LONGEST else text[:_LONGEST] + '...'})"


@functools.cache
def _stub(owner: str) -> list[ast.stmt]:
    """Return the statements of a class in the stub, or of the module if `owner` is empty."""
    module = ast.parse(Path(__file__).with_name("_core.pyi").read_text(encoding="utf-8"))
    classes = [node for node in module.body if isinstance(node, ast.ClassDef) and node.name == owner]
    return [statement for node in classes for statement in node.body] if owner else module.body
