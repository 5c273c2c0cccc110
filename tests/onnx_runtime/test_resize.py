"""Check the float32 reference of Resize, which `tests/onnx` compares the importer with, against ONNX Runtime."""

import numpy as np
import pytest
from harness.onnx_resize import cases, expected, resizing

# ONNX Runtime is optional: `make test-onnxruntime` creates an environment with it.
onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed: make test-onnxruntime")
onnxruntime.set_default_logger_severity(3)


@pytest.mark.parametrize("rank", [1, 4])
def test_float32_reference_of_nearest_resize_matches_onnx_runtime(rank):
    everything = list(cases())
    for start in range(0, len(everything), 400):
        group = everything[start : start + 400]
        made, feeds = resizing(group, rank)
        running = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
        for case, y in zip(group, running.run(None, feeds), strict=True):
            np.testing.assert_array_equal(y.ravel(), expected(case), err_msg=str(case))
