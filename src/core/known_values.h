// What is known about the elements of a small integer tensor before anything runs.
//
// Shapes are computed with ordinary operations (shape_of, slice, concat, products, ...). This evaluator traces them
// back to constants and known shapes, so that inference can see through such computations: partly while a graph is
// built, completely when an executable is specialized. It is not a general constant folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "mpsgraph/core/graph.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

// Elements in row-major order; nullopt for those that are not known.
using KnownValues = std::vector<std::optional<int64_t>>;

// Returns nullopt if the number of elements is not known, the tensor is not an integer or bool, or it is too long.
MPSGRAPH_API std::optional<KnownValues> known_values(const Tensor* tensor);

// The elements of a tensor if all of them are known, otherwise nullopt. Constants may have any length.
std::optional<Ints> constant_value(const Tensor* tensor);

// Whether the evaluator supports operations of this kind.
bool is_shape_arithmetic(std::string_view kind);

}  // namespace mpsgraph
