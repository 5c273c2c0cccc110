"""Every layer of docs/layers.md as an ML Program: MIL's own inference consents, coremltools reads it, and back again.

Core ML computes on Apple's systems alone; so numbers are those of our own import, which the other files of this room
hold against PyTorch.
"""

import mpsgraph as mg
import numpy as np
import pytest
from harness.exported_layers import LAYERS, built, values_like
from mpsgraph import nn

ct = pytest.importorskip("coremltools", reason="coremltools is not installed: make test-coreml")
pytestmark = pytest.mark.filterwarnings("default")  # coremltools warns of others

# What MIL has no word for, by the test's name, with what the error must say.
UNSAID = {
    "ConvTranspose1d": "sizes of the planes must be known",
    "ConvTranspose2d": "sizes of the planes must be known",
    "ConvTranspose2d-same": "sizes of the planes must be known",
    "ConvTranspose3d": "sizes of the planes must be known",
}


@pytest.mark.parametrize(("make", "shapes", "sizes", "dtype"), LAYERS)
def test_layers(make, shapes, sizes, dtype, tmp_path, request):
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
    assert [tuple(t.shape) for t in back.inputs.values()] == [tuple(s) for s in shapes], "open sizes stay open"
    graph, twin = mg.Graph(), make().eval()
    placeholders = [graph.placeholder(shape, dtype) for shape in shapes]
    twin.load_state_dict(state)
    result = twin(*placeholders)
    for size, batch in zip(sizes, (2, 3), strict=False):
        arrays = values_like(shapes, size, dtype, batch)
        wanted = graph.run(dict(zip(placeholders, arrays, strict=True)), result).numpy()
        np.testing.assert_allclose(back(*arrays).numpy(), wanted, rtol=1e-4, atol=1e-5)


_ = nn
