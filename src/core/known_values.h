// What is known of the elements of a small integer tensor before anything runs.
//
// Shapes are computed with ordinary operations (shape_of, slice, concat, products ...). This evaluator follows
// them back to constants and to the shapes that are known, so that inference sees through such computations: in
// part while a graph is built, completely when an executable is specialised. It is not a constant folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "mpsgraph/core/graph.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

// Row-major elements, empty where one is not known.
using KnownValues = std::vector<std::optional<int64_t>>;

// Nothing when not even the number of elements is known, or when the tensor is no integer or bool or too long.
MPSGRAPH_API std::optional<KnownValues> known_values(const Tensor* tensor);

// All elements of a tensor, when all are known. Constants may have any length.
std::optional<Ints> constant_value(const Tensor* tensor);

// Can the evaluator follow an operation of this kind?
bool is_shape_arithmetic(std::string_view kind);

}  // namespace mpsgraph
