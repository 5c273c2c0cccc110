// Loops of top_k_float.h.
//
// To compute a bound, the elements are divided into groups, and the bound is the best element of the k-th best group.
// At least k elements are as good as this bound, one in each of the k best groups. With at least twice as many groups
// as k, most elements that reach the bound are among the best k, so the search finds only a few elements of a row.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "backends/cpu/elementwise/vector_steps.h"
#include "backends/cpu/sort/top_k_float.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

constexpr int vectors = 4;  // number of vectors that are compared before testing whether any element is better
constexpr int64_t block = vectors * W;
constexpr int64_t most_groups = BestFloats::most;

template <bool top>
constexpr float worst = top ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();

// Return the better operand in each lane. If `a` is NaN and `b` is a number, the result is `b`.
template <bool top>
V better_of(V a, V b) {
  return top ? greatest(a, b) : least(a, b);
}

template <bool top>
float bound(const float* x, int64_t n, int64_t k) {
  constexpr int64_t enough = 4096;  // maximum number of elements of a row that are examined
  n = std::min(n, enough);
  V best[most_groups / W];
  for (V& v : best) v = splat(worst<top>);
  int64_t i = 0;
  for (; i + most_groups <= n; i += most_groups)
    for (int p = 0; p < most_groups / W; ++p) best[p] = better_of<top>(load(x + i + p * W), best[p]);
  for (int p = 0; i + W <= n; i += W, ++p) best[p] = better_of<top>(load(x + i), best[p]);
  // Halve the number of groups while there are more than 16 groups and at least 4 k groups, because choosing among
  // fewer groups is faster. A pair of groups becomes one group with the better of the two best elements.
  float groups[most_groups];
  int64_t count = most_groups;
  std::memcpy(groups, best, sizeof groups);
  for (; count >= 4 * k && count > 16; count /= 2)
    for (int64_t g = 0; g < count / 2; g += W)
      store(groups + g, better_of<top>(load(groups + g), load(groups + count / 2 + g)));
  // Find the k-th best group: the worst of all groups for which fewer than k other groups are better.
  V chosen = splat(-worst<top>);
  for (int64_t g = 0; g < count; g += W) {
    const V v = load(groups + g);
    I betters = {};
    for (int64_t other = 0; other < count; ++other) {
      const V against = splat(groups[other]);
      betters -= top ? against > v : against < v;
    }
    chosen = better_of<!top>(betters < static_cast<int32_t>(k) ? v : chosen, chosen);
  }
  return fold_lanes(chosen, better_of<!top>);
}

// Return a mask of the lanes that are better than the limit, or also of those as good if `as_good` is set.
#if MPSGRAPH_VECTOR_BYTES == 64
using Which = __mmask16;
template <bool top, bool as_good>
Which compare(V v, V limit) {
  return _mm512_cmp_ps_mask(v, limit, top ? (as_good ? _CMP_NLT_UQ : _CMP_NLE_UQ) : as_good ? _CMP_LE_OQ : _CMP_LT_OQ);
}
uint64_t bits(Which lanes) { return lanes; }
#else
using Which = I;
template <bool top, bool as_good>
Which compare(V v, V limit) {
  if (top) return as_good ? ~(v < limit) : ~(v <= limit);
  return as_good ? v <= limit : v < limit;
}
uint64_t bits(Which lanes) { return bits_of(lanes); }
#endif

template <bool top, bool as_good>
int64_t find_better(const float* x, int64_t& i, int64_t n, float limit, int64_t enough, int32_t* found) {
  enough = std::min(enough, BestFloats::room - block + 1);
  const V against = splat(limit);
  int64_t count = 0;
  const auto take = [&](uint64_t these) {
    for (; these; these &= these - 1) found[count++] = static_cast<int32_t>(i) + std::countr_zero(these);
  };
  for (; i + block <= n; i += block) {
    Which lanes[vectors], some{};
    for (int p = 0; p < vectors; ++p) some |= lanes[p] = compare<top, as_good>(load(x + i + p * W), against);
    if (bits(some) == 0) continue;
    uint64_t these = 0;
    for (int p = 0; p < vectors; ++p) these |= bits(lanes[p]) << (p * W);
    take(these);
    if (count >= enough) return i += block, count;
  }
  for (; i < n; i += W) {
    const int64_t left = std::min<int64_t>(W, n - i);
    const V v = left == W ? load(x + i) : load(x + i, left, against);
    take(bits(compare<top, as_good>(v, against)) & ((uint64_t{1} << left) - 1));
  }
  i = n;
  return count;
}

template <bool top>
int64_t find(const float* x, int64_t& i, int64_t n, float limit, bool as_good, int64_t enough, int32_t* found) {
  return (as_good ? find_better<top, true> : find_better<top, false>)(x, i, n, limit, enough, found);
}

}  // namespace

constinit const BestFloats greatest_floats{bound<true>, find<true>}, smallest_floats{bound<false>, find<false>};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
