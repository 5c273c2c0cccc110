// The epilogue that our own GEMM and convolution kernels apply before they store their result.
#pragma once

#include "backends/cpu/kernel.h"

namespace mpsgraph::cpu {

struct ProductEpilogue {  // slots of the operands; -1 if absent
  Slot bias = -1, residual = -1;
  bool relu = false;
};

}  // namespace mpsgraph::cpu
