"""Test import and export of iOS 18 states, which become variables that keep their values between runs."""

import mpsgraph as mg
import numpy as np
import pytest

ct = pytest.importorskip("coremltools", reason="coremltools is not installed: make test-coreml")
torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-coreml")
from coremltools.converters.mil import Builder as mb  # noqa: E402
from coremltools.converters.mil.mil import Function, Program, types  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # coremltools and PyTorch warn about each other's versions.


class Memory(torch.nn.Module):
    """A module whose states are a running total and a window of the last three inputs."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3, dtype=torch.float16))
        self.register_buffer("window", torch.zeros(3, 3, dtype=torch.float16))

    def forward(self, x):
        before = self.total * 1.0
        self.total.add_(x)
        self.window[:2] = self.window[1:].clone()
        self.window[2] = x
        return before, self.total * self.window.sum(0)


STATES = {"total": (3,), "window": (3, 3)}
# Inputs are small integers, so that sums are exact.
INPUTS = np.random.default_rng(0).integers(-4, 5, (5, 3)).astype(np.float16)


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    module = Memory().eval()
    traced = torch.jit.trace(module, torch.zeros(3, dtype=torch.float16))
    wrapped = [ct.StateType(ct.TensorType(shape=shape, dtype=np.float16), name=name) for name, shape in STATES.items()]
    model = ct.convert(
        traced, inputs=[ct.TensorType("x", (3,), np.float16)], states=wrapped, convert_to="mlprogram",
        skip_model_load=True, minimum_deployment_target=ct.target.iOS18,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("states") / "memory.mlpackage"
    model.save(str(path))
    return path


def steps(run):
    """Return the two results of each of five runs."""
    return [[np.asarray(result) for result in run(x)] for x in INPUTS]


def wanted():
    module = Memory().eval()
    with torch.no_grad():
        return steps(lambda x: [y.numpy() for y in module(torch.from_numpy(x))])


def test_imported_coreml_model_keeps_states_between_runs(memory, tmp_path):
    model = mg.coreml.load(memory)
    assert list(model.inputs) == ["x"]
    assert {name: tuple(v.shape) for name, v in model.parameters.items() if name in STATES} == STATES
    assert not any(v.name in STATES for v in model.graph.trainable_variables)
    np.testing.assert_array_equal(steps(model), wanted())
    assert model.graph.variable_value(model.parameters["window"]).tolist() == INPUTS[2:].tolist()
    for variable in model.parameters.values():  # Reset the states.
        model.graph.set_variable(variable, np.zeros(variable.shape, np.float16))
    np.testing.assert_array_equal(steps(model), wanted())
    mg.save(tmp_path / "memory.mpsgraph", mg.coreml.load(memory))  # A saved package keeps states, too.
    np.testing.assert_array_equal(steps(mg.load(tmp_path / "memory.mpsgraph")), wanted())


def test_running_one_output_updates_all_coreml_states(memory):
    model = mg.coreml.load(memory)
    first = next(iter(model.outputs))
    for x in INPUTS:
        model.run({"x": x}, [first])
    assert model.graph.variable_value(model.parameters["total"]).tolist() == INPUTS.sum(0).tolist()


@pytest.mark.parametrize("again", [False, True], ids=["imported", "exported"])
def test_graph_with_state_round_trips_through_coreml(again, tmp_path):
    """Round-trip a graph with a float16 cache, and then the imported model once more."""
    g = mg.Graph()
    x = g.placeholder((3,), "float16", "x")
    cache = g.variable(np.zeros((4, 3), np.float16), name="old.rows", trainable=False)
    before = g.read(cache)
    rows = g.concat([before[1:], g.expand_dims(x, axes=0)], 0)
    result = g.control_dependency([g.assign(cache, rows)], lambda: g.reduction_sum(g.read(cache), 0) * x)
    path = tmp_path / "net.mlpackage"
    mg.coreml.export(g, path, inputs={"x": x}, outputs={"y": result, "before": before}, target="iOS18")
    description = ct.models.MLModel(str(path), skip_model_load=True).get_spec().description
    assert [(s.name, s.type.WhichOneof("Type")) for s in description.state] == [("old_rows", "stateType")]
    back = mg.coreml.load(path)
    if again:
        mg.coreml.export(back, path, target="iOS18")
        back = mg.coreml.load(path)
    for x_value in INPUTS:
        here = g.run({x: x_value}, [result, before])
        there = back.run({"x": x_value})
        np.testing.assert_array_equal(there["y"].numpy(), here[result].numpy())
        np.testing.assert_array_equal(there["before"].numpy(), here[before].numpy())


@pytest.mark.parametrize(
    ("dtype", "value", "target", "words"),
    [
        ("float32", 0, "iOS18", "'kept'.*must be float16, got float32"),
        ("float16", 0, "iOS17", "'kept'.*needs target=.iOS18"),
        ("float16", 1, "iOS18", "'kept'.*starts as zeros, but it holds other values"),
    ],
)
def test_unsupported_state_dtypes_values_and_targets_raise(dtype, value, target, words, tmp_path):
    g = mg.Graph()
    x = g.placeholder((3,), dtype, "x")
    kept = g.variable(np.full(3, value, dtype), name="kept", trainable=False)
    y = g.control_dependency([g.assign(kept, g.read(kept) + x)], lambda: x * 2.0)
    with pytest.raises(mg.UnsupportedError, match=words):
        mg.coreml.export(g, tmp_path / "net.mlpackage", outputs={"y": y}, target=target)
    assert not list(tmp_path.iterdir())


def test_exporting_state_updated_in_a_branch_raises(tmp_path):
    placeholders = {"x": mb.placeholder((3,), types.fp16), "kept": mb.state_tensor_placeholder((3,), types.fp16)}
    with Function(placeholders, opset_version=ct.target.iOS18) as function:
        x, kept = function.inputs["x"], function.inputs["kept"]
        pred = mb.greater(x=mb.reduce_sum(x=x, keep_dims=False), y=np.float16(0))

        def written():
            return mb.coreml_update_state(state=kept, value=mb.add(x=x, y=np.float16(1)))

        y = mb.cond(pred=pred, _true_fn=written, _false_fn=lambda: mb.identity(x=x))
        function.set_outputs([mb.identity(x=y, name="y")])
        program = Program()
        program.add_function("main", function)
    model = ct.convert(
        program, source="milinternal", convert_to="mlprogram", minimum_deployment_target=ct.target.iOS18,
        pass_pipeline=ct.PassPipeline.EMPTY, skip_model_load=True,
    )  # fmt: skip
    model.save(str(tmp_path / "net.mlpackage"))
    with pytest.raises(mg.UnsupportedError, match="write_state.*outside branches and loops"):
        mg.coreml.load(tmp_path / "net.mlpackage")
