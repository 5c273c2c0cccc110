"""Check that the node table in docs/nngraph.md is up to date and that the names in its other tables exist.

tests/pages runs the program on the page.
"""

import re
import subprocess
import sys

import mpsgraph as mg
from mpsgraph import nngraph


def test_node_table_is_up_to_date(repository):
    tool = [sys.executable, str(repository / "tools" / "nngraph.py"), "--check"]
    run = subprocess.run(tool, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr


def test_python_names_on_nngraph_page_exist(repository):
    """The right column of the tables only calls names that the package defines."""
    page = (repository / "docs" / "nngraph.md").read_text()
    listings = page.partition("## A complete program")[2].partition("## Common surprises")[0]
    right = re.findall(r"^\| [^|]+ \| ([^|]+) \|$", listings, re.MULTILINE)
    called = {name for cell in right for name in re.findall(r"`(?:\w+\.)?([A-Z]\w+)\(", cell)} - {"Semaphore"}
    assert {"ConvolutionNode", "LossNode", "NNGraph", "ImageBatch"} <= called
    assert [name for name in called if not hasattr(nngraph, name) and not hasattr(mg, name)] == []
