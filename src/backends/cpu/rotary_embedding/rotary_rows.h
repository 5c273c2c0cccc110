// Rows whose halves are turned by angles, once per vector set (core/ops/fused_rotary_embedding.cpp says what that is).
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

// Strides of rows in elements; of the result, rows are contiguous.
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

namespace baseline {
extern const RotaryFunctions rotary_functions;
}
namespace avx2 {
extern const RotaryFunctions rotary_functions;
}
namespace avx512 {
extern const RotaryFunctions rotary_functions;
}

}  // namespace mpsgraph::cpu
