"""Run the exported models of examples/ in ONNX Runtime, passing states from run to run, and compare their values."""

import numpy as np
import pytest
from harness.exported_examples import EXAMPLES

onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed: make test-onnxruntime")
onnxruntime.set_default_logger_severity(3)


@pytest.mark.parametrize("opset", (18, 20, 21))
@pytest.mark.parametrize("make", EXAMPLES)
def test_exported_examples_match_in_onnx_runtime(make, opset):
    example = make()
    proto = example.export(opset)
    running = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names, state = [output.name for output in running.get_outputs()], {}
    for arrays in example.feeds:
        found = dict(zip(names, running.run(None, {**arrays, **state}), strict=True))
        for name, wanted in example.run(arrays).items():
            assert found[name].shape == wanted.shape
            scale = 1e-5 * max(1, np.abs(wanted).max())
            if example.exact:
                np.testing.assert_allclose(found[name], wanted, rtol=1e-5, atol=scale, err_msg=name)
        state = {name.removesuffix("_next"): array for name, array in found.items() if name.endswith("_next")}
