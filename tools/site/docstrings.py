"""Convert the package's docstrings to Markdown for MyST.

A docstring is a summary line, prose, and sections in Google's style: `Args:`, `Attributes:`, `Returns:`, `Yields:`,
`Raises:`, `Gradient:`, `Source:` and `Example:`. A section's body is indented below its name, or, where it is short,
follows the name on the same line. Names in backticks become references if the site documents them.
"""

from __future__ import annotations

import inspect
import re
import textwrap

FIELDS = {
    "Args": "Arguments",
    "Attributes": "Attributes",
    "Returns": "Returns",
    "Yields": "Yields",
    "Raises": "Raises",
    "Gradient": "Gradient",
    "Source": "Source",
}
LISTS = ("Args", "Attributes", "Raises")
EXAMPLES = ("Example", "Examples")
_SECTION = re.compile(rf"^({'|'.join([*FIELDS, *EXAMPLES])}):(?: +(.*))?$")
_ITEM = re.compile(r"^(\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*): +(.*)$")
_CODE = re.compile(r"(`[^`\n]+`)")


def first_sentence(text: str) -> str:
    """Return the first sentence of a docstring, for tables of names."""
    line = " ".join(inspect.cleandoc(text).split("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s", line, maxsplit=1)[0]


def has_example(text: str | None) -> bool:
    """Return whether a docstring has an example."""
    return bool(text) and ">>> " in str(text)


def sections(text: str) -> list[tuple[str, str]]:
    """Split a docstring into (section, body) pairs; the section of prose and of examples outside a section is ""."""
    found: list[tuple[str, list[str]]] = [("", [])]
    for line in inspect.cleandoc(text).splitlines():
        if match := _SECTION.match(line):
            found.append((match[1], [match[2]] if match[2] else []))
        elif found[-1][0] and line.strip() and not line.startswith(" ") and not _continues(found[-1][1]):
            found.append(("", [line]))
        else:
            found[-1][1].append(line)
    parts = [(name, _dedented(body)) for name, body in found]
    return [(name, body) for name, body in parts if name or body.strip()]


def arguments(text: str) -> list[str]:
    """Return the names that a docstring's `Args` section describes."""
    listed = [body for name, body in sections(text) if name == "Args"]
    return [name.lstrip("*") for body in listed for names, _ in _items(body) if names for name in names.split(", ")]


def markdown(text: str) -> str:
    """Convert a docstring to Markdown."""
    out: list[str] = []
    fields: list[str] = []
    for name, body in sections(text):
        if name in FIELDS:
            fields.append(f":{FIELDS[name]}:\n{textwrap.indent(_field(name, body), '  ')}")
            continue
        if fields:
            out.append("\n".join(fields))
            fields = []
        out += [_block(block) for block in _blocks(body)]
    return "\n\n".join([*out, "\n".join(fields)] if fields else out)


def inline(text: str) -> str:
    """Escape the Markdown in a sentence and turn names in backticks into references."""
    parts = _CODE.split(text)
    for i, part in enumerate(parts):
        if i % 2:
            name = part.strip("`")
            parts[i] = f"{{py:obj}}{part}" if re.fullmatch(r"[A-Za-z_][\w.]*", name) else part
        else:
            parts[i] = re.sub(r"([*\[\]<>])", r"\\\1", part)
    return "".join(parts)


def _continues(body: list[str]) -> bool:
    """Whether a flush-left line continues a section that began on the line of its name."""
    return bool(body) and not body[0].startswith(" ") and all(line.strip() for line in body)


def _dedented(body: list[str]) -> str:
    """Join a section's lines; the first may follow the section's name and so have no indentation."""
    if body and not body[0].startswith(" "):
        return "\n".join([body[0], textwrap.dedent("\n".join(body[1:]))]).strip("\n")
    return textwrap.dedent("\n".join(body)).strip("\n")


def _blocks(text: str) -> list[str]:
    """Split a body into paragraphs and examples; examples that follow each other are one block."""
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        before, mark, example = paragraph.partition(">>> ")
        if before.strip():
            found.append(before.strip("\n"))
        if mark:
            example = inspect.cleandoc(mark + example)
            if found and found[-1].startswith(">>>"):
                found[-1] += "\n\n" + example
            else:
                found.append(example)
    return found


def _block(block: str) -> str:
    return f"```pycon\n{block}\n```" if block.startswith(">>>") else _prose(block)


def _prose(text: str) -> str:
    """Convert a paragraph; lists keep their lines, and indented blocks (formulas) stay as they are."""
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    if all(line.startswith("    ") for line in lines):
        return "```text\n" + textwrap.dedent("\n".join(lines)) + "\n```"
    if any(re.match(r"\s*- ", line) for line in lines):
        return "\n".join(map(inline, lines))
    return inline(" ".join(line.strip() for line in lines))


def _field(name: str, body: str) -> str:
    """Convert a section's body: a list where it describes names, otherwise paragraphs."""
    items = _items(body) if name in LISTS else []
    if any(names for names, _ in items):
        return "\n".join(f"- `{names}`: {inline(text)}" if names else f"- {inline(text)}" for names, text in items)
    return "\n\n".join(map(_block, _blocks(body)))


def _items(body: str) -> list[tuple[str, str]]:
    """Return (names, description) pairs of a list section; continuation lines are indented."""
    items: list[tuple[str, str]] = []
    for line in body.splitlines():
        if match := _ITEM.match(line):
            items.append((match[1], match[2].strip()))
        elif items and line.strip():
            items[-1] = items[-1][0], f"{items[-1][1]} {line.strip()}"
        elif line.strip():
            items.append(("", line.strip()))
    return items
