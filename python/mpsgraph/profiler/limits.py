"""Measurement of the machine's limits, such as memory bandwidth, by the compiled core."""

from __future__ import annotations

from .. import _core
from .._checks import checked
from .._core import Device
from .records import Limits


@checked
def machine_limits(device: Device | str | None = None) -> Limits | None:
    """Return the peak rates of a device.

    The first call measures for about 0.1 s; the result is cached. The rates are those of multiply-adds in registers on
    all threads, and of copying memory larger than most caches.

    Args:
        device: A Device or its name. None (the default) means the default device.

    Returns:
        The limits, or None if the device does not support the measurement (such as "metal").

    Raises:
        DeviceError: If the device does not exist.

    Example:
        >>> mg.profiler.machine_limits("cpu").flops > 1e9
        True
    """
    name = device if isinstance(device, str) else (device or Device.default()).name
    flops, bandwidth = _core.device_limits(name)
    return Limits(flops["float32"], bandwidth, flops) if flops else None
