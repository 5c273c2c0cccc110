"""Print where Python distributions keep the C++ files that the build needs, as name=path lines.

The distributions are found with importlib.metadata, wherever pip installed them: in a virtual environment, a user's
directory, or the temporary environment of an isolated build. For a missing distribution, nothing is printed.
"""

from importlib import metadata
from pathlib import Path

WANTED = [  # Name, distribution, one of its files, and how many parents up the directory is (0: the file itself).
    ("json", "nlohmann-json", "include/nlohmann/json.hpp", 2),
    ("pybind11", "pybind11", "share/cmake/pybind11/pybind11Config.cmake", 1),
]

for name, distribution, file, levels in WANTED:
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        continue
    for entry in files:
        if entry.as_posix().endswith(file):
            path = Path(entry.locate()).resolve()
            print(f"{name}={(path.parents[levels - 1] if levels else path).as_posix()}")
            break
