"""Which processors each process of a machine takes: of the topology as Linux tells it, here written to files."""

from pathlib import Path

import pytest
from mpsgraph.distributed import placement


def topology(folder: Path, monkeypatch: pytest.MonkeyPatch, cores: dict[int, tuple[str, int]]) -> None:
    """Files of a machine. Args: cores, by processor the list of its core's threads, and its package."""
    monkeypatch.setattr(placement, "_TOPOLOGY", folder)
    for processor, (threads, package) in cores.items():
        place = folder / f"cpu{processor}" / "topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(threads + "\n")
        (place / "physical_package_id").write_text(f"{package}\n")


def test_one_thread_of_each_core_goes_first_package_by_package(tmp_path, monkeypatch):
    neighbours = {n: (f"{n - n % 2}-{n - n % 2 + 1}", n // 4) for n in range(8)}
    topology(tmp_path / "a", monkeypatch, neighbours)
    assert placement.siblings(5) == (4, 5)
    assert placement.places(range(8)) == [0, 2, 4, 6, 1, 3, 5, 7]
    apart = {n: (f"{n % 4},{n % 4 + 4}", n % 2) for n in range(8)}
    topology(tmp_path / "b", monkeypatch, apart)
    assert placement.siblings(6) == (2, 6)
    assert placement.places(range(8)) == [0, 2, 1, 3, 4, 6, 5, 7]
    assert placement.places([3, 5, 7]) == [3, 5, 7], "of what this program may use"


def test_without_a_topology_processors_go_by_their_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(placement, "_TOPOLOGY", tmp_path / "nothing")
    assert placement.siblings(3) == (3,) and placement.places([9, 1, 4]) == [1, 4, 9]


def test_processes_take_what_is_their_own_or_all_where_there_is_too_little(tmp_path, monkeypatch):
    monkeypatch.setattr(placement, "_TOPOLOGY", tmp_path / "nothing")
    assert [placement.own_places(range(4), n, 2, 2) for n in range(2)] == [[0, 1], [2, 3]]
    assert [placement.own_places(range(4), n, 2, 1) for n in range(2)] == [[0], [1]]
    assert placement.own_places(range(4), 1, 3, 2) == [0, 1, 2, 3]


def test_a_process_that_no_mpiexec_has_started_stays_as_it_is(monkeypatch):
    for name in (*placement._RANK, *placement._SIZE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(placement.os, "sched_setaffinity", lambda *_: pytest.fail("it was moved"), raising=False)
    placement.place(1)
    monkeypatch.setenv("MPI_LOCALRANKID", "1")
    placement.place(1)
