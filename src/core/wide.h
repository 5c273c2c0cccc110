// Operations that compute half precision in float32: those that sum, or that take several steps, each of which would
// round.
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

// Whether all inexact operands have the same half-precision dtype (and there is at least one).
bool is_of_halves(const Operation& operation);

// Whether the operation computes its value in float32 if its operands are half precision.
bool computes_wide(const Operation& operation);
// Whether the operation's derivative is that of the same operation in float32. Other operations have single-step rules,
// or rules that cast explicitly.
bool differentiates_wide(const Operation& operation);

// The operands, with half-precision ones cast to float32.
std::vector<Tensor*> widened(Builder& b, const std::vector<Tensor*>& inputs);
// The results, cast to the dtypes that the operation returns.
std::vector<Tensor*> narrowed(Builder& b, const std::vector<Tensor*>& results, const Operation& operation);
// The decomposition of an operation, computing half precision in float32.
std::vector<Tensor*> decomposed(Builder& b, const Operation& operation, const std::vector<Tensor*>& inputs);

}  // namespace mpsgraph
