"""Part versions: reports the versions and hardware of the machine."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
import sys
from typing import Any

import mpsgraph as mg

from ..checks import Check, Options, Result


def checks(options: Options) -> list[Check]:
    """Return the only check of this part."""
    return [Check("versions", lambda: Result(numbers=versions(options)))]


def versions(options: Options) -> dict[str, Any]:
    """Return a dict of versions and hardware properties. Raise DeviceError if the device does not exist."""
    device = mg.Device(options.device) if options.device else mg.Device.default()
    return {
        "mpsgraph": mg.__version__,
        "device": f"{device.name}: {device.description}",
        "devices": ", ".join(mg.Device.names()),
        "system": f"macOS {platform.mac_ver()[0]}" if sys.platform == "darwin" else platform.platform(),
        "chip": _chip(),
        "python": f"{platform.python_version()} {platform.machine()}",
        **{name: _installed(name) for name in ("numpy", "ml_dtypes", "torch", "mlx")},
    }


def _chip() -> str:
    if sys.platform != "darwin":
        return platform.processor() or platform.machine()
    command = ["sysctl", "-n", "machdep.cpu.brand_string", "hw.model", "hw.memsize"]
    try:
        lines = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.split("\n")
    except (OSError, subprocess.SubprocessError):
        return platform.machine()
    return f"{lines[0]}, {lines[1]}, {int(lines[2]) / 2**30:.0f} GB"


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
