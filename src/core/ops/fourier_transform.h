// What Fourier transforms mean, for their inference and for the kernels that run them: which axes, and which scale.
#pragma once

#include <vector>

#include "core/definition.h"

namespace mpsgraph::ops {

// The axes in ascending order; the last of them is the one along which Hermitean tensors hold half of their points.
std::vector<int> fourier_axes(const Attributes& attributes, int rank);

// 1, or by `scaling` the reciprocal of the transform's size (of all axes together, in points of the full signals) or of
// its root.
double fourier_scale(const Attributes& attributes, const Dims& full);

}  // namespace mpsgraph::ops
