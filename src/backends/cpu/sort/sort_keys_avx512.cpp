// Sorting of keys with AVX-512: quicksort partitions by compressing vectors, and parts of up to 16 vectors are sorted
// by sorting networks.
//
// A partition reads from one buffer and writes to the other, smaller keys from the front and the other keys from the
// back. A network first sorts each vector, and then merges sorted vectors bitonically.
#include "backends/cpu/sort/sort_keys.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "backends/cpu/parallel.h"
#include "backends/cpu/sort/sort_polled.h"

namespace mpsgraph::cpu::avx512 {
namespace {

constexpr int vectors = 16;  // maximum number of vectors in the parts that networks sort

template <class Key>
struct Lanes;

template <>
struct Lanes<uint32_t> {
  static constexpr int count = 16;
  using Mask = __mmask16;
  static __m512i load(const uint32_t* p) { return _mm512_loadu_si512(p); }
  static __m512i load(const uint32_t* p, Mask m) { return _mm512_mask_loadu_epi32(_mm512_set1_epi32(-1), m, p); }
  static void store(uint32_t* p, __m512i v) { _mm512_storeu_si512(p, v); }
  static void store(uint32_t* p, __m512i v, Mask m) { _mm512_mask_storeu_epi32(p, m, v); }
  static __m512i splat(uint32_t x) { return _mm512_set1_epi32(static_cast<int>(x)); }
  static __m512i least(__m512i a, __m512i b) { return _mm512_min_epu32(a, b); }
  static __m512i greatest(__m512i a, __m512i b) { return _mm512_max_epu32(a, b); }
  static Mask below(__m512i a, __m512i b) { return _mm512_cmplt_epu32_mask(a, b); }
  static Mask not_above(__m512i a, __m512i b) { return _mm512_cmple_epu32_mask(a, b); }
  static __m512i compress(Mask m, __m512i v) { return _mm512_maskz_compress_epi32(m, v); }
  static __m512i permute(__m512i v, __m512i order) { return _mm512_permutexvar_epi32(order, v); }
  static __m512i blend(Mask m, __m512i a, __m512i b) { return _mm512_mask_blend_epi32(m, a, b); }
  static __m512i to_the_end(__m512i v, int n) { return permute(v, _mm512_add_epi32(lane(0), _mm512_set1_epi32(n))); }
  static __m512i lane(int flip) {  // returns lane indices with these bits flipped
    return _mm512_setr_epi32(flip, 1 ^ flip, 2 ^ flip, 3 ^ flip, 4 ^ flip, 5 ^ flip, 6 ^ flip, 7 ^ flip, 8 ^ flip,
                             9 ^ flip, 10 ^ flip, 11 ^ flip, 12 ^ flip, 13 ^ flip, 14 ^ flip, 15 ^ flip);
  }
};

template <>
struct Lanes<uint64_t> {
  static constexpr int count = 8;
  using Mask = __mmask8;
  static __m512i load(const uint64_t* p) { return _mm512_loadu_si512(p); }
  static __m512i load(const uint64_t* p, Mask m) { return _mm512_mask_loadu_epi64(_mm512_set1_epi64(-1), m, p); }
  static void store(uint64_t* p, __m512i v) { _mm512_storeu_si512(p, v); }
  static void store(uint64_t* p, __m512i v, Mask m) { _mm512_mask_storeu_epi64(p, m, v); }
  static __m512i splat(uint64_t x) { return _mm512_set1_epi64(static_cast<long long>(x)); }
  static __m512i least(__m512i a, __m512i b) { return _mm512_min_epu64(a, b); }
  static __m512i greatest(__m512i a, __m512i b) { return _mm512_max_epu64(a, b); }
  static Mask below(__m512i a, __m512i b) { return _mm512_cmplt_epu64_mask(a, b); }
  static Mask not_above(__m512i a, __m512i b) { return _mm512_cmple_epu64_mask(a, b); }
  static __m512i compress(Mask m, __m512i v) { return _mm512_maskz_compress_epi64(m, v); }
  static __m512i permute(__m512i v, __m512i order) { return _mm512_permutexvar_epi64(order, v); }
  static __m512i blend(Mask m, __m512i a, __m512i b) { return _mm512_mask_blend_epi64(m, a, b); }
  static __m512i to_the_end(__m512i v, int n) { return permute(v, _mm512_add_epi64(lane(0), _mm512_set1_epi64(n))); }
  static __m512i lane(int flip) {
    return _mm512_setr_epi64(flip, 1 ^ flip, 2 ^ flip, 3 ^ flip, 4 ^ flip, 5 ^ flip, 6 ^ flip, 7 ^ flip);
  }
};

// ---- networks ----

template <class Key>
struct Network {
  using L = Lanes<Key>;
  static constexpr int lanes = L::count;

