// Real attributes that hold the value of a tensor element, and in which integers keep all 64 bits.
//
// An integer that double cannot represent exactly is stored as an int64 or uint64 constant with one element. Only
// attributes for which keeps_integers() returns true hold such constants, and only element_of() reads them.
#pragma once

#include <string_view>

#include "core/definition.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

// Whether the attribute with this name holds the value of a tensor element.
MPSGRAPH_API bool keeps_integers(std::string_view attribute);

// The attribute value for an integer: a double if double represents the integer exactly, otherwise a constant.
MPSGRAPH_API Attribute exact_real(int64_t value);
MPSGRAPH_API Attribute exact_real(uint64_t value);

// The attribute's value as a constant with one element of the given dtype. Throws DTypeError if the dtype cannot
// represent the value.
ConstantPtr element_of(const Attributes& attributes, std::string_view key, DType dtype);
// Throws the DTypeError that element_of() would throw later, so that the error occurs when the graph is built.
void require_element(const InferContext& context, std::string_view key, DType dtype);

}  // namespace mpsgraph
