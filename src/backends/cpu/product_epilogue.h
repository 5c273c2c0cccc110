// What is done to a product of ours before it is stored: a dense layer's, or a convolution's by taps or in tiles.
#pragma once

#include "backends/cpu/kernel.h"

namespace mpsgraph::cpu {

struct ProductEpilogue {  // of a slot, or -1
  Slot bias = -1, residual = -1;
  bool relu = false;
};

}  // namespace mpsgraph::cpu
