// Convolutions computed as one matmul per filter tap, without im2col: rows of pixels are addressed through pointers
// (Dukhan, "The Indirect Convolution Algorithm", arXiv:1907.02129). Requires channels last and a single group.
//
// A pixel of the result sees a tap if the tap reads inside the image. Pixels are grouped into classes that see the same
// taps, so taps that read only padding cost nothing: a 3x3 filter computes 16 of 36 products on an image of 2x2 pixels,
// and one of nine on a single pixel. A 1x1 filter is a single matmul, which does not need a copy of the pixels it reads
// even with strides.
#pragma once

#include <memory>

#include "backends/cpu/convolution/convolution_tap_plan.h"
#include "backends/cpu/kernel.h"

namespace mpsgraph::cpu {

// Return whether a convolution should run as one matmul per filter tap. The answer also applies to both of its
// gradients.
bool runs_by_taps(const ConvolutionPlan& p, DType dtype);

// Return whether the processor has 8-bit integer dot products.
bool multiplies_integers();

}  // namespace mpsgraph::cpu
