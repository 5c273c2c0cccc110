// Convolutions as sums of matrix products, one per kernel tap, without im2col: rows of pixels are found by pointers
// (Dukhan, "The Indirect Convolution Algorithm", arXiv:1907.02129), for channels last and one group.
//
// Pixels are sorted into classes that see the same taps, so that taps that only see padding cost nothing: of a 3x3
// kernel on 2x2 pixels 16 of 36 products are computed, on one pixel one of nine. A 1x1 kernel is one product, and one
// with a stride needs no copy of the pixels it takes.
#pragma once

#include <memory>

#include "backends/cpu/convolution/convolution_tap_plan.h"
#include "backends/cpu/kernel.h"

namespace mpsgraph::cpu {

// Should this convolution, or its gradient, run so? The answer is the same for all three.
bool runs_by_taps(const ConvolutionPlan& p, DType dtype);

// Does the processor multiply integers of 8 bits?
bool multiplies_integers();

}  // namespace mpsgraph::cpu
