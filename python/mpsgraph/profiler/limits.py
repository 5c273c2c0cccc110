"""The limits of the machine at hand, as the compiled core measures them."""

from __future__ import annotations

from .. import _core
from .._checks import checked
from .._core import Device
from .records import Limits


@checked
def machine_limits(device: Device | str | None = None) -> Limits | None:
    """What a device can do at most: measured for a tenth of a second when first asked for, then remembered.

    Multiply-adds from registers by all threads, and a copy of memory larger than most caches. Args: device, None: the
    default one. Result: None for a device that cannot tell, such as "metal".

    >>> mg.profiler.machine_limits("cpu").flops > 1e9
    True
    """
    name = device if isinstance(device, str) else (device or Device.default()).name
    flops, bandwidth = _core.device_limits(name)
    return Limits(flops["float32"], bandwidth, flops) if flops else None
