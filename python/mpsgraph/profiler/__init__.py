"""The profiler: where a step's time goes, kernel by kernel, and what the machine could do at most.

`with mg.profiler.profile() as p:` records everything that runs meanwhile, on all threads; `print(p.table())` says which
kernels took the time, how many bytes and operations they had to do, and how near they came to the machine's limits;
`p.save_chrome_trace("step.json")` writes the timeline for chrome://tracing and ui.perfetto.dev. Outside, a run pays for
one look at a number.
"""

from .limits import machine_limits
from .profiles import Profile
from .recording import CAPACITY, profile, start, stop
from .records import Kernel, Limits, Record

__all__ = ["CAPACITY", "Kernel", "Limits", "Profile", "Record", "machine_limits", "profile", "start", "stop"]