  static void order(__m512i& a, __m512i& b) {
    const __m512i low = L::least(a, b);
    b = L::greatest(a, b);
    a = low;
  }

  // Return the mask of the lanes that receive the larger key in a compare-exchange with the lane whose index differs
  // only in `bit`: those whose index has this bit set.
  static constexpr typename L::Mask upper(int bit) {
    unsigned mask = 0;
    for (int i = 0; i < lanes; ++i) mask |= (i & bit ? 1u : 0u) << i;
    return static_cast<typename L::Mask>(mask);
  }

  // Sort a vector that holds a bitonic sequence.
  template <int Bit = lanes / 2>
  static __m512i clean(__m512i v) {
    const __m512i other = L::permute(v, L::lane(Bit));
    v = L::blend(upper(Bit), L::least(v, other), L::greatest(v, other));
    if constexpr (Bit > 1)
      return clean<Bit / 2>(v);
    else
      return v;
  }

  static __m512i reversed(__m512i v) { return L::permute(v, L::lane(lanes - 1)); }

  // Merge two sorted sequences of N / 2 vectors each.
  template <int N>
  static void merge(__m512i* v) {
#pragma GCC unroll 16
    // Compare one sorted sequence with the reverse of the other, which leaves a bitonic sequence in each half.
    for (int i = 0; i < N / 2; ++i) {
      const __m512i other = reversed(v[N - 1 - i]);
      v[N - 1 - i] = L::greatest(v[i], other);
      v[i] = L::least(v[i], other);
    }
    // The larger half is in reverse order, which does not matter, because a reversed bitonic sequence is still bitonic.
#pragma GCC unroll 16
    for (int step = N / 4; step > 0; step /= 2)
#pragma GCC unroll 16
      for (int i = 0; i < N; ++i)
        if (!(i & step)) order(v[i], v[i + step]);
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) v[i] = clean(v[i]);
  }

  // Sort one vector by bitonic merges of increasingly long runs of lanes.
  template <int Run = 2>
  static __m512i sort_lanes(__m512i v) {
    const __m512i other = L::permute(v, L::lane(Run - 1));  // reverses the order of the lanes in each run
    v = L::blend(upper(Run / 2), L::least(v, other), L::greatest(v, other));
    if constexpr (Run > 2) v = clean<Run / 4>(v);
    if constexpr (Run < lanes)
      return sort_lanes<Run * 2>(v);
    else
      return v;
  }

  template <int N>
  static void sort_vectors(__m512i* v) {
    if constexpr (N == 1) {
      v[0] = sort_lanes(v[0]);
    } else {
      sort_vectors<N / 2>(v);
      sort_vectors<N / 2>(v + N / 2);
      merge<N>(v);
    }
  }

