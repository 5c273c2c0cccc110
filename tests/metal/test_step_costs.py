"""Test the costs of a training step on the Metal device, as counted by the mock.

The counts are those of command buffers, host waits, memory, and operations. docs/metal-steps.md explains the numbers.
The tests check that the numbers do not increase.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator

import mpsgraph as mg
import numpy as np
import pytest
from harness import device
from harness.mock_counts import taken
from harness.runtime import run_program
from mpsgraph import nn
from mpsgraph import nngraph as nodes
from mpsgraph.demo import digits

MOCK = device.mock()


STEPS = 10


class Signpost(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint64),
        ("id", ctypes.c_uint64),
        ("time", ctypes.c_uint64),
        ("name", ctypes.c_char * 32),
        ("message", ctypes.c_char * 128),
        ("subsystem", ctypes.c_char * 32),
        ("category", ctypes.c_char * 32),
    )


def signposts() -> set[str]:
    """Return the names of the signposts that the backend has emitted."""
    MOCK.mock_signpost_count.restype = ctypes.c_size_t
    MOCK.mock_signpost_at.argtypes = [ctypes.c_size_t, ctypes.POINTER(Signpost)]
    found, record = set(), Signpost()
    for index in range(MOCK.mock_signpost_count()):
        if MOCK.mock_signpost_at(index, ctypes.byref(record)):
            found.add(record.name.decode())
    return found


def batches(size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    while True:
        yield rng.random((size, 28, 28, 1), np.float32), rng.integers(0, 10, size).astype(np.int32)


def residual() -> nn.Module:
    """Build convolutions with batch normalization and a residual, as in workload W2."""

    class Block(nn.Module):
        def __init__(self) -> None:
            self.first, self.second = nn.Conv2d(4, 3, padding="TF_SAME"), nn.Conv2d(4, 3, padding="TF_SAME")
            self.norms, self.relu = [nn.BatchNorm(), nn.BatchNorm()], nn.ReLU()

        def forward(self, x: mg.Tensor) -> mg.Tensor:
            inner = self.relu(self.norms[0](self.first(x)))
            return self.relu(self.norms[1](self.second(inner)) + x)

    return nn.Sequential(nn.Conv2d(4, 3, strides=4), Block(), nn.GlobalAveragePooling2d(), nn.Linear(10))


NETWORKS = {"digits": digits.classifier, "residual": residual}
FIRST_STEP = {"digits": 263, "residual": 280}  # operations that the first step adds to the MPSGraph


@pytest.mark.parametrize("network", NETWORKS)
def test_training_step_uses_one_command_buffer_and_does_not_wait(network: str):
    """A step compiles nothing, adds no operation, and does not wait; losses that are not read cost nothing."""
    data = batches(2)
    trainer = mg.Trainer(NETWORKS[network](), loss="cross_entropy", optimizer=mg.optim.SGD(1e-3), device="metal")
    for _ in range(4):
        float(trainer.train_step(*next(data)))
    taken()
    for _ in range(STEPS):
        last = trainer.train_step(*next(data))
    float(last)
    counts = taken()
    assert counts["command_buffers"] == STEPS, counts
    assert counts["encodes"] == STEPS, counts
    assert counts["operations"] == counts["compilations"] == 0, counts
    assert counts["host_waits"] == 0, counts
    assert counts["buffers"] <= 4, counts
    assert counts["shared_buffers"] <= 3 * STEPS, "only images, labels, and learning rate may be mapped"


@pytest.mark.parametrize("network", NETWORKS)
def test_first_step_adds_no_more_operations_than_documented(network: str):
    g = mg.Graph()
    g.variable_value(g.variable([1.0]))  # On the first use of a variable, the backend runs a test of its own.
    trainer = mg.Trainer(NETWORKS[network](), loss="cross_entropy", optimizer=mg.optim.SGD(1e-3), device="metal")
    taken()
    float(trainer.train_step(*next(batches(2))))
    assert taken()["operations"] <= FIRST_STEP[network]
    page = (device.TESTS.parent / "docs/metal-steps.md").read_text()
    assert f"({FIRST_STEP[network]})" in next(line for line in page.splitlines() if "operations added" in line)


def test_feeds_are_not_copied():
    """Images and labels are read in numpy's memory. Before macOS 15, this requires page alignment."""
    trainer = mg.Trainer(digits.classifier(), loss="cross_entropy", optimizer=mg.optim.SGD(1e-3), device="metal")
    data = batches(2)
    for _ in range(3):
        float(trainer.train_step(*next(data)))
    MOCK.mock_clear_signposts()
    float(trainer.train_step(*next(data)))
    names = signposts()
    reads_inside_pages = not device.OLD_SYSTEM or float(device.OLD_SYSTEM) >= 15
    assert "encode" in names and ("copy" not in names) == reads_inside_pages


