// What shape operations mean, element by element: for their inference, and for the kernels that run them.
//
// Slices, padding and shape operands are stated here once; nothing here moves data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/definition.h"

namespace mpsgraph {
class Builder;
}

namespace mpsgraph::ops {

// A negative axis counts from the end; the operation passed inference, so it lies inside.
inline constexpr int64_t max_parts = 1 << 16;  // that one operation cuts a tensor into
inline int wrap_axis(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

// The elements start, start + stride, ... of one axis; `squeezed` drops the axis from the result.
struct SliceRange {
  int64_t start = 0;
  int64_t stride = 1;
  int64_t count = 0;
  bool squeezed = false;
};
// `axis` of a slice whose input has `size` elements there. No range when a squeezed index lies outside.
std::optional<SliceRange> slice_range(const Attributes& attributes, int axis, int64_t size);

// The first of `size` elements, `stride` apart, of an axis of n, from a start that counts from the end when it is
// negative; nothing when they do not all lie inside.
std::optional<int64_t> window_start(int64_t start, int64_t size, int64_t stride, int64_t n);
// Where a slice whose starts and ends are tensors begins and how many elements it takes of each axis: int64 lists, made
// with operations, from the source's sizes. Strides are known.
struct SlicePlaces {
  Tensor* begin;
  Tensor* count;
};
SlicePlaces slice_places(Builder& builder, Tensor* sizes, Tensor* starts, Tensor* ends, const Ints& strides,
                         const Attributes& masks);
// The strides of a dynamic slice: those that were given, else 1.
Ints window_strides(const Attributes& attributes, size_t rank);

enum class PadMode : uint8_t { constant, reflect, symmetric, clamp_to_edge, periodic, anti_periodic };
std::optional<PadMode> pad_mode_from_name(std::string_view name);  // "zero" is constant

// Which input element a position of the padded axis shows; `index` is -1 where it shows the constant. Positions count
// from the first input element, so that the left padding is negative. Mirrors and periods repeat as long as needed.
struct PadSource {
  int64_t index = -1;
  bool negated = false;  // anti_periodic: every other period has the opposite sign
};
PadSource pad_source(PadMode mode, int64_t position, int64_t size);

// The shape that a shape operand states: its value when known, else its rank when known. Checks that it is a list of
// integers; a -1 in it is an error unless it is a `wildcard`.
Shape shape_operand(const InferContext& context, size_t input, bool wildcard = false);
// The same for an operand that states the result's shape, merged with what the other operands imply.
Shape stated_shape(const InferContext& context, size_t input, const Shape& implied);
// For an attribute that has one entry for each axis: the operand's dimensions, or all unknown when it is unranked.
// ShapeError when the operand's rank is another.
Dims dims_for(const InferContext& context, size_t input, std::string_view attribute);
// The axes of an attribute, made non-negative; ShapeError when one lies outside or stands twice.
std::vector<int> distinct_axes(const InferContext& context, const Ints& axes, int rank);

}  // namespace mpsgraph::ops
