// gather_gradient: adds the incoming gradients of gathered rows, row by row of the result. A pick is one entry of the
// index tensor.
//
// For long rows, the picks are first sorted by counting. Each row of the result is then computed at once in L1, in
// float32 for half precision, so no element is read or written twice. Threads divide the result into ranges of rows
// with similar numbers of picks, because some rows, such as those of frequent words, are picked much more often than
// others. Long rows are also divided into blocks of columns. Short rows are accumulated directly in memory. Gradients
// of equal indices are added in order, so the result does not depend on the number of threads. Gradients of
// out-of-range indices are dropped.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/gather/indices.h"
#include "backends/cpu/gather/picks.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t sorted_elements = 32;  // minimum elements per row for sorting; shorter rows are faster without it
constexpr int64_t block_elements = 1024;  // elements per block of a long row
constexpr int64_t pieces_of_thread = 4;

template <class T>
constexpr DType half_dtype = std::is_same_v<T, Half> ? DType::float16 : DType::bfloat16;

// The picks (entries of the index tensor) that select each row of the result, in order.
struct SortedPicks {
  int32_t *begins, *picks;  // begins[row]: position in `picks` of the row's first pick; n + 1 entries

  static int64_t elements(const Picks& p) { return p.n + 1 + p.picks; }
  SortedPicks(const Picks& p, int32_t* memory) : begins(memory), picks(memory + p.n + 1) {}

  template <class Read>
  void sort(const Picks& p, const Read& read, const std::byte* index, int64_t first) const {
    const auto each = [&](const auto& f) {
      for_polled_pieces(0, p.picks, elements_per_poll, [&](int64_t begin, int64_t end) {
        for (int64_t pick = begin; pick < end; ++pick)
          if (const int64_t i = read(index, first + pick); i >= 0 && i < p.n) f(i, static_cast<int32_t>(pick));
      });
    };
    std::fill_n(begins, p.n + 1, 0);
    each([&](int64_t i, int32_t) { ++begins[i + 1]; });
    std::partial_sum(begins, begins + p.n + 1, begins);
    // this loop advances begins[i] to where the next row begins
    each([&](int64_t i, int32_t pick) { picks[begins[i]++] = pick; });
    std::copy_backward(begins, begins + p.n, begins + p.n + 1);
    begins[0] = 0;
  }

  // Return the first row of a piece, where all pieces have a similar total number of picks and rows.
  int64_t first_row(const Picks& p, int64_t piece, int64_t pieces) const {
    const int64_t wanted = (begins[p.n] + p.n) * piece / pieces;
    int64_t low = 0, high = p.n;
    while (low < high) {
      const int64_t row = (low + high) / 2;
      begins[row] + row < wanted ? low = row + 1 : high = row;
    }
    return low;
  }
};

// Divide the rows into pieces with similar total numbers of picks and rows, and return the first row of one piece.
template <class T>
void add_up(const Picks& p, const SortedPicks& sorted, const T* incoming, int64_t first, int64_t last, int64_t begin,
            int64_t end, bool cleared, T* y) {
  using Sum = Value<T>;
  const int64_t count = end - begin;
  const auto add = [count](Sum* sums, const Sum* more) {
    for (int64_t i = 0; i < count; ++i)
      sums[i] = static_cast<Sum>(static_cast<Accumulate<Sum>>(sums[i]) + static_cast<Accumulate<Sum>>(more[i]));
  };
  for (int64_t row = first; row < last; ++row) {
    if (row % 256 == 0) poll_run();
    T* to = y + row * p.inner + begin;
    const int64_t from = sorted.begins[row], behind = sorted.begins[row + 1];
    if (from == behind) {
      if (!cleared) std::memset(static_cast<void*>(to), 0, static_cast<size_t>(count) * sizeof(T));
      continue;
    }
    if constexpr (is_half_type<T>) {
      static const TileFunction widen = cast_function(half_dtype<T>, DType::float32),
                                narrow = cast_function(DType::float32, half_dtype<T>);
      Sum sums[block_elements] = {}, wide[block_elements];
      for (int64_t at = from; at < behind; ++at) {
        const void* more = incoming + sorted.picks[at] * p.inner + begin;
        widen(wide, &more, count);
        add(sums, wide);
      }
      const void* all = sums;
      narrow(to, &all, count);
    } else {
      const T* one = incoming + sorted.picks[from] * p.inner + begin;
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(Accumulate<T>(0) + static_cast<Accumulate<T>>(one[i]));
      for (int64_t at = from + 1; at < behind; ++at) add(to, incoming + sorted.picks[at] * p.inner + begin);
    }
  }
}

