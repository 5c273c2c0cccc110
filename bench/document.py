"""docs/performance.md from bench/results.csv: tables between markers and the picture; the prose around them stays.

Of a workload that several machines have measured, the tables and the picture show the last one's rows, and one table
puts the machines side by side.

`run.py` calls it; alone it writes the page anew from the file. What has no peer's row in the file is not in the tables.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import operations
from measuring import BENCH
from measuring.picture import draw
from measuring.report import DISTURBED, OURS, Row, best_peer, figure, headlines
from measuring.results import latest, read

RESULTS = BENCH / "results.csv"
PAGE = BENCH.parent / "docs" / "performance.md"
PICTURE = PAGE.with_suffix(".png")
MARK = "†"
MARKED = re.compile(r"(<!-- bench: ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)

WHY: dict[str, str] = {
    "W7": "both wait for the third-level cache, at its rate",
    "W8 batch 1": "layers of one image are short: what lies between kernels weighs",
}
"""Why a workload is slower than the best peer, as far as it is known."""


def write(results: Path = RESULTS, page: Path = PAGE, picture: Path = PICTURE) -> list[Path]:
    """Writes the page and the picture. Result: what was written. Errors: KeyError for a marker that is not known."""
    every = read(results)
    rows = latest(every)
    compared = [row for row in rows if row.benchmark != "operations"]
    of_table = {"operations": rows, "machines": [row for row in every if row.benchmark != "operations"]}

    def filled(match: re.Match[str]) -> str:
        return match[1] + "\n".join(TABLES[match[2]](of_table.get(match[2], compared))) + "\n" + match[3]

    page.write_text(MARKED.sub(filled, page.read_text()))
    return [page, picture] if draw(compared, picture) else [page]


def summary(rows: Sequence[Row]) -> list[str]:
    """A line a workload."""
    text = ["| workload | ours | best peer, its best mode | ratio | target | bound | oneDNN's sum |"]
    text.append("|---|---|---|---|---|---|---|")
    for row in headlines(rows):
        peer = best_peer(rows, row)
        primitives = f"{figure(row.primitives)} ms" if row.primitives else ""
        text.append(
            f"| {_name(row)} | {_spread(row)}, {row.mode} | {_spread(peer)}, {peer.side} {peer.mode} "
            f"| **{row.ratio.median:.2f}** ({row.ratio.q1:.2f}–{row.ratio.q3:.2f}){_disturbed(row, peer)} "
            f"| {_target(row)} | {_bound(row)} | {primitives} |"
        )
    if any(MARK in line for line in text):
        text += ["", f"{MARK} Others used more than {DISTURBED:.0%} of the machine meanwhile: not to be relied on."]
    return text


def limits(rows: Sequence[Row]) -> list[str]:
    """What has a limit of its own instead of a peer's time."""
    text = ["| what | ours | limit |", "|---|---|---|"]
    for row in rows:
        if row.limit is not None:
            text.append(f"| {row.title}, {row.mode} | {_spread(row)} | {figure(row.limit)} {row.unit} |")
    return text


