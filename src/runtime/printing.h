// The text of a tensor, for backends, which have its elements.
#pragma once

#include <cstddef>
#include <string>

#include "mpsgraph/core/graph.h"

namespace mpsgraph::runtime {

// Hands over what an operation `print` says of its operand, whose elements are dense and row-major.
void print_tensor(const Operation& print, const std::byte* elements);
// A text of our own, a line.
void print_line(const std::string& text);

// Brackets around each axis, as numpy writes them; of an axis of more than twice `at_each_end` elements the first and
// the last so many, -1: all.
std::string text_of(const TensorType& type, const std::byte* elements, int64_t at_each_end);

}  // namespace mpsgraph::runtime
