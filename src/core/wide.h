// Operations that compute half precision in float32: sums, and operations of several steps, which would otherwise round
// at every step.
//
// Such an operation takes and returns float16 or bfloat16, but computes in float32 in between and rounds once at the
// end. The pass widen makes this explicit in a program. This header lists the kinds of operations, and provides
// derivatives and decompositions that follow the same rule.
#pragma once

#include <vector>

#include "core/definition.h"

namespace mpsgraph {

class Builder;

inline bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

// Whether the operation has floating-point operands, all of the same half-precision dtype.
bool is_of_halves(const Operation& operation);

// Whether the operation computes its value in float32 if its operands are half precision.
bool computes_wide(const Operation& operation);
// Whether the operation's derivative is computed as the derivative of the same operation in float32. The derivative
// rules of all other operations either round only once or cast to float32 explicitly.
bool differentiates_wide(const Operation& operation);

// Returns the operands, with those in half precision cast to float32.
std::vector<Tensor*> widened(Builder& b, const std::vector<Tensor*>& inputs);
// Casts results that were computed in float32 to the dtypes that the operation returns.
std::vector<Tensor*> narrowed(Builder& b, const std::vector<Tensor*>& results, const Operation& operation);
// The decomposition of an operation, computing half precision in float32.
std::vector<Tensor*> decomposed(Builder& b, const Operation& operation, const std::vector<Tensor*>& inputs);

}  // namespace mpsgraph
