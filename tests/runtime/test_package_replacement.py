"""Test that packages are replaced in one step: concurrent readers find the old or the new contents."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest

SECONDS = 3.0
READER = """
import sys, time
import mpsgraph as mg
import numpy as np
end, loads = time.monotonic() + float(sys.argv[2]), 0
while time.monotonic() < end:
    model = mg.load(sys.argv[1], verify=sys.argv[3] == "True")
    result = model.run({"x": np.ones(64, np.float32)})["y"]
    first = float(np.asarray(result)[0])
    assert np.all(np.asarray(result) == first), result
    loads += 1
print(loads)
"""


def save(path: Path, value: float) -> None:
    g = mg.Graph()
    x = g.placeholder((64,), name="x")
    mg.save(path, g, [x], {"y": x * g.variable(np.full(64, value, np.float32)) + g.constant(np.zeros(64, np.float32))})


@pytest.mark.parametrize("verify", [True, False])
def test_concurrent_readers_of_a_replaced_package_get_no_errors(tmp_path: Path, verify: bool):
    path = tmp_path / "model.mpsgraph"
    save(path, 0)
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READER, str(path), str(SECONDS), str(verify)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    written = 0
    while any(reader.poll() is None for reader in readers):
        written += 1
        save(path, written)
    for reader in readers:
        out, err = reader.communicate()
        assert reader.returncode == 0, err
        assert int(out) > 0
    assert written > 1
    assert [p.name for p in tmp_path.iterdir()] == [path.name], "a temporary directory was left behind"


def test_two_writers_leave_one_complete_package(tmp_path: Path):
    path = tmp_path / "model.mpsgraph"
    errors = []

    def write(value: float) -> None:
        try:
            for _ in range(20):
                save(path, value)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(value,)) for value in (1.0, 2.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert mg.load(path).run({"x": np.ones(64, np.float32)})["y"].tolist()[0] in (1.0, 2.0)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_failed_replacement_keeps_the_old_package(tmp_path: Path):
    path = tmp_path / "model.mpsgraph"
    save(path, 1)
    before = (path / "package.json").read_text()
    g = mg.Graph()
    x = g.placeholder((64,), name="x")
    with pytest.raises(mg.GraphError):
        mg.save(path, g, [x], {})
    assert (path / "package.json").read_text() == before


def test_symbolic_link_to_a_package_is_replaced_by_the_package(tmp_path: Path):
    save(tmp_path / "old.mpsgraph", 1)
    link = tmp_path / "model.mpsgraph"
    os.symlink(tmp_path / "old.mpsgraph", link)
    save(link, 2)
    assert mg.load(link).run({"x": np.ones(64, np.float32)})["y"].tolist()[0] == 2
    assert mg.load(tmp_path / "old.mpsgraph").run({"x": np.ones(64, np.float32)})["y"].tolist()[0] == 1


def test_unknown_format_version_is_not_reported_as_damage(tmp_path: Path):
    path = tmp_path / "model.mpsgraph"
    save(path, 1)
    manifest = json.loads((path / "package.json").read_text())
    manifest["format_version"] = 99
    (path / "package.json").write_text(json.dumps(manifest))
    with pytest.raises(mg.PackageError, match="has format version 99, but this mpsgraph reads") as raised:
        mg.load(path)
    assert "damaged" not in str(raised.value) and str(path) in str(raised.value)
