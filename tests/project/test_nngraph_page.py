"""docs/nngraph.md: its table is that of the nodes, and what its tables call is there. pages/ runs its program."""

import re
import subprocess
import sys

import mpsgraph as mg
from mpsgraph import nngraph


def test_the_table_is_up_to_date(repository):
    tool = [sys.executable, str(repository / "tools" / "nngraph.py"), "--check"]
    run = subprocess.run(tool, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr


def test_names_of_ours_exist(repository):
    """What the right column of a table calls, the package has."""
    page = (repository / "docs" / "nngraph.md").read_text()
    listings = page.partition("## A complete program")[2].partition("## Common surprises")[0]
    right = re.findall(r"^\| [^|]+ \| ([^|]+) \|$", listings, re.MULTILINE)
    called = {name for cell in right for name in re.findall(r"`(?:\w+\.)?([A-Z]\w+)\(", cell)} - {"Semaphore"}
    assert {"ConvolutionNode", "LossNode", "NNGraph", "ImageBatch"} <= called
    assert [name for name in called if not hasattr(nngraph, name) and not hasattr(mg, name)] == []
