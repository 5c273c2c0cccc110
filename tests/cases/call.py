"""The call family has no cases, because feeds alone cannot run a call. See tests/core/test_call.py."""

from harness.case import Case

CASES: list[Case] = []
