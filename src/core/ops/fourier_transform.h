// Axes and scale of Fourier transforms, computed from the attributes and shared by inference and kernels.
#pragma once

#include <vector>

#include "core/definition.h"

namespace mpsgraph::ops {

// The axes in ascending order. Hermitean tensors store only half of the points of the last of these axes.
std::vector<int> fourier_axes(const Attributes& attributes, int rank);

// The scale factor selected by `scaling`: 1 for "none", 1 / n for "size", and 1 / sqrt(n) for "unitary", where n is the
// number of points of the full signal over all transformed axes.
double fourier_scale(const Attributes& attributes, const Dims& full);

}  // namespace mpsgraph::ops
