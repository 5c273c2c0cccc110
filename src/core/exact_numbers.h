// Real attributes that hold the value of a tensor element, in which integers keep all 64 bits.
//
// An integer that double cannot represent exactly is stored as a constant of one element, int64 or uint64. Only
// attributes for which keeps_integers() returns true hold such constants, and only element_of() reads them.
#pragma once

#include <string_view>

#include "core/definition.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

// Whether the attribute of this name holds the value of a tensor element.
MPSGRAPH_API bool keeps_integers(std::string_view attribute);

// The attribute value for an integer: a double if that represents it exactly, otherwise a constant.
MPSGRAPH_API Attribute exact_real(int64_t value);
MPSGRAPH_API Attribute exact_real(uint64_t value);

// The attribute as one element of a dtype. Throws DTypeError if the dtype cannot represent it.
ConstantPtr element_of(const Attributes& attributes, std::string_view key, DType dtype);
// Throws the error of element_of() while a graph is built.
void require_element(const InferContext& context, std::string_view key, DType dtype);

}  // namespace mpsgraph