  template <int N>
  static void sort(const Key* from, Key* to, int64_t n) {
    __m512i v[N];
    const auto mask = [&](int i) {
      const int64_t left = std::clamp<int64_t>(n - int64_t{i} * lanes, 0, lanes);
      return static_cast<typename L::Mask>((uint32_t{1} << left) - 1);
    };
    // missing lanes are filled with the largest key
    for (int i = 0; i < N; ++i) v[i] = L::load(from + i * lanes, mask(i));
    sort_vectors<N>(v);
    for (int i = 0; i < N; ++i) L::store(to + i * lanes, v[i], mask(i));
  }
};

// ---- quicksort ----

template <class Key>
class QuickSort {
  using L = Lanes<Key>;
  static constexpr int lanes = L::count;

 public:
  explicit QuickSort(Key* home) : home_(home) {}

  // Sort [begin, end) of `here` into the same range of home_, the buffer for the sorted keys. That range of `other` may
  // be overwritten. `depth` limits the number of nested partitions.
  void run(Key* here, Key* other, int64_t begin, int64_t end, int depth) const {
    while (end - begin > vectors * lanes) {
      if (depth-- == 0) {  // too many pivots were bad, so use std::sort
        sort_polled(here + begin, here + end);
        return bring_home(here, begin, end);
      }
      if (end - begin > elements_per_poll) poll_run();
      const int64_t cut = split(here, other, begin, end);
      std::swap(here, other);
      run(here, other, begin, cut, depth);
      begin = cut;
    }
    small(here + begin, home_ + begin, end - begin);
  }

  // Move [begin, end) to `other`, smaller keys first, and return the start of the remaining keys. If no key is smaller
  // than the pivot, the keys equal to the pivot are written to their final place instead, and both `begin` and the
  // returned position are set to the end of these keys.
  int64_t split(Key* here, Key* other, int64_t& begin, int64_t end) const {
    const Key pivot = middle(here, begin, end);
    const int64_t cut = partition<false>(here, other, begin, end, pivot);
    if (cut > begin) return cut;
    const int64_t above = partition<true>(here, other, begin, end, pivot);
    std::fill(home_ + begin, home_ + above, pivot);
    return begin = above;
  }

  static int depth_for(int64_t n) { return 2 * static_cast<int>(std::bit_width(static_cast<uint64_t>(n))); }

 private:
  void bring_home(const Key* here, int64_t begin, int64_t end) const {
    if (here != home_) std::memcpy(home_ + begin, here + begin, static_cast<size_t>(end - begin) * sizeof(Key));
  }

  static void small(const Key* from, Key* to, int64_t n) {
    const int64_t full = (n + lanes - 1) / lanes;
    if (full <= 1) return Network<Key>::template sort<1>(from, to, n);
    if (full <= 2) return Network<Key>::template sort<2>(from, to, n);
    if (full <= 4) return Network<Key>::template sort<4>(from, to, n);
    if (full <= 8) return Network<Key>::template sort<8>(from, to, n);
    Network<Key>::template sort<vectors>(from, to, n);
  }

  // Return the median of some evenly spaced keys. Longer ranges use more keys, because a bad pivot costs more in a
  // longer range.
  static Key middle(const Key* keys, int64_t begin, int64_t end) {
    if (end - begin > 1 << 16) return middle_of<vectors>(keys, begin, end);
    return end - begin > 1 << 12 ? middle_of<4>(keys, begin, end) : middle_of<1>(keys, begin, end);
  }
  template <int N>
  static Key middle_of(const Key* keys, int64_t begin, int64_t end) {
    constexpr int samples = N * lanes;
    Key sample[samples];
    for (int i = 0; i < samples; ++i) sample[i] = keys[begin + (end - begin - 1) * i / (samples - 1)];
    Network<Key>::template sort<N>(sample, sample, samples);
    return sample[samples / 2];
  }

