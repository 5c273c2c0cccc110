"""Cases of the family call: none, for feeds alone do not run it; what must hold stands in tests/core/test_call.py."""

from harness.case import Case

CASES: list[Case] = []
