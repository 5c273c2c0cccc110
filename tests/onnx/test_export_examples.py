"""Export the models of examples/ to ONNX and import them again: operations and values must be equal."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
import safetensors.numpy
from harness.exported_examples import EXAMPLES
from harness.exports import listed, what_outputs_need, without_description
from mpsgraph import nngraph as ng


@pytest.mark.parametrize("make", EXAMPLES)
def test_examples_round_trip_through_onnx(make):
    example = make()
    proto = example.export()
    back, plain = mg.onnx.load(proto), mg.onnx.load(without_description(proto))
    if example.exact and example.outputs is not None:
        assert listed(back.graph.operations) == what_outputs_need(example.outputs)
    assert list(back.inputs) == list(plain.inputs) == example.inputs
    for arrays in example.feeds:
        same, close = back.run(arrays), plain.run(arrays)
        for name, wanted in example.run(arrays).items():
            if not example.exact:
                assert close[name].shape == same[name].shape == wanted.shape
                continue
            if example.outputs is not None:
                np.testing.assert_array_equal(same[name].numpy(), wanted, err_msg=name)
            scale = 1e-5 * max(1, np.abs(wanted).max())
            for found in (same, close):
                np.testing.assert_allclose(found[name].numpy(), wanted, rtol=1e-5, atol=scale, err_msg=name)


def test_node_graph_with_stored_weights_is_exported(tmp_path):
    weights = np.random.default_rng(0).normal(size=(4, 3, 3, 2)).astype(np.float32)
    safetensors.numpy.save_file({"w": weights}, tmp_path / "w.safetensors")
    descriptor = ng.ConvolutionDescriptor(3, 3, 2, 4)
    source = ng.StoredWeights(tmp_path / "w.safetensors", descriptor, "w")
    node = ng.ConvolutionNode(ng.ImageNode("images"), source)
    graph = ng.NNGraph(None, ng.NeuronReLUNode(node.result_image).result_image)
    x = np.random.default_rng(1).normal(size=(2, 6, 5, 2)).astype(np.float32)
    back = mg.onnx.load(mg.onnx.export(graph, inputs={"images": (-1, 6, 5, 2)}))
    np.testing.assert_allclose(back(x).numpy(), graph(x).numpy(), rtol=1e-5, atol=1e-5)
    bytes_of = (np.abs(x) * 50).astype(np.uint8)
    back = mg.onnx.load(mg.onnx.export(graph, inputs={"images": ((-1, 6, 5, 2), "uint8")}))
    np.testing.assert_allclose(back(bytes_of).numpy(), graph(bytes_of).numpy(), rtol=1e-5, atol=1e-5)


def test_exporting_unsupported_node_graphs_raises():
    source = ng.TrainableConvolution(ng.ConvolutionDescriptor(3, 3, 2, 4), optimizer=ng.Adam(0.1))
    node = ng.ConvolutionNode(ng.ImageNode("x"), source)
    inference = ng.NNGraph(None, node.result_image)
    with pytest.raises(mg.errors.GraphError, match="needs inputs="):
        mg.onnx.export(inference)
    with pytest.raises(mg.errors.ShapeError, match="only the first dimension may be -1"):
        mg.onnx.export(inference, inputs={"x": (-1, -1, 5, 2)})
    with pytest.raises(mg.errors.GraphError, match=r"number of types must be 1 \(one per .*\), got 2"):
        mg.onnx.export(inference, inputs={"x": (-1, 6, 5, 2), "y": (-1, 6, 5, 2)})
    loss = ng.LossNode(node.result_image, ng.LossDescriptor("mean_squared_error"))
    (last,) = loss.training_graph(None)
    with pytest.raises(mg.errors.GraphError, match="inference graph"):
        mg.onnx.export(ng.NNGraph(None, last.result_image), inputs={"x": (-1, 6, 5, 2)})
    dropped = ng.NNGraph(None, ng.DropoutNode(node.result_image, 0.5, 1).result_image)
    with pytest.raises(mg.errors.UnsupportedError, match="random"):
        mg.onnx.export(dropped, inputs={"x": (-1, 6, 5, 2)})
