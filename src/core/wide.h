// What computes halves in float32: operations that sum, or take several steps of which each would round.
//
// float16 and bfloat16 are what such an operation takes and gives; what lies between is float32, and one rounding ends
// it. Pass widen states that in a program; here are the kinds, and derivatives and decompositions that keep to it.
#pragma once

#include <vector>

#include "core/definition.h"

namespace mpsgraph {

class Builder;

inline bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

// Of one half type are all its operands that are no integers.
bool is_of_halves(const Operation& operation);

// Is its value computed in float32 where operands are halves?
bool computes_wide(const Operation& operation);
// Is its derivative that of the same operation in float32? Others have rules of one step, or of steps that say it.
bool differentiates_wide(const Operation& operation);

// Operands in float32 where they are halves.
std::vector<Tensor*> widened(Builder& b, const std::vector<Tensor*>& inputs);
// Results in the types that the operation gives.
std::vector<Tensor*> narrowed(Builder& b, const std::vector<Tensor*>& results, const Operation& operation);
// The decomposition of an operation, halves in float32.
std::vector<Tensor*> decomposed(Builder& b, const Operation& operation, const std::vector<Tensor*>& inputs);

}  // namespace mpsgraph
