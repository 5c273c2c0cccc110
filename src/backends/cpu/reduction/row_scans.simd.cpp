// Loops of row_scans.h.
// Instruction sets: avx2, avx512.
//
// The cumulative sums within a vector take log2(lanes) additions of shifted copies. The sum of all previous vectors is
// added last, so that only one addition per vector depends on the previous vector.
#include <cstring>
#include <utility>

#include "backends/cpu/reduction/row_scans.h"

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
  static constexpr int W = MPSGRAPH_VECTOR_BYTES / sizeof(State);
  typedef State V __attribute__((vector_size(MPSGRAPH_VECTOR_BYTES)));
  typedef T E __attribute__((vector_size(W * sizeof(T))));
  using Lanes = std::make_integer_sequence<int, W>;

  static V splat(State x) { return x - V{}; }
  // Shift a vector up by `by` lanes, and fill the lowest lanes with the neutral element.
  template <int by, int... i>
  static V up(V v, std::integer_sequence<int, i...>) {
    return __builtin_shufflevector(v, splat(Combine::neutral), (i < by ? W : i - by)...);
  }
  template <int... i>
  static V last(V v, std::integer_sequence<int, i...>) {
    return __builtin_shufflevector(v, v, (i * 0 + W - 1)...);
  }
  template <int... i>
  static E backwards(E v, std::integer_sequence<int, i...>) {
    return __builtin_shufflevector(v, v, (W - 1 - i)...);
  }
  template <int by = 1>
  static V within(V v) {
    v = Combine::of(v, up<by>(v, Lanes()));
    if constexpr (2 * by < W) return within<2 * by>(v);
    return v;
  }

  template <bool exclusive, bool reverse>
  static void running_as(State start, const T* x, int64_t n, T* y) {
    V before = splat(start);
    int64_t k = 0;
    for (; k + W <= n; k += W) {
      const int64_t at = reverse ? n - W - k : k;
      E v;
      std::memcpy(&v, x + at, sizeof v);
      if (reverse) v = backwards(v, Lanes());
      const V own = within(__builtin_convertvector(v, V));
      E result = __builtin_convertvector(Combine::of(exclusive ? up<1>(own, Lanes()) : own, before), E);
      before = Combine::of(before, last(own, Lanes()));
      if (reverse) result = backwards(result, Lanes());
      std::memcpy(y + at, &result, sizeof result);
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
      for (int c = 0; c < chains; ++c) {
        E v;
        std::memcpy(&v, x + k + c * W, sizeof v);
        states[c] = Combine::of(states[c], __builtin_convertvector(v, V));
      }
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
