"""Cases of the family debugging: none; what print and check do beside their result stands in tests/core."""

from harness.case import Case

CASES: list[Case] = []
