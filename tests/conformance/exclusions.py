"""Cases of other projects' test suites that do not pass, by name, grouped by reason.

The tests keep this list accurate: a listed case that passes or does not exist fails a test.
"""


def reasons(groups: dict[str, str]) -> dict[str, str]:
    """Return the reason of each case by name."""
    return {name: reason for reason, names in groups.items() for name in names.split()}


# Models with operators or dtypes that mpsgraph does not support; loading them raises an error.
ONNX_MISSING = {
    "text statistics": """
        node/test_tfidfvectorizer_tf_batch_onlybigrams_skip0
        node/test_tfidfvectorizer_tf_batch_onlybigrams_skip5
        node/test_tfidfvectorizer_tf_batch_uniandbigrams_skip5 node/test_tfidfvectorizer_tf_only_bigrams_skip0
        node/test_tfidfvectorizer_tf_onlybigrams_levelempty node/test_tfidfvectorizer_tf_onlybigrams_skip5
        node/test_tfidfvectorizer_tf_uniandbigrams_skip5
    """,
    "MPSGraph does not support strings": """
        node/test_ai_onnx_ml_label_encoder_string_int node/test_ai_onnx_ml_label_encoder_string_int_no_default
        node/test_ai_onnx_ml_label_encoder_tensor_mapping
        node/test_ai_onnx_ml_label_encoder_tensor_value_only_mapping node/test_equal_string
        node/test_equal_string_broadcast node/test_regex_full_match_basic
        node/test_regex_full_match_email_domain node/test_regex_full_match_empty node/test_string_concat
        node/test_string_concat_broadcasting node/test_string_concat_empty_string node/test_string_concat_utf8
        node/test_string_concat_zero_dimensional node/test_string_split_basic
        node/test_string_split_consecutive_delimiters node/test_string_split_empty_string_delimiter
        node/test_string_split_empty_tensor node/test_string_split_maxsplit
        node/test_string_split_no_delimiter node/test_strnormalizer_export_monday_casesensintive_lower
        node/test_strnormalizer_export_monday_casesensintive_nochangecase
        node/test_strnormalizer_export_monday_casesensintive_upper
        node/test_strnormalizer_export_monday_empty_output
        node/test_strnormalizer_export_monday_insensintive_upper_twodim
        node/test_strnormalizer_nostopwords_nochangecase simple/test_strnorm_model_monday_casesensintive_lower
        simple/test_strnorm_model_monday_casesensintive_nochangecase
        simple/test_strnorm_model_monday_casesensintive_upper simple/test_strnorm_model_monday_empty_output
        simple/test_strnorm_model_monday_insensintive_upper_twodim
        simple/test_strnorm_model_nostopwords_nochangecase
    """,
    "MPSGraph does not support 8-bit and 4-bit floating point": """
        node/test_cast_FLOAT16_to_FLOAT4E2M1 node/test_cast_FLOAT4E2M1_to_FLOAT
        node/test_cast_FLOAT4E2M1_to_FLOAT16 node/test_cast_FLOAT_to_FLOAT4E2M1
        node/test_castlike_FLOAT16_to_FLOAT4E2M1 node/test_castlike_FLOAT16_to_FLOAT4E2M1_expanded
        node/test_castlike_FLOAT4E2M1_to_FLOAT node/test_castlike_FLOAT4E2M1_to_FLOAT16
        node/test_castlike_FLOAT4E2M1_to_FLOAT16_expanded node/test_castlike_FLOAT4E2M1_to_FLOAT_expanded
        node/test_castlike_FLOAT_to_FLOAT4E2M1 node/test_castlike_FLOAT_to_FLOAT4E2M1_expanded
        node/test_dequantizelinear_float4e2m1 node/test_quantizelinear_float4e2m1
        node/test_cast_FLOAT16_to_FLOAT8E4M3FN node/test_cast_FLOAT8E4M3FN_to_FLOAT
        node/test_cast_FLOAT8E4M3FN_to_FLOAT16 node/test_cast_FLOAT_to_FLOAT8E4M3FN
        node/test_cast_no_saturate_FLOAT16_to_FLOAT8E4M3FN node/test_cast_no_saturate_FLOAT_to_FLOAT8E4M3FN
        node/test_castlike_FLOAT16_to_FLOAT8E4M3FN node/test_castlike_FLOAT16_to_FLOAT8E4M3FN_expanded
        node/test_castlike_FLOAT8E4M3FN_to_FLOAT node/test_castlike_FLOAT8E4M3FN_to_FLOAT16
        node/test_castlike_FLOAT8E4M3FN_to_FLOAT16_expanded node/test_castlike_FLOAT8E4M3FN_to_FLOAT_expanded
        node/test_castlike_FLOAT_to_FLOAT8E4M3FN node/test_castlike_FLOAT_to_FLOAT8E4M3FN_expanded
        node/test_castlike_no_saturate_FLOAT16_to_FLOAT8E4M3FN
        node/test_castlike_no_saturate_FLOAT16_to_FLOAT8E4M3FN_expanded
        node/test_castlike_no_saturate_FLOAT_to_FLOAT8E4M3FN
        node/test_castlike_no_saturate_FLOAT_to_FLOAT8E4M3FN_expanded node/test_dequantizelinear_e4m3fn
        node/test_dequantizelinear_e4m3fn_float16 node/test_dequantizelinear_e4m3fn_zero_point
        node/test_quantizelinear_e4m3fn node/test_cast_FLOAT16_to_FLOAT8E4M3FNUZ
        node/test_cast_FLOAT8E4M3FNUZ_to_FLOAT node/test_cast_FLOAT8E4M3FNUZ_to_FLOAT16
        node/test_cast_FLOAT_to_FLOAT8E4M3FNUZ node/test_cast_no_saturate_FLOAT16_to_FLOAT8E4M3FNUZ
        node/test_cast_no_saturate_FLOAT_to_FLOAT8E4M3FNUZ node/test_castlike_FLOAT16_to_FLOAT8E4M3FNUZ
        node/test_castlike_FLOAT16_to_FLOAT8E4M3FNUZ_expanded node/test_castlike_FLOAT8E4M3FNUZ_to_FLOAT
        node/test_castlike_FLOAT8E4M3FNUZ_to_FLOAT16 node/test_castlike_FLOAT8E4M3FNUZ_to_FLOAT16_expanded
        node/test_castlike_FLOAT8E4M3FNUZ_to_FLOAT_expanded node/test_castlike_FLOAT_to_FLOAT8E4M3FNUZ
        node/test_castlike_FLOAT_to_FLOAT8E4M3FNUZ_expanded
        node/test_castlike_no_saturate_FLOAT16_to_FLOAT8E4M3FNUZ
        node/test_castlike_no_saturate_FLOAT16_to_FLOAT8E4M3FNUZ_expanded
        node/test_castlike_no_saturate_FLOAT_to_FLOAT8E4M3FNUZ
        node/test_castlike_no_saturate_FLOAT_to_FLOAT8E4M3FNUZ_expanded node/test_cast_FLOAT16_to_FLOAT8E5M2
        node/test_cast_FLOAT8E5M2_to_FLOAT node/test_cast_FLOAT8E5M2_to_FLOAT16
        node/test_cast_FLOAT_to_FLOAT8E5M2 node/test_cast_no_saturate_FLOAT16_to_FLOAT8E5M2
        node/test_cast_no_saturate_FLOAT_to_FLOAT8E5M2 node/test_castlike_FLOAT16_to_FLOAT8E5M2
        node/test_castlike_FLOAT16_to_FLOAT8E5M2_expanded node/test_castlike_FLOAT8E5M2_to_FLOAT
        node/test_castlike_FLOAT8E5M2_to_FLOAT16 node/test_castlike_FLOAT8E5M2_to_FLOAT16_expanded
        node/test_castlike_FLOAT8E5M2_to_FLOAT_expanded node/test_castlike_FLOAT_to_FLOAT8E5M2
        node/test_castlike_FLOAT_to_FLOAT8E5M2_expanded node/test_castlike_no_saturate_FLOAT16_to_FLOAT8E5M2
        node/test_castlike_no_saturate_FLOAT16_to_FLOAT8E5M2_expanded
        node/test_castlike_no_saturate_FLOAT_to_FLOAT8E5M2
        node/test_castlike_no_saturate_FLOAT_to_FLOAT8E5M2_expanded node/test_dequantizelinear_e5m2
        node/test_quantizelinear_e5m2 node/test_cast_FLOAT16_to_FLOAT8E5M2FNUZ
        node/test_cast_FLOAT8E5M2FNUZ_to_FLOAT node/test_cast_FLOAT8E5M2FNUZ_to_FLOAT16
        node/test_cast_FLOAT_to_FLOAT8E5M2FNUZ node/test_cast_no_saturate_FLOAT16_to_FLOAT8E5M2FNUZ
        node/test_cast_no_saturate_FLOAT_to_FLOAT8E5M2FNUZ node/test_castlike_FLOAT16_to_FLOAT8E5M2FNUZ
        node/test_castlike_FLOAT16_to_FLOAT8E5M2FNUZ_expanded node/test_castlike_FLOAT8E5M2FNUZ_to_FLOAT
        node/test_castlike_FLOAT8E5M2FNUZ_to_FLOAT16 node/test_castlike_FLOAT8E5M2FNUZ_to_FLOAT16_expanded
        node/test_castlike_FLOAT8E5M2FNUZ_to_FLOAT_expanded node/test_castlike_FLOAT_to_FLOAT8E5M2FNUZ
        node/test_castlike_FLOAT_to_FLOAT8E5M2FNUZ_expanded
        node/test_castlike_no_saturate_FLOAT16_to_FLOAT8E5M2FNUZ
        node/test_castlike_no_saturate_FLOAT16_to_FLOAT8E5M2FNUZ_expanded
        node/test_castlike_no_saturate_FLOAT_to_FLOAT8E5M2FNUZ
        node/test_castlike_no_saturate_FLOAT_to_FLOAT8E5M2FNUZ_expanded
        node/test_cast_e8m0_FLOAT16_to_FLOAT8E8M0 node/test_cast_e8m0_FLOAT8E8M0_to_FLOAT
        node/test_cast_e8m0_FLOAT8E8M0_to_FLOAT16 node/test_cast_e8m0_FLOAT_to_FLOAT8E8M0
    """,
    "mpsgraph does not support 4-bit and 2-bit integers": """
        node/test_cast_FLOAT16_to_INT2 node/test_cast_FLOAT_to_INT2 node/test_cast_INT2_to_FLOAT
        node/test_cast_INT2_to_FLOAT16 node/test_cast_INT2_to_INT8 node/test_castlike_FLOAT16_to_INT2
        node/test_castlike_FLOAT16_to_INT2_expanded node/test_castlike_FLOAT_to_INT2
        node/test_castlike_FLOAT_to_INT2_expanded node/test_castlike_INT2_to_FLOAT
        node/test_castlike_INT2_to_FLOAT16 node/test_castlike_INT2_to_FLOAT16_expanded
        node/test_castlike_INT2_to_FLOAT_expanded node/test_castlike_INT2_to_INT8
        node/test_castlike_INT2_to_INT8_expanded node/test_dequantizelinear_int2 node/test_quantizelinear_int2
        node/test_cast_FLOAT16_to_INT4 node/test_cast_FLOAT_to_INT4 node/test_cast_INT4_to_FLOAT
        node/test_cast_INT4_to_FLOAT16 node/test_cast_INT4_to_INT8 node/test_castlike_FLOAT16_to_INT4
        node/test_castlike_FLOAT16_to_INT4_expanded node/test_castlike_FLOAT_to_INT4
        node/test_castlike_FLOAT_to_INT4_expanded node/test_castlike_INT4_to_FLOAT
        node/test_castlike_INT4_to_FLOAT16 node/test_castlike_INT4_to_FLOAT16_expanded
        node/test_castlike_INT4_to_FLOAT_expanded node/test_castlike_INT4_to_INT8
        node/test_castlike_INT4_to_INT8_expanded node/test_dequantizelinear_int4 node/test_quantizelinear_int4
        node/test_cast_FLOAT16_to_UINT2 node/test_cast_FLOAT_to_UINT2 node/test_cast_UINT2_to_FLOAT
        node/test_cast_UINT2_to_FLOAT16 node/test_cast_UINT2_to_UINT8 node/test_castlike_FLOAT16_to_UINT2
        node/test_castlike_FLOAT16_to_UINT2_expanded node/test_castlike_FLOAT_to_UINT2
        node/test_castlike_FLOAT_to_UINT2_expanded node/test_castlike_UINT2_to_FLOAT
        node/test_castlike_UINT2_to_FLOAT16 node/test_castlike_UINT2_to_FLOAT16_expanded
        node/test_castlike_UINT2_to_FLOAT_expanded node/test_castlike_UINT2_to_UINT8
        node/test_castlike_UINT2_to_UINT8_expanded node/test_dequantizelinear_uint2
        node/test_quantizelinear_uint2 node/test_cast_FLOAT16_to_UINT4 node/test_cast_FLOAT_to_UINT4
        node/test_cast_UINT4_to_FLOAT node/test_cast_UINT4_to_FLOAT16 node/test_cast_UINT4_to_UINT8
        node/test_castlike_FLOAT16_to_UINT4 node/test_castlike_FLOAT16_to_UINT4_expanded
        node/test_castlike_FLOAT_to_UINT4 node/test_castlike_FLOAT_to_UINT4_expanded
        node/test_castlike_UINT4_to_FLOAT node/test_castlike_UINT4_to_FLOAT16
        node/test_castlike_UINT4_to_FLOAT16_expanded node/test_castlike_UINT4_to_FLOAT_expanded
        node/test_castlike_UINT4_to_UINT8 node/test_castlike_UINT4_to_UINT8_expanded
        node/test_dequantizelinear_uint4 node/test_quantizelinear_uint4
    """,
    "MPSGraph supports only tensors, not sequences or optional values": """
        node/test_identity_opt node/test_if_opt node/test_optional_get_element_optional_tensor
        node/test_optional_has_element_empty_optional_input node/test_optional_has_element_optional_input
        node/test_optional_has_element_tensor_input node/test_identity_sequence node/test_if_seq
        node/test_loop13_seq node/test_optional_get_element_sequence node/test_sequence_insert_at_back
        node/test_sequence_insert_at_front node/test_sequence_map_add_1_sequence_1_tensor
        node/test_sequence_map_add_1_sequence_1_tensor_expanded node/test_sequence_map_add_2_sequences
        node/test_sequence_map_add_2_sequences_expanded node/test_sequence_map_extract_shapes
        node/test_sequence_map_extract_shapes_expanded node/test_sequence_map_identity_1_sequence
        node/test_sequence_map_identity_1_sequence_1_tensor
        node/test_sequence_map_identity_1_sequence_1_tensor_expanded
        node/test_sequence_map_identity_1_sequence_expanded node/test_sequence_map_identity_2_sequences
        node/test_sequence_map_identity_2_sequences_expanded node/test_split_to_sequence_1
        node/test_split_to_sequence_2 node/test_split_to_sequence_nokeepdims node/test_loop16_seq_none
        node/test_optional_get_element_optional_sequence node/test_optional_get_element_tensor
        node/test_optional_has_element_empty_no_input_name_optional_input
        node/test_optional_has_element_empty_no_input_name_tensor_input
        node/test_optional_has_element_empty_no_input_optional_input
        node/test_optional_has_element_empty_no_input_tensor_input
    """,
    "decoding image files is left to other libraries": """
        node/test_image_decoder_decode_bmp_rgb node/test_image_decoder_decode_jpeg2k_rgb
        node/test_image_decoder_decode_jpeg_bgr node/test_image_decoder_decode_jpeg_grayscale
        node/test_image_decoder_decode_jpeg_rgb node/test_image_decoder_decode_png_rgb
        node/test_image_decoder_decode_pnm_rgb node/test_image_decoder_decode_tiff_rgb
        node/test_image_decoder_decode_webp_rgb
    """,
    "gradients are taken with Graph.gradients": """
        simple/test_gradient_of_add simple/test_gradient_of_add_and_mul
    """,
}

