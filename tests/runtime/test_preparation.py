"""Test prepared packages: results are bitwise equal, and packed weights are mapped from a file.

Files prepared for another processor are ignored, and damaged files raise an error.
"""

import gc
import json
import os
import shutil
import subprocess
import sys

import mpsgraph as mg
import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore")
rng = np.random.default_rng(0)
IMAGES = rng.normal(size=(1, 12, 12, 64)).astype(np.float32)
SHAPES = {"images": (1, 12, 12, 64)}


def network(scale: float = 0.05) -> mg.Model:
    """Build a model of three 3x3 convolutions, whose weights every convolution kernel packs."""
    g = mg.Graph()
    y = x = g.placeholder((-1, 12, 12, 64), name="images")
    for i in range(3):
        weights = np.random.default_rng(i).normal(0, scale, (3, 3, 64, 64)).astype(np.float32)
        y = g.relu(g.convolution2d(y, g.variable(weights, name=f"w{i}"), padding="TF_SAME"))
    return mg.Model(g, {"images": x}, {"y": y}).optimize_for_inference()


@pytest.fixture
def package(tmp_path):
    network().save(tmp_path / "net.mpsgraph")
    return tmp_path / "net.mpsgraph"


def run(path, device="cpu"):
    model = mg.load(path)
    executable = model.graph.on(mg.Device(device)).compile(
        {model.inputs["images"]: ("float32", IMAGES.shape)}, list(model.outputs.values())
    )
    return executable, executable.run([IMAGES])[0].numpy()


def packed_bytes() -> int:
    """Return the bytes of packed weights in this process, after collecting the garbage of other tests."""
    gc.collect()
    return mg.memory_statistics()["cpu"]["packed_weights"]["current"]


def test_prepared_weights_are_mapped_and_results_bitwise_equal(package):
    before = packed_bytes()
    held, wanted = run(package)
    assert packed_bytes() - before >= 3 * 9 * 64 * 64 * 4
    del held
    made = mg.prepare(package, SHAPES, device="cpu")
    assert made.constants == 3 and made.bytes >= 3 * 9 * 64 * 64 * 4 and made.file.stat().st_size > made.bytes
    before = packed_bytes()
    held, found = run(package)
    assert packed_bytes() - before < 4096  # only scalars
    np.testing.assert_array_equal(found, wanted)


def test_channels_first_weights_are_prepared(tmp_path):
    """Imported models have such weights. Optimization for inference transposes them, and the result can be prepared."""
    g = mg.Graph()
    y = x = g.placeholder((-1, 64, 12, 12), name="images")
    for i in range(3):
        weights = np.random.default_rng(i).normal(0, 0.05, (64, 64, 3, 3)).astype(np.float32)
        y = g.relu(
            g.convolution2d(y, g.variable(weights), padding="TF_SAME", data_layout="NCHW", weights_layout="OIHW")
        )
    model = mg.Model(g, {"images": x}, {"y": y})
    images, package = IMAGES.transpose(0, 3, 1, 2), tmp_path / "net.mpsgraph"
    wanted = model(images).numpy()
    model.optimize_for_inference().save(package)
    assert mg.prepare(package, {"images": images.shape}, device="cpu").constants == 3
    before = packed_bytes()
    opened = mg.load(package)
    np.testing.assert_allclose(opened(images).numpy(), wanted, rtol=1e-5, atol=1e-5)
    assert packed_bytes() - before < 4096


def test_prepared_weights_of_another_model_are_ignored(package, tmp_path):
    mg.prepare(package, SHAPES, device="cpu")
    network(0.1).save(tmp_path / "other.mpsgraph")
    _, wanted = run(tmp_path / "other.mpsgraph")
    shutil.copytree(package / "prepared", tmp_path / "other.mpsgraph" / "prepared")
    np.testing.assert_array_equal(run(tmp_path / "other.mpsgraph")[1], wanted)


PROGRAM = """
import sys
import mpsgraph as mg, numpy as np
model = mg.load(sys.argv[1])
print(mg.prepare(sys.argv[1], {"images": (1, 12, 12, 64)}, device="cpu").made_for)
np.save(sys.argv[2], model(np.load(sys.argv[3])).numpy())
"""


