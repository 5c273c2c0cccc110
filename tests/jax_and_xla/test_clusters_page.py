"""Run the programs of docs/clusters.md."""

import pytest
from harness.pages import blocks, run

pytest.importorskip("jax", reason="JAX is not installed: make test-jax")


def test_clusters_page_programs_run(repository, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = [block for block in blocks(repository / "docs" / "clusters.md") if block.language == "python"]
    assert len(program) >= 2
    run(program)