# Models whose results differ from the expected ones, with every version of onnx.
ONNX_DIFFERENT = {
    "expected values come from numpy's random generator, which the standard does not prescribe": """
        node/test_bernoulli node/test_bernoulli_double node/test_bernoulli_double_expanded
        node/test_bernoulli_expanded node/test_bernoulli_seed node/test_bernoulli_seed_expanded
    """,
    "positions depend on the result's rounded size, as in PyTorch and ONNX Runtime, not on scale * size": """
        node/test_resize_downsample_scales_cubic_align_corners
        node/test_resize_downsample_scales_linear_align_corners
    """,
    "expected zeros are 2e-7, a rounding error of the reference transform, above the tolerance of 1e-7": """
        node/test_dft_inverse node/test_dft_inverse_opset19
    """,
}

# Models that differ only in the case files of onnx 1.20.1; newer versions expect the results of mpsgraph.
ONNX_DIFFERENT_ON_DISK = {
    "expected values use other decay factors than the node states": """
        node/test_adam_multiple
    """,
    "expected values wrap around where the standard requires saturation": """
        node/test_qlinearmatmul_2D_int8_float16 node/test_qlinearmatmul_2D_int8_float32
        node/test_qlinearmatmul_3D_int8_float16 node/test_qlinearmatmul_3D_int8_float32
    """,
    "expected scores are capped after the mask, which the standard has corrected since": """
        node/test_attention_3d_with_past_and_present_qk_matmul_bias
        node/test_attention_3d_with_past_and_present_qk_matmul_softcap
        node/test_attention_4d_with_past_and_present_qk_matmul_bias
        node/test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask
        node/test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal
        node/test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask
        node/test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal
        node/test_attention_4d_with_qk_matmul_bias node/test_attention_4d_with_qk_matmul_softcap
    """,
    "expected values are NaN for zeros divided by a norm of zero, which the standard has corrected to zeros since": """
        node/test_l2normalization_axis_0
    """,
}

