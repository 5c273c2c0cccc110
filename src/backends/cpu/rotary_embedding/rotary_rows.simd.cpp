// Loops of rotary_rows.h.
#include "backends/cpu/rotary_embedding/rotary_rows.h"
#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

// Rotate one element of the first half with one of the second, or a vector of each.
template <class T, bool back>
[[gnu::always_inline]] inline void turn_some(const float* x, const float* c, const float* s, float* y, int64_t half) {
  const T first = load_as<T>(x), second = load_as<T>(x + half);
  if constexpr (back) {
    store(y, first * load_as<T>(c) + second * load_as<T>(s + half));
    store(y + half, second * load_as<T>(c + half) - first * load_as<T>(s));
  } else {
    store(y, first * load_as<T>(c) - second * load_as<T>(s));
    store(y + half, second * load_as<T>(c + half) + first * load_as<T>(s + half));
  }
}

template <bool back>
void turn(const RotaryRows& rows) {
  for (int64_t row = 0; row < rows.count; ++row) {
    const float *x = rows.x + row * rows.x_stride, *c = rows.cosine + row * rows.cosine_stride,
                *s = rows.sine + row * rows.sine_stride;
    float* y = rows.y + row * 2 * rows.half;
    int64_t j = 0;
    for (; j + lanes<float> <= rows.half; j += lanes<float>)
      turn_some<Floats, back>(x + j, c + j, s + j, y + j, rows.half);
    for (; j < rows.half; ++j) turn_some<float, back>(x + j, c + j, s + j, y + j, rows.half);
  }
}

}  // namespace

constinit const RotaryFunctions rotary_functions{turn<false>, turn<true>};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