  template <bool equal_too>
  static int64_t partition(const Key* from, Key* to, int64_t begin, int64_t end, Key pivot) {
    const __m512i against = L::splat(pivot);
    int64_t low = begin, high = end;
    const auto take = [&](__m512i v, typename L::Mask there) {
      const typename L::Mask below = (equal_too ? L::not_above(v, against) : L::below(v, against)) & there;
      const typename L::Mask above = static_cast<typename L::Mask>(~below) & there;
      const int lower = std::popcount(static_cast<unsigned>(below)),
                upper = std::popcount(static_cast<unsigned>(above));
      high -= upper;
      L::store(to + low, L::compress(below, v), first(lower));
      L::store(to + high, L::compress(above, v), first(upper));
      low += lower;
    };
    // If there is room for two more vectors, whole vectors can be stored at the front and at the back. Later stores
    // overwrite the unused lanes of these vectors.
    const auto take_whole = [&](__m512i v) {
      const typename L::Mask below = equal_too ? L::not_above(v, against) : L::below(v, against);
      const int lower = std::popcount(static_cast<unsigned>(below));
      L::store(to + low, L::compress(below, v));
      L::store(to + high - lanes, L::to_the_end(L::compress(static_cast<typename L::Mask>(~below), v), lanes - lower));
      low += lower;
      high -= lanes - lower;
    };
    int64_t i = begin;
    while (i + 6 * lanes <= end) {
      const int64_t stop = std::min(end, i + elements_per_poll);
      for (; i + 6 * lanes <= stop; i += 4 * lanes)
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) take_whole(L::load(from + i + k * lanes));
      if (stop < end) poll_run();
    }
    for (; i < end; i += lanes) {
      const typename L::Mask there = first(static_cast<int>(std::min<int64_t>(lanes, end - i)));
      take(L::load(from + i, there), there);
    }
    return low;
  }

  static typename L::Mask first(int n) { return static_cast<typename L::Mask>((uint32_t{1} << n) - 1); }

  Key* home_;
};

}  // namespace

template <class Key>
void sort_keys(Key* keys, Key* spare, int64_t n, int threads) {
  const QuickSort<Key> sorter(keys);
  const int depth = sorter.depth_for(n);
  // Divide the keys into one range per thread by splitting the longest range in two repeatedly.
  struct Range {
    Key *here, *other;
    int64_t begin, end;
  };
  constexpr int most = 64;
  Range ranges[most];
  int count = 1;
  ranges[0] = {keys, spare, 0, n};
  const int wanted = std::min(most, threads);
  while (count < wanted) {
    Range* longest = std::max_element(ranges, ranges + count,
                                      [](const Range& a, const Range& b) { return a.end - a.begin < b.end - b.begin; });
    if (longest->end - longest->begin <= vectors * Lanes<Key>::count) break;
    const int64_t cut = sorter.split(longest->here, longest->other, longest->begin, longest->end);
    std::swap(longest->here, longest->other);
    if (cut == longest->begin) continue;  // all keys at the start were equal to the pivot: split the rest of the range
    ranges[count++] = {longest->here, longest->other, cut, longest->end};
    longest->end = cut;
  }
  // Assign the longest ranges first. Each range goes to the thread with the least work so far.
  std::sort(ranges, ranges + count, [](const Range& a, const Range& b) { return a.end - a.begin > b.end - b.begin; });
  int owner[most];
  int64_t load[most] = {};
  const int members = std::max(1, std::min(threads, most));
  for (int i = 0; i < count; ++i) {
    owner[i] = static_cast<int>(std::min_element(load, load + members) - load);
    load[owner[i]] += ranges[i].end - ranges[i].begin;
  }
  parallel_parts(members, [&](int64_t member) {
    for (int i = 0; i < count; ++i)
      if (owner[i] == member) sorter.run(ranges[i].here, ranges[i].other, ranges[i].begin, ranges[i].end, depth);
  });
}

template void sort_keys(uint32_t*, uint32_t*, int64_t, int);
template void sort_keys(uint64_t*, uint64_t*, int64_t, int);

}  // namespace mpsgraph::cpu::avx512