# Models that differ only in the cases that onnx 1.23.2 creates in memory.
ONNX_DIFFERENT_IN_MEMORY = {
    "expected values are rounded to float16 at other steps, one unit in the last place beyond the tolerance": """
        node/test_attention_4d_causal_fp16_expanded
    """,
}

# Models that fail only if their input sizes are dynamic.
ONNX_UNKNOWN = {
    "MPSGraph cannot take the maximum or minimum over an empty axis, which is detected only at run time": """
        node/test_reduce_log_sum_exp_empty_set node/test_reduce_max_empty_set node/test_reduce_min_empty_set
    """,
}

# Models exported by PyTorch whose outputs differ from PyTorch's.
TORCH_OUTPUTS = {
    "the exporter writes probabilities where the operator takes class indices": """
        modules/LinearCrossEntropyLoss.1 modules/LinearCrossEntropyLoss.3 operators/nn.functional.cross_entropy..2
    """,
    "the exporter loses divisor_override": """
        operators/nn.functional.avg_pool2d..0 operators/nn.functional.avg_pool2d..1
        operators/nn.functional.avg_pool2d..2 operators/nn.functional.avg_pool3d..1
        operators/nn.functional.avg_pool3d..2
    """,
    "the exporter loses proj_size": """
        modules/LSTM.2 modules/LSTM.3
    """,
    "the exporter loses axes of one element": """
        operators/linalg.norm..1 operators/linalg.norm..3 operators/linspace.tensor_overload.2
    """,
    "the exporter loses the mean of scatter_reduce": """
        operators/scatter_reduce.mean.2
    """,
    "the exporter writes sizes of zero, which Reshape replaces by the operand's sizes": """
        operators/nn.functional.pixel_unshuffle..3
    """,
    "the exporter writes erfcx as a product that overflows float32": """
        operators/special.log_ndtr..0 operators/special.log_ndtr..2
    """,
    "dropout in training mode uses PyTorch's random numbers": """
        operators/nn.functional.multi_head_attention_forward..1
        operators/nn.functional.multi_head_attention_forward..2
        operators/nn.functional.multi_head_attention_forward..3
    """,
    "empty indices differ in rank from the data, which GatherElements does not support": """
        operators/gather..2
    """,
}

# Models exported by PyTorch whose gradients, but not outputs, differ from PyTorch's.
TORCH_GRADIENTS = {
    "PyTorch's gradient omits the cotangents of mean and deviation": """
        operators/native_batch_norm..3 operators/native_layer_norm..0 operators/native_layer_norm..1
        operators/native_layer_norm..2
    """,
    "PyTorch's gradient skips padding_idx, which the exporter does not write": """
        operators/nn.functional.embedding..1
    """,
    "PyTorch divides the gradient of a NaN maximum by the number of its occurrences, 0": """
        operators/masked.amax..1 operators/masked.amin..1
    """,
    "PyTorch's gradient is computed from differences of numbers near 10000, which float32 rounds to thousandths": """
        operators/logcumsumexp..0
    """,
    "of several values scattered to one index only one is kept, but PyTorch passes the gradient to all of them": """
        operators/nn.functional.max_unpool2d..0 operators/nn.functional.max_unpool2d..1
        operators/nn.functional.max_unpool2d..3
    """,
}
