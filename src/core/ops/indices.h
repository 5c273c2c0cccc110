// Checks shared by gathers and scatters: whether indices match a tensor's shape, the shape of the result, and whether
// axes are short enough for operations that return int32 indices.
//
// A scatter's updates have the shape of gathering from the scatter's result with the same indices, so gathers and
// scatters both use these functions.
#pragma once

#include <optional>

#include "core/definition.h"

namespace mpsgraph::ops {

// Throws ShapeError if the axis is too long for int32 indices. Operations that return positions along an axis return
// them as int32.
void require_countable(const InferContext& context, const Shape& shape, int axis);
// Throws DTypeError unless the operand has an integer dtype.
void require_indices(const InferContext& context, size_t input);
// The shape of the result of gather_nd from a tensor of shape `updates`; the shape is unranked if an operand is
// unranked, and sizes are unknown where the operands' sizes are. Throws ShapeError if the indices do not match
// `updates`. Reads the attribute batch_dimensions.
Shape gathered_nd(const InferContext& context, const Shape& updates, size_t indices);
// The shape of the result of gather_along_axis; `axis` is nullopt if it is unknown.
Shape gathered_along_axis(const InferContext& context, const Shape& updates, size_t indices,
                          std::optional<int64_t> axis);

}  // namespace mpsgraph::ops
