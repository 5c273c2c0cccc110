// Descriptions of the arguments that pooling operations share.
#pragma once

#include <string_view>

namespace mpsgraph::ops {

inline constexpr std::string_view pooling2d_arguments = R"(
Args:
    kernel: Height and width of the window in pixels; an int means a square. Or a
        Pooling2DDescriptor, which contains the other options.
    strides: Step between windows in pixels: an int, or (y, x). None, the default, means the size of the kernel.
    padding: "TF_VALID" (no padding, the default), "TF_SAME", "ONNX_SAME_LOWER", or ((top, bottom), (left,
        right)) in pixels.
    dilations: Spacing between the elements of the window in pixels: an int, or (y, x).
    data_layout: "NHWC" (the default) or "NCHW".
    ceil_mode: Whether to round the output size up, so that the last window may extend beyond the padding.
    include_zero_pad_to_average: Whether padding counts as zeros in the average. Defaults to False, which
        averages only over elements inside the image.)";

inline constexpr std::string_view pooling4d_arguments = R"(
Args:
    kernel: Size of the window along the last four axes; an int applies to all of them. Or a
        Pooling4DDescriptor, which contains the other options.
    strides: Step between windows: an int, or four ints. None, the default, means 1.
    padding: "TF_VALID" (no padding, the default), "TF_SAME", "ONNX_SAME_LOWER", or four pairs (before, after).
    dilations: Spacing between the elements of the window: an int, or four ints.
    ceil_mode: Whether to round the output size up, so that the last window may extend beyond the padding.
    include_zero_pad_to_average: Whether padding counts as zeros in the average. Defaults to False, which
        averages only over elements inside the source.)";

}  // namespace mpsgraph::ops
