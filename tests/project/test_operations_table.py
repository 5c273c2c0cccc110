"""Check that docs/operations.md matches the operation table, the cases and the sources.

operations/test_coverage checks that every operation has a case and a gradient check; package/test_docstrings checks the
docstrings.
"""

import keyword
import subprocess
import sys

import mpsgraph as mg


def test_operations_page_is_up_to_date(repository):
    tool = [sys.executable, str(repository / "tools" / "operations.py"), "--check"]
    run = subprocess.run(tool, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_apple_selector_belongs_to_one_operation(repository):
    lines = (repository / "tools" / "apple_operations.txt").read_text().splitlines()
    parts = [line.split() for line in lines if not line.startswith("#")]
    kinds, selectors = [p[0] for p in parts], [s for p in parts for s in p[2:]]
    assert len(kinds) == len(set(kinds)) and len(selectors) == len(set(selectors)) > 300
    missing = [k for k in kinds if not hasattr(mg.Graph, k + "_" * keyword.iskeyword(k))]
    assert missing == [], "every kind in apple_operations.txt must be a method of Graph"
