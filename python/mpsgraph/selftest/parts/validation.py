"""Part validation: runs one case per operation under Metal's validation layer, which reports invalid API usage.

The supervisor sets MTL_DEBUG_LAYER=1 for the processes of this part. If the layer finds invalid usage, it ends the
process, and the report contains the layer's message.
"""

from __future__ import annotations

from ..checks import Check, Options
from . import operations


def checks(options: Options) -> list[Check]:
    """Return one check per operation, or no checks for devices without Metal."""
    if operations.device_name(options) != "metal":
        return []
    return operations.checks(Options(options.device, quick=True))
