"""The Swift code of the pages is part of the Swift package's tests, which compile it.

This test needs no Swift compiler: it verifies that the package contains the code as the pages have it now.
"""

import re
import subprocess
import sys

from harness.pages import ROOT

TESTS = ROOT / "swift" / "Tests"


def test_swift_tests_contain_code_of_pages():
    done = subprocess.run([sys.executable, TESTS / "make_pages.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_swift_block_is_compiled():
    code = "".join((TESTS / name / "Pages.swift").read_text() for name in ("PageTests", "TalkTests"))
    blocks = re.findall(r"^```swift\n", (ROOT / "docs" / "swift.md").read_text(), re.M)
    assert len(re.findall(r"^func docs_swift_\d+\(", code, re.M)) == len(blocks) > 5
