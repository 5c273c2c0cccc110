"""docs/operations.md says what the operation table, the cases and the sources say now.

That each operation has a case and a gradient check is in operations/test_coverage, that it has a docstring in
package/test_docstrings.
"""

import keyword
import subprocess
import sys

import mpsgraph as mg


def test_the_table_is_up_to_date(repository):
    tool = [sys.executable, str(repository / "tools" / "operations.py"), "--check"]
    run = subprocess.run(tool, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_selector_belongs_to_one_operation(repository):
    lines = (repository / "tools" / "apple_operations.txt").read_text().splitlines()
    parts = [line.split() for line in lines if not line.startswith("#")]
    kinds, selectors = [p[0] for p in parts], [s for p in parts for s in p[2:]]
    assert len(kinds) == len(set(kinds)) and len(selectors) == len(set(selectors)) > 300
    missing = [k for k in kinds if not hasattr(mg.Graph, k + "_" * keyword.iskeyword(k))]
    assert missing == [], "each is a method of Graph"
