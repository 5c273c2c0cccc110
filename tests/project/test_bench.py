"""Test the benchmark harness: selection of peers and measurements, ratios, the results file, and the page.

The processes compared here do almost no work. No peers are run, and no times are measured.
"""

import math
import os
import re
import sys
from ctypes.util import find_library
from dataclasses import dataclass, field, replace
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest

ENVIRONMENT = dict(os.environ)
BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import bounds  # noqa: E402
import document  # noqa: E402
import first_step  # noqa: E402
import growth  # noqa: E402
import memory  # noqa: E402
import onnx_files  # noqa: E402
import onnx_wheels  # noqa: E402
import operations  # noqa: E402
import w2_resnet50  # noqa: E402
import w3_conv_lstm  # noqa: E402
import w4_gan  # noqa: E402
import w7_character  # noqa: E402
import w8_inference  # noqa: E402
import w9_operations  # noqa: E402
import w10_decoding  # noqa: E402
import workloads as sizes  # noqa: E402
from measuring import compare as comparing  # noqa: E402
from measuring.compare import Contender, Turn, Workload, compare, first_places, rows_of  # noqa: E402
from measuring.machine import processor  # noqa: E402
from measuring.options import Options  # noqa: E402
from measuring.protocol import version  # noqa: E402
from measuring.report import OURS, Row, Spread, best_peer, headlines, print_rows  # noqa: E402
from measuring.results import enter, latest, read  # noqa: E402
from measuring.sides import Running, Side, SideFailed  # noqa: E402

os.environ.clear()  # The benchmarks set the number of threads in the environment, which must not affect other tests.
os.environ.update(ENVIRONMENT)

SERVED = """
import sys
from measuring.protocol import serve
values = iter({values})
serve(lambda *part: lambda: next(values, {last}), "numpy")
"""
QUICK = Options(rounds=2, turn_seconds=0.0, patience=0.0)


def served(name: str, mode: str = "", values: str = "[]", last: str = "0.5") -> Side:
    """Return a side whose steps return these values and then the last one repeatedly."""
    return Side(name, mode, (sys.executable, "-c", SERVED.format(values=values, last=last)))


@dataclass
class Idle:
    """A replacement for a running process in tests that only need its turns."""

    side: Side
    version: str = "1"
    closed: bool = field(default=False)

    def close(self) -> None:
        self.closed = True


def contender(name: str, mode: str, *seconds: float, disturbed: float = 0.0) -> Contender:
    """Return a contender with one single-step turn for each of these durations."""
    turns = [Turn([second], disturbed) for second in seconds]
    return Contender(Idle(Side(name, mode, ())), turns=turns)


# --- processes and rounds ---------------------------------------------------------------------------------------------


def test_benchmark_process_returns_step_times_and_values():
    with Running(served("numpy", values="[3.0, 2.0]")) as running:
        running.setup()
        seconds, value = running.steps(2)
        assert len(seconds) == 2 and value == 2.0
        assert running.version == np.__version__ and running.peak_memory() >= running.resident_after_import


def test_crash_of_benchmark_process_raises_its_message():
    with pytest.raises(SideFailed, match="no such workload"):
        Running(Side("numpy", "", (sys.executable, "-c", "raise SystemExit('no such workload')")))


def test_benchmark_returns_a_row_per_mode_and_ratio_to_best_peer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(comparing, "peer", lambda name, workload, modes: [served(name, mode) for mode in modes])
    workload = Workload("W", "a test", 0.5, trains=False, peers={"A": ("one", "two"), "B": ("one",)})
    rows = compare(workload, [served(OURS, "mode")], QUICK)
    assert {(row.side, row.mode) for row in rows} == {(OURS, "mode"), ("A", "one"), ("A", "two"), ("B", "one")}
    best = best_peer(rows, rows[0])
    assert rows[0].ratio == best.ratio and rows[0].target == 0.5
    assert compare(workload, [served(OURS, "mode")], replace(QUICK, workloads="X")) == []
    chosen = compare(workload, [served(OURS, "mode")], replace(QUICK, modes="^B"))
    assert [row.side for row in chosen] == [OURS, "B"]


