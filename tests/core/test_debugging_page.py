"""Run the programs of docs/debugging.md in order and compare their output with the output shown on the page."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "debugging.md"
BLOCKS = re.findall(r"^```(python|text)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_debugging_page_programs_print_documented_output(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    said = io.StringIO()
    for language, text in BLOCKS:
        if language == "python":
            assert not said.getvalue(), "the page must show the output of each program below it"
            with contextlib.redirect_stdout(said), np.errstate(all="ignore"):
                exec(compile(text, "model.py", "exec"), names)
        else:
            assert said.getvalue() == text
            said = io.StringIO()
    assert not said.getvalue() and len(BLOCKS) > 15
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")
