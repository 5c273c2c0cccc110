"""Headers of Metal, MetalPerformanceShaders, and MetalPerformanceShadersGraph, generated from the facts in interfaces/.

`python tests/apple/declarations.py <directory>` writes <directory>/Metal/Metal.h and the others. They check our
Objective-C++ code against Apple's interfaces: clang verifies selectors, types, and nullability, and, for Apple targets,
that newer names than the deployment target are used behind availability checks. The mock implements these headers.
`parse` returns the facts for other tools. The facts of a framework are in <name>.txt, and parts of it in
<name>_<part>.txt.
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

FRAMEWORKS = {"metal": "Metal", "mps": "MetalPerformanceShaders", "graph": "MetalPerformanceShadersGraph"}
IMPORTS = {
    "metal": "#import <Foundation/Foundation.h>\n#include <dispatch/dispatch.h>",
    "mps": "#import <Metal/Metal.h>",
    "graph": "#import <MetalPerformanceShaders/MetalPerformanceShaders.h>",
}
# Declarations that every Foundation has and a mock of it may lack. A repeated typedef of the same type is allowed.
FOUNDATION = "@class NSCoder;\ntypedef double CFTimeInterval;\n"
MACROS = """\
#ifndef MACOS_SINCE
#define MACOS_SINCE(first) __attribute__((availability(macos, introduced = first)))
#define MACOS_UNTIL(first, last) __attribute__((availability(macos, introduced = first, deprecated = last)))
#endif
"""
# MPSGraphObject appeared in macOS 14.0 as a base class of older classes, so headers may name newer classes than the
# target.
QUIET = (
    "#pragma clang diagnostic push\n"
    '#pragma clang diagnostic ignored "-Wunguarded-availability"\n'
    '#pragma clang diagnostic ignored "-Wunguarded-availability-new"'
)
VERSION = r"\d+\.\d+"


@dataclass
class Fact:
    """One line of a file of facts.

    `kind` is class, protocol, category, enum, options, struct, typedef, function, or constant, or for members property,
    method, or value. `text` is the rest of the line after the version and the kind.
    """

    first: str
    last: str | None
    kind: str
    name: str
    text: str
    members: list["Fact"] = field(default_factory=list)
    optional: bool = False  # an optional method of a protocol

    @property
    def version(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.first.split("."))

    @property
    def availability(self) -> str:
        return f"MACOS_UNTIL({self.first}, {self.last})" if self.last else f"MACOS_SINCE({self.first})"


def selector(text: str) -> str:
    """Return the selector of a declaration: `-copy:to:` for `- (void)copy:(int)a to:(int)b`."""
    body = re.sub(r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)", "()", text[1:]).strip()
    body = re.sub(r"^\(\)\s*", "", body)
    return text[0] + ("".join(re.findall(r"(\w*:)\(\)", body)) or body)


def declared_name(kind: str, text: str) -> str:
    if kind == "method":
        return selector(text)
    if kind == "value":
        return text.split(" = ")[0]
    if kind == "function":
        return re.search(r"(\w+)\(", text)[1]
    if kind == "typedef":
        block = re.search(r"\(\^(\w+)\)", text)
        return block[1] if block else re.search(r"(\w+)(?: __attribute__\(.*\))?$", text)[1]
    if kind in ("property", "constant"):
        return re.search(r"(\w+)$", text)[1]
    return re.match(r"\w+", text)[0]


def parse(path: Path) -> list[Fact]:
    facts: list[Fact] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        match = re.fullmatch(rf"({VERSION})(?:-({VERSION}))? +(\S.*)", line)
        if not match:
            raise SystemExit(f"{path.name}:{number}: invalid line, expected a version and a declaration: {line}")
        first, last, text = match.groups()
        member = line[12:14] == "  "
        optional = member and text.startswith("optional ")
        text = text.removeprefix("optional ") if member else text
        if not member:
            kind, text = text.split(" ", 1)
        elif text[0] in "-+":
            kind = "method"
        elif text.startswith("property "):
            kind, text = "property", text.removeprefix("property ")
        else:
            kind = "value"
        fact = Fact(first, last, kind, declared_name(kind, text), text, optional=optional)
        (facts[-1].members if member else facts).append(fact)
    return facts


def read(directory: Path = Path(__file__).parent / "interfaces") -> dict[str, list[Fact]]:
    """Return the facts of each framework, with parts after the files they depend on."""
    paths = {name: [directory / f"{name}.txt", *sorted(directory.glob(f"{name}_*.txt"))] for name in FRAMEWORKS}
    return {name: [fact for path in paths[name] for fact in parse(path)] for name in FRAMEWORKS}


def property_line(fact: Fact) -> str:
    attributes, text = re.fullmatch(r"(?:\(([^)]*)\) )?(.*)", fact.text).groups()
    listed = ["nonatomic", *(attributes.split(", ") if attributes else [])]
    if re.match(r"\w+(Handler|Block)\b", text):
        listed.append("copy")  # the caller's block may be on the stack
    return f"@property ({', '.join(listed)}) {text} {fact.availability};"


def declaration(fact: Fact) -> str:
    """Return the C or Objective-C declaration of a fact with its members."""
    since = fact.availability
    if fact.kind in ("enum", "options"):
        name, integer = fact.text.split(" : ")
        values = "".join(f"  {v.name} {v.availability} = {v.text.split(' = ')[1]},\n" for v in fact.members)
        return f"typedef NS_{fact.kind.upper()}({integer}, {name}) {{\n{values}}} {since};\n"
    if fact.kind == "struct":
        name, body = fact.text.split(" ", 1)
        return f"typedef struct {body} {name} {since};\n"
    if fact.kind == "typedef":
        return f"typedef {fact.text};\n"
    if fact.kind == "function":
        retained = " NS_RETURNS_RETAINED" if fact.text.endswith(" returns_retained") else ""
        return f"FOUNDATION_EXPORT {fact.text.removesuffix(' returns_retained')}{retained} {since};\n"
    if fact.kind == "constant":
        return f"FOUNDATION_EXPORT {fact.text.removesuffix(fact.name)}const {fact.name} {since};\n"
    lines = [property_line(m) if m.kind == "property" else f"{m.text} {m.availability};" for m in fact.members]
    lines = [
        f"@optional\n{line}\n@required" if m.optional else line for m, line in zip(fact.members, lines, strict=True)
    ]
    keyword = "@protocol" if fact.kind == "protocol" else "@interface"
    return f"{since}\n{keyword} {fact.text}\n" + "".join(f"{line}\n" for line in lines) + "@end\n"


def header(name: str, facts: list[Fact]) -> str:
    classes = [f.name for f in facts if f.kind == "class"]
    protocols = [f.name for f in facts if f.kind == "protocol"]
    plain = [declaration(f) for f in facts if f.kind in ("enum", "options", "struct", "typedef")]
    owners = [declaration(f) for f in facts if f.kind in ("class", "protocol", "category")]
    loose = [declaration(f) for f in facts if f.kind in ("function", "constant")]
    parts = [
        f"// {FRAMEWORKS[name]}, as far as we use it, made by tests/apple/declarations.py; not Apple's header.",
        "#pragma once",
        IMPORTS[name],
        FOUNDATION + MACROS if name == "metal" else "",
        QUIET,
        "NS_ASSUME_NONNULL_BEGIN",
        f"@class {', '.join(classes)};" if classes else "",
        f"@protocol {', '.join(protocols)};" if protocols else "",
        *plain,
        *owners,
        *loose,
        "NS_ASSUME_NONNULL_END",
        "#pragma clang diagnostic pop",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def write(directory: Path, facts: dict[str, list[Fact]]) -> None:
    for name, framework in FRAMEWORKS.items():
        path = directory / framework / f"{framework}.h"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = header(name, facts[name])
        if not path.exists() or path.read_text() != text:  # an unchanged file does not cause recompilation
            path.write_text(text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(Path(sys.argv[1]), read())