template <class T>
std::unique_ptr<Kernel> sorted_kernel(Lowering& lowering, const Picks& p) {
  const Operand incoming = lowering.input(0), indices = lowering.input(1), y = lowering.output();
  const int64_t rows = p.batch * p.outer, threads = thread_count();
  const bool shares_rows = rows >= threads && threads > 1, mostly_zeros = p.picks * 4 < p.n;
  const Slot memory =
      lowering.scratch(static_cast<size_t>(SortedPicks::elements(p) * (shares_rows ? threads : 1)) * sizeof(int32_t));
  return with_indices(indices.dtype, [&](auto read) {
    return kernel([=, from = incoming.slot, indices = indices.slot, to = y.slot](Frame& f) {
      const auto sorted_row = [&](int64_t row, int64_t member) {
        const SortedPicks sorted(p, f.at<int32_t>(memory) + member * SortedPicks::elements(p));
        sorted.sort(p, read, f.at<std::byte>(indices), row / p.outer * p.picks);
        return sorted;
      };
      const auto add = [&](const SortedPicks& sorted, int64_t row, int64_t first, int64_t last, int64_t block) {
        const int64_t begin = block * block_elements, end = std::min(begin + block_elements, p.inner);
        add_up(p, sorted, f.at<const T>(from) + row * p.picks * p.inner, first, last, begin, end, mostly_zeros,
               f.at<T>(to) + row * p.n * p.inner);
      };
      if (mostly_zeros)  // clear the result in a few long ranges, which bypass the caches
        parallel_for(rows * p.n,
                     std::max(grain_for(p.inner * int64_t{sizeof(T)}), (rows * p.n + threads - 1) / threads),
                     [&](int64_t begin, int64_t end) {
                       constexpr int64_t at_once = (int64_t{64} << 20) / sizeof(T);
                       for_polled_pieces(begin * p.inner, end * p.inner, at_once, [&](int64_t first, int64_t last) {
                         std::memset(static_cast<void*>(f.at<T>(to) + first), 0, (last - first) * sizeof(T));
                       });
                     });
      const int64_t blocks = (p.inner + block_elements - 1) / block_elements;
      if (shares_rows)
        return parallel_items(rows, [&](int64_t row, int64_t member) {
          const SortedPicks sorted = sorted_row(row, member);
          for (int64_t block = 0; block < blocks; ++block) add(sorted, row, 0, p.n, block);
        });
      const int64_t grain = grain_for(std::min(p.inner, block_elements) * int64_t{sizeof(T)});
      const int64_t pieces = std::clamp<int64_t>((p.picks + p.n) / grain, 1, threads * pieces_of_thread);
      for (int64_t row = 0; row < rows; ++row) {
        const SortedPicks sorted = sorted_row(row, 0);
        parallel_items(pieces * blocks, [&](int64_t item, int64_t) {
          const int64_t piece = item / blocks;
          add(sorted, row, sorted.first_row(p, piece, pieces), sorted.first_row(p, piece + 1, pieces), item % blocks);
        });
      }
    });
  });
}

// Clear y, and then add the incoming gradient to y. V is the accumulator type.
template <class T, class V>
void scatter(const Picks& p, const T* incoming, const std::byte* index, DType index_type, V* y) {
  const int64_t rows = p.batch * p.outer, ranges = rows >= thread_count() ? 1 : std::min<int64_t>(p.n, thread_count());
  parallel_for(rows * ranges, grain_for((p.picks + p.n) * p.inner * 4 / std::max<int64_t>(ranges, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t unit = begin; unit < end; ++unit) {
                   const int64_t row = unit / ranges, range = unit % ranges;
                   const int64_t first = p.n * range / ranges, last = p.n * (range + 1) / ranges;
                   V* to = y + row * p.n * p.inner;
                   std::fill(to + first * p.inner, to + last * p.inner, V(0));
                   const int64_t at_once = std::max<int64_t>(elements_per_poll / std::max<int64_t>(p.inner, 1), 1);
                   for (int64_t pick = 0; pick < p.picks; ++pick) {
                     if (pick % at_once == 0) poll_run();
                     const int64_t i = integer_at(index, index_type, row / p.outer * p.picks + pick);
                     if (i < first || i >= last) continue;
                     const T* from = incoming + (row * p.picks + pick) * p.inner;
                     for (int64_t j = 0; j < p.inner; ++j)
                       to[i * p.inner + j] = static_cast<V>(static_cast<Accumulate<V>>(to[i * p.inner + j]) +
                                                            static_cast<Accumulate<V>>(from[j]));
                   }
                 }
               });
}

template <class T>
std::unique_ptr<Kernel> direct_kernel(Lowering& lowering, const Picks& p) {
  using V = Value<T>;
  const Operand incoming = lowering.input(0), indices = lowering.input(1), y = lowering.output();
  const int64_t n = y.elements();
  const Slot sums = is_half_type<T> ? lowering.scratch(static_cast<size_t>(n) * sizeof(V)) : y.slot;
  return kernel(
      [p, sums, n, incoming = incoming.slot, indices = indices.slot, index_type = indices.dtype, y = y.slot](Frame& f) {
        scatter(p, f.at<const T>(incoming), f.at<std::byte>(indices), index_type, f.at<V>(sums));
        if constexpr (is_half_type<T>) {
          static const TileFunction narrow = cast_function(DType::float32, half_dtype<T>);
          parallel_for(n, 32768, [&](int64_t begin, int64_t end) {
            const void* from = f.at<V>(sums) + begin;
            narrow(f.at<T>(y) + begin, &from, end - begin);
          });
        }
      });
}

std::unique_ptr<Kernel> lower_gather_gradient(Lowering& lowering) {
  const Picks p(lowering.attributes(), lowering.output().dims, lowering.input(1).dims);
  const bool sorted = p.inner >= sorted_elements && p.n < INT32_MAX && p.picks < INT32_MAX;
  return dispatch_algebraic(lowering, lowering.output().dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    return sorted ? sorted_kernel<T>(lowering, p) : direct_kernel<T>(lowering, p);
  });
}

}  // namespace

const Kernels gather_gradient_kernels("gather_gradient",
                                      [] { define_kernel("gather_gradient", lower_gather_gradient); });

}  // namespace mpsgraph::cpu
