"""Part versions: reports the versions and hardware of the machine."""

from __future__ import annotations

import importlib.metadata
import platform
import plistlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import mpsgraph as mg
from mpsgraph import _core

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
        "system": _system(),
        "chip": _chip(),
        **_frameworks(),
        "virtual machine": _flag("kern.hv_vmm_present"),
        "rosetta": _flag("sysctl.proc_translated"),
        "built with": _core.build_information(),
        "python": f"{platform.python_version()} {platform.machine()}",
        **{name: _installed(name) for name in ("numpy", "ml_dtypes", "torch", "mlx")},
    }


def _system() -> str:
    if sys.platform != "darwin":
        return platform.platform()
    return f"macOS {platform.mac_ver()[0]} ({_printed('sw_vers', '-buildVersion') or 'unknown build'})"


def _chip() -> str:
    if sys.platform != "darwin":
        return platform.processor() or platform.machine()
    lines = _printed("sysctl", "-n", "machdep.cpu.brand_string", "hw.model", "hw.memsize").splitlines()
    if len(lines) != 3:
        return platform.machine()
    return f"{lines[0]}, {lines[1]}, {int(lines[2]) / 2**30:.0f} GB"


def _frameworks(folder: Path = Path("/System/Library/Frameworks")) -> dict[str, str]:
    """Return the versions of Apple's frameworks, which can differ between machines with the same macOS version."""
    found = {}
    for name in ("Metal", "MetalPerformanceShaders", "MetalPerformanceShadersGraph"):
        path = folder / f"{name}.framework" / "Resources" / "Info.plist"
        if path.is_file():
            try:
                found[name] = str(plistlib.loads(path.read_bytes())["CFBundleVersion"])
            except (OSError, ValueError, KeyError) as error:
                found[name] = f"unknown: {type(error).__name__}: {error}"
    return found


def _flag(name: str) -> str:
    """Return the value of a flag of macOS's kernel: "yes", "no", or "unknown"."""
    return {"1": "yes", "0": "no"}.get(_printed("sysctl", "-n", name), "unknown")


def _printed(*command: str) -> str:
    """Return what a command prints, or "" if it fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
