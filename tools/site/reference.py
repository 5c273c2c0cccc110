"""Generate the API reference from docstrings: a page per public module, or per section if a module is large.

Nothing is listed by hand: public modules ("rooms" in this code) are the modules in `__all__`, starting at mpsgraph, and
those that need an optional package; names are those in each module's `__all__`; titles.py has the sections' titles. The
operations of a graph are grouped by family. Pages are MyST Markdown and are written without Sphinx, so that tests can
inspect them; stage.py puts them among the other pages.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import mpsgraph as mg
from docstrings import first_sentence, inline, markdown
from mpsgraph.ops.schema import Schema
from signatures import signature
from skeleton import skeleton, source_of
from titles import CORE, FAMILIES, ROOMS, VALUES

LARGE = 30  # A module with more names than this has a page per section.


@dataclass(frozen=True)
class Public:
    """A public name and the object it refers to."""

    room: str  # "mpsgraph.nn"
    name: str
    value: Any

    @property
    def path(self) -> str:
        return f"{self.room}.{self.name}"

    @property
    def is_value(self) -> bool:
        """Whether this is a constant or a type alias, which the string after its assignment documents."""
        alias = typing.get_origin(self.value) is not None
        return alias or not (inspect.isclass(self.value) or inspect.isroutine(self.value))

    @property
    def docstring(self) -> str:
        return _behind_assignment(self.room, self.name) if self.is_value else inspect.getdoc(self.value) or ""


@functools.cache
def _behind_assignments(source: str) -> dict[str, str]:
    """Return the strings that follow assignments in a file, keyed by the assigned name."""
    body, found = ast.parse(Path(source).read_text()).body, dict[str, str]()
    for node, after in zip(body, body[1:], strict=False):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            found |= {t.id: after.value.value for t in targets if isinstance(t, ast.Name)}
    return found


def _behind_assignment(room: str, name: str) -> str:
    """Return the string after a name's assignment, from the file of the module or package that assigns it."""
    known = rooms(optional=False)
    place = source_of(known[room].__name__ if room in known else room)
    files = sorted(place.parent.rglob("*.py")) if place.name == "__init__.py" else [place]
    return next((text for file in files if (text := _behind_assignments(str(file)).get(name))), "")


def optional_rooms() -> list[str]:
    """Return the public modules that are not in `__all__` because they need an optional package."""
    return [f"mpsgraph.{name}" for name in mg._LAZY if name not in mg.__all__]


def rooms(optional: bool = True) -> dict[str, ModuleType]:
    """Return the public modules by name, in the package's order."""
    found: dict[str, ModuleType] = {"mpsgraph": mg}

    def walk(name: str, module: ModuleType) -> None:
        for key in _names(module):
            value = getattr(module, key)
            if inspect.ismodule(value) and value.__name__.startswith("mpsgraph.") and value not in found.values():
                found[f"{name}.{key}"] = value
                walk(f"{name}.{key}", value)

    walk("mpsgraph", mg)
    for name in optional_rooms() if optional else []:
        found[name] = skeleton(name)
    return found


def _names(module: ModuleType) -> list[str]:
    """Return a module's `__all__`, or the names it defines itself if it has none."""
    own = [
        name
        for name, value in vars(module).items()
        if name[0] != "_" and getattr(value, "__module__", "") == module.__name__ and not isinstance(value, TypeVar)
    ]
    return list(getattr(module, "__all__", own))


def public_names(optional: bool = True) -> list[Public]:
    """Return every public name except those of modules."""
    found = [Public(room, name, getattr(module, name)) for room, module in rooms(optional).items()
             for name in dict.fromkeys(_names(module))]  # fmt: skip
    return [each for each in found if not inspect.ismodule(each.value)]


def families() -> dict[str, list[tuple[str, Any]]]:
    """Return the operations of a graph by family: (name, method).

    The family of a method written in Python is the file of its class.
    """
    found: dict[str, list[tuple[str, Any]]] = {}
    for owner in mg.Graph.__mro__:
        if owner.__module__.startswith("mpsgraph.ops.") and owner.__name__ != "Family":
            for name in list(vars(owner)):
                method = getattr(owner, name)
                if inspect.isfunction(method) and name[0] != "_":
                    schema = inspect.unwrap(method)
                    family = schema.family if isinstance(schema, Schema) else owner.__module__.rpartition(".")[2]
                    found.setdefault(family, []).append((name, method))
    return dict(sorted(found.items()))


