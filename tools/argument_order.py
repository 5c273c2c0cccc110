"""List C++ expressions in which two arguments of a call, or both operands of an operator, create operations of a graph.

C++ does not specify the order in which arguments and operands are evaluated: GCC starts at the right, clang at the
left. If two of them create operations, the order and the names of the operations depend on the compiler. All but one
must be computed before, in separate statements. Elements of a braced list are evaluated in order. `make lint` runs
this script and fails if it finds an expression.

An expression creates operations if it calls a method of Graph or Rewriter that does, or a lambda or function whose body
does and whose result type holds tensors or operations. Functions are recognized by name: those that headers declare in
all files, others in their own. Operators are checked in files that define arithmetic on tensors. Calls through
std::function, pure virtual functions, constructors, and functions that return `auto` are not recognized. Backends are
not read: only Objective-C++ files create operations there, and only clang compiles these.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
METHODS = {".add", ".append", ".clone", ".constant", ".create", ".create_unchecked"}
ACCESSORS = {".incoming", ".input", ".now", ".seen"}  # They share names with functions that create operations.
KEYWORDS = {"if", "for", "while", "switch", "return"}
UNREAD = re.compile(r"//.*|^ *#.*|R\"\((?s:.*?)\)\"|\"(?:[^\"\\\n]|\\.)*\"|(?<!\w)'(?:[^'\\\n]|\\.)+'", re.MULTILINE)
TOKEN = re.compile(r"\n|->|[-+*/&|=<>!]=|&&|\|\||\+\+|--|[\w.]*\w|(?!-\S)\S")  # without the minus of a negation
CALL = re.compile(r"(\.|->)?(?<!\w)(\w+)\(")
PARAMETERS = r"\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)"
LAMBDA = rf"\[[^\[\]]*\]\s*(?:{PARAMETERS})?(?: mutable)?(?: -> [^;{{()]+)?\s*\{{"
FUNCTION = re.compile(rf"(\w+)(?:{PARAMETERS}(?: const| noexcept| override| final)*\s*\{{| = {LAMBDA})")
HOLDER = re.compile(r"struct (\w+) \{[^}]*\bTensor ?\*|using (\w+) = [^;(]*\bTensor\*")


def holders(text: str) -> str:
    """Return a pattern of types that hold tensors or operations, with the structs and aliases that the text defines."""
    return rf"\b(?:{'|'.join({a or b for a, b in HOLDER.findall(text)} | {'Tensor', 'Operation'})})\b"


def body(text: str, start: int) -> str:
    """Return the text from `start` up to the brace that closes a body."""
    depth = 1
    for brace in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return text[start : brace.start()]
    return text[start:]


def creators(texts: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return the functions that create operations as (file, or "" for all files; name, or ".name" for methods)."""
    headers = {path: text for path, text in texts.items() if path.endswith(".h")}
    types = holders("\n".join(headers.values()))
    shared: dict[str, set[tuple[str, str]]] = {}
    for path, text in headers.items():
        for indent, name in re.findall(rf"^( *).*{types}[>*&]* (\w+)\(", text, re.MULTILINE):
            shared.setdefault(name, set()).update({("", "." + name), (path if indent else "", name)})
    functions = []
    for path, text in texts.items():
        result = re.compile(f"{types}|{holders(text)}")
        for match in FUNCTION.finditer(text):
            name, is_lambda = match[1], " = [" in match[0]
            if not is_lambda and not result.search(text, text.rfind("\n", 0, match.start()) + 1, match.start()):
                continue
            inside = body(text, match.end())
            while inner := re.search(LAMBDA, inside):  # Calls of a lambda count, not its definition.
                inside = inside[: inner.start()] + inside[inner.end() + len(body(inside, inner.end())) :]
            calls = {(file, "." * bool(dot) + called) for dot, called in CALL.findall(inside) for file in (path, "")}
            names = {(path, name)} | (set() if is_lambda else {(path, "." + name)} | shared.get(name, set()))
            functions.append((calls, {each for each in names if each[1] not in ACCESSORS}))
    known = {("", name) for name in METHODS}
    while new := {name for calls, names in functions if calls & known for name in names} - known:
        known |= new
    return known


def split(tokens: list[str], separators: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for token in tokens:
        if token in separators.split():
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def operators_clash(tokens: list[str]) -> bool:
    """Return whether both operands of an arithmetic operator on tensors create operations."""
    for expression in split(tokens, "; return = ? : < > <= >= == != && ||"):
        products = [["@" in factor for factor in split(term, "* /")] for term in split(expression, "+ -")]
        for create in (*products, [len(product) > 1 or product[0] for product in products]):
            if any(right and (i > 0 or create[0]) for i, right in enumerate(create[1:])):
                return True
    return False


def faults(text: str, known: set[str]) -> Iterator[int]:
    """Yield the lines of expressions at fault. At a closing bracket, "@" replaces what creates operations."""
    arithmetic = re.search(rf"operator[-+*/]\({holders(text)}", text) is not None
    line, stack = 1, [("", 1, [""])]
    for token in TOKEN.findall(text):
        line += token == "\n"
        tokens = stack[-1][2]
        if token in "([{":
            stack.append((token, line, []))
        elif token in ")]}" and len(stack) > 1:
            _, start, inside = stack.pop()
            tokens = stack[-1][2]
            if token == "}" and ";" in inside:  # The body of a function or lambda creates nothing where it is defined.
                tokens[:] = [*tokens, "_"] if stack[-1][0] in ("(", "[") else [";"]
                continue
            arguments = split(inside, ",")
            create = ["@" in each or (arithmetic and len(split(each, "+ - * /")) > 1) for each in arguments]
            name = ("." if tokens[-2:-1] == ["->"] else "") + (tokens[-1] if tokens else "")
            name = name[max(name.rfind("."), 0) :]
            is_call = token == ")" and name not in KEYWORDS
            if (is_call and sum(create) > 1) or (arithmetic and any(map(operators_clash, arguments))):
                yield start
            tokens.append("@" if any(create) or (is_call and name in known) else "_")
        elif token == ";":
            if arithmetic and operators_clash(tokens):
                yield line
            tokens[:] = ";"
        elif token != "\n":
            tokens.append(token)


def found(sources: Mapping[str, str]) -> list[str]:
    texts = {path: UNREAD.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text) for path, text in sources.items()}
    known, lines = creators(texts), {path: text.splitlines() for path, text in sources.items()}
    return [
        f"{path}:{line}: {lines[path][line - 1].strip()}"
        for path, text in texts.items()
        for line in faults(text, {name for file, name in known if file in ("", path)})
    ]


def written() -> dict[str, str]:
    paths = (path for folder in ("include", "src", "tests/cpp") for path in sorted((ROOT / folder).rglob("*")))
    read = (path for path in paths if path.suffix in (".h", ".cpp") and "backends" not in path.parts)
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in read}


if __name__ == "__main__":
    expressions = found(written())
    print(*expressions, sep="\n", end="\n" if expressions else "")
    sys.exit(f"{len(expressions)} expressions create operations in an unspecified order" if expressions else 0)
