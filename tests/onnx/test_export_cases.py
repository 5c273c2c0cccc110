"""Export every case of the operation tests that ONNX can express, and run the files in ONNX's reference evaluator."""

from __future__ import annotations

import cases
import mpsgraph as mg
import numpy as np
import pytest
from harness.case import Case
from harness.case_selection import dtypes_of
from harness.exports import listed, what_outputs_need, without_description
from harness.running import build, feeds
from mpsgraph.onnx.export import written_kinds
from onnx.reference import ReferenceEvaluator

# Cases that the reference evaluator cannot run or computes differently; mpsgraph's own importer runs these instead. For
# the rules on NaN and infinities, see docs/onnx.md.
REFERENCE_DIFFERS = {
    # The reference evaluator's ConvTranspose ignores groups.
    "convolution2d_data_gradient-groups", "convolution2d_data_gradient-depthwise",
    "convolution2d_data_gradient-nchw_oihw", "convolution2d_data_gradient-grouped_16",
    "convolution3d_data_gradient-groups", "convolution_transpose2d-groups",
    # The reference evaluator does not support empty batches.
    "convolution2d-no_images", "convolution2d_data_gradient-no_images", "convolution3d-no_images",
    "convolution3d_data_gradient-no_images", "convolution_transpose2d-no_images", "col_to_im-no_images",
    "sample_grid-nothing", "sample_grid-no_places",
    # The evaluators treat NaN in maxima and minima differently.
    "max_pooling2d-nan",
    # With ceil_mode, the reference evaluator produces too many windows.
    "max_pooling2d-negative",
    # Casting values beyond the int32 range to int8 is undefined.
    "quantize-far",
    # RNN supports only tanh and the forward direction, and Scan only in part, so mpsgraph's importer runs all of these.
    "single_gate_rnn-projected", "single_gate_rnn-plain", "single_gate_rnn-reverse", "single_gate_rnn-no_rows",
    "single_gate_rnn-wide", "single_gate_rnn-many_reverse", "lstm-reverse", "lstm-wide", "lstm-many_reverse",
    "gru-reverse", "gru-wide", "gru-many_reverse", "single_gate_rnn-relu", "single_gate_rnn-sigmoid",
    "single_gate_rnn-hard_sigmoid",
    # Empty index tensors and NonZero of a scalar are unsupported, and ScatterElements multiplies repeated indices once.
    "gather-no_indices", "gather_along_axis-nothing", "non_zero_indices-number", "non_zero_indices-zero",
    "scatter_along_axis-mul", "scatter_along_axis-div", "scatter_along_axis-mul_clipped",
    "scatter_along_axis-mul_neutral", "scatter_along_axis-div_neutral",
}  # fmt: skip

# Maxima and minima ignore NaN here but not in ONNX; the importer cannot resize empty images; and index vectors of
# length 0 do not exist in ONNX.
OTHERWISE = {
    "gather_nd-whole", "scatter_nd-whole_tensors",
    "reduction_maximum-nan", "reduction_minimum-nan", "resize_nearest-nothing", "resize_nearest-to_nothing",
    "resize_bilinear-nothing", "resize_bilinear-to_nothing",
}  # fmt: skip

# Random operations return their state, which is internal to a runtime; test_export_sequences.py covers them.
KINDS = sorted(set(written_kinds()) & {case.operation for case in cases.ALL} - {"random"})


def dtype_for(case: Case) -> str:
    return next((dtype for dtype in ("float32", "uint32") if dtype in dtypes_of(case)), dtypes_of(case)[0])


def check(case: Case) -> bool:
    """Export a case and compare its results; return False if ONNX cannot express it."""
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
    wanted = [array.numpy() for array in built.run(arrays)]
    back = mg.onnx.load(proto)
    assert listed(back.graph.operations) == what_outputs_need(outputs), case.id
    if case.id in REFERENCE_DIFFERS or any(node.op_type == "Scan" for node in proto.graph.node):
        plain = mg.onnx.load(without_description(proto))
        results = {name: array.numpy() for name, array in plain.run(fed).items()}
    else:
        reference = ReferenceEvaluator(proto)
        results = dict(zip(reference.output_names, reference.run(None, fed), strict=True))
    for result, ours in zip((results[name] for name in outputs), wanted, strict=True):
        assert (result.shape, result.dtype) == (ours.shape, ours.dtype), case.id
        scale = float(np.abs(ours[np.isfinite(ours)]).max(initial=1)) if ours.dtype.kind == "f" else 1.0
        tolerance = {"rtol": 1e-5 * case.tolerance, "atol": 2e-6 * scale * case.tolerance}
        np.testing.assert_allclose(result, ours, **tolerance, err_msg=case.id)
    return True


WRITTEN: dict[str, int] = {}  # Number of exported cases per kind, in the tests that have run.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_exported_case_values_match_reference(kind: str):
    WRITTEN[kind] = sum(check(case) for case in cases.ALL if case.operation == kind)
    assert WRITTEN[kind], f"no case of {kind} can be exported"


def test_number_of_exported_cases_does_not_decrease():
    if WRITTEN.keys() != set(KINDS):
        pytest.skip("needs the results of all other tests in this file")
    assert sum(WRITTEN.values()) >= 926  # 2026-11-26