def test_fifty_batch_sizes_compile_once_each():
    trainer = mg.Trainer(residual(), loss="cross_entropy", optimizer=mg.optim.SGD(1e-3), device="metal")
    taken()
    for size in range(1, 51):
        trainer.train_step(*next(batches(size)))
    float(trainer.train_step(*next(batches(50))))
    first = taken()
    for size in range(50, 40, -1):
        trainer.train_step(*next(batches(size)))
    float(trainer.train_step(*next(batches(41))))
    again = taken()
    assert first["operations"] > 0
    assert again["operations"] == again["compilations"] == 0, again


# The two ways in which programs with variables run: as executables that share the variables, or through the MPSGraph
# that holds the variables, either because executables do not share them, or because the user has asked for it.
WAYS = {
    "executables": {"MPSGRAPH_MOCK_VARIABLES": "shared"},
    "graph": {"MPSGRAPH_MOCK_VARIABLES": "separate"},
    "graph by choice": {"MPSGRAPH_METAL_VARIABLES": "graph"},
}
LOOP = """
import json, tempfile
import numpy as np, mpsgraph as mg
from harness.mock_counts import taken

layers = [mg.nn.Linear(4) for _ in range(20)]
model = mg.nn.Sequential(*layers, mg.nn.Linear(3))
trainer = mg.Trainer(model, "cross_entropy", mg.optim.Adam(1e-3), metrics=["accuracy"], ema_decay=0.9)
rng = np.random.default_rng(0)
x, y = rng.random((6, 4), np.float32), rng.integers(0, 3, 6).astype(np.int32)
path = tempfile.mkdtemp() + "/checkpoint"
counts = []
for epoch in range(3):
    taken()
    for _ in range(3):
        trainer.train_step(x, y)
    trainer.evaluate(x, y)
    trainer.predict(x)
    model.load_state_dict(model.state_dict())
    trainer.set_weights(trainer.weights())
    trainer.save(path)
    with trainer.averaged_weights():
        trainer.evaluate(x, y)
    trainer.load(path)
    counts.append(taken())
print(json.dumps([len(model.state_dict()), counts]))
"""


@pytest.mark.parametrize("way", WAYS)
def test_training_loop_with_evaluation_and_checkpoints_compiles_each_program_once(way: str):
    """MPSGraph keeps 15 compiled programs. The model has 42 variables, and the trainer 168 with states and averages."""
    run = run_program(LOOP, timeout=120, **WAYS[way])
    assert run.returncode == 0, run.stderr
    variables, (first, *others) = json.loads(run.stdout)
    assert variables == 42
    assert 8 <= first["compilations"] <= 30, first
    for counts in others:
        assert counts["compilations"] == counts["operations"] == 0, counts


MANY = """
import json
import numpy as np, mpsgraph as mg
from harness.mock_counts import taken

g = mg.Graph()
x = g.placeholder((2,))
variables = [g.variable(np.full(3, i, np.float32), name=f"v{i}") for i in range(300)]
step = g.compile({x: (2,)}, [], [g.assign(v, v + g.reduction_sum(x)) for v in variables])
step.run([np.ones(2, np.float32)])
counts, values = {}, []
for what in ("first", "again"):
    for access in ("read", "write"):
        taken()
        if access == "read":
            values = g.variable_values(variables)
        else:
            g.set_variables({v: value + 1 for v, value in zip(variables, values)})
        counts[f"{what} {access}"] = taken()
taken()
step.run([np.ones(2, np.float32)])
counts["step"] = taken()
right = all(g.variable_value(v).tolist() == [i + 6] * 3 for i, v in enumerate(variables))
print(json.dumps([counts, right, step.plan()]))
"""


