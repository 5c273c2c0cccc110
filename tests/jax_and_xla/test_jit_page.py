"""Run the programs of docs/jax.md, which compare their losses with those of jax.jit."""

import re

import pytest

pytest.importorskip("jax", reason="JAX is not installed: make test-jax")

pytestmark = pytest.mark.filterwarnings("default")


def test_jax_page_programs_run(repository, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (repository / "docs" / "jax.md").read_text(), re.DOTALL)
    assert len(blocks) == 4
    names: dict[str, object] = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"block {number} of docs/jax.md", "exec"), names)
        if number:
            assert names["ours"][-1] < names["ours"][0]
    assert capsys.readouterr().out.startswith("1.732")
