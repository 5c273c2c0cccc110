"""Cases that device metal does not support, with the reasons.

Keys are kinds of operations or ids of cases, optionally followed by a dtype. Tests expect UnsupportedError for them.
"""

from cases import control_flow, random

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FACTOR_SCATTERS = [
    *(f"scatter-{label}" for label in ("div", "div_zeros", "mul", "mul_zeros", "mul_clipped")),
    *(f"scatter_nd-{label}" for label in ("div_batched", "div_slices", "mul_batched", "mul_slices", "mul_clipped")),
    *(
        f"scatter_along_axis-{label}"
        for label in ("div", "div_neutral", "tensor_axis_div", "mul", "mul_neutral", "mul_clipped", "tensor_axis_mul")
    ),
]

WIDE = "produces float64, which Apple GPUs do not support"
UNCOUNTED = "saves values of every iteration, and the number of iterations is only known at run time"

REASONS: dict[str, str] = {
    **{f"cast-{dtype}": f"Apple GPUs do not support {dtype}" for dtype in ("float64", "complex128")},
    **{case.id: WIDE for case in random.CASES if "float64" in case.id},
    "one_hot-one": WIDE,
    **{
        f"{case}-{t}": "MPSGraph converts scattered integer products to float32, which is inexact"
        for case in FACTOR_SCATTERS
        for t in INTEGERS
    },
}

# Unsupported derivatives, by id of the case. The same loops with constant bounds are supported and tested, too.
GRADIENTS: dict[str, str] = {
    case.id: UNCOUNTED
    for case in control_flow.CASES
    if case.operation == "for" and "constant" not in case.id and case.float_inputs()
}
GRADIENTS["while-both_blocks"] = UNCOUNTED

# Tests in tests/nngraph, as patterns of test ids, for which Apple's nodes have no support or undocumented behavior.
UNALIGNED = "the padding channels between two concatenated images are not zero on a Mac"
TURNED = "Apple does not document the window positions of such a transposed convolution"
DIVERGENCE = "Apple documents a gradient of this loss that is not its derivative"
NODES: dict[str, str] = {
    **{f"test_*[[]concatenation-({widths})]": UNALIGNED for widths in ("1, 1", "7, 11", "3,", "4, 2, 5")},
    **{
        f"test_*[[]convolution_transpose-{label}]": TURNED
        for label in ("stride 2,3", "same,*", "*,top_left,top_left", "*,bottom_right,top_left", "(*")
    },
    "test_*[[]convolution-groups*]": "Apple requires a multiple of 4 channels per group",
    "test_*[[]convolution-depthwise twice]": "Apple's depthwise convolution has as many output as input channels",
    "test_*[[]lanczos_scale-[12]x[12]]": "it is unknown how Apple's kernel shrinks images",
    "test_*loss*[[]kullback_leibler_divergence-*]": DIVERGENCE,
    **{
        f"test_forward_loss_and_its_gradient_match_formula[[]*-True-{reduction}-*]": (
            "Apple does not say which images hold the loss"
        )
        for reduction in ("sum", "mean", "sum_by_nonzero_weights")
    },
    "test_loss_gradients_of_labels_and_weights_match_formula[[]*]": (
        "Apple's nodes have no gradient with respect to a loss's weights"
    ),
    "test_yolo_loss_and_gradient_match_formula[[]0-*": "Apple's YOLO loss requires classes",
    "test_statistics_are_updated_before_gamma_and_beta": "a trainable data source is used by two filters",
    "test_training_graph_accepts_one_data_source_in_several_filters": (
        "a trainable data source is used by several filters"
    ),
    "test_gradients_of_recurrent_states_match_numpy[[]*]": (
        "Apple does not document the meaning of recurrent states in gradients"
    ),
    "test_recurrent_weights_with_padded_rows_are_supported": "Apple chooses the layout of weights",
    "test_*_over_50_steps[[]*-l1]": "Apple's documentation of l1 pushes negative values away from zero",
}

# Values that Apple leaves undefined, so there is no expected result for device metal.
OPEN: dict[str, str] = {
    "test_filter_value_matches_numpy[[]reduction_feature_channels_argument_*-ties]": (
        "which of several equal channels is returned"
    ),
    "test_filter_gradient_matches_finite_differences[[]pooling_max-ties]": (
        "which of several equal pixels receives the gradient"
    ),
    "test_filter_gradient_matches_finite_differences[[]pooling_l2_norm-zeros]": (
        "the derivative of a square root at zero"
    ),
    "test_logarithmic_losses_with_label_zero_are_finite": "0 times the logarithm of 0",
}
