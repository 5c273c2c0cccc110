"""Checks of the self-test that have failed on a Mac: what is known of each, by "part: name of the check".

`python tools/from_report.py report.json --write` adds what a report has. On a Mac such a failure is reported as known,
so that what is new stands out; anywhere else this file changes nothing. An entry goes when its cause is cured; what the
device shall refuse from then on stands in unsupported.py.
"""

FAILURES: dict[str, str] = {}