def peers(rows: Sequence[Row]) -> list[str]:
    """Our ratio to each peer's best mode."""
    names = list(dict.fromkeys(row.side for row in rows if row.ratio is not None and row.side != OURS))
    text = [f"| workload | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for headline in headlines(rows):
        cells = []
        for name in names:
            modes = [r for r in rows if (r.workload, r.title, r.side) == (headline.workload, headline.title, name)]
            best = min((r for r in modes if r.ratio), key=lambda row: row.value.median, default=None)
            cells.append(f"{best.ratio.median:.2f} ({best.mode})" if best else "")
        text.append(f"| {_name(headline)} | {' | '.join(cells)} |")
    return text


def machines(every: Sequence[Row]) -> list[str]:
    """Each machine's ratios, a line for each workload that two have measured; first who is in the other tables most."""
    shown = Counter(row.machine for row in headlines(latest(every)))
    names = sorted({row.machine for row in every}, key=lambda name: (-shown[name], name))
    text = [f"| workload | {' | '.join(names)} | target |", "|---" * (len(names) + 2) + "|"]
    for headline in headlines(latest(every)):
        same = [r for r in headlines(every) if (r.workload, r.title) == (headline.workload, headline.title)]
        found = {row.machine: row.ratio for row in same}
        if len(found) > 1:
            cells = [f"{r.median:.2f} ({r.q1:.2f}–{r.q3:.2f})" if (r := found.get(name)) else "" for name in names]
            text.append(f"| {_name(headline)} | {' | '.join(cells)} | {_target(headline)} |")
    return text


def behind(rows: Sequence[Row]) -> list[str]:
    """Where the best peer is faster, and what is ahead but misses its target."""
    slower = [row for row in headlines(rows) if row.ratio.median > 1]
    short = [row for row in headlines(rows) if row.target is not None and row.target < row.ratio.median <= 1]
    over = [row for row in rows if row.limit is not None and row.value.median > row.limit]
    text = []
    for row in sorted(slower, key=lambda row: -row.ratio.median):
        peer, why = best_peer(rows, row), WHY.get(row.workload)
        text.append(f"- {_name(row)}: {row.ratio.median:.2f} of {peer.side}" + (f"; {why}" if why else ""))
    if not slower:
        text.append("- Nowhere in these workloads is the best peer faster.")
    if short:
        missed = ", ".join(f"{_name(row)} {row.ratio.median:.2f} (target {row.target:.2f})" for row in short)
        text.append(f"- Ahead of every peer, but short of the target: {missed}.")
    if over:
        missed = ", ".join(f"{row.title} {figure(row.value.median)} {row.unit}".strip() for row in over)
        text.append(f"- Over its limit: {missed}.")
    return text


def machine(rows: Sequence[Row]) -> list[str]:
    """The processors, what was measured of them, the versions and the days."""
    names = dict.fromkeys(row.machine for row in rows if row.workload == "machine")
    counted: dict[str, Counter[str]] = {}
    for row in rows:
        if row.version and row.workload != "machine":
            counted.setdefault(row.side, Counter())[row.version] += 1
    versions = {side: versions.most_common(1)[0][0] for side, versions in counted.items()}
    days = sorted({row.measured for row in rows if row.measured})
    text = []
    for name in names:
        described = [row for row in rows if row.workload == "machine" and row.machine == name]
        rates = []
        for what in dict.fromkeys(row.mode for row in described):
            values = [row.value.median for row in described if row.mode == what]
            unit = next(row.unit for row in described if row.mode == what)
            middle = figure(statistics.median(values))
            rates.append(f" {what} {figure(min(values))}–{figure(max(values))} {unit} (middle {middle})")
        where = f", for {', '.join(dict.fromkeys(r.benchmark for r in described))}" if len(names) > 1 else ""
        text.append(f"- Machine: {described[0].title}{where}:{';'.join(rates)}.")
    text.append(f"- Versions: {', '.join(f'{side} {version}' for side, version in sorted(versions.items()))}.")
    text.append(f"- Measured from {days[0]} to {days[-1]}." if days else "- Nothing is measured yet.")
    return text


TABLES: dict[str, Callable[[Sequence[Row]], list[str]]] = {
    "machine": machine,
    "summary": summary,
    "behind": behind,
    "peers": peers,
    "machines": machines,
    "limits": limits,
    "operations": operations.table,
}


def _disturbed(*rows: Row) -> str:
    return f" {MARK}" if any((row.disturbed or 0.0) > DISTURBED for row in rows) else ""


def _name(row: Row) -> str:
    return row.title if row.workload == "memory" else f"{row.workload}, {row.title}"


def _spread(row: Row) -> str:
    value = row.value
    quartiles = f" ({figure(value.q1)}–{figure(value.q3)})" if value.samples > 1 else ""
    return f"{figure(value.median)} {row.unit}".strip() + quartiles


def _target(row: Row) -> str:
    return f"{row.target:.2f}" if row.target is not None else ""


def _bound(row: Row) -> str:
    return f"{figure(row.bound)} ms, {row.bound_by}" if row.bound is not None else ""


if __name__ == "__main__":
    for path in write():
        print(path.relative_to(BENCH.parent))
