"""Every case of the operations' suite that ONNX can say, through a file and ONNX's own reference evaluator."""

from __future__ import annotations

import cases
import mpsgraph as mg
import numpy as np
import pytest
from harness.case import Case
from harness.chosen import dtypes_of
from harness.running import build, feeds
from mpsgraph.onnx.export import written_kinds
from onnx.reference import ReferenceEvaluator

# Cases that the reference evaluator cannot run or answers otherwise: our own import runs these. docs/onnx.md has the
# rules on NaN and infinities.
REFERENCE_DIFFERS = {
    # its ConvTranspose has no groups
    "convolution2d_data_gradient-groups", "convolution2d_data_gradient-depthwise",
    "convolution2d_data_gradient-nchw_oihw", "convolution2d_data_gradient-grouped_16",
    "convolution3d_data_gradient-groups", "convolution_transpose2d-groups",
    # it has no batches of nothing
    "convolution2d-no_images", "convolution2d_data_gradient-no_images", "convolution3d-no_images",
    "convolution3d_data_gradient-no_images", "convolution_transpose2d-no_images", "col_to_im-no_images",
    "sample_grid-nothing", "sample_grid-no_places",
    # NaN in extrema: each evaluator has a rule of its own
    "max_pooling2d-nan",
    # its windows with ceil_mode are too many
    "max_pooling2d-negative",
    # numbers beyond int32 are undefined in the cast to int8
    "quantize-far",
    # it has RNN with tanh alone, and one direction forwards
    "single_gate_rnn-projected", "single_gate_rnn-plain", "single_gate_rnn-reverse", "single_gate_rnn-no_rows",
    "single_gate_rnn-wide", "single_gate_rnn-many_reverse", "lstm-reverse", "lstm-wide", "lstm-many_reverse",
    "gru-reverse", "gru-wide", "gru-many_reverse", "single_gate_rnn-relu", "single_gate_rnn-sigmoid",
    "single_gate_rnn-hard_sigmoid",
}  # fmt: skip

# Plain extrema pass over NaN here and not in ONNX; images that are empty cannot be resized by our import.
OTHERWISE = {
    "reduction_maximum-nan", "reduction_minimum-nan", "resize_nearest-nothing", "resize_nearest-to_nothing",
    "resize_bilinear-nothing", "resize_bilinear-to_nothing",
}  # fmt: skip

KINDS = sorted(set(written_kinds()) & {case.operation for case in cases.ALL})


def dtype_for(case: Case) -> str:
    return next((dtype for dtype in ("float32", "uint32") if dtype in dtypes_of(case)), dtypes_of(case)[0])


def check(case: Case) -> bool:
    """Exports a case and compares; False when ONNX cannot say it."""
    dtype = dtype_for(case)
    built, arrays = build(case, dtype), feeds(case.inputs, dtype)
    inputs = {f"x{i}": tensor for i, tensor in enumerate(built.placeholders)}
    outputs = {f"y{i}": tensor for i, tensor in enumerate(built.results)}
    try:
        proto = mg.onnx.export(built.graph, inputs=inputs, outputs=outputs)
    except mg.errors.UnsupportedError as error:
        assert "[onnx.export]" in str(error)
        return False
    if case.id in OTHERWISE:
        return True
    fed = dict(zip(inputs, arrays, strict=True))
    if case.id in REFERENCE_DIFFERS:
        results = [array.numpy() for array in mg.onnx.load(proto).run(fed).values()]
    else:
        results = ReferenceEvaluator(proto).run(None, fed)
    for result, ours in zip(results, (r.numpy() for r in built.run(arrays)), strict=True):
        assert (result.shape, result.dtype) == (ours.shape, ours.dtype), case.id
        scale = float(np.abs(ours[np.isfinite(ours)]).max(initial=1)) if ours.dtype.kind == "f" else 1.0
        tolerance = {"rtol": 1e-5 * case.tolerance, "atol": 2e-6 * scale * case.tolerance}
        np.testing.assert_allclose(result, ours, **tolerance, err_msg=case.id)
    return True


WRITTEN: dict[str, int] = {}  # cases of each kind, by the tests that have run


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_values(kind: str):
    WRITTEN[kind] = sum(check(case) for case in cases.ALL if case.operation == kind)
    assert WRITTEN[kind], f"no case of {kind} can be exported"


def test_no_more_cases_are_refused():
    if WRITTEN.keys() != set(KINDS):
        pytest.skip("counts what all tests of this file have written")
    assert sum(WRITTEN.values()) >= 706  # 2026-11-26