@pytest.mark.skipif(
    "AVX" not in mg.Device("cpu").description, reason="this processor supports only one instruction set"
)
def test_prepared_weights_are_kept_per_instruction_set(package, tmp_path):
    _, wanted = run(package)
    mine = mg.prepare(package, SHAPES, device="cpu").made_for
    np.save(tmp_path / "images.npy", IMAGES)
    environment = os.environ | {"MPSGRAPH_INSTRUCTION_SET": "baseline"}
    command = [sys.executable, "-c", PROGRAM, package, tmp_path / "y.npy", tmp_path / "images.npy"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    # it is possible that the baseline kernels pack no weights
    if "cannot prepare" not in done.stderr and "nothing to prepare" not in done.stderr:
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() != mine and len(list((package / "prepared").glob("*.json"))) == 2
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(run(package)[1], wanted)


@pytest.mark.parametrize("ending", ["json", "safetensors"])
@pytest.mark.parametrize("where", [0.1, 0.5, 0.95])
def test_modified_prepared_file_raises(package, ending, where):
    mg.prepare(package, SHAPES, device="cpu")
    (file,) = (package / "prepared").glob(f"*.{ending}")
    data = bytearray(file.read_bytes())
    place = int(len(data) * where)
    data[place] ^= 1
    file.write_bytes(data)
    with pytest.raises(mg.PackageError, match="prepared"):
        run(package)


@pytest.mark.parametrize("ending", ["json", "safetensors"])
@pytest.mark.parametrize("left", [0, 7, 0.5])
def test_truncated_prepared_file_raises(package, ending, left):
    mg.prepare(package, SHAPES, device="cpu")
    (file,) = (package / "prepared").glob(f"*.{ending}")
    data = file.read_bytes()
    file.write_bytes(data[: left if isinstance(left, int) else int(len(data) * left)])
    with pytest.raises(mg.PackageError, match="remove it or prepare the package again"):
        run(package)


def test_missing_prepared_file_raises(package):
    mg.prepare(package, SHAPES, device="cpu").file.unlink()
    with pytest.raises(mg.PackageError, match="prepared"):
        mg.load(package)


@pytest.mark.parametrize("where", [0, 0.5, 0.999])
def test_modified_weights_raise_when_read(package, where):
    mg.prepare(package, SHAPES, device="cpu")
    file = package / "weights.safetensors"
    data = bytearray(file.read_bytes())
    data[int(len(data) * where) or 20] ^= 1
    file.write_bytes(data)
    if where == 0:  # in the header
        with pytest.raises(mg.PackageError, match="weights.safetensors"):
            mg.load(package)
        return
    model = mg.load(package)  # the kernels read only the prepared weights
    model.graph.on(mg.Device("cpu")).run({model.inputs["images"]: IMAGES}, list(model.outputs.values()))
    constants = [operation.outputs[0] for operation in model.graph.operations if operation.kind == "constant"]
    with pytest.raises(mg.PackageError, match="altered: the checksum of"):
        model.graph.on(mg.Device("cpu")).run({}, constants)


def test_damaged_package_can_be_prepared_again(package):
    mg.prepare(package, SHAPES, device="cpu").file.write_bytes(b"")
    with pytest.raises(mg.PackageError):
        mg.load(package, verify=True)
    shutil.rmtree(package / "prepared")
    assert mg.prepare(package, [SHAPES, {"images": (4, 12, 12, 64)}], device="cpu").constants >= 3
    assert len(list((package / "prepared").iterdir())) == 2


def test_saving_removes_prepared_weights(package):
    mg.prepare(package, SHAPES, device="cpu")
    network(0.2).save(package)
    assert not (package / "prepared").exists()


def test_prepared_file_records_target_and_weights(package):
    made = mg.prepare(package, SHAPES, device="cpu")
    written = json.loads(made.file.with_suffix(".json").read_text())
    assert written["for"] == made.made_for and mg.library_version() in made.made_for
    constants = {operation.name for operation in mg.load(package).graph.operations if operation.kind == "constant"}
    assert {entry["weight"] for entry in written["of"]} <= constants


def test_preparing_graph_with_variables_raises(tmp_path):
    g = mg.Graph()
    x = g.placeholder((1, 12, 12, 64), name="images")
    y = g.convolution2d(x, g.variable(np.ones((3, 3, 64, 64), np.float32)), padding="TF_SAME")
    mg.save(tmp_path / "net", g, [x], {"y": y})
    with pytest.raises(mg.UnsupportedError, match="optimized for inference"):
        mg.prepare(tmp_path / "net", device="cpu")


def test_preparing_for_unsupported_device_raises(package):
    others = [name for name in mg.Device.names() if name != "cpu"]
    for name in others:
        with pytest.raises(mg.UnsupportedError, match=f"device {name} cannot prepare constants"):
            mg.prepare(package, SHAPES, device=name)
    assert not (package / "prepared").exists()


def test_invalid_prepare_arguments_raise(package, tmp_path):
    with pytest.raises(mg.GraphError, match="no input 'picture': its inputs are 'images'"):
        mg.prepare(package, {"picture": (1, 12, 12, 64)})
    with pytest.raises(mg.ShapeError):
        mg.prepare(package, {"images": (1, 12, 12, 3)}, device="cpu")
    with pytest.raises(mg.PackageError):
        mg.prepare(tmp_path / "nothing")
    assert not (package / "prepared").exists()