# --- pages ------------------------------------------------------------------------------------------------------------


def pages(optional: bool = True) -> dict[str, str]:
    """Return the pages' text by path below reference/, "index.md" included."""
    found: dict[str, str] = {}
    every = public_names(optional)
    public = {id(each.value): each.path for each in every if not each.is_value}
    index = ["# API reference\n", "All public names, by module. Every name has an example that runs as a test.\n"]
    listed: list[str] = []
    for room, module in rooms(optional).items():
        own = [each for each in every if each.room == room]
        if room == "mpsgraph.training":  # its names belong to mpsgraph and to its own modules
            continue
        stem = room.replace("mpsgraph.", "") if room != "mpsgraph" else "mpsgraph"
        for name, text in _room(room, module, own, stem, public):
            found[name] = text
        listed.append(stem)
        index.append(f"- [{room}]({stem}.md): {inline(_about(module))}")
        if room == "mpsgraph":
            found |= _operations()
            listed.append("operations")
            index.append("- [Operations of a graph](operations.md): methods of `mpsgraph.Graph` that build operations.")
    found["index.md"] = "\n".join(index) + "\n\n" + _toctree(listed)
    return found


def _room(
    room: str, module: ModuleType, own: list[Public], stem: str, public: dict[int, str]
) -> Iterator[tuple[str, str]]:
    """Yield the pages of a module as pairs (path, contents)."""
    groups = _groups(room, own)
    apart = len(own) > LARGE
    text = [f"# {room}", markdown(module.__doc__ or ""), f"```{{py:currentmodule}} {room}\n```"]
    subpages = []
    for key, (title, about, members) in groups.items():
        entries = [_entry(each, public) for each in members]
        table = _table(members)
        if apart:
            name = f"{stem}/{key}"
            body = [f"# {title}", about, f"```{{py:currentmodule}} {room}\n```", table, *entries]
            yield f"{name}.md", "\n\n".join(filter(None, body)) + "\n"
            subpages.append(name)
            text += [f"## [{title}]({name}.md)", about, table]
        else:
            text += [f"## {title}", about, *entries] if len(groups) > 1 else [table, *entries]
    if subpages:
        text.append(_toctree(subpages))
    yield f"{stem}.md", "\n\n".join(filter(None, text)) + "\n"


def _groups(room: str, own: list[Public]) -> dict[str, tuple[str, str, list[Public]]]:
    """Group a module's names into sections: {slug: (title, introduction, names)}."""
    titles = [*CORE, "Errors"] if room == "mpsgraph" else [*sorted(dict.fromkeys(ROOMS.get(room, {}).values())), VALUES]
    found: dict[str, tuple[str, str, list[Public]]] = {_slug(title): (title, "", []) for title in titles}
    for each in own:
        title, source = _section(room, each)
        members = found.setdefault(_slug(title), (title, "", []))[2]
        about = inline(_about(sys.modules[source])) if source in sys.modules and not members else ""
        found[_slug(title)] = title, about or found[_slug(title)][1], [*members, each]
    if room == "mpsgraph":
        place = [name for names in CORE.values() for name in names]
        for _, _, members in found.values():
            members.sort(key=lambda each: place.index(each.name) if each.name in place else len(place))
    return {key: section for key, section in found.items() if section[2]}


def _section(room: str, each: Public) -> tuple[str, str]:
    """Return a name's section and the module that introduces the section, which may be empty."""
    if room == "mpsgraph":
        title = next((title for title, names in CORE.items() if each.name in names), None)
        return title or ("Errors" if _is_error(each.value) else "Arrays and element types"), ""
    if room not in ROOMS:
        return room, ""
    source = "" if each.is_value else str(getattr(each.value, "__module__", ""))
    if not source.startswith(room + "."):
        return VALUES, ""
    return ROOMS[room][source.removeprefix(room + ".").replace("._", ".").lstrip("_")], source


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")