@pytest.mark.parametrize("way", WAYS)
def test_access_to_300_variables_is_one_program_and_one_wait(way: str):
    run = run_program(MANY, timeout=120, **WAYS[way])
    assert run.returncode == 0, run.stderr
    counts, right, plan = json.loads(run.stdout)
    assert right
    assert ("an MPSGraphExecutable" in plan) == (way == "executables") != ("the MPSGraph of the variables" in plan)
    for what, compilations in (("first", 1), ("again", 0)):
        for access in ("read", "write"):
            one = counts[f"{what} {access}"]
            assert one["compilations"] == compilations, (what, access, one)
            # Two of the command buffers are empty: those of the default queue before and after the access.
            assert one["encodes"] == 1 and one["command_buffers"] == 3, (what, access, one)
            # The second wait is for the part that the mock may have committed while it encoded.
            assert 1 <= one["host_waits"] <= 2, (what, access, one)
    assert counts["step"]["compilations"] == counts["step"]["operations"] == 0, counts["step"]


COPIES = """
import copy, json, pickle
import numpy as np, mpsgraph as mg
from harness.mock_counts import taken

class Branch(mg.nn.Module):
    def __init__(self):
        self.layers = {"list": [mg.nn.Linear(2) for _ in range(75)], "one": mg.nn.BatchNorm()}
    def forward(self, x):
        for layer in self.layers["list"]:
            x = layer(x)
        return self.layers["one"](x)

model = mg.nn.Sequential(Branch(), Branch())
model(mg.Graph().placeholder((-1, 2)))
graph = model.parameters()[0].graph
state = {name: np.full_like(value, number) for number, (name, value) in enumerate(model.state_dict().items())}
model.load_state_dict(state)
x = graph.placeholder((2,))
graph.run({x: np.ones(2, np.float32)}, [], [graph.assign(v, v + 1) for v in graph.variables])
counts, twins = {}, []
for what in ("first", "again"):
    for name, value in (("model", model), ("graph", graph)):
        taken()
        dumped = pickle.dumps(value)
        counts[f"{what} pickle of the {name}"] = taken()
        twin = copy.deepcopy(value)
        counts[f"{what} deepcopy of the {name}"] = taken()
        if name == "model":
            twins += [pickle.loads(dumped), twin]
right = all((value == state[name] + 1).all() for twin in twins for name, value in twin.state_dict().items())
print(json.dumps([len(graph.variables), counts, right]))
"""


@pytest.mark.parametrize("way", WAYS)
def test_pickling_and_copying_read_all_variables_in_one_program(way: str):
    run = run_program(COPIES, timeout=120, **WAYS[way])
    assert run.returncode == 0, run.stderr
    variables, counts, right = json.loads(run.stdout)
    assert variables >= 300 and right
    for what, found in counts.items():
        writes = "deepcopy of the graph" in what  # The values of the new graph are set at once, too.
        assert found["encodes"] == 1 + writes, (what, found)
        assert found["compilations"] <= (writes or "first" in what), (what, found)


EXPORT = """
import json
import numpy as np, mpsgraph as mg
import onnx.numpy_helper
from harness.mock_counts import taken

g = mg.Graph()
x = g.placeholder((2,), name="x")
variables = [g.variable(np.full(2, i, np.float32), name=f"v{i}") for i in range(30)]
y = x
for v in variables:
    y = y + v
g.run({x: np.ones(2, np.float32)}, [], [g.assign(v, v + g.reduction_sum(x)) for v in variables])
taken()
proto = mg.onnx.export(g, inputs={"x": x}, outputs={"y": y})
counts = taken()
found = {i.name: onnx.numpy_helper.to_array(i).tolist() for i in proto.graph.initializer}
print(json.dumps([counts, all(found[f"v{i}"] == [i + 2] * 2 for i in range(30))]))
"""


