"""Test the assignment of processors to the processes of a machine, for Linux topologies written to files."""

from pathlib import Path

import pytest
from mpsgraph.distributed import placement


def topology(folder: Path, monkeypatch: pytest.MonkeyPatch, cores: dict[int, tuple[str, int]]) -> None:
    """Write the topology files of a machine.

    Args:
        folder: Where to write them.
        monkeypatch: Makes placement read the folder.
        cores: By processor, the thread list of its core, and its package.
    """
    monkeypatch.setattr(placement, "_TOPOLOGY", folder)
    for processor, (threads, package) in cores.items():
        place = folder / f"cpu{processor}" / "topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(threads + "\n")
        (place / "physical_package_id").write_text(f"{package}\n")


def test_processor_order_starts_with_one_thread_per_core(tmp_path, monkeypatch):
    neighbours = {n: (f"{n - n % 2}-{n - n % 2 + 1}", n // 4) for n in range(8)}
    topology(tmp_path / "a", monkeypatch, neighbours)
    assert placement.siblings(5) == (4, 5)
    assert placement.places(range(8)) == [0, 2, 4, 6, 1, 3, 5, 7]
    apart = {n: (f"{n % 4},{n % 4 + 4}", n % 2) for n in range(8)}
    topology(tmp_path / "b", monkeypatch, apart)
    assert placement.siblings(6) == (2, 6)
    assert placement.places(range(8)) == [0, 2, 1, 3, 4, 6, 5, 7]
    assert placement.places([3, 5, 7]) == [3, 5, 7], "only processors available to the program may be used"


def test_processors_without_known_topology_are_used_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(placement, "_TOPOLOGY", tmp_path / "nothing")
    assert placement.siblings(3) == (3,) and placement.places([9, 1, 4]) == [1, 4, 9]


def test_processes_get_separate_processors_if_enough_exist(tmp_path, monkeypatch):
    monkeypatch.setattr(placement, "_TOPOLOGY", tmp_path / "nothing")
    assert [placement.own_places(range(4), n, 2, 2) for n in range(2)] == [[0, 1], [2, 3]]
    assert [placement.own_places(range(4), n, 2, 1) for n in range(2)] == [[0], [1]]
    assert placement.own_places(range(4), 1, 3, 2) == [0, 1, 2, 3]


def test_process_not_started_by_mpiexec_is_not_pinned(monkeypatch):
    for name in (*placement._RANK, *placement._SIZE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(
        placement.os, "sched_setaffinity", lambda *_: pytest.fail("the process was pinned"), raising=False
    )
    placement.place(1)
    monkeypatch.setenv("MPI_LOCALRANKID", "1")
    placement.place(1)