def _operations() -> dict[str, str]:
    """Return a page per family, and their index."""
    found, listed = {}, []
    text = [
        "# Operations of a graph",
        "Methods of `mpsgraph.Graph`. [The table of operations](../operations.md) lists their element types, kernels, "
        "and Apple's selectors.",
    ]  # fmt: skip
    for stem, methods in families().items():
        title = FAMILIES[stem]
        module = sys.modules.get(f"mpsgraph.ops.{stem}")
        about = inline(_about(module)) if module is not None else ""
        entries = [_directive("method", f"Graph.{name}", method) for name, method in methods]
        body = [f"# {title}", *([about] if about else []), "```{py:currentmodule} mpsgraph\n```", *entries]
        found[f"operations/{stem}.md"] = "\n\n".join(body) + "\n"
        listed.append(f"operations/{stem}")
        names = ", ".join(f"{{py:obj}}`{name} <mpsgraph.Graph.{name}>`" for name, _ in methods)
        text += [f"## [{title}](operations/{stem}.md)", names]
    found["operations.md"] = "\n\n".join([*text, _toctree(listed)]) + "\n"
    return found


def _table(members: list[Public]) -> str:
    about = {each: inline(first_sentence(each.docstring)).replace("|", "\\|") for each in members if not each.is_value}
    rows = [f"| {{py:obj}}`{each.name} <{each.path}>` | {text} |" for each, text in about.items()]
    return "\n".join(["| name | |", "|---|---|", *rows]) if rows else ""


def _entry(each: Public, public: dict[int, str]) -> str:
    """Return the entry of a name: its docstring and, for a class, its members."""
    if each.is_value:
        of = type(each.value)
        about = f"A {{py:obj}}`{of.__name__}`." if of.__module__.startswith("mpsgraph") else "`" + _short(each) + "`"
        return f"````{{py:data}} {each.name}\n{markdown(each.docstring) or about}\n````"
    if not inspect.isclass(each.value):
        return _directive("function", each.name, each.value)
    members = [
        _directive("property" if isinstance(m, property) else "method", name, m, owner=each.value)
        for name, m in members_of(each.value, public)
    ]
    kind = "exception" if _is_error(each.value) else "class"
    return _directive(kind, each.name, each.value, inside=members)


def members_of(owner: type, public: dict[int, str]) -> list[tuple[str, Any]]:
    """Return a class's documented methods and properties, including those of bases that the reference does not list."""
    found: dict[str, Any] = {}
    listed = [base for base in owner.__mro__[1:] if id(base) in public]
    for part in owner.__mro__:
        inside = part.__module__.startswith("mpsgraph") and not part.__module__.startswith("mpsgraph.ops")
        if not inside or any(issubclass(base, part) for base in listed):
            continue
        for name, member in vars(part).items():
            if name[0] != "_" and (callable(member) or isinstance(member, (property, staticmethod, classmethod))):
                plain = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
                if inspect.isclass(plain) or not (plain.__doc__ or "").strip():
                    continue
                found.setdefault(name, plain)
    return list(found.items())


def methods_of(each: Public) -> list[tuple[str, Any]]:
    """Return a class's documented methods by path, "mpsgraph.Trainer.fit"; a function has none."""
    if not inspect.isclass(each.value):
        return []
    members = members_of(each.value, {})
    return [(f"{each.path}.{name}", member) for name, member in members if not isinstance(member, property)]


def _directive(kind: str, name: str, value: Any, *, owner: type | None = None, inside: list[str] | None = None) -> str:
    """Return an object description in Sphinx's Python domain."""
    shown = "" if kind in ("property", "exception") else signature(value, owner)
    body = "\n\n".join([markdown(_own_text(value)), *(inside or [])])
    fence = "`" * (4 if inside is None else 6)
    return f"{fence}{{py:{kind}}} {name}{shown}\n{body}\n{fence}"


def _own_text(value: Any) -> str:
    text = inspect.getdoc(value) or ""
    return re.sub(r"\A\w+\(.*\)( -> .*)?\n+", "", text)  # pybind11 puts the signature first


def _about(module: ModuleType) -> str:
    """Return a module's first sentence, without a leading name."""
    return re.sub(r"^(mpsgraph|Family \w+): ", "", first_sentence(module.__doc__ or ""))


def _short(each: Public) -> str:
    text = repr(each.value)
    return text if len(text) < 80 and " at 0x" not in text else type(each.value).__name__


def _is_error(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, BaseException)


def _toctree(names: list[str]) -> str:
    return "```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```\n"
