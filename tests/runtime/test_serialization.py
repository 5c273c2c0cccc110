"""Executables have no serialized form on the CPU device; the errors must name the alternatives."""

import mpsgraph as mg
import pytest


def test_serializing_on_cpu_device_advises_other_device_or_package(tmp_path):
    g = mg.Graph()
    x = g.placeholder((2,))
    executable = g.compile({x: (2,)}, [x * 2], device="cpu")
    with pytest.raises(mg.UnsupportedError, match=r'serialize on device "metal".*or use save\(\)'):
        executable.serialize(str(tmp_path / "double.mpsgraphpackage"))
    assert not list(tmp_path.iterdir())


def test_loading_serialized_executable_on_cpu_device_advises_other_device_or_package(tmp_path):
    path = tmp_path / "double.mpsgraphpackage"
    path.mkdir()
    (tmp_path / "double.mpsgraphpackage.json").write_text('{"format": 1, "feeds": [], "targets": []}')
    with pytest.raises(mg.UnsupportedError, match=r'only runs on device "metal"; load\(\) opens packages'):
        mg.SerializedExecutable(str(path), device="cpu")