def test_onnx_export_reads_all_variables_in_one_program():
    pytest.importorskip("onnx")
    run = run_program(EXPORT, timeout=120)
    assert run.returncode == 0, run.stderr
    counts, right = json.loads(run.stdout)
    assert right and counts["compilations"] == counts["encodes"] == 1, counts


@pytest.mark.parametrize("way", WAYS)
def test_single_accesses_recompile_training_step_only_through_graph(way: str):
    """Each single access is a program, so 300 of them evict the step from MPSGraph's cache, but not an executable."""
    program = MANY.replace("values = g.variable_values(variables)", "values = list(map(g.variable_value, variables))")
    run = run_program(program, timeout=240, **WAYS[way])
    assert run.returncode == 0, run.stderr
    counts, right, _ = json.loads(run.stdout)
    assert right
    assert counts["first read"]["compilations"] == counts["again read"]["compilations"] == 300
    # The last two writes and reads before the step are 1 + 300 + 1 programs.
    assert counts["step"]["compilations"] == (way != "executables"), counts["step"]


KEPT = """
import json
import numpy as np, mpsgraph as mg
from harness.mock_counts import initial_variable_bytes
from mpsgraph._core import ConstantData

g = mg.Graph()
x = g.placeholder((-1,))
weights = g.variable(np.arange(1000, dtype=np.float32))
splat = ConstantData.splat
states = [g.variable(splat(0.0, (n,), mg.float32)) for n in (1000, 500, 2000)]
states.append(g.variable(splat(1.0, (700,), mg.float32)))
steps = [g.assign(v, v + g.reduction_sum(x)) for v in (weights, *states)]
g.set_cache_limits(2, 1 << 30)
kept = []
for n in range(1, 80):
    g.run({x: np.ones(n, np.float32)}, [], steps)
    kept.append(initial_variable_bytes())
last = [value[-1] for value in g.variable_values([weights, *states])]
print(json.dumps([kept[0], kept[-1], list(map(float, last))]))
"""


@pytest.mark.parametrize("way", WAYS)
def test_variables_that_start_at_one_number_share_their_initial_data(way: str):
    """MPSGraph keeps the initial data. After the variables have moved to another MPSGraph, all of them share zeros."""
    run = run_program(KEPT, **WAYS[way])
    assert run.returncode == 0, run.stderr
    first, last, values = json.loads(run.stdout)
    total = sum(range(1, 80))
    assert values == [999 + total, total, total, total, 1 + total]
    # The weights, two blocks of zeros, because the third state is larger than the first two, and the ones.
    assert first == 4000 + (4000 + 8000) + 2800
    assert last == 8000


def test_unknown_way_for_variables_raises():
    program = "import mpsgraph as mg; g = mg.Graph(); g.variable_value(g.variable([1.0]))"
    run = run_program(program, MPSGRAPH_METAL_VARIABLES="executables")
    assert "MPSGRAPH_METAL_VARIABLES must be 'graph' or unset, got 'executables'" in run.stderr


def test_node_batch_uses_one_command_buffer():
    """The command buffer of the nodes is between two empty ones that reserve its position."""
    descriptor = nodes.ConvolutionDescriptor(3, 3, 4, 4)
    source = nodes.TrainableConvolution(descriptor, optimizer=nodes.Adam(1e-3), seed=0)
    node = nodes.ConvolutionNode(nodes.ImageNode("x"), source)
    loss = nodes.LossNode(node.result_image, nodes.LossDescriptor("mean_squared_error", "sum"))
    graph = nodes.NNGraph("metal", loss.training_graph(None)[-1].result_image, False)
    x, queue = np.zeros((2, 4, 4, 4), np.float32), mg.CommandQueue("metal")

    def step() -> mg.CommandBuffer:
        buffer = queue.command_buffer()
        graph.encode_batch(buffer, [x], [nodes.LossLabelsBatch(x)])
        buffer.commit()
        return buffer

    step().wait_until_completed()
    taken()
    buffers = [step() for _ in range(STEPS)]
    buffers[-1].wait_until_completed()
    counts = taken()
    assert counts["command_buffers"] == 2 * STEPS, counts
    assert counts["host_waits"] == counts["operations"] == counts["compilations"] == 0, counts
