// Matches normalizations by the mean and variance of their own source. The pass normalize fuses such a normalization
// with its mean and variance.
#pragma once

#include <optional>

#include "mpsgraph/core/graph.h"

namespace mpsgraph::compiler {

struct Moments {
  const Operation *mean, *variance;
};

// The mean and variance of a normalization; nullopt if these are not computed from the normalization's own source, or
// if the variance is taken around a different mean.
inline std::optional<Moments> own_moments(const Operation& normalization) {
  const Tensor* x = normalization.input(0);
  const Operation &mean = *normalization.input(1)->operation, &variance = *normalization.input(2)->operation;
  if (!mean.is("mean") || !variance.is("variance") || mean.parent != variance.parent) return std::nullopt;
  if (mean.input(0) != x || variance.input(0) != x) return std::nullopt;
  if (variance.inputs.size() == 2 && variance.input(1) != normalization.input(1)) return std::nullopt;
  return Moments{&mean, &variance};
}

}  // namespace mpsgraph::compiler
