// A helper shared by the derivatives of extrema.
#pragma once

#include <limits>

#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {

// Gradient factor for elements that were not chosen: 0, or NaN where the extremum is NaN, so that a NaN never turns
// into a zero gradient.
inline Tensor* zero_or_nan(Builder& b, Tensor* extremum) {
  Tensor* zero = b.scalar_like(extremum, 0);
  if (!is_float(extremum->dtype())) return zero;
  Tensor* nan = b.scalar_like(extremum, std::numeric_limits<double>::quiet_NaN());
  return b.select(b.unary("is_nan", extremum), nan, zero);
}

}  // namespace mpsgraph::ops
