// What gathers and scatters share: which indices fit which tensor, and what picking with them makes; and how far the
// operations that give indices count.
//
// A scatter's updates have the shape of what gathering with the same indices makes from its result, so both ask here.
#pragma once

#include <optional>

#include "core/definition.h"

namespace mpsgraph::ops {

// ShapeError when an axis is longer than int32 counts, in which operations give positions along it.
void require_countable(const InferContext& context, const Shape& shape, int axis);
void require_indices(const InferContext& context, size_t input);  // DTypeError when they are no integers
// The shape of gathering from `updates`; unranked or partly unknown as far as the operands are. ShapeError when the
// indices do not fit. Reads the attribute batch_dimensions.
Shape gathered_nd(const InferContext& context, const Shape& updates, size_t indices);
// The same along an axis, which may not be known yet.
Shape gathered_along_axis(const InferContext& context, const Shape& updates, size_t indices,
                          std::optional<int64_t> axis);

}  // namespace mpsgraph::ops
