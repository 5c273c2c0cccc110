"""Counts of calls to Apple's frameworks, from the mock (tests/mock/metal/counts.h)."""

from __future__ import annotations

import ctypes

from harness import device

MOCK = device.mock()


class Counts(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (
            "command_buffers",
            "hand_overs",
            "encodes",
            "host_waits",
            "buffers",
            "shared_buffers",
            "operations",
            "compilations",
        )
    )


MOCK.mock_take_counts.restype = Counts
MOCK.mock_initial_variable_bytes.restype = ctypes.c_uint64


def taken() -> dict[str, int]:
    """Return the counts since the previous call.

    The mock commits command buffers at random while it encodes, as MPSGraph may. The counts exclude these.
    """
    counts = MOCK.mock_take_counts()
    named = {name: getattr(counts, name) for name, _ in Counts._fields_}
    named["command_buffers"] -= named.pop("hand_overs")
    return named


def initial_variable_bytes() -> int:
    """Return the size of the initial data that MPSGraph objects keep for their variables."""
    return MOCK.mock_initial_variable_bytes()
