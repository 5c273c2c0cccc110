"""Writes the C interface's table of functions from the prototypes in include/mpsgraph/mpsgraph.h.

The order of what is there never changes: functions that are new in the header go to the table's end. So a program that
was compiled with an older header finds its functions where they were.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADER = ROOT / "include" / "mpsgraph" / "mpsgraph.h"
TABLE = ROOT / "include" / "mpsgraph" / "function_table.h"
ENTRIES = ROOT / "src" / "c_api" / "function_table.inc"
PROTOTYPE = re.compile(r"MPSGRAPH_API\s+(const char\*\s*|mpsgraph_status\s+)mpsgraph_(\w+)\((.*?)\);", re.DOTALL)

HEAD = """\
// Made by tools/function_table.py: the functions of mpsgraph.h in a table that only grows at its end.
#ifndef MPSGRAPH_FUNCTION_TABLE_H
#define MPSGRAPH_FUNCTION_TABLE_H

#include "mpsgraph/mpsgraph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
typedef struct mpsgraph_functions {
  size_t size; /* of the library's table: what lies behind it is not there */
"""

TAIL = """\
} mpsgraph_functions;
/* clang-format on */

/* For the interface version of the header that a program was compiled with; NULL when the library is older. */
MPSGRAPH_API const mpsgraph_functions* mpsgraph_get_functions(uint32_t interface_version);

#ifdef __cplusplus
}
#endif

#endif
"""


def prototypes() -> dict[str, str]:
    """The member of each function."""
    found = {}
    for result, name, arguments in PROTOTYPE.findall(HEADER.read_text()):
        joined = " ".join(arguments.split())
        result = result.strip() + " "
        line = f"  {result}(*{name})({joined});"
        if len(line) > 118:
            middle = line.rindex(", ", 0, 118)
            line = f"{line[: middle + 1]}\n      {line[middle + 2 :]}"
            rest = line.split("\n")[1]
            if len(rest) > 118:
                middle = rest.rindex(", ", 0, 118)
                line = f"{line.split(chr(10))[0]}\n{rest[: middle + 1]}\n      {rest[middle + 2 :]}"
        found[name] = line
    return found


def table() -> str:
    wanted = prototypes()
    there = re.findall(r"\(\*(\w+)\)", TABLE.read_text()) if TABLE.exists() else []
    if gone := [name for name in there if name not in wanted]:
        sys.exit(f"{HEADER.name} has lost {', '.join(gone)}: an old program would call it")
    names = there + [name for name in wanted if name not in there]
    return HEAD + "".join(wanted[name] + "\n" for name in names) + TAIL


def entries(table_text: str) -> str:
    names = re.findall(r"\(\*(\w+)\)", table_text)
    head = "// Made by tools/function_table.py: the entries of the table, in its order.\n// clang-format off\n"
    return head + "".join(f"mpsgraph_{name},\n" for name in names)


if __name__ == "__main__":
    text = table()
    if sys.argv[1:] == ["--check"]:
        if TABLE.read_text() != text or ENTRIES.read_text() != entries(text):
            sys.exit("the table is not that of the header: run python tools/function_table.py")
    else:
        TABLE.write_text(text)
        ENTRIES.write_text(entries(text))
