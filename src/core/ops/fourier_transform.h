// Semantics of Fourier transforms shared by inference and kernels: the axes and the scale.
#pragma once

#include <vector>

#include "core/definition.h"

namespace mpsgraph::ops {

// The axes in ascending order. Hermitean tensors store half of their points along the last of these.
std::vector<int> fourier_axes(const Attributes& attributes, int rank);

// The scale factor selected by `scaling`: 1 for "none"; for "size", the reciprocal of the transform size, which is the
// number of points of the full signal over all axes; for "unitary", the reciprocal of its square root.
double fourier_scale(const Attributes& attributes, const Dims& full);

}  // namespace mpsgraph::ops
