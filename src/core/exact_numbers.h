// Attributes that are real numbers, the value of one element of a tensor: integers keep all their 64 bits.
//
// An integer that no double holds is kept as a constant of one element, int64 or uint64, instead of the double; only
// attributes that keeps_integers() names hold one, and only element_of() reads them.
#pragma once

#include <string_view>

#include "core/definition.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

// Is the attribute of this name an element of a tensor?
MPSGRAPH_API bool keeps_integers(std::string_view attribute);

// The attribute for an integer: a double where that is the same number, else a constant.
MPSGRAPH_API Attribute exact_real(int64_t value);
MPSGRAPH_API Attribute exact_real(uint64_t value);

// The attribute as one element of a type. DTypeError when the type has no such number.
ConstantPtr element_of(const Attributes& attributes, std::string_view key, DType dtype);
// That error, while a graph is built.
void require_element(const InferContext& context, std::string_view key, DType dtype);

}  // namespace mpsgraph
