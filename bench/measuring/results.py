"""The results file: reading rows from CSV and replacing those that were measured again."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from .report import Row, Spread

SPREADS = ("value", "ratio")


def read(path: Path) -> list[Row]:
    """Return all rows of a file, or an empty list if it does not exist."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [_row(record) for record in csv.DictReader(file)]


def enter(rows: Sequence[Row], path: Path, order: Sequence[str]) -> None:
    """Write rows to a file, replacing those with the same benchmark, workload, title, and machine.

    Args:
        rows: The new rows.
        path: The file; created if missing.
        order: Names of the benchmarks, in the order of the file.
    """
    anew = {row.measured_as for row in rows}
    whole = [row for row in read(path) if row.measured_as not in anew] + list(rows)
    whole.sort(key=lambda row: order.index(row.benchmark) if row.benchmark in order else len(order))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, _columns(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(_record, whole))


def latest(rows: Sequence[Row]) -> list[Row]:
    """Return, for each workload, the rows of the machine that measured it last, and the rates of these machines."""

    def what(row: Row) -> tuple[str, ...]:
        return row.benchmark, row.workload, row.title

    last = {what(row): row.machine for row in sorted(rows, key=lambda row: row.measured)}
    kept = [row for row in rows if row.machine == last[what(row)]]
    used = {(row.benchmark, row.machine) for row in kept if row.workload != "machine"}
    return [row for row in kept if (row.benchmark, row.machine) in used]


def _columns() -> list[str]:
    return list(_record(Row("", "", "", "", "", Spread.of([0.0]), Spread.of([0.0]))))


def _record(row: Row) -> dict[str, str | int]:
    """Return the columns of a row; spreads become separate columns such as median and ratio_median."""
    record: dict[str, str | int] = {}
    for name, value in asdict(row).items():
        if name in SPREADS:
            prefix = "" if name == "value" else f"{name}_"
            parts = value or dict.fromkeys(field.name for field in fields(Spread))
            record |= {prefix + part: _text(number) for part, number in parts.items()}
        else:
            record[name] = _text(value)
    return record


def _row(record: dict[str, str]) -> Row:
    def spread(prefix: str) -> Spread | None:
        if not record[f"{prefix}median"]:
            return None
        median, minimum, q1, q3 = (float(record[prefix + part]) for part in ("median", "minimum", "q1", "q3"))
        return Spread(median, minimum, q1, q3, int(record[f"{prefix}samples"]))

    def number(name: str) -> float | None:
        return float(record[name]) if record[name] else None

    words = ("workload", "title", "unit", "side", "mode", "version", "bound_by", "benchmark", "measured", "machine")
    numbers = ("target", "limit", "disturbed", "bound", "primitives")
    rest: dict[str, Any] = {name: record[name] for name in words} | {name: number(name) for name in numbers}
    return Row(value=spread(""), ratio=spread("ratio_"), **rest)


def _text(value: Any) -> str | int:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value
