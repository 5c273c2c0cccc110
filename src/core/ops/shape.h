// Element-wise semantics of shape operations, shared by their inference and their kernels.
//
// Slices, padding, and shape operands are defined once here; nothing in this header moves data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/definition.h"

namespace mpsgraph {
class Builder;
}

namespace mpsgraph::ops {

// Negative axes count from the end. The axis must already have been checked by inference.
inline constexpr int64_t max_parts = 1 << 16;  // maximum number of parts into which one operation splits a tensor
inline int wrap_axis(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

// The elements start, start + stride, ... of one axis. `squeezed` removes the axis from the result.
struct SliceRange {
  int64_t start = 0;
  int64_t stride = 1;
  int64_t count = 0;
  bool squeezed = false;
};
// The range of `axis` in a slice whose input has `size` elements there; nullopt if a squeezed index is out of range.
std::optional<SliceRange> slice_range(const Attributes& attributes, int axis, int64_t size);

// The index of the first of `size` elements, `stride` apart, on an axis of n elements. A negative start counts from the
// end. nullopt if the elements do not all lie on the axis.
std::optional<int64_t> window_start(int64_t start, int64_t size, int64_t stride, int64_t n);
// The begin and the number of elements per axis of a slice whose starts and ends are tensors, computed by operations
// from the source's sizes as int64 lists. Strides must be known.
struct SlicePlaces {
  Tensor* begin;
  Tensor* count;
};
SlicePlaces slice_places(Builder& builder, Tensor* sizes, Tensor* starts, Tensor* ends, const Ints& strides,
                         const Attributes& masks);
// The strides of a dynamic slice: the given ones, or all 1.
Ints window_strides(const Attributes& attributes, size_t rank);

enum class PadMode : uint8_t { constant, reflect, symmetric, clamp_to_edge, periodic, anti_periodic };
std::optional<PadMode> pad_mode_from_name(std::string_view name);  // "zero" means constant

// The input element that a position of the padded axis shows; `index` is -1 where it shows the constant. Position 0 is
// the first input element, so the left padding has negative positions. Mirrored and periodic padding repeat as often as
// needed.
struct PadSource {
  int64_t index = -1;
  bool negated = false;  // anti_periodic: the sign flips with every period
};
PadSource pad_source(PadMode mode, int64_t position, int64_t size);

// The shape specified by a shape operand: its value if known, otherwise its rank if known. Checks that the operand is a
// list of integers; an entry of -1 is an error unless `wildcard` is set.
Shape shape_operand(const InferContext& context, size_t input, bool wildcard = false);
// The shape specified by an operand that gives the shape of the result, merged with what the other operands imply.
Shape stated_shape(const InferContext& context, size_t input, const Shape& implied);
// Dimensions of an operand for an attribute that has one entry per axis; all unknown if the operand is unranked. Throws
// ShapeError if the operand has another rank.
Dims dims_for(const InferContext& context, size_t input, std::string_view attribute);
// The axes of an attribute, made non-negative. Throws ShapeError if one is out of range or repeated.
std::vector<int> distinct_axes(const InferContext& context, const Ints& axes, int rank);

}  // namespace mpsgraph::ops
