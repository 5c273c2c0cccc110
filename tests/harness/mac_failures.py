"""Self-test checks that are known to fail on Macs, by "part: name of the check", with a description of each failure.

`python tools/from_report.py report.json --write` adds the failures of a report. On a Mac, listed failures are reported
as known, so that new ones stand out; elsewhere this file has no effect. Remove an entry when its cause is fixed. If the
device must reject the case from then on, list it in unsupported.py.
"""

FAILURES: dict[str, str] = {}
