"""Run the Metal self-test on a continuous-integration machine and report the outcome.

Usage: `python .github/metal_selftest.py <file>`, with mpsgraph installed. Runs `mpsgraph selftest --device metal --json
<file>` and writes one of three outcomes to the job's summary: passed, failed, or no device (the package was only built
and imported), followed by the report's own summary. A failure fails the job, except on a virtual machine's processor
("Paravirtual" in its name), for which Apple promises nothing: there it is a warning.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import mpsgraph as mg


def say(text: str) -> None:
    """Print to the log and, where there is one, to the job's summary."""
    print(text, flush=True)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a") as file:
            file.write(f"{text}\n\n")


def say_summary(report: Path) -> None:
    """Print the report's summary if the report was written."""
    if report.is_file():
        said = json.loads(report.read_text())["summary"]
        say("\n".join(f"- {heading}: {text}" for heading, text in said.items()))


def main(report: str) -> int:
    if "metal" not in mg.Device.names():
        say("**Metal: not run.** The package was built and imported; this machine has no usable Metal device.")
        print("::warning title=Metal::no device on this machine: the package was built and imported only")
        return 0
    try:
        device = mg.Device("metal").description
    except mg.errors.Error as error:
        say(f"**Metal: the device could not be opened**: {error}")
        return 1
    code = subprocess.run(["mpsgraph", "selftest", "--device", "metal", "--json", report]).returncode
    say_summary(Path(report))
    if code == 0:
        say(f"**Metal: the self-test passed** on {device}.")
        return 0
    say(f"**Metal: the self-test failed** (exit code {code}) on {device}; the report is among the artifacts.")
    if "paravirtual" in device.lower():
        say("Virtual machines are not required to support Metal Performance Shaders, so the job does not fail.")
        print(f"::warning title=Metal::the self-test failed on {device}")
        return 0
    return 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
