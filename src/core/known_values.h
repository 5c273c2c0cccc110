// Partial evaluation of the elements of small integer tensors before a graph runs.
//
// Shapes are computed with ordinary operations (shape_of, slice, concat, products, ...). This evaluator traces them
// back to constants and known shapes, so that shape inference also works for computed shapes: partly while a graph is
// built, and completely when an executable is specialized. It is not a general constant folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "mpsgraph/core/graph.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

// Elements in row-major order; nullopt for unknown elements.
using KnownValues = std::vector<std::optional<int64_t>>;

// Returns nullopt if the number of elements is unknown or too large, or if the dtype is neither integer nor bool.
MPSGRAPH_API std::optional<KnownValues> known_values(const Tensor* tensor);

// The elements of a tensor if all of them are known, otherwise nullopt. Constants may have any length.
std::optional<Ints> constant_value(const Tensor* tensor);

// Whether the evaluator supports operations of this kind.
bool is_shape_arithmetic(Kind kind);

}  // namespace mpsgraph
