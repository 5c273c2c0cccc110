"""Write the stubs of what is not defined in Python source.

    python tools/stubs.py DIRECTORY

mpsgraph/_core.pyi is pybind11-stubgen's output, corrected where it lacks information; mpsgraph/ops/derived.pyi has the
Graph methods that are derived from the schema of operations. `make stubs` runs this.

pybind11-stubgen mistakes the exceptions that _core defines for imports, omits None from the types of parameters that
may be None, and omits the element types of tuples, dicts, and callables.
"""

import inspect
import re
import subprocess
import sys
import textwrap
from pathlib import Path

from mpsgraph import _core
from mpsgraph.ops._documentation import sections
from mpsgraph.ops.schema import Schema, schemas


def exceptions() -> str:
    """Return the exception classes, bases first."""
    classes = [c for c in vars(_core).values() if inspect.isclass(c) and issubclass(c, Exception)]
    classes.sort(key=lambda c: (len(c.__mro__), c.__name__))
    own = {c.__name__ for c in classes}
    result = ""
    for cls in classes:
        bases = [
            b.__name__ if b in classes or b.__name__ not in own else f"builtins.{b.__name__}" for b in cls.__bases__
        ]
        text = textwrap.indent(inspect.cleandoc(cls.__doc__), "    ", lambda line: True).replace("    \n", "\n")
        result += f'class {cls.__name__}({", ".join(bases)}):\n    """\n{text}\n    """\n'
    return result


def complete(stub: str) -> str:
    stub = re.sub(r"^from mpsgraph import \w+\n", "", stub, flags=re.MULTILINE)
    stub = stub.replace("import collections.abc\n", "import builtins\nimport collections.abc\n", 1)
    stub = re.sub(r"^class ", lambda match: exceptions() + match[0], stub, count=1, flags=re.MULTILINE)
    stub = re.sub(
        r"(: )([\w.]+)( = None\b)", lambda m: m[0] if m[2] == "typing.Any" else f"{m[1]}{m[2]} | None{m[3]}", stub
    )
    # Type checkers report unknown attributes, which raise errors.
    stub = re.sub(r"    def __getattr__\(self, name: str\) -> [\w.]+:\n        \.\.\.\n", "", stub)
    for bare, full in [
        ("tuple", "tuple[typing.Any, ...]"),
        ("dict", "dict[str, typing.Any]"),
        ("collections.abc.Callable", "collections.abc.Callable[..., typing.Any]"),
    ]:
        stub = re.sub(rf"(?<=[\s\[]){re.escape(bare)}(?=[\],:)]| =)", full, stub)
    return stub


DERIVED = '''"""Signatures of the Graph methods that are derived from the schema of operations.

`make stubs` writes this file.
"""

from collections.abc import Sequence

from ._family import AttributeLike, Axes, DTypeLike, Family, ShapeLike, Tensor, TensorLike
from ._padding import Padding
from .pooling_descriptors import Window

class Derived(Family):
'''


def derived() -> str:
    """Return the stub of ops/derived.py: signatures, with the part of the documentation above its sections."""
    return DERIVED + "".join(method(schema) for schema in schemas().values() if schema.parameters)


def method(schema: Schema) -> str:
    arguments = ["self"]
    for parameter in schema.parameters:
        if parameter.by_name and "*" not in arguments:
            arguments.append("*")
        default = "" if parameter.default is inspect.Parameter.empty else f" = {parameter.default!r}"
        arguments.append(f"{parameter.name}: {parameter.annotation}{default}")
    head, result = f"    def {schema.__name__}", f" -> {schema.result}:\n"
    line = f"{head}({', '.join(arguments)}){result}"
    if len(line) > 121:
        line = f"{head}(\n        {', '.join(arguments)}\n    ){result}"
    if len(line.splitlines()[1 if "(\n" in line else 0]) > 120:
        line = head + "(\n" + "".join(f"        {each},\n" for each in arguments) + "    )" + result
    about = textwrap.indent(sections(schema.documentation)[0], "        ").replace("\n        \n", "\n\n").lstrip()
    end = "\n        " if "\n" in about else ""
    return f'{line}        """{about}{end}"""\n'


def main(directory: str) -> None:
    subprocess.run([sys.executable, "-m", "pybind11_stubgen", "mpsgraph._core", "--output-dir", directory], check=True)
    path = Path(directory) / "mpsgraph" / "_core.pyi"
    path.write_text(complete(path.read_text()))
    path = path.parent / "ops" / "derived.pyi"
    path.parent.mkdir(exist_ok=True)
    path.write_text(derived())


if __name__ == "__main__":
    main(sys.argv[1])
