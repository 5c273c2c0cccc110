"""Prints what pyproject.toml requires, one requirement a line: to build, to run, and for the extras that are named.

`python tools/requirements.py test dev > requirements.txt`. The Makefile installs what a target needs once, so that
later builds need no isolated environment and compile only what changed.
"""

import re
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib  # type: ignore[no-redef]

document = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
project = document["project"]


def expand(requirements: list[str]) -> list[str]:
    """Replaces `mpsgraph[a,b]` by what the extras a and b require."""
    result = []
    for requirement in requirements:
        own = re.fullmatch(rf"{project['name']}\[(.+)\]", requirement)
        if own:
            for extra in own[1].split(","):
                result += expand(project["optional-dependencies"][extra.strip()])
        else:
            result.append(requirement)
    return result


wanted = document["build-system"]["requires"] + project["dependencies"]
for extra in sys.argv[1:]:
    wanted += expand(project["optional-dependencies"][extra])
print("\n".join(dict.fromkeys(wanted)))
