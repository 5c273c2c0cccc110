"""Check that no module of the package uses the private attributes of another one.

A private attribute, `x._name`, belongs to the module whose class or function sets it. Other modules use a function of
that module, such as `mpsgraph.graph.guest_of(graph)`. These tests only read the files.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "python" / "mpsgraph"
MODULES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}
OWN = ("self", "cls")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def defined_in(tree: ast.Module) -> set[str]:
    """Return the names of methods and attributes that the classes of a module define, and of its own functions."""
    found = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            targets = [t for s in node.body for t in getattr(s, "targets", [getattr(s, "target", None)])]
            found |= {
                inner.id for t in targets if t is not None for inner in ast.walk(t) if isinstance(inner, ast.Name)
            }
            slots = [
                s.value for s in node.body if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == "__slots__"
            ]
            found |= {inner.value for s in slots for inner in ast.walk(s) if isinstance(inner, ast.Constant)}
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in OWN:
                found.add(node.attr)
    return {name for name in found if is_private(name)}


DEFINED = {name: defined_in(tree) for name, tree in MODULES.items()}
ALL = set().union(*DEFINED.values())


def foreign_uses(tree: ast.Module, own: set[str], known: set[str] = ALL) -> list[tuple[int, str]]:
    """Return lines and names of private attributes that another module of the package defines and this one does not."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr in known - own:
            value = ast.unparse(node.value)
            if value not in OWN and not value.startswith("super("):
                found.append((node.lineno, node.attr))
    return found


def test_use_of_a_private_attribute_is_found():
    use = ast.parse("def f(trainer): return trainer._steps.made + self._steps.made + super()._steps")
    assert foreign_uses(use, set(), {"_steps"}) == [(1, "_steps")]
    assert foreign_uses(use, {"_steps"}, {"_steps"}) == []
    assert foreign_uses(use, set(), set()) == []  # An attribute of another library.


@pytest.mark.parametrize("name", MODULES)
def test_module_uses_no_private_attributes_of_other_modules(name: str):
    uses = foreign_uses(MODULES[name], DEFINED[name])
    bad = [f"line {line}: {attribute}" for line, attribute in uses]
    assert not bad, "use a public method, or a function of the module that defines the attribute"
