// Rotary embedding of rows, compiled for each instruction set. Each pair of elements, one from either half of a row, is
// rotated by an angle (defined in core/ops/fused_rotary_embedding.cpp).
#pragma once

#include <cstdint>

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

// Rows to rotate. Strides are distances between rows in elements; the rows of the result are contiguous.
struct RotaryRows {
  const float *x, *cosine, *sine;
  int64_t x_stride, cosine_stride, sine_stride;
  float* y;
  int64_t count, half;
};
using TurnRows = void (*)(const RotaryRows& rows);

struct RotaryFunctions {
  TurnRows turn, turn_back;
};

MPSGRAPH_VECTOR_TABLE(RotaryFunctions, rotary_functions);

}  // namespace mpsgraph::cpu
