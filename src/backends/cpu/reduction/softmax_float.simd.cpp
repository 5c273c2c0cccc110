// Loops of softmax_float.h.
//
// A row is read twice: once for its maximum, and once for the exponentials and their sum. Sums of blocks are
// accumulated in double, because a float32 sum of a million equal exponentials would be off in the fourth digit.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "backends/cpu/elementwise/vector_steps.h"
#include "backends/cpu/reduction/softmax_float.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

constexpr float none = -std::numeric_limits<float>::infinity();  // exp(none) is 0

float largest_of(const float* x, int64_t n) {
  const auto larger = [](V a, V b) { return greatest(b, a); };  // returns the number if one operand is NaN
  V parts[4] = {splat(none), splat(none), splat(none), splat(none)};
  int64_t i = 0;
  for (; i + 4 * W <= n; i += 4 * W)
    for (int p = 0; p < 4; ++p) parts[p] = larger(parts[p], load(x + i + p * W));
  for (; i + W <= n; i += W) parts[0] = larger(parts[0], load(x + i));
  if (i < n) parts[1] = larger(parts[1], load(x + i, n - i, splat(none)));
  return fold_lanes(larger(larger(parts[0], parts[1]), larger(parts[2], parts[3])), larger);
}

RowExponents exponents(const float* x, int64_t n, float* y) {
  constexpr int64_t block = 1024;
  const float largest = largest_of(x, n);
  double sum = 0;
  for (int64_t i = 0; i < n;) {
    const int64_t end = std::min(n, i + block);
    V parts[2] = {};
    for (; i + 2 * W <= end; i += 2 * W)
      for (int p = 0; p < 2; ++p) {
        const V e = Math::exp(load(x + i + p * W) - largest);
        parts[p] += e;
        if (y) store(y + i + p * W, e);
      }
    for (; i < end; i += W) {
      const bool whole = i + W <= end;
      const V e = Math::exp((whole ? load(x + i) : load(x + i, end - i, splat(none))) - largest);
      if (y) whole ? store(y + i, e) : store(y + i, e, end - i);
      parts[0] += e;
    }
    sum += static_cast<double>(sum_of(parts[0] + parts[1]));
  }
  return {largest, static_cast<float>(sum)};
}

void scale(float factor, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + W <= n; i += W) store(y + i, load(y + i) * factor);
  if (i < n) store(y + i, load(y + i, n - i, V{}) * factor, n - i);
}

void shift(const float* x, float first, float second, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + W <= n; i += W) store(y + i, (load(x + i) - first) - second);
  if (i < n) store(y + i, (load(x + i, n - i, V{}) - first) - second, n - i);
}

void gradient(const float* incoming, const float* x, int64_t n, float* y) {
  V parts[2] = {};
  int64_t i = 0;
  for (; i + 2 * W <= n; i += 2 * W)
    for (int p = 0; p < 2; ++p) parts[p] += load(incoming + i + p * W) * load(x + i + p * W);
  for (; i + W <= n; i += W) parts[0] += load(incoming + i) * load(x + i);
  if (i < n) parts[1] += load(incoming + i, n - i, V{}) * load(x + i, n - i, V{});
  const float dot = sum_of(parts[0] + parts[1]);
  for (i = 0; i + W <= n; i += W) store(y + i, load(x + i) * (load(incoming + i) - dot));
  if (i < n) {
    const V rest = load(x + i, n - i, V{}) * (load(incoming + i, n - i, V{}) - dot);
    store(y + i, rest, n - i);
  }
}

}  // namespace

constinit const SoftmaxRows softmax_rows{exponents, scale, shift, gradient};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
