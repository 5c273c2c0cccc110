"""Generate the tables and charts of the performance pages from bench/results.csv.

docs/performance.md compares mpsgraph with other libraries, docs/measurements.md has every number, and README.md and
docs/index.md show a few. Only the tables between markers are replaced; the text around them stays.

If several machines have measured a workload, the tables and charts show the rows of the machine that measured it last.
One table compares the machines, and one list per machine names the workloads in which a peer is faster.

`run.py` calls this; run it alone to regenerate the pages from the file. Comparisons leave out rows without a peer.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import operations
from measuring import BENCH
from measuring.picture import capitalized, draw, speedup
from measuring.report import DISTURBED, OURS, Row, best_peer, bound_holds, figure, headlines
from measuring.results import latest, read

RESULTS = BENCH / "results.csv"
DOCS = BENCH.parent / "docs"
PAGES = [DOCS / "performance.md", DOCS / "measurements.md", DOCS / "index.md", BENCH.parent / "README.md"]
PICTURE = DOCS / "images" / "performance.png"
SHORT_PICTURE = "speed.png"
SHORT = ("W1", "W2 float32", "W2 bfloat16", "W6", "W8 batch 1", "W8 int8 batch 64", "W10")
"""Workloads of the short table: training and inference, large and small, including the narrow lead for a single image.
"""
LEFT_OUT = ("W11 256", "W11 4096")
"""Workloads left out of the large chart: attention at other lengths, where the results are similar."""
MARK, NO_BOUND = "†", "‡"
DISTURBED_NOTE = (
    f"Other processes used more than {DISTURBED:.0%} of the machine during the measurement; do not rely on this row."
)
LIBRARIES = ("scipy", "tcmalloc")  # Libraries that a mode can name in addition to its side.
MARKED = re.compile(r"(<!-- bench: ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)

WHY: dict[str, str] = {
    "W7": "both are limited by the bandwidth of the third-level cache",
    "W8 batch 1": "layers of one image are short, so the overhead between kernels matters",
}
"""Why a workload is slower than the best peer, if known."""


def write(results: Path = RESULTS, pages: Sequence[Path] = PAGES, picture: Path = PICTURE) -> list[Path]:
    """Write the pages and charts and return their paths; raise KeyError for an unknown marker."""
    every = read(results)
    rows = latest(every)
    compared = [row for row in rows if row.benchmark != "operations"]
    of_table = {
        "operations": rows,
        "machine": every,
        "behind": every,
        "machines": [row for row in every if row.benchmark != "operations"],
    }

    def filled(match: re.Match[str]) -> str:
        return match[1] + "\n".join(TABLES[match[2]](of_table.get(match[2], compared))) + "\n" + match[3]

    for page in pages:
        page.write_text(MARKED.sub(filled, page.read_text()))
    shown = [row for row in headlines(compared) if not row.workload.startswith(LEFT_OUT)]
    drawn = draw(compared, picture, shown) and draw(
        compared, picture.with_name(SHORT_PICTURE), _chosen(compared), memory=False
    )
    return [*pages, picture, picture.with_name(SHORT_PICTURE)] if drawn else [*pages]


def results(rows: Sequence[Row]) -> list[str]:
    """Return the table for readers: both sides of each workload, and by how much mpsgraph is faster or smaller."""
    text = ["| workload | mpsgraph | fastest other library | mpsgraph is |", "|---|---|---|---|"]
    return text + _results(rows, headlines(rows), _name)


def short(rows: Sequence[Row]) -> list[str]:
    """Return the table of `results` for only the workloads of `SHORT`, without their codes."""
    text = ["| workload | mpsgraph | fastest other library | mpsgraph is |", "|---|---|---|---|"]
    return text + _results(rows, _chosen(rows), lambda row: capitalized(row.title))


def _chosen(rows: Sequence[Row]) -> list[Row]:
    return [row for name in SHORT for row in headlines(rows) if row.workload == name]


def _results(rows: Sequence[Row], chosen: Sequence[Row], named: Callable[[Row], str]) -> list[str]:
    text = []
    for row in chosen:
        peer = best_peer(rows, row)
        text.append(
            f"| {named(row)} | {_figure(row)} | {_figure(peer)}, {_library(peer)} "
            f"| **{speedup(row)}**{_disturbed(row, peer)} |"
        )
    if any(MARK in row for row in text):
        text += ["", f"{MARK} {DISTURBED_NOTE}"]
    return text


def summary(rows: Sequence[Row]) -> list[str]:
    """Return the table with one line per workload, including spreads, targets, and bounds."""
    text = ["| workload | ours | best peer, its best mode | ratio | target | bound | oneDNN's sum |"]
    text.append("|---|---|---|---|---|---|---|")
    for row in headlines(rows):
        peer = best_peer(rows, row)
        primitives = f"{figure(row.primitives)} ms" if row.primitives else ""
        text.append(
            f"| {_name(row)} | {_spread(row)}, {row.mode} | {_spread(peer)}, {peer.side} {peer.mode} "
            f"| **{row.ratio.median:.2f}** ({row.ratio.q1:.2f}–{row.ratio.q3:.2f}){_disturbed(row, peer)} "
            f"| {_target(row)} | {_bound(rows, row)} | {primitives} |"
        )
    notes = {
        MARK: DISTURBED_NOTE,
        NO_BOUND: "Not a valid bound here: one of the compared libraries was faster than the counted work allows "
        "at the measured peak rates.",
    }
    return text + [
        line for mark, note in notes.items() if any(mark in row for row in text) for line in ("", f"{mark} {note}")
    ]


def limits(rows: Sequence[Row]) -> list[str]:
    """Return the table of measurements that have a fixed limit instead of a peer."""
    text = ["| what | ours | limit |", "|---|---|---|"]
    for row in rows:
        if row.limit is not None:
            text.append(f"| {row.title}, {row.mode} | {_spread(row)} | {_limit(row)} |")
    return text


def peers(rows: Sequence[Row]) -> list[str]:
    """Return the table of our ratio to each peer's best mode."""
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
    """Return the table of each machine's ratios, for workloads measured on at least two machines.

    The first column is the machine with the most rows in the other tables.
    """
    names = _machines(every)
    text = [f"| workload | {' | '.join(names)} | target |", "|---" * (len(names) + 2) + "|"]
    for headline in headlines(latest(every)):
        same = [r for r in headlines(every) if (r.workload, r.title) == (headline.workload, headline.title)]
        found = {row.machine: row.ratio for row in same}
        if len(found) > 1:
            cells = [f"{r.median:.2f} ({r.q1:.2f}–{r.q3:.2f})" if (r := found.get(name)) else "" for name in names]
            text.append(f"| {_name(headline)} | {' | '.join(cells)} | {_target(headline)} |")
    return text


