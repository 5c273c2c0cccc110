"""Run exported layers with masks, lengths, caches, and states in ONNX Runtime, in every supported opset.

In each run, the dynamic dimensions have sizes that differ from those at export.
"""

import harness.exports as exports
import mpsgraph as mg
import numpy as np
import pytest
from harness.exported_layers import LAYERS, built, values_like

# ONNX Runtime is optional: `make test-onnxruntime` creates an environment with it.
onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed: make test-onnxruntime")
onnxruntime.set_default_logger_severity(3)
RANDOM_IN_LATER_OPSETS = ("sampled",)  # ONNX Runtime 1.32 supports RandomUniformLike up to opset 21.


def session(proto):
    return onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])


def results_of(running, arrays):
    names = [output.name for output in running.get_outputs()]
    return dict(zip(names, running.run(None, arrays), strict=True))


@pytest.mark.parametrize("opset", range(18, 24))
@pytest.mark.parametrize("name", exports.MODELS)
def test_exported_layers_with_masks_and_states_match_in_onnx_runtime(name, opset):
    if name in RANDOM_IN_LATER_OPSETS and opset > 21:
        pytest.skip("ONNX Runtime does not support RandomUniformLike of this opset")
    model = exports.MODELS[name]
    graph, inputs, outputs = model.build()
    running = session(mg.onnx.export(graph, opset=opset, inputs=inputs, outputs=outputs))
    for batch, steps in (*exports.SIZES, (1, 1)):
        arrays = model.arrays(inputs, batch, steps)
        wanted = graph.run({inputs[key]: array for key, array in arrays.items()}, list(outputs.values()))
        found = results_of(running, arrays)
        for key, tensor in outputs.items():
            np.testing.assert_allclose(found[key], wanted[tensor].numpy(), rtol=1e-5, atol=1e-5, err_msg=key)


@pytest.mark.parametrize("opset", (18, 20, 23))
@pytest.mark.parametrize(("make", "shapes", "sizes", "dtype"), LAYERS)
def test_exported_layers_match_in_onnx_runtime(make, shapes, sizes, dtype, opset):
    module, state = built(make, shapes, dtype)
    inputs = {f"x{i}": (shape, dtype) for i, shape in enumerate(shapes)}
    running = session(mg.onnx.export(module, opset=opset, inputs=inputs))
    graph, twin = mg.Graph(), make().eval()
    placeholders = [graph.placeholder(shape, dtype) for shape in shapes]
    twin.load_state_dict(state)
    result = twin(*placeholders)
    for size, batch in zip(sizes, (2, 3), strict=False):
        arrays = values_like(shapes, size, dtype, batch)
        wanted = graph.run(dict(zip(placeholders, arrays, strict=True)), result).numpy()
        found = results_of(running, {f"x{i}": array for i, array in enumerate(arrays)})
        np.testing.assert_allclose(found["output"], wanted, rtol=1e-5, atol=1e-5)


def test_exported_cache_keeps_state_between_onnx_runtime_runs():
    graph, inputs, outputs = exports.MODELS["cache-encoder"].build()
    running = session(mg.onnx.export(graph, inputs=inputs, outputs=outputs))
    caches = [overridden.name for overridden in running.get_overridable_initializers()]
    assert len(caches) == 4
    state = {}
    for place in range(5):
        x = np.random.default_rng(place).normal(size=(2, 1, 8)).astype(np.float32)
        fed = {"x": x, "position": np.int32([place])}
        found = results_of(running, {**fed, **state})
        wanted = graph.run({inputs[key]: array for key, array in fed.items()}, outputs["y"]).numpy()
        np.testing.assert_allclose(found["y"], wanted, rtol=1e-5, atol=1e-5)
        state = {name: found[f"{name}_next"] for name in caches}
