"""Run the programs of examples/comparison, and compare their lengths with those for PyTorch and MLX.

The programs for another library run where that library is installed; elsewhere, they are only compiled.
"""

import ast
import contextlib
import importlib.util
import io
import runpy
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "comparison"
NAMES = sorted(path.stem for path in (FOLDER / "ours").glob("*.py"))
REACHED = {
    "autoencoder": lambda error, *shape: error < 0.01,
    "classifier": lambda accuracy: accuracy > 0.95,
    "custom_loss": lambda share: 0.87 < share < 0.93,
    "ensemble": lambda error, inside, outside: error < 0.05 and outside > 2 * inside,
    "equation": lambda error: error < 0.03,
    "fine_tuning": lambda accuracy: accuracy > 0.75,
    "gan": lambda mean: 2 < mean < 4,
    "regression": lambda error: error < 0.02,
    "reinforcement": lambda steps: steps < 9,
    "sequence": lambda accuracy: accuracy > 0.85,
}
"""What each program must reach in its printed numbers."""


def lines_of(library: str, name: str) -> int:
    """Return the number of lines of a program without its docstring, blank lines, and comments."""
    text = (FOLDER / library / f"{name}.py").read_text()
    docstring = ast.parse(text).body[0].end_lineno
    lines = [line.strip() for line in text.splitlines()[docstring:]]
    return sum(1 for line in lines if line and not line.startswith("#"))


def test_there_are_ten_programs_for_three_libraries():
    assert NAMES == sorted(REACHED) and len(NAMES) == 10
    for library in ("torch", "mlx"):
        assert sorted(path.stem for path in (FOLDER / library).glob("*.py")) == NAMES


@pytest.mark.parametrize("library", ["ours", "torch", "mlx"])
@pytest.mark.parametrize("name", NAMES)
def test_program_reaches_its_result(name: str, library: str):
    path = FOLDER / library / f"{name}.py"
    compile(path.read_text(), str(path), "exec")
    package = {"ours": "mpsgraph", "torch": "torch", "mlx": "mlx"}[library]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(str(path), run_name="__main__")
    numbers = [float(word.strip("(),")) for word in printed.getvalue().split()]
    assert np.isfinite(numbers).all() and REACHED[name](*numbers), printed.getvalue()


@pytest.mark.parametrize("name", NAMES)
def test_our_program_is_not_longer(name: str):
    assert lines_of("ours", name) <= min(lines_of("torch", name), lines_of("mlx", name))


def test_page_states_the_line_counts():
    page = (FOLDER.parents[1] / "docs" / "comparison.md").read_text()
    for name in NAMES:
        counts = " | ".join(str(lines_of(library, name)) for library in ("ours", "torch", "mlx"))
        assert f"[{name}](../examples/comparison/ours/{name}.py)" in page and f" | {counts} |" in page
