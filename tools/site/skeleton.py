"""Describe modules that need an optional package, by reading their source instead of importing them.

This is how the reference documents `mpsgraph.torch` where PyTorch is not installed. The resulting module has the
classes and functions of the original's `__all__`, with docstrings, signatures, and members, and no code that runs.
"""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType

import mpsgraph as mg

PACKAGE = Path(mg.__file__).parent
KEPT = {"property", "classmethod", "staticmethod", "contextmanager"}


def skeleton(room: str) -> ModuleType:
    """Return the description of a module, given its full name, such as "mpsgraph.torch"."""
    tree = _tree(room)
    found = ModuleType(room, ast.get_docstring(tree))
    found.__all__ = _public(tree)  # type: ignore[attr-defined]
    for name in found.__all__:  # type: ignore[attr-defined]
        source, node = _definition(room, name)
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            setattr(found, name, ModuleType(source) if node is None else ...)
            continue
        module = ModuleType(source)
        text = "from __future__ import annotations\nfrom contextlib import contextmanager\n" + ast.unparse(_bare(node))
        exec(compile(text, source, "exec"), vars(module))
        value = getattr(module, node.name)
        value.__module__ = source
        setattr(found, name, value)
    return found


def source_of(module: str) -> Path:
    """Return the file of a module of the package."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _tree(module: str) -> ast.Module:
    return ast.parse(source_of(module).read_text())


def _public(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def _statements(tree: ast.Module) -> list[ast.stmt]:
    """Return a module's statements, including imports under TYPE_CHECKING."""
    return [part for node in tree.body for part in (node.body if isinstance(node, ast.If) else [node])]


def _definition(module: str, name: str) -> tuple[str, ast.stmt | None]:
    """Find a name's defining module and statement (None for a module), following imports within the package."""
    for node in _statements(_tree(module)):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            return module, node
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return module, node
        if isinstance(node, ast.ImportFrom) and node.level:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    above = module if source_of(module).name == "__init__.py" else module.rpartition(".")[0]
                    for _ in range(node.level - 1):
                        above = above.rpartition(".")[0]
                    there = f"{above}.{node.module}" if node.module else above
                    whole = f"{there}.{alias.name}"
                    return (whole, None) if source_of(whole).is_file() else _definition(there, alias.name)
    raise LookupError(f"{module} does not define {name} as a class, function, or value")


def _bare(node: ast.ClassDef | ast.FunctionDef) -> ast.ClassDef | ast.FunctionDef:
    """Return a definition with only its docstring as the body; a class keeps its public methods, reduced likewise."""
    text = ast.get_docstring(node)
    body: list[ast.stmt] = [ast.Expr(ast.Constant(text))] if text else []
    node.decorator_list = [d for d in node.decorator_list if isinstance(d, ast.Name) and d.id in KEPT]
    if isinstance(node, ast.ClassDef):
        node.bases, node.keywords = [], []
        shown = [part for part in node.body if isinstance(part, ast.FunctionDef)]
        body += [_bare(part) for part in shown if part.name[0] != "_" or part.name == "__init__"]
    else:
        arguments = node.args
        arguments.defaults = [_default(value) for value in arguments.defaults]
        arguments.kw_defaults = [value and _default(value) for value in arguments.kw_defaults]
    node.body = body or [ast.Pass()]
    return node


def _default(value: ast.expr) -> ast.expr:
    try:
        ast.literal_eval(value)
    except ValueError:
        return ast.Constant(...)
    return value
