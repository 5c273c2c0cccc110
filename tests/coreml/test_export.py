"""Export every layer of docs/layers.md to an ML Program, type-check it with MIL, read it with coremltools, and import
it.

Core ML runs only on Apple's systems, so values come from mpsgraph's own importer, which other files of this folder
compare with PyTorch.
"""

import mpsgraph as mg
import numpy as np
import pytest
from harness.exported_layers import LAYERS, built, values_like
from harness.pages import ROOT, blocks, run
from mpsgraph import nn

ct = pytest.importorskip("coremltools", reason="coremltools is not installed: make test-coreml")
pytestmark = pytest.mark.filterwarnings("default")  # coremltools warns about untested versions of other packages.

# Layers that MIL cannot express, by test id, with the expected error.
UNSAID = {
    "ConvTranspose1d": "the spatial sizes of the input and output must be known",
    "ConvTranspose2d": "the spatial sizes of the input and output must be known",
    "ConvTranspose2d-same": "the spatial sizes of the input and output must be known",
    "ConvTranspose3d": "the spatial sizes of the input and output must be known",
}


@pytest.mark.parametrize(("make", "shapes", "sizes", "dtype"), LAYERS)
def test_layers_round_trip_through_coreml(make, shapes, sizes, dtype, tmp_path, request):
    module, state = built(make, shapes, dtype)
    path = tmp_path / "net.mlpackage"
    inputs = {f"x{i}": (shape, dtype) for i, shape in enumerate(shapes)}
    name = request.node.callspec.id
    if name in UNSAID:
        with pytest.raises(mg.UnsupportedError, match=UNSAID[name]):
            mg.coreml.export(module, path, inputs=inputs)
        assert not list(tmp_path.iterdir())
        return
    mg.coreml.export(module, path, inputs=inputs, target="iOS18")
    ct.models.MLModel(str(path), skip_model_load=True)
    back = mg.coreml.load(path)
    assert [tuple(t.shape) for t in back.inputs.values()] == [tuple(s) for s in shapes], (
        "dynamic dimensions must stay dynamic"
    )
    graph, twin = mg.Graph(), make().eval()
    placeholders = [graph.placeholder(shape, dtype) for shape in shapes]
    twin.load_state_dict(state)
    result = twin(*placeholders)
    for size, batch in zip(sizes, (2, 3), strict=False):
        arrays = values_like(shapes, size, dtype, batch)
        wanted = graph.run(dict(zip(placeholders, arrays, strict=True)), result).numpy()
        np.testing.assert_allclose(back(*arrays).numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_export_error_lists_all_unsupported_operations_and_writes_nothing(tmp_path):
    g = mg.Graph()
    x = g.placeholder((4,), "float32", "x")
    whole = g.cast(x, "int32")
    outputs = {"a": g.division(whole, 2), "b": g.bitwise_population_count(whole)}
    with pytest.raises(mg.UnsupportedError, match="2 operations cannot be expressed in MIL") as error:
        mg.coreml.export(g, tmp_path / "net.mlpackage", outputs=outputs)
    own = mg.python_operation("own.softshrink", lambda x: x)(x, name="shrunk")
    with pytest.raises(mg.UnsupportedError, match="custom own.softshrink 'shrunk'"):
        mg.coreml.export(g, tmp_path / "net.mlpackage", outputs={"a": own})
    assert "divides integers rounding toward zero" in str(error.value) and "bitwise_population_count" in str(
        error.value
    )
    assert not list(tmp_path.iterdir())


def test_invalid_export_names_targets_and_paths_raise(tmp_path):
    g = mg.Graph()
    x = g.placeholder((4,), "float32", "x")
    path = tmp_path / "net.mlpackage"
    with pytest.raises(mg.GraphError, match="letters, digits, and underscores"):
        mg.coreml.export(g, path, inputs={"x.1": x}, outputs={"y": x * 2})
    with pytest.raises(mg.GraphError, match="one of iOS15, iOS16, iOS17, iOS18"):
        mg.coreml.export(g, path, outputs={"y": x * 2}, target="iOS12")
    with pytest.raises(mg.GraphError, match=r"must end in \.mlpackage"):
        mg.coreml.export(g, tmp_path / "net.onnx", outputs={"y": x * 2})
    path.mkdir()
    with pytest.raises(mg.GraphError, match="is not a Core ML package"):
        mg.coreml.export(g, path, outputs={"y": x * 2})
    assert [p.name for p in tmp_path.iterdir()] == ["net.mlpackage"] and not list(path.iterdir())


def test_imported_model_exports_its_current_weights(tmp_path):
    """Export a module, import it, change its weights, and export it again over the first package."""
    path, x = tmp_path / "net.mlpackage", np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    module = nn.Sequential(nn.Linear(5), nn.Tanh(), nn.Linear(2))
    module(mg.Graph().placeholder((-1, 4)))
    module.load_state_dict({name: value + 0.25 for name, value in module.state_dict().items()})
    mg.coreml.export(module, path, inputs={"x": (-1, 4)})
    model = mg.coreml.load(path)
    assert sorted(int(np.prod(v.shape)) for v in model.parameters.values()) == [2, 5, 10, 20]
    before = model(x).numpy()
    for variable in model.parameters.values():
        model.graph.set_variable(variable, model.graph.variable_value(variable) * 0.5)
    after = model(x).numpy()
    mg.coreml.export(model, path)
    np.testing.assert_allclose(mg.coreml.load(path)(x).numpy(), after, rtol=1e-5, atol=1e-6)
    assert np.abs(after - before).max() > 0.01


def test_coreml_page_code_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run([block for block in blocks(ROOT / "docs" / "coreml.md") if block.language == "python"])
    assert (tmp_path / "net.mlpackage" / "Manifest.json").is_file()