def behind(every: Sequence[Row]) -> list[str]:
    """List for each machine where the best peer is faster, and what misses its target or exceeds its limit."""
    names, shown = _machines(every), set(map(id, latest(every)))
    text: list[str] = []
    for name in names:
        rows = [row for row in every if row.machine == name]
        listed = _behind([row for row in rows if row.benchmark != "operations"])
        slow = [row for row in headlines(rows) if row.benchmark == "operations" and _misses(row)]
        if others := [f"`{row.workload}` {row.ratio.median:.2f}" for row in slow if id(row) not in shown]:
            listed.append(
                f"- Single operations that take more than {operations.TARGET} times as long as in PyTorch: "
                f"{', '.join(others)}."
            )
        if len(names) > 1 and listed:
            listed = [*([""] if text else []), f"{name}:", "", *listed]
        text += listed
    return text


def _behind(rows: Sequence[Row]) -> list[str]:
    """List each workload that is slower, then the missed targets, then the exceeded limits."""
    slower = [row for row in headlines(rows) if row.ratio.median > 1]
    short = [row for row in headlines(rows) if row.ratio.median <= 1 and _misses(row)]
    over = [row for row in rows if row.limit is not None and row.value.median > row.limit]
    text = []
    for row in sorted(slower, key=lambda row: -row.ratio.median):
        peer, why = best_peer(rows, row), WHY.get(row.workload)
        text.append(f"- {_name(row)}: {row.ratio.median:.2f} times {peer.side}" + (f"; {why}" if why else ""))
    if headlines(rows) and not slower:
        text.append("- No peer is faster in any of these workloads.")
    if short:
        missed = ", ".join(f"{_short_name(row)} {_above(row)} (target {_target(row)})" for row in short)
        text.append(f"- Faster than every peer, but short of the target: {missed}.")
    if over:
        missed = ", ".join(f"{row.title} {_figure(row)} (limit {_limit(row)})" for row in over)
        text.append(f"- Over the limit: {missed}.")
    return text


