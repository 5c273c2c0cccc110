"""Evidence of a worker process that died: lines of its output, its Python frames, and macOS's crash report."""

from __future__ import annotations

import contextlib
import json
import linecache
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

FIRST, LAST, MARKED = 4, 12, 20  # Numbers of lines of the output that are kept.
FRAMES = 25  # Number of lines of the Python stack that are kept.
NATIVE_FRAMES = 20
SAMPLED = 80  # Number of lines of a hung process's native stacks that are kept.
FRAME = re.compile(r'\s*File "(.+)", line (\d+) in (.+)')
# What a process was doing, by the innermost of our lines in its Python stack that contains one of these texts.
STAGES = {
    "compiling a program": (".compile(",),
    "computing gradients": (".gradients(",),
    "waiting for work or an event": (".wait(", ".wait_until_completed(", ".result("),
    "running a program": (".run(", ".run_async(", ".encode(", ".encode_batch("),
    "copying a result or a variable to the host": (".numpy(", ".tolist(", ".item(", ".variable_value(", ".read("),
}
# What Apple's frameworks, MLIR, and LLVM print before they end the process.
MARKS = re.compile(r"failed assertion|assertion failed|\berror:|LLVM ERROR|fatal|\*\*\* Terminating app", re.IGNORECASE)
CRASH_REPORTS = Path("~/Library/Logs/DiagnosticReports")


def excerpt(output: str) -> list[str]:
    """Return the first and the last lines of a process's output, and the lines in between that contain an error.

    A line "... (12 lines left out)" replaces consecutive lines that are not returned.
    """
    lines = output.strip().splitlines()
    marked = [i for i, line in enumerate(lines) if MARKS.search(line)][:MARKED]
    kept = sorted({*range(min(FIRST, len(lines))), *marked, *range(max(0, len(lines) - LAST), len(lines))})
    found: list[str] = []
    following = 0
    for i in kept:
        if i > following:
            found.append(f"... ({i - following} lines left out)")
        found.append(lines[i])
        following = i + 1
    return found


def frames(path: Path) -> list[str]:
    """Return the first lines that faulthandler wrote to a file, each with its source code; an empty list if none."""
    try:
        lines = path.read_text(errors="replace").strip().splitlines()
    except OSError:
        return []
    told = [line for line in lines if line.strip() and not line.startswith(("Fatal Python error", "Extension modules"))]
    return [_with_source(line) for line in told[:FRAMES]]


def _with_source(line: str) -> str:
    """Shorten the path in a line of a Python stack, and append the source code."""
    found = FRAME.match(line)
    if not found:
        return line
    code = linecache.getline(found[1], int(found[2])).strip()
    _, package, inner = found[1].rpartition("/mpsgraph/selftest/")
    path = f"{package[1:]}{inner}" if package else found[1]
    return f'  File "{path}", line {found[2]} in {found[3]}{f": {code}" if code else ""}'


def stage(stack: list[str]) -> str:
    """Return what a process was doing according to the lines that `frames` returned, or "" if they do not tell."""
    for line in stack:
        if not (found := FRAME.match(line)):
            continue
        code = found[3].partition(": ")[2]
        for words, texts in STAGES.items():
            if any(text in code for text in texts):
                return f"it was {words}, at {Path(found[1]).name}:{found[2]}: {code}"
    return ""


def sample(process: int) -> list[str]:
    """Return the native stacks of a running process, from macOS's command `sample`; an empty list elsewhere."""
    command = shutil.which("sample")
    if not command:
        return []
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        seconds = "1"
        done = subprocess.run([command, str(process), seconds], capture_output=True, timeout=30)
        lines = done.stdout.decode(errors="replace").splitlines()
        first = next((i for i, line in enumerate(lines) if line.startswith("Call graph")), 0)
        return [line.rstrip() for line in lines[first : first + SAMPLED]]
    return []


def crash_report(process: int, since: float, folder: Path = CRASH_REPORTS) -> dict[str, Any]:
    """Return the essential parts of the report that macOS wrote about a process.

    macOS writes crash reports a few seconds after a process has died.

    Args:
        process: Number of the process that died.
        since: Time in seconds since the epoch; older files are not read.
        folder: Directory that contains the crash reports.

    Returns:
        A dict with the reason and the native stack of the thread that crashed, or an empty dict if there is no report.
    """
    folder = folder.expanduser()
    try:
        recent = [path for path in folder.glob("*.ips") if path.stat().st_mtime >= since]
    except OSError:
        return {}
    for path in sorted(recent, key=lambda path: path.name, reverse=True):
        try:
            _, _, body = path.read_text(errors="replace").partition("\n")  # The first line is a header.
            content = json.loads(body)
            if content.get("pid") == process:
                return _essential(content)
        except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError):
            continue
    return {}


def _essential(content: dict[str, Any]) -> dict[str, Any]:
    """Return the reason and the stack from the contents of a crash report, without paths and user names."""
    images = content.get("usedImages", [])
    thread = content["threads"][content.get("faultingThread", 0)]
    stack = []
    for frame in thread.get("frames", [])[:NATIVE_FRAMES]:
        index = frame.get("imageIndex", -1)
        image = images[index].get("name", "?") if 0 <= index < len(images) else "?"
        stack.append(f"{image}: {frame.get('symbol', hex(frame.get('imageOffset', 0)))}")
    exception = content.get("exception", {})
    return {
        "exception": " ".join(str(exception[key]) for key in ("type", "signal", "subtype") if key in exception),
        # Text that the crashed code set with abort_with_reason or os_crash, such as that of a failed assertion.
        "application": [text for texts in content.get("asi", {}).values() for text in texts],
        "termination": str(content.get("termination", {}).get("indicator", "")),
        "system": str(content.get("osVersion", {}).get("build", "")),
        "thread": str(thread.get("queue", thread.get("name", ""))),
        "stack": stack,
    }
