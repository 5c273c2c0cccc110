"""What device metal cannot do, by kind of operation or by the id of a case (and an element type behind it), and why.

Tests expect UnsupportedError.
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

# What its derivative cannot do, by the id of a case. The same loops with constant bounds are cases, too.
GRADIENTS: dict[str, str] = {
    case.id: UNCOUNTED
    for case in control_flow.CASES
    if case.operation == "for" and "constant" not in case.id and case.float_inputs()
}
GRADIENTS["while-both_blocks"] = UNCOUNTED

# Of tests/nngraph, by the test and its parameters with * for any: what Apple's nodes do not do, or not as is known.
UNALIGNED = "what fills channels up to a multiple of 4 between two images is not zero on a Mac"
TURNED = "where Apple places the windows of such a transposed convolution is not documented"
DIVERGENCE = "Apple states a gradient of this loss that is not its derivative"
NODES: dict[str, str] = {
    **{f"test_*[[]concatenation-({widths})]": UNALIGNED for widths in ("1, 1", "7, 11", "3,", "4, 2, 5")},
    **{
        f"test_*[[]convolution_transpose-{label}]": TURNED
        for label in ("stride 2,3", "same,*", "*,top_left,top_left", "*,bottom_right,top_left", "(*")
    },
    "test_*[[]convolution-groups*]": "Apple's groups have a multiple of 4 channels each",
    "test_*[[]convolution-depthwise twice]": "Apple's depthwise convolution gives as many channels as it takes",
    "test_*[[]lanczos_scale-[12]x[12]]": "what Apple's kernel does where it shrinks is not known",
    "test_*loss*[[]kullback_leibler_divergence-*]": DIVERGENCE,
    **{
        f"test_forward_loss_and_its_gradient[[]*-True-{reduction}-*]": "Apple does not say which images it gives"
        for reduction in ("sum", "mean", "sum_by_nonzero_weights")
    },
    "test_loss_gradients_of_labels_and_weights[[]*]": "Apple has no gradient of a loss's weights",
    "test_yolo_loss_and_gradient_match_formula[[]0-*": "Apple's boxes have classes",
    "test_statistics_are_updated_before_gamma_and_beta": "the source trains and stands in two filters",
    "test_training_graph_with_one_data_source_in_several_filters": "the source trains and stands in several filters",
    "test_gradients_of_states[[]*]": "what recurrent states mean to Apple's gradient is not documented",
    "test_weights_with_padded_rows": "how Apple lays out weights is its own affair",
    "test_*_over_50_steps[[]*-l1]": "Apple's text on l1 pushes negative values away from zero",
}

# What Apple leaves open, so that there is no number to hold a device against.
OPEN: dict[str, str] = {
    "test_value[[]reduction_feature_channels_argument_*-ties]": "which of equal channels is the answer",
    "test_gradient[[]pooling_max-ties]": "which of equal pixels has the gradient",
    "test_gradient[[]pooling_l2_norm-zeros]": "the slope of a root at zero",
    "test_logarithmic_losses_with_label_zero_are_finite": "0 times the logarithm of 0",
}