def machine(every: Sequence[Row]) -> list[str]:
    """List the processors with their measured rates, the package versions, and the dates of measurement."""
    rows = latest(every)
    names = dict.fromkeys(row.machine for row in rows if row.workload == "machine")
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
    text.append(f"- Versions: {_versions(rows)}.")
    shown = set(map(id, rows))
    for name in _machines(every):
        if others := [row for row in every if row.machine == name and id(row) not in shown]:
            text.append(f"- Versions of older rows on {name}, since measured on another machine: {_versions(others)}.")
    days = sorted({row.measured for row in rows if row.measured})
    text.append(f"- Measured from {days[0]} to {days[-1]}." if days else "- Nothing has been measured yet.")
    return text


def _versions(rows: Sequence[Row]) -> str:
    """Return the recorded versions of each package; if there are several, with what each of them measured."""
    found: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        if row.workload != "machine":
            for package, version in _packages(row).items():
                found.setdefault(package, {}).setdefault(version, []).append(row)
    parts = []
    for package, by_version in sorted(found.items()):
        recorded = [version for version in by_version if version]
        # Versions that were not recorded come last.
        for version in sorted(by_version, key=lambda version: not version):
            others = [row for other, its in by_version.items() if other != version for row in its]
            named = bool(others) and (not version or len(recorded) > 1)
            where = f" for {_where(by_version[version], others)}" if named else ""
            parts.append(f"{package} {version or 'not recorded'}{where}")
    return "; ".join(parts)


def _packages(row: Row) -> dict[str, str]:
    """Return the versions of the side and of the libraries in its mode; "" for those that were not recorded."""
    own, *others = row.version.split(", ")
    told = dict(other.split(" ", 1) for other in others)
    return {row.side: own} | {name: told.get(name, "") for name in LIBRARIES if name in row.mode}


def _where(rows: Sequence[Row], others: Sequence[Row]) -> str:
    """Name what only these rows contain: their benchmarks if no other row has them, else workloads or titles."""
    benchmarks, workloads = {row.benchmark for row in others}, {row.workload for row in others}

    def name(row: Row) -> str:
        if row.benchmark not in benchmarks:
            return row.benchmark
        return row.workload if row.workload not in workloads else row.title

    return ", ".join(dict.fromkeys(map(name, rows)))


TABLES: dict[str, Callable[[Sequence[Row]], list[str]]] = {
    "machine": machine,
    "results": results,
    "short": short,
    "summary": summary,
    "behind": behind,
    "peers": peers,
    "machines": machines,
    "limits": limits,
    "operations": operations.table,
}


def _machines(every: Sequence[Row]) -> list[str]:
    """Return the machines, starting with the one that has the most rows in the tables."""
    shown = Counter(row.machine for row in headlines(latest(every)) if row.benchmark != "operations")
    return sorted({row.machine for row in every}, key=lambda name: (-shown[name], name))


def _misses(row: Row) -> bool:
    return row.target is not None and row.ratio is not None and row.ratio.median > row.target


def _disturbed(*rows: Row) -> str:
    return f" {MARK}" if any((row.disturbed or 0.0) > DISTURBED for row in rows) else ""


def _name(row: Row) -> str:
    return row.title if row.workload == "memory" else f"{row.workload}, {row.title}"


def _library(row: Row) -> str:
    """Return a side with its mode, such as "PyTorch compile"; only the full table names the allocator."""
    mode = row.mode.removesuffix(", tcmalloc")
    return row.side if mode == row.side else f"{row.side} {mode}"


def _short_name(row: Row) -> str:
    return row.title if row.workload == "memory" else row.workload


def _above(row: Row) -> str:
    """Format a ratio that misses its target with enough digits to show that it does."""
    ratio = row.ratio.median
    return next((text for digits in range(2, 9) if float(text := f"{ratio:.{digits}f}") > row.target), str(ratio))


def _figure(row: Row) -> str:
    return f"{figure(row.value.median)} {row.unit}".strip()


def _spread(row: Row) -> str:
    value = row.value
    quartiles = f" ({figure(value.q1)}–{figure(value.q3)})" if value.samples > 1 else ""
    return _figure(row) + quartiles


def _target(row: Row) -> str:
    return f"{row.target:.2f}" if row.target is not None else ""


def _limit(row: Row) -> str:
    return f"{figure(row.limit)} {row.unit}".strip()


def _bound(rows: Sequence[Row], row: Row) -> str:
    if row.bound is None:
        return ""
    counted = f"{figure(row.bound)} ms, {row.bound_by}"
    return counted if bound_holds(rows, row) else f"({counted}) {NO_BOUND}"


if __name__ == "__main__":
    for path in write():
        print(path.relative_to(BENCH.parent))