@pytest.mark.parametrize("last", ["float('nan')", "5.0"], ids=["nan", "rising"])
def test_benchmark_rejects_workload_that_does_not_train(last: str):
    with pytest.raises(SideFailed, match="must be finite and decrease"):
        compare(Workload("W", "a test", 0.5), [served(OURS, "mode", "[1.0]", last)], QUICK)


def test_benchmark_continues_only_modes_close_to_the_fastest():
    beaten: list[Contender] = []
    slow, near, best = (contender("A", mode, time) for mode, time in (("slow", 9), ("near", 1.05), ("best", 1.0)))
    assert first_places([slow, near, best], beaten) == [best, near]
    assert beaten == [slow] and slow.running.closed and not best.running.closed


def test_benchmark_ratio_compares_times_of_the_same_round():
    """The machine becomes twice as slow after the first round, for both sides."""
    ours, peer = contender(OURS, "", 1.0, 2.0), contender("A", "", 2.0, 4.0)
    peer.beside = ours.turns
    row = rows_of(Workload("W", "", 1.0, trains=False), [ours, peer])[0]
    assert row.ratio.q1 == row.ratio.q3 == 0.5


def test_disturbed_measurement_is_ignored_if_enough_others_remain():
    one = contender("A", "", 1.0, 1.0, 1.0)
    one.turns.append(Turn([100.0], disturbed=0.5))
    assert max(one.seconds()) == 1.0
    one.turns = one.turns[1:]
    assert max(one.seconds()) == 100.0  # Too few turns to leave one out.


# --- results file and page --------------------------------------------------------------------------------------------


def row(workload: str, side: str, milliseconds: float, **more: object) -> Row:
    return Row(workload, "title", "ms", side, "mode", Spread.of([milliseconds]), benchmark=workload, **more)


def written(tmp_path: Path, rows: list[Row], *tables: str) -> list[str]:
    """Return the text that the page has in each of the tables for these rows."""
    page, path = tmp_path / "page.md", tmp_path / "results.csv"
    page.write_text("".join(f"<!-- bench: {name} -->\n<!-- end -->\n" for name in tables))
    path.unlink(missing_ok=True)
    enter(rows, path, [])
    document.write(path, [page], tmp_path / "page.png")
    return re.findall(r"-->\n(.*?)<!-- end -->", page.read_text(), re.DOTALL)


def test_new_benchmark_results_replace_old_rows(tmp_path: Path):
    path = tmp_path / "results.csv"
    ratio = Spread.of([0.25, 0.5, 0.75])
    first = [
        row("b", OURS, 1.0, ratio=ratio, target=0.5, bound=0.5, bound_by="bytes"),
        row("b", "A", 2.0),
        row("a", OURS, 7.0),
    ]
    enter(first, path, ["a", "b"])
    assert read(path) == [first[2], first[0], first[1]]
    enter([row("b", OURS, 3.0)], path, ["a", "b"])
    assert [(r.workload, r.value.median) for r in read(path)] == [("a", 7.0), ("b", 3.0)]


