// How slices, padding, and shape operands determine the shape and the elements of a result. Shared by inference and
// kernels.
//
// The functions only compute shapes and indices; they move no data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/definition.h"

namespace mpsgraph {
class Builder;
}

namespace mpsgraph::ops {

inline constexpr int64_t max_parts = 1 << 16;  // maximum number of parts into which one operation splits a tensor

// Converts an axis counted from the end to one counted from the front. Inference must already have checked the axis.
inline int wrap_axis(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

// The elements of a slice along one axis: start, start + stride, ... . With `squeezed`, the result lacks the axis.
struct SliceRange {
  int64_t start = 0;
  int64_t stride = 1;
  int64_t count = 0;
  bool squeezed = false;
};
// The range of `axis` in a slice whose input has `size` elements along that axis; nullopt if a squeezed index is out of
// range.
std::optional<SliceRange> slice_range(const Attributes& attributes, int axis, int64_t size);

// The index of the first element of a window of `size` elements, `stride` apart, on an axis of n elements. A negative
// start counts from the end. Returns nullopt if the window extends beyond the axis.
std::optional<int64_t> window_start(int64_t start, int64_t size, int64_t stride, int64_t n);
// The begin and the number of elements per axis of a slice whose starts and ends are tensors, as int64 lists. Both are
// computed by graph operations from the source's sizes. The strides must be known.
struct SlicePlaces {
  Tensor* begin;
  Tensor* count;
};
SlicePlaces slice_places(Builder& builder, Tensor* sizes, Tensor* starts, Tensor* ends, const Ints& strides,
                         const Attributes& masks);
// The strides of a dynamic slice; all 1 if the attribute is empty.
Ints window_strides(const Attributes& attributes, size_t rank);

enum class PadMode : uint8_t { constant, reflect, symmetric, clamp_to_edge, periodic, anti_periodic };
std::optional<PadMode> pad_mode_from_name(std::string_view name);  // The name "zero" means PadMode::constant.

// The input element that is copied to a position of the padded axis; `index` is -1 where the padding constant is used.
// Position 0 is the first input element, so the left padding has negative positions. Mirrored and periodic padding
// repeat as often as needed.
struct PadSource {
  int64_t index = -1;
  bool negated = false;  // with anti_periodic padding, the sign flips with every period
};
PadSource pad_source(PadMode mode, int64_t position, int64_t size);

// The shape specified by a shape operand: the full shape if the operand's value is known, otherwise an unknown shape of
// known rank if possible. Checks that the operand is a list of integers; an entry of -1 is an error unless `wildcard`
// is set.
Shape shape_operand(const InferContext& context, size_t input, bool wildcard = false);
// The shape that a shape operand specifies for the result, merged with `implied`, the shape that follows from the other
// operands.
Shape stated_shape(const InferContext& context, size_t input, const Shape& implied);
// The dimensions of operand `input`, which must have as many axes as the attribute has entries; otherwise throws
// ShapeError. If the operand is unranked, all dimensions are unknown.
Dims dims_for(const InferContext& context, size_t input, std::string_view attribute);
// The axes of an attribute, converted to non-negative values. Throws ShapeError if an axis is out of range or repeated.
std::vector<int> distinct_axes(const InferContext& context, const Ints& axes, int rank);

}  // namespace mpsgraph::ops
