"""The debugging family has no cases. Printing and checking are tested in tests/core/test_debugging.py."""

from harness.case import Case

CASES: list[Case] = []
