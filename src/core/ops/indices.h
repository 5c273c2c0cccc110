// Checks shared by gathers and scatters: which indices fit which tensor, the shape of the result, and the range of
// operations that return indices.
//
// A scatter's updates have the shape of gathering from the scatter's result with the same indices, so both use these
// functions.
#pragma once

#include <optional>

#include "core/definition.h"

namespace mpsgraph::ops {

// Throws ShapeError if the axis is longer than int32 can count; operations return positions along an axis as int32.
void require_countable(const InferContext& context, const Shape& shape, int axis);
// Throws DTypeError unless the operand has an integer dtype.
void require_indices(const InferContext& context, size_t input);
// The shape of gathering from `updates`, unranked or partly unknown if the operands are. Throws ShapeError if the
// indices do not fit. Reads the attribute batch_dimensions.
Shape gathered_nd(const InferContext& context, const Shape& updates, size_t indices);
// The shape of gathering along an axis, which may not be known yet.
Shape gathered_along_axis(const InferContext& context, const Shape& updates, size_t indices,
                          std::optional<int64_t> axis);

}  // namespace mpsgraph::ops
