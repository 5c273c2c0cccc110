"""Our docstrings as Markdown: what stands in the package, with its parts as a list of fields and its example as code.

A docstring is a sentence, a formula, parts that begin with "Args:", "Result:", "Errors:", "Gradient:", "Source:", and
an example of `>>>`. Parts come one behind the other in a paragraph, or with a line for each argument below "Args:";
both are read. Names in backticks become references where the site knows them.
"""

from __future__ import annotations

import inspect
import re

PARTS = {
    "Args": "Arguments",
    "Attributes": "Attributes",
    "Result": "Result",
    "Results": "Result",
    "Errors": "Errors",
    "Gradient": "Gradient",
    "Source": "Source",
}
_PART = re.compile(rf"(?:^|(?<=[.;)`]\s)|(?<=\n))({'|'.join(PARTS)}): ?", re.MULTILINE)
_ARGUMENT = re.compile(r"^ {4}([\w*]+(?:, [\w*]+)*): (.*)$")
_CODE = re.compile(r"(`[^`\n]+`)")


def first_sentence(text: str) -> str:
    """What stands in lists: up to the first full stop that ends a sentence."""
    line = " ".join(inspect.cleandoc(text).split("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s", line, maxsplit=1)[0]


def has_example(text: str | None) -> bool:
    """Does an example stand in it?"""
    return bool(text) and ">>> " in str(text)


def markdown(text: str) -> str:
    """A docstring as Markdown for MyST."""
    out: list[str] = []
    for block in _blocks(inspect.cleandoc(text)):
        out.append(f"```pycon\n{block}\n```" if block.startswith(">>>") else _prose(block))
    return "\n\n".join(out)


def inline(text: str) -> str:
    """A sentence, with what Markdown would read as marks made plain, and names in backticks as references."""
    parts = _CODE.split(text)
    for i, part in enumerate(parts):
        if i % 2:
            name = part.strip("`")
            parts[i] = f"{{py:obj}}{part}" if re.fullmatch(r"[A-Za-z_][\w.]*", name) else part
        else:
            parts[i] = re.sub(r"([*\[\]<>])", r"\\\1", part)
    return "".join(parts)


def _blocks(text: str) -> list[str]:
    """Paragraphs, and examples: an example goes to the next empty line."""
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        before, mark, example = paragraph.partition(">>> ")
        if before.strip():
            found.append(before.rstrip())
        if mark:
            example = inspect.cleandoc(mark + example)
            if found and found[-1].startswith(">>>"):
                found[-1] += "\n\n" + example
            else:
                found.append(example)
    return found


def _prose(paragraph: str) -> str:
    """A paragraph whose parts, if it has some, become fields."""
    pieces = _PART.split(paragraph)
    out = [_lines(pieces[0])] if pieces[0].strip() else []
    fields = [
        f":{PARTS[name]}:\n{_indented(_arguments(body))}" for name, body in zip(pieces[1::2], pieces[2::2], strict=True)
    ]
    return "\n\n".join([*out, "\n".join(fields)] if fields else out)


def _lines(text: str) -> str:
    """Running text; a list in it stays one."""
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    if any(re.match(r"\s*- ", line) for line in lines):
        return "\n".join(map(inline, lines))
    return inline(" ".join(line.strip() for line in lines))


def _arguments(body: str) -> str:
    """What stands behind a part's name: a line for each argument, or running text."""
    lines = body.strip("\n").splitlines()
    if not any(_ARGUMENT.match(line) for line in lines):
        return _lines(body)
    items: list[tuple[str, str]] = []
    for line in lines:
        if match := _ARGUMENT.match(line):
            items.append((match[1], match[2].strip()))
        elif items:
            items[-1] = items[-1][0], f"{items[-1][1]} {line.strip()}"
        else:
            items.append(("", line.strip()))
    return "\n".join(f"- `{name}`: {inline(text)}" if name else f"- {inline(text)}" for name, text in items)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.splitlines())
