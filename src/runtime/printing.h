// The text of a tensor, for backends that implement the `print` operation.
#pragma once

#include <cstddef>
#include <string>

#include "mpsgraph/core/graph.h"

namespace mpsgraph::runtime {

// Passes the text that the operation `print` produces for its operand to the print handler. The operand's elements must
// be dense and row-major.
void print_tensor(const Operation& print, const std::byte* elements);
// Passes one line of text from the library itself to the print handler.
void print_line(const std::string& text);

// Formats a tensor as numpy does, with brackets around each axis. If an axis has more than 2 * `at_each_end` elements,
// only the first and last `at_each_end` are printed; -1 prints all.
std::string text_of(const TensorType& type, const std::byte* elements, int64_t at_each_end);

}  // namespace mpsgraph::runtime
