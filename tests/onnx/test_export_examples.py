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
