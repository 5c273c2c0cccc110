"""Profiler that shows how long each kernel of a step takes, and how close kernels come to the machine's limits.

`with mg.profiler.profile() as p:` records everything that runs in the block, on all threads. `print(p.table())` shows
which kernels took the most time, with the bytes they moved and the operations they computed.
`p.save_chrome_trace("step.json")` writes a timeline for chrome://tracing and ui.perfetto.dev. When no profile is being
recorded, the cost is one integer comparison per run.
"""

from .limits import machine_limits
from .profiles import Profile
from .recording import CAPACITY, profile, start, stop
from .records import Kernel, Limits, Record

__all__ = ["CAPACITY", "Kernel", "Limits", "Profile", "Record", "machine_limits", "profile", "start", "stop"]
