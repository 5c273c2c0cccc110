// Loops of rotary_rows.h.
#include "backends/cpu/rotary_embedding/rotary_rows.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

typedef float Vector __attribute__((vector_size(MPSGRAPH_VECTOR_BYTES)));
typedef float Loose __attribute__((vector_size(MPSGRAPH_VECTOR_BYTES), aligned(4), may_alias));
constexpr int64_t lanes = MPSGRAPH_VECTOR_BYTES / 4;

template <class T>
T load(const float* p) {
  if constexpr (sizeof(T) == sizeof(float))
    return *p;
  else
    return *reinterpret_cast<const Loose*>(p);
}
void store(float x, float* p) { *p = x; }
void store(Vector x, float* p) { *reinterpret_cast<Loose*>(p) = x; }

// Rotate one element of the first half with one of the second, or a vector of each.
template <class T, bool back>
[[gnu::always_inline]] inline void turn_some(const float* x, const float* c, const float* s, float* y, int64_t half) {
  const T first = load<T>(x), second = load<T>(x + half);
  if constexpr (back) {
    store(first * load<T>(c) + second * load<T>(s + half), y);
    store(second * load<T>(c + half) - first * load<T>(s), y + half);
  } else {
    store(first * load<T>(c) - second * load<T>(s), y);
    store(second * load<T>(c + half) + first * load<T>(s + half), y + half);
  }
}

template <bool back>
void turn(const RotaryRows& rows) {
  for (int64_t row = 0; row < rows.count; ++row) {
    const float *x = rows.x + row * rows.x_stride, *c = rows.cosine + row * rows.cosine_stride,
                *s = rows.sine + row * rows.sine_stride;
    float* y = rows.y + row * 2 * rows.half;
    int64_t j = 0;
    for (; j + lanes <= rows.half; j += lanes) turn_some<Vector, back>(x + j, c + j, s + j, y + j, rows.half);
    for (; j < rows.half; ++j) turn_some<float, back>(x + j, c + j, s + j, y + j, rows.half);
  }
}

}  // namespace

constinit const RotaryFunctions rotary_functions{turn<false>, turn<true>};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
