"""Print the requirements in pyproject.toml, one per line: those to build, those to run, and those of named extras.

Usage: `python tools/requirements.py test dev > requirements.txt`. The Makefile installs a target's requirements once,
so later builds need no isolated environment and compile only what changed.
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
    """Replace `mpsgraph[a,b]` by the requirements of the extras a and b."""
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
