// Loops of row_scans.h.
// Instruction sets: avx2, avx512.
//
// The cumulative sums within a vector take log2(lanes) additions of shifted copies. The sum of all previous vectors is
// added last, so that only one addition per vector depends on the previous vector.
#include "backends/cpu/reduction/row_scans.h"
#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

struct Sum {
  static constexpr int neutral = 0;
  template <class V>
  static V of(V a, V b) {
    return a + b;
  }
};
struct Product {
  static constexpr int neutral = 1;
  template <class V>
  static V of(V a, V b) {
    return a * b;
  }
};

template <class T, class Combine>
struct Scan {
  using State = typename RowScan<T>::State;
  static constexpr int W = lanes<State>;
  using V = Vector<State>;
  using E = Vector<T, W * sizeof(T)>;

  static V splat(State x) { return x - V{}; }
  // Shift a vector up by `by` lanes, and fill the lowest lanes with the neutral element.
  template <int by>
  static V up(V v) {
    return shuffle<[](int i) { return i < by ? W : i - by; }>(v, splat(Combine::neutral));
  }
  static V last(V v) {
    return shuffle<[](int) { return W - 1; }>(v, v);
  }
  static E backwards(E v) {
    return shuffle<[](int i) { return W - 1 - i; }>(v, v);
  }
  template <int by = 1>
  static V within(V v) {
    v = Combine::of(v, up<by>(v));
    if constexpr (2 * by < W) return within<2 * by>(v);
    return v;
  }

  template <bool exclusive, bool reverse>
  static void running_as(State start, const T* x, int64_t n, T* y) {
    V before = splat(start);
    int64_t k = 0;
    for (; k + W <= n; k += W) {
      const int64_t at = reverse ? n - W - k : k;
      E v = load_as<E>(x + at);
      if (reverse) v = backwards(v);
      const V own = within(__builtin_convertvector(v, V));
      E result = __builtin_convertvector(Combine::of(exclusive ? up<1>(own) : own, before), E);
      before = Combine::of(before, last(own));
      if (reverse) result = backwards(result);
      store(y + at, result);
    }
    State state = before[0];
    for (; k < n; ++k) {
      const int64_t at = reverse ? n - 1 - k : k;
      const State with = Combine::of(state, static_cast<State>(x[at]));
      y[at] = static_cast<T>(exclusive ? state : with);
      state = with;
    }
  }
  static void running(State start, const T* x, int64_t n, bool exclusive, bool reverse, T* y) {
    if (exclusive)
      (reverse ? running_as<true, true> : running_as<true, false>)(start, x, n, y);
    else
      (reverse ? running_as<false, true> : running_as<false, false>)(start, x, n, y);
  }

  static State total(const T* x, int64_t n) {
    constexpr int chains = 4;  // independent chains hide the latency of additions
    V states[chains];
    for (V& state : states) state = splat(Combine::neutral);
    int64_t k = 0;
    for (; k + chains * W <= n; k += chains * W)
      for (int c = 0; c < chains; ++c)
        states[c] = Combine::of(states[c], __builtin_convertvector(load_as<E>(x + k + c * W), V));
    const V all = Combine::of(Combine::of(states[0], states[1]), Combine::of(states[2], states[3]));
    State total = all[0];
    for (int i = 1; i < W; ++i) total = Combine::of(total, State(all[i]));
    for (; k < n; ++k) total = Combine::of(total, static_cast<State>(x[k]));
    return total;
  }

  static constexpr RowScan<T> scan{running, total};
};

}  // namespace

constinit const RowScans row_scans{Scan<float, Sum>::scan, Scan<float, Product>::scan, Scan<double, Sum>::scan,
                                   Scan<uint32_t, Sum>::scan, Scan<uint64_t, Sum>::scan};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
