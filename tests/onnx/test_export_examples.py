"""The models of examples/ as ONNX files, and back: the same operations and the same numbers."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from harness.exported_examples import EXAMPLES
from harness.exports import listed, what_outputs_need, without_description


@pytest.mark.parametrize("make", EXAMPLES)
def test_examples(make):
    example = make()
    proto = example.export()
    back, plain = mg.onnx.load(proto), mg.onnx.load(without_description(proto))
    if example.exact:
        assert listed(back.graph.operations) == what_outputs_need(example.outputs)
    assert list(back.inputs) == list(plain.inputs) == list(example.inputs)
    for arrays in example.feeds:
        fed = {example.inputs[name]: array for name, array in arrays.items()}
        wanted = example.graph.run(fed, list(example.outputs.values()))
        same, close = back.run(arrays), plain.run(arrays)
        for name, tensor in example.outputs.items():
            if not example.exact:
                assert close[name].shape == same[name].shape == wanted[tensor].shape
                continue
            np.testing.assert_array_equal(same[name].numpy(), wanted[tensor].numpy(), err_msg=name)
            np.testing.assert_allclose(close[name].numpy(), wanted[tensor].numpy(), rtol=1e-5, atol=1e-5, err_msg=name)
