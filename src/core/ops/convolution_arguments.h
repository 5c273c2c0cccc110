// Descriptions of the arguments that convolutions share.
#pragma once

#include <string_view>

namespace mpsgraph::ops {

inline constexpr std::string_view convolution2d_arguments = R"(
Args:
    strides: Step between windows in pixels: an int, or (y, x).
    dilations: Spacing between the elements of the kernel in pixels: an int, or (y, x).
    groups: Number of groups that the channels are split into; each group has its own weights.
    padding: "TF_VALID" (no padding, the default); "TF_SAME" (output size = ceil(input size / stride), where an
        odd pixel of padding goes to the bottom and right); "ONNX_SAME_LOWER" (the same, with the odd pixel at
        the top and left); or ((top, bottom), (left, right)) in pixels.
    data_layout: "NHWC" (the default) or "NCHW".
    weights_layout: "HWIO" (the default) or "OIHW".)";

inline constexpr std::string_view convolution3d_arguments = R"(
Args:
    strides: Step between windows in voxels: an int, or (z, y, x).
    dilations: Spacing between the elements of the kernel in voxels: an int, or (z, y, x).
    groups: Number of groups that the channels are split into; each group has its own weights.
    padding: "TF_VALID" (no padding, the default); "TF_SAME" (output size = ceil(input size / stride), where an
        odd voxel of padding goes to the end of the axis); "ONNX_SAME_LOWER" (the same, with the odd voxel at
        the start); or ((front, back), (top, bottom), (left, right)) in voxels.
    data_layout: "NDHWC" (the default) or "NCDHW".
    weights_layout: "DHWIO" (the default) or "OIDHW".
    channel_dimension_index: Axis of the channels, counted from the end: -4 for NCDHW (the default), -1 for
        NDHWC.)";

}  // namespace mpsgraph::ops
