"""Writes python/mpsgraph/onnx/standard.txt: the versions of ONNX's operators and the attributes of each.

`python tools/onnx_standard.py` in an environment with the onnx package whose newest operator sets shall be known. The
importer reads the file and asks no installed package, so a model means the same whichever onnx is there.

One line an operator: its domain and name, then its versions. Behind a version stand its attributes, with their defaults
where they have one; a version without them has those of the version before.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
from onnx import __version__, defs
from onnx.helper import get_attribute_value

TABLE = Path(__file__).parent.parent / "python" / "mpsgraph" / "onnx" / "standard.txt"


def plain(value: object) -> object:
    """Text instead of bytes, and floats as short as float32 needs them."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float):
        return float(str(np.float32(value)))
    return [plain(v) for v in value] if isinstance(value, list) else value


def attributes(schema: defs.OpSchema) -> str:
    """As they stand in the table."""
    parts = []
    for name, attribute in sorted(schema.attributes.items()):
        default = attribute.default_value
        parts.append(f"{name}={plain(get_attribute_value(default))!r}".replace(" ", "") if default.name else name)
    return f"({','.join(parts)})"


def main() -> None:
    versions: dict[str, list[defs.OpSchema]] = defaultdict(list)
    newest: dict[str, int] = defaultdict(int)
    for schema in defs.get_all_schemas_with_history():
        versions[f"{schema.domain or 'ai.onnx'}/{schema.name}"].append(schema)
        newest[schema.domain or "ai.onnx"] = max(newest[schema.domain or "ai.onnx"], schema.since_version)
    newest["ai.onnx"] = defs.onnx_opset_version()
    lines = [f"# Made by tools/onnx_standard.py of onnx {__version__}; domains and their newest operator sets first."]
    lines += [f"{domain} {newest[domain]}" for domain in sorted(newest)]
    for name, schemas in sorted(versions.items()):
        line, before = name, ""
        for schema in sorted(schemas, key=lambda s: s.since_version):
            stated = attributes(schema)
            line += f" {schema.since_version}{stated if stated != before else ''}"
            before = stated
        lines.append(line)
    TABLE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
