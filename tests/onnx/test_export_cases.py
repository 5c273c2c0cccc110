"""Every case of the operations' suite that ONNX can say, through a file and ONNX's own reference evaluator."""

from __future__ import annotations

import cases
import mpsgraph as mg
import numpy as np
import pytest
from harness.case import Case
from harness.chosen import dtypes_of
from harness.exports import listed, what_outputs_need, without_description
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
    # it has RNN with tanh alone, and one direction forwards; of Scan a part, so that our own import runs all of those
    "single_gate_rnn-projected", "single_gate_rnn-plain", "single_gate_rnn-reverse", "single_gate_rnn-no_rows",
    "single_gate_rnn-wide", "single_gate_rnn-many_reverse", "lstm-reverse", "lstm-wide", "lstm-many_reverse",
    "gru-reverse", "gru-wide", "gru-many_reverse", "single_gate_rnn-relu", "single_gate_rnn-sigmoid",
    "single_gate_rnn-hard_sigmoid",
    # it has no places of nothing, no nonzero of a number, and ScatterElements that multiplies once
    "gather-no_indices", "gather_along_axis-nothing", "non_zero_indices-number", "non_zero_indices-zero",
    "scatter_along_axis-mul", "scatter_along_axis-div", "scatter_along_axis-mul_clipped",
    "scatter_along_axis-mul_neutral", "scatter_along_axis-div_neutral",
}  # fmt: skip

# Plain extrema pass over NaN here and not in ONNX; images that are empty cannot be resized by our import; vectors of no
# indices are none in ONNX.
OTHERWISE = {
    "gather_nd-whole", "scatter_nd-whole_tensors",
    "reduction_maximum-nan", "reduction_minimum-nan", "resize_nearest-nothing", "resize_nearest-to_nothing",
    "resize_bilinear-nothing", "resize_bilinear-to_nothing",
}  # fmt: skip

# Cases of random numbers give their states, which stay in a runtime: test_export_sequences.py has others.
KINDS = sorted(set(written_kinds()) & {case.operation for case in cases.ALL} - {"random"})


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


WRITTEN: dict[str, int] = {}  # cases of each kind, by the tests that have run


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_values(kind: str):
    WRITTEN[kind] = sum(check(case) for case in cases.ALL if case.operation == kind)
    assert WRITTEN[kind], f"no case of {kind} can be exported"


def test_no_more_cases_are_refused():
    if WRITTEN.keys() != set(KINDS):
        pytest.skip("counts what all tests of this file have written")
    assert sum(WRITTEN.values()) >= 926  # 2026-11-26