def test_benchmark_page_lists_workloads_where_a_peer_is_faster(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- bench: behind -->\nold\n<!-- end -->\nafter\n")
    ahead, slower = Spread.of([0.6]), Spread.of([1.5])
    rows = [
        row("fast", OURS, 0.6, ratio=ahead, target=0.5),
        row("fast", "A", 1.0, ratio=ahead),
        row("slow", OURS, 3.0, ratio=slower, target=1.0),
        row("slow", "A", 2.0, ratio=slower),
    ]
    enter(rows, tmp_path / "results.csv", [])
    document.write(tmp_path / "results.csv", [page], tmp_path / "page.png")
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert "slow, title: 1.50 times A" in text and "fast 0.60 (target 0.50)" in text
    assert (tmp_path / "page.png").stat().st_size > 1000


def test_benchmark_results_of_each_machine_are_kept(tmp_path: Path):
    """The page shows the machine that was measured last; one table shows all machines."""
    page, path = tmp_path / "page.md", tmp_path / "results.csv"
    page.write_text("<!-- bench: summary -->\n<!-- end -->\n<!-- bench: machines -->\n<!-- end -->\n")

    def measured(machine: str, day: str, ratio: float) -> list[Row]:
        common = {"ratio": Spread.of([ratio]), "machine": machine, "measured": day}
        return [row("w", OURS, ratio, target=0.5, **common), row("w", "A", 1.0, **common)]

    enter(measured("old", "2026-01-01", 0.75), path, ["w"])
    enter(measured("new", "2026-01-02", 0.25), path, ["w"])
    assert [(r.machine, r.value.median) for r in read(path) if r.side == OURS] == [("old", 0.75), ("new", 0.25)]
    document.write(path, [page], tmp_path / "page.png")
    summary, machines = page.read_text().split("<!-- end -->")[:2]
    assert "0.25" in summary and "0.75" not in summary
    assert "| workload | new | old | target |" in machines
    assert "| w, title | 0.25 (0.25–0.25) | 0.75 (0.75–0.75) | 0.50 |" in machines

    enter(measured("old", "2026-01-03", 0.6), path, ["w"])
    document.write(path, [page], tmp_path / "page.png")
    summary, machines = page.read_text().split("<!-- end -->")[:2]
    assert "0.60" in summary and "0.25" not in summary and "| workload | old | new | target |" in machines


def test_partial_measurement_keeps_other_results(tmp_path: Path):
    def of(machine: str, day: str, *workloads: str) -> list[Row]:
        rows = [row(workload, OURS, 1.0) for workload in (*workloads, "machine")]
        return [replace(r, benchmark="b", machine=machine, title=machine, measured=day) for r in rows[-1:]] + [
            replace(r, benchmark="b", machine=machine, measured=day) for r in rows[:-1]
        ]

    rows = of("old", "2026-01-01", "v", "w") + of("new", "2026-01-02", "w")
    assert {(r.workload, r.machine) for r in latest(rows)} == {
        ("machine", "old"), ("v", "old"), ("machine", "new"), ("w", "new")}  # fmt: skip
    assert {r.machine for r in latest(rows + of("new", "2026-01-02", "v"))} == {"new"}


def test_slower_workload_without_performance_target_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """It appears in the tables and in the list of slower workloads. Only our best mode is a headline."""
    ratio = Spread.of([1.25])
    rows = [
        row("w", OURS, 2.5, ratio=ratio),
        row("w", OURS, 3.0, ratio=Spread.of([0.5])),
        row("w", "A", 2.0, ratio=ratio),
    ]
    assert headlines(rows) == rows[:1]
    text = written(tmp_path, rows, "summary", "machines", "behind")
    assert "| **1.25** (1.25–1.25) |  |  |  |" in text[0] and text[0].count("| w, title |") == 1
    assert "- w, title: 1.25 times A" in text[2] and "short of the target" not in text[2]
    twice = [replace(r, machine=name) for name in ("one", "other") for r in rows]
    assert "| w, title | 1.25 (1.25–1.25) | 1.25 (1.25–1.25) |  |" in written(tmp_path, twice, "machines")[0]
    print_rows(rows)
    assert "  1.25 times the best peer\n" in capsys.readouterr().out


def test_workloads_slower_than_a_peer_are_listed_for_each_machine(tmp_path: Path):
    def compared(workload: str, ratio: float, machine: str, day: str, target: float | None = 0.5) -> list[Row]:
        common = {"ratio": Spread.of([ratio]), "machine": machine, "measured": day}
        return [row(workload, OURS, ratio, target=target, **common), row(workload, "A", 1.0, **common)]

    old, new = {"machine": "old", "day": "2026-01-01"}, {"machine": "new", "day": "2026-01-02"}
    limited = [
        row("begin", OURS, time, limit=300.0, machine=machine, measured=day)
        for time, machine, day in ((355.2, *old.values()), (258.0, *new.values()))
    ]
    rows = [
        *limited,
        *compared("slow", 1.5, **old),
        *compared("short", 0.5004, **old),
        *compared("well", 0.25, **old),
        *compared("slow", 0.5, **new),
        *compared("short", 0.75, **new),
        *compared("well", 0.25, **new),
    ]
    assert all(best_peer(rows, headline).machine == headline.machine for headline in headlines(rows))
    (text,) = written(tmp_path, rows, "behind")
    of_new, of_old = text.split("\nold:\n")
    assert of_new.startswith("new:\n") and "short 0.75 (target 0.50)" in of_new and "Over the limit" not in of_new
    assert "- No peer is faster in any of these workloads." in of_new
    assert "- slow, title: 1.50 times A" in of_old and "short 0.5004 (target 0.50)" in of_old
    assert "- Over the limit: title 355.2 ms (limit 300.0 ms)." in of_old and "well" not in text


def test_operations_slower_than_a_peer_are_listed_for_older_machines(tmp_path: Path):
    """The table of operations itself only shows the last machine."""

    def operation(ratio: float, machine: str, day: str) -> list[Row]:
        common = {"ratio": Spread.of([ratio]), "machine": machine, "measured": day}
        both = row("sort", OURS, ratio, target=operations.TARGET, **common), row("sort", "A", 1.0, **common)
        return [replace(r, benchmark="operations") for r in both]

    (text,) = written(tmp_path, operation(2.5, "old", "2026-01-01") + operation(1.75, "new", "2026-01-02"), "behind")
    assert (
        "old:\n\n- Single operations that take more than 1.2 times as long as in PyTorch: `sort` 2.50." in text
        and "1.75" not in text
    )


def test_benchmark_page_shows_versions_of_measured_rows(tmp_path: Path):
    def measured(workload: str, version: str, peers: str, machine: str = "new", day: str = "2026-01-02") -> list[Row]:
        ours = row(workload, OURS, 1.0, version=version, machine=machine, measured=day)
        peer = replace(ours, side="A", mode="eager, tcmalloc", version=peers)
        return [ours, peer]

    rows = [
        *measured("w1", "0.1+a", "2.0, tcmalloc 2.10"),
        *measured("w2", "0.1+b", "2.0"),
        *measured("w3", "", ""),
        *measured("w1", "0.1+c", "1.9", machine="old", day="2026-01-01"),
        replace(row("machine", OURS, 1.0, version="0.1+z", machine="new", measured="2026-01-02"), benchmark="w1"),
    ]
    (text,) = written(tmp_path, rows, "machine")
    assert (
        "- Versions: A 2.0; A not recorded for w3; mpsgraph 0.1+a for w1; mpsgraph 0.1+b for w2; "
        "mpsgraph not recorded for w3; tcmalloc 2.10; tcmalloc not recorded for w2, w3.\n"
    ) in text
    assert (
        "older rows on old, since measured on another machine: A 1.9; mpsgraph 0.1+c; tcmalloc not recorded.\n" in text
    )

    parts = [replace(r, benchmark="w") for r in rows[:4]]  # One script that is measured in parts.
    assert "mpsgraph 0.1+a for w1; mpsgraph 0.1+b for w2;" in written(tmp_path, parts, "machine")[0]


def test_every_measured_row_has_a_version(monkeypatch: pytest.MonkeyPatch):
    def peers(name: str, workload: str, modes: list[str], compiled: Path | None = None) -> list[Side]:
        return [served(name, mode) for mode in modes]

    monkeypatch.setattr(memory, "MEASURED", {"W1": [served(OURS, "graph")]})
    monkeypatch.setattr(memory, "PEERS", {"W1": {"PyTorch": ("eager",), "MLX": ("compile",)}})
    monkeypatch.setattr(first_step, "BEGINNINGS", [first_step.Beginning("title", [served(OURS, "graph")], 200.0, "W1")])
    monkeypatch.setattr(first_step, "PACKAGES", {OURS: "mpsgraph", "PyTorch": "numpy"})
    for module in (memory, first_step):
        monkeypatch.setattr(module, "peer", peers)
        rows = module.measure(replace(QUICK, rounds=1))
        assert {r.side for r in rows} >= {OURS, "PyTorch"}
        assert {r.version for r in rows} <= {np.__version__, mg.__version__} and all(r.version for r in rows)


def test_benchmark_version_includes_the_memory_allocator():
    assert version("numpy") == np.__version__  # tcmalloc is not loaded in this process.
    assert version("mpsgraph", "numpy") == f"{mg.__version__}, numpy {np.__version__}"
    tcmalloc = find_library("tcmalloc_minimal")
    if tcmalloc is None:
        pytest.skip("tcmalloc is not installed")
    with Running(replace(served("numpy"), environment={"LD_PRELOAD": tcmalloc})) as running:
        assert re.fullmatch(re.escape(np.__version__) + r", tcmalloc [\d.]+", running.version)


@pytest.mark.parametrize("page", document.PAGES, ids=lambda page: page.name)
def test_pages_match_results(page: Path, tmp_path: Path):
    copy = tmp_path / page.name
    copy.write_text(page.read_text())
    document.write(pages=[copy], picture=tmp_path / "page.png")
    assert copy.read_text() == page.read_text(), "out of date, run bench/document.py"
    assert "<!-- bench: " in page.read_text()


# --- workloads --------------------------------------------------------------------------------------------------------


def test_counted_operations_exclude_padding():
    layers = bounds.Layers(batch=2)
    # Only one of the nine filter taps is inside the image.
    assert layers.convolution(1, 3, 5, 3) == 1 and layers.forward == 2 * 3 * 5
    assert layers.parameters == 9 * 3 * 5 and layers.read == 3 * 5
    # The gradient with respect to the first layer's input is not computed.
    assert layers.training() == 2 * 2 * layers.forward
    layers.dense(5, 7)
    assert layers.training() == 2 * (2 * layers.forward + 2 * 5 * 7)


def test_counted_parameters_match_the_measured_network():
    model = w2_resnet50.network()
    assert model(mg.Graph().placeholder((-1, 32, 32, 3))).shape == (-1, 10)
    kernels = [p.shape for p in model.parameters() if len(p.shape) in (2, 4)]
    assert sum(map(math.prod, kernels)) == bounds.resnet50(1).parameters


def test_time_bound_is_the_slower_of_compute_and_memory():
    at = bounds.Ceilings({"float32": 1e9}, memory=1e6, cache=1e9)
    assert bounds.Work(operations=2e6).bound(at) == (2.0, "operations")
    assert bounds.Work(operations=1e6, bytes=1e8).bound(at) == (1e5, "bytes")
    assert bounds.Work(bytes=1e6).bound(at) == (1.0, "bytes")  # Fits in the cache.


def test_time_bound_is_dropped_if_a_measurement_is_faster(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The ceiling may have been measured with other instructions. The page must then not state it as a bound."""
    ratio, counted = Spread.of([0.5]), {"bound": 2.0, "bound_by": "operations"}

    def measured(ours: float, other: float, peer: float) -> list[Row]:
        return [
            row("w", OURS, ours, ratio=ratio, **counted),
            row("w", OURS, other, ratio=ratio, **counted),
            row("w", "A", peer, ratio=ratio, **counted),
        ]

    assert "| 2.000 ms, operations |" in written(tmp_path, measured(2.5, 3.0, 5.0), "summary")[0]
    print_rows(measured(2.5, 3.0, 5.0))
    assert "lower bound: 2.000 ms (operations)" in capsys.readouterr().out
    for beaten in (measured(1.5, 3.0, 5.0), measured(2.5, 1.5, 5.0), measured(2.5, 3.0, 1.5)):
        (text,) = written(tmp_path, beaten, "summary")
        assert "| (2.000 ms, operations) ‡ |" in text and "\n‡ Not a valid bound here: " in text
        print_rows(beaten)
        assert "lower bound" not in capsys.readouterr().out


def test_low_precision_bounds_use_bfloat16_rate_and_size():
    """bfloat16 halves the number of bytes, and its matmuls have a higher peak rate."""
    at = bounds.Ceilings({"float32": 1e12, "bfloat16": 2e12, "int8": 4e12}, memory=1e11, cache=1e11)
    known = {name: work.bound(at) for name, work in bounds.work().items()}
    for batch, by in ((1, "bytes"), (64, "operations")):
        full, low = (known[f"W8 {precision}batch {batch}"] for precision in ("", "bfloat16 "))
        assert low == (pytest.approx(full[0] / 2), by) and full[1] == by


def test_processor_name_includes_instruction_sets():
    named = "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\nflags\t\t: avx2{}\n"
    names = [
        processor(named.format(flags))
        for flags in (" avx512f avx512_bf16 amx_bf16", " avx512f avx512_bf16", " avx512f", "")
    ]
    assert [name.partition(" x ")[2] for name in names] == [
        "Some CPU @ 2.0GHz with AMX",
        "Some CPU @ 2.0GHz",
        "Some CPU @ 2.0GHz without bfloat16",
        "Some CPU @ 2.0GHz",
    ]


def test_deviation_of_step_times_from_best_fitting_line_is_measured():
    assert growth.off_line((1, 2, 4), [3.0, 5.0, 9.0]) < 1e-9
    assert growth.off_line((1, 2, 4), [3.0, 7.0, 9.0]) > 0.1


@pytest.mark.parametrize(
    "build",
    [w3_conv_lstm.trainer, w4_gan.graph, *w7_character.BUILDERS.values(), *w10_decoding.BUILDERS.values()],
    ids=["W3", "W4", "W7 optimized", "W7", "W10 optimized", "W10"],
)
def test_mpsgraph_workloads_compute_finite_changing_values(build, monkeypatch: pytest.MonkeyPatch):
    """The LSTM has fewer units than in the benchmark to keep the test short."""
    monkeypatch.setattr(sizes, "W7_HIDDEN", 64)
    step = build()
    values = [step() for _ in range(4)]
    assert np.isfinite(values).all() and len(set(values)) > 1


def test_bfloat16_inference_is_close_to_float32():
    fed = w2_resnet50.images(2)
    models = [w8_inference.MODELS["optimized"](), *(build() for build in w8_inference.LOW_MODELS.values())]
    full, *low = (model(fed).numpy() for model in models)
    for logits in low:
        assert logits.dtype == np.float32
        error = np.linalg.norm(logits - full) / np.linalg.norm(full)
        assert 1e-4 < error < 0.02  # The rounding error of bfloat16 is 0.004.


@pytest.mark.parametrize("name", [name for name in w9_operations.OPERATIONS if name != "grid sample"])
def test_single_operations_match_numpy(name: str):
    pytest.importorskip("scipy")
    from peers.numpy_peer import FUNCTIONS

    values = [
        value.reshape(-1)[: 4 * 64].reshape((-1, 64) if value.ndim > 1 else -1)
        for value in w9_operations.INPUTS[name]()
    ]
    g = mg.Graph()
    y = g.run({}, w9_operations.OPERATIONS[name](g, *map(g.constant, values))).numpy()
    np.testing.assert_allclose(y, FUNCTIONS[name](*values), rtol=1e-4, atol=1e-4)


# --- real ONNX files --------------------------------------------------------------------------------------------------
def test_benchmark_onnx_files_are_distinct_and_pinned():
    names = [file.name for file in onnx_wheels.MODELS]
    assert len(set(names)) == len(names) >= 25
    places = [(file.wheel, file.path) for file in onnx_wheels.MODELS]
    assert len(set(places)) == len(places)
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+", file.wheel) and file.path.endswith(".onnx") for file in
               onnx_wheels.MODELS)  # fmt: skip


def test_dynamic_dimensions_are_set_by_name_or_shape():
    file = onnx_wheels.ModelFile("a", "a==1", "a.onnx", sizes={"n": 3, "x": (1, 2)})
    assert file.shape("x", ["n", "m"]) == (1, 2)
    assert file.shape("y", ["n", 7, "m"]) == (3, 7, 1)


def test_difference_of_onnx_results_is_reported(tmp_path):
    def saved(name: str, *arrays: np.ndarray) -> Path:
        np.savez(tmp_path / name, *arrays)
        return tmp_path / f"{name}.npz"

    base = saved("base", np.float32([100, -2]), np.float32([1e-6]))
    assert onnx_files.difference(base, base) == 0
    assert math.isclose(onnx_files.difference(saved("other", np.float32([101, -2]), np.float32([0])), base), 0.01)
    assert onnx_files.difference(saved("shaped", np.float32([[100, -2]]), np.float32([1e-6])), base) == math.inf
    assert onnx_files.difference(saved("nan", np.float32([100, np.nan]), np.float32([1e-6])), base) == math.inf


def test_mean_of_benchmark_ratios_is_geometric():
    def row(name: str, ratio: float | None) -> Row:
        spread = None if ratio is None else Spread.of([ratio])
        return Row("onnx_files", f"{name}, run", "ms", OURS, "1 thread", Spread.of([1.0]), spread)

    (mean,) = onnx_files.means([row("a", 0.5), row("b", 2.0), row("c", None)])
    assert mean.title == "run, geometric mean of 2 files" and math.isclose(mean.ratio.median, 1.0)
