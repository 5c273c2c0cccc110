// A helper for the derivatives of minimum, maximum, and the reductions to an extremum.
#pragma once

#include <limits>

#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {

// Gradient factor for elements that are not the extremum: 0, or NaN where the extremum is NaN, so that the gradient of
// a NaN result is never zero.
inline Tensor* zero_or_nan(Builder& b, Tensor* extremum) {
  Tensor* zero = b.scalar_like(extremum, 0);
  if (!is_float(extremum->dtype())) return zero;
  Tensor* nan = b.scalar_like(extremum, std::numeric_limits<double>::quiet_NaN());
  return b.select(b.unary("is_nan", extremum), nan, zero);
}

}  // namespace mpsgraph::ops
