// gather, gather_nd, gather_along_axis, and one_hot.
//
// An index outside [0, n) selects zero. Where such indices are not allowed, separate operations that run before these
// kernels have already clipped or checked them (compiler/indices.cpp).

#include <array>
#include <cstring>

#include "backends/cpu/gather/indices.h"
#include "backends/cpu/gather/nd_positions.h"
#include "backends/cpu/gather/picks.h"
#include "backends/cpu/instruction_set.h"
#include "backends/cpu/parallel.h"
#include "core/exact_numbers.h"

namespace mpsgraph::cpu {
namespace {

// Gather single elements: to[row, pick] = from[row, index of the pick], for each row and each pick (one entry of the
// index tensor). Groups of `shared` consecutive rows use the same indices.
template <class T, class Read>
void pick_elements(int64_t rows, int64_t picks, int64_t n, int64_t shared, const T* from, const Read& read,
                   const std::byte* index, T* to) {
  // Prefetch distance in picks (entries of the index tensor), and the table size in bytes up to which prefetching is
  // not needed because the table stays in cache.
  constexpr int64_t ahead = 32, cached = 1 << 20;
  const bool prefetches = shared == 1 && picks >= ahead && rows * n * int64_t{sizeof(T)} > cached;
  parallel_for(rows * picks, grain_for(2 * int64_t{sizeof(T)}), [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t row = begin / picks, first = begin % picks, last = std::min(picks, first + end - begin);
      const T* x = from + row * n;
      T* y = to + row * picks;
      const int64_t own = row / shared * picks;
      int64_t pick = first;
      const auto take = [&] {
        const int64_t i = read(index, own + pick);
        y[pick] = i >= 0 && i < n ? x[i] : T(0);
      };
      // Prefetch the elements of later picks (entries of the index tensor), including picks of the next row, `ahead`
      // picks before they are gathered.
      for (const int64_t known = std::min(last, rows * picks - ahead - own); prefetches && pick < known; ++pick) {
        const int64_t later = pick + ahead;
        // Compute the address as an integer: the index may be out of range, and pointer arithmetic outside an array is
        // undefined.
        const auto table = reinterpret_cast<uintptr_t>(later < picks ? x : x + n);
        __builtin_prefetch(
            reinterpret_cast<const void*>(table + static_cast<uintptr_t>(read(index, own + later)) * sizeof(T)));
        take();
      }
      for (; pick < last; ++pick) take();
      begin += last - first;
    }
  });
}

// Copy `bytes` bytes from `from`, or write zeros if `from` is null.
void pick_run(std::byte* to, const std::byte* from, int64_t bytes) {
  if (from)
    std::memcpy(to, from, static_cast<size_t>(bytes));
  else
    std::memset(to, 0, static_cast<size_t>(bytes));
}

std::unique_ptr<Kernel> lower_gather(Lowering& lowering) {
  const Operand x = lowering.input(0), indices = lowering.input(1), y = lowering.output();
  const Picks p(lowering.attributes(), x.dims, indices.dims);
  if (p.inner == 1)
    return dispatch_size(size_of(x.dtype), [&](auto type) {
      using T = typename decltype(type)::type;
      return with_indices(indices.dtype, [&](auto read) {
        return kernel([=, x = x.slot, indices = indices.slot, y = y.slot](Frame& f) {
          pick_elements(p.batch * p.outer, p.picks, p.n, p.outer, f.at<const T>(x), read, f.at<std::byte>(indices),
                        f.at<T>(y));
        });
      });
    });
  return with_indices(indices.dtype, [&](auto read) {
    const int64_t bytes = p.inner * static_cast<int64_t>(size_of(x.dtype));
    return kernel([=, x = x.slot, indices = indices.slot, y = y.slot](Frame& f) {
      const auto *from = f.at<const std::byte>(x), *index = f.at<const std::byte>(indices);
      auto* to = f.at<std::byte>(y);
      parallel_for(p.batch * p.outer * p.picks, grain_for(bytes), [&](int64_t begin, int64_t end) {
        for (int64_t unit = begin; unit < end; ++unit) {
          const int64_t row = unit / p.picks, pick = unit % p.picks;
          const int64_t i = read(index, row / p.outer * p.picks + pick);
          pick_run(to + unit * bytes, i < 0 || i >= p.n ? nullptr : from + (row * p.n + i) * bytes, bytes);
        }
      });
    });
  });
}

// Return the vectorized function that computes the flat positions that index vectors select, or null if each position
// must be computed separately.
FindPositions find_positions(const NdPicks& p, DType indices) {
  if (p.depth < 1 || p.depth > NdPositions::deepest || p.n > INT32_MAX) return nullptr;
  if (indices != DType::int32 && indices != DType::int64) return nullptr;
  const NdPositions& of = nd_positions();
  return (indices == DType::int32 ? of.of_int32 : of.of_int64)[p.depth - 1];
}

// Copy slices of `bytes` bytes from the given positions, and write zeros for position -1.
using PickSlices = void (*)(const std::byte* from, const int32_t* positions, int64_t count, int64_t bytes,
                            bool all_inside, std::byte* to);
template <size_t bytes>
void pick_slices_of(const std::byte* from, const int32_t* positions, int64_t count, int64_t, bool all_inside,
                    std::byte* to) {
  if (all_inside) {
    for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * bytes, from + positions[i] * int64_t{bytes}, bytes);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = positions[i];
    at < 0 ? std::memset(to + i * bytes, 0, bytes) : std::memcpy(to + i * bytes, from + at * bytes, bytes);
  }
}
void pick_slices(const std::byte* from, const int32_t* positions, int64_t count, int64_t bytes, bool, std::byte* to) {
  for (int64_t i = 0; i < count; ++i)
    pick_run(to + i * bytes, positions[i] < 0 ? nullptr : from + positions[i] * bytes, bytes);
}
PickSlices pick_slices_of_size(int64_t bytes) {
  switch (bytes) {
    case 1: return pick_slices_of<1>;
    case 2: return pick_slices_of<2>;
    case 4: return pick_slices_of<4>;
    case 8: return pick_slices_of<8>;
    case 16: return pick_slices_of<16>;
    default: return pick_slices;
  }
}

std::unique_ptr<Kernel> lower_gather_nd(Lowering& lowering) {
  const Operand x = lowering.input(0), indices = lowering.input(1), y = lowering.output();
  const NdPicks p(lowering.attributes().integer("batch_dimensions"), x.dims, indices.dims);
  const auto size = static_cast<int64_t>(size_of(x.dtype)), bytes = p.inner * size;
  if (const FindPositions find = find_positions(p, indices.dtype)) {
    std::array<int32_t, NdPositions::deepest> lengths{};
    std::transform(p.axes.begin(), p.axes.end(), lengths.begin(), [](int64_t n) { return static_cast<int32_t>(n); });
    return kernel([=, pick = pick_slices_of_size(bytes), of_pick = p.depth * int64_t(size_of(indices.dtype)),
                   x = x.slot, indices = indices.slot, y = y.slot](Frame& f) {
      parallel_for(p.batch * p.picks, grain_for(bytes + p.depth * size), [&](int64_t begin, int64_t end) {
        constexpr int64_t block = 1024;  // positions per block, so that a block fits in L1
        int32_t positions[block];
        while (begin < end) {
          const int64_t count = std::min({block, end - begin, p.picks - begin % p.picks});
          const bool inside = find(f.at<std::byte>(indices) + begin * of_pick, lengths.data(), count, positions);
          pick(f.at<std::byte>(x) + begin / p.picks * p.n * bytes, positions, count, bytes, inside,
               f.at<std::byte>(y) + begin * bytes);
          begin += count;
        }
      });
    });
  }
  return with_indices(indices.dtype, [&](auto read) {
    return kernel([=, x = x.slot, indices = indices.slot, y = y.slot](Frame& f) {
      const auto *from = f.at<const std::byte>(x), *index = f.at<const std::byte>(indices);
      auto* to = f.at<std::byte>(y);
      parallel_for(p.batch * p.picks, grain_for(bytes + p.depth * size), [&](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end; ++at) {
          const int64_t i = p.position(read, index, at);
          pick_run(to + at * bytes, i < 0 ? nullptr : from + (at / p.picks * p.n + i) * bytes, bytes);
        }
      });
    });
  });
}

std::unique_ptr<Kernel> lower_gather_along_axis(Lowering& lowering) {
  const Operand x = lowering.input(0), indices = lowering.input(1), y = lowering.output();
  const int64_t axis = lowering.attributes().integer("axis");
  const AxisSplit from_axis(x.dims, axis), to_axis(y.dims, axis);
  return dispatch_size(size_of(x.dtype), [&](auto type) {
    using T = typename decltype(type)::type;
    return with_indices(indices.dtype, [&](auto read) {
      return kernel([read, n = from_axis.n, m = to_axis.n, inner = to_axis.inner, outer = to_axis.outer, x = x.slot,
                     indices = indices.slot, y = y.slot](Frame& f) {
        const std::byte* index = f.at<std::byte>(indices);
        if (inner == 1) return pick_elements(outer, m, n, 1, f.at<const T>(x), read, index, f.at<T>(y));
        parallel_for(outer * m, grain_for(inner * 2 * int64_t{sizeof(T)}), [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row) {
            const T* from = f.at<T>(x) + row / m * n * inner;
            T* to = f.at<T>(y) + row * inner;
            for (int64_t j = 0; j < inner; ++j) {
              const int64_t i = read(index, row * inner + j);
              to[j] = i >= 0 && i < n ? from[i * inner + j] : T(0);
            }
          }
        });
      });
    });
  });
}

std::unique_ptr<Kernel> lower_one_hot(Lowering& lowering) {
  const Operand indices = lowering.input(0), y = lowering.output();
  const AxisSplit s(y.dims, lowering.attributes().integer("axis"));  // n is the depth of the one-hot vectors
  return dispatch_size(size_of(y.dtype), [&](auto type) {
    using T = typename decltype(type)::type;
    T on, off;
    std::memcpy(&on, element_of(lowering.attributes(), "on_value", y.dtype)->bytes(), sizeof on);
    std::memcpy(&off, element_of(lowering.attributes(), "off_value", y.dtype)->bytes(), sizeof off);
    return kernel([s, on, off, indices = indices.slot, index_type = indices.dtype, y = y.slot](Frame& f) {
      const std::byte* index = f.at<std::byte>(indices);
      T* to = f.at<T>(y);
      parallel_for(s.outer, grain_for(s.n * s.inner * int64_t{sizeof(T)}), [&](int64_t begin, int64_t end) {
        std::fill(to + begin * s.n * s.inner, to + end * s.n * s.inner, off);
        for (int64_t at = begin * s.inner; at < end * s.inner; ++at) {
          const int64_t i = integer_at(index, index_type, at);
          if (i >= 0 && i < s.n) to[(at / s.inner * s.n + i) * s.inner + at % s.inner] = on;
        }
      });
    });
  });
}

}  // namespace

const Kernels gather_kernels("gather", [] {
  define_kernel("gather", lower_gather);
  define_kernel("gather_nd", lower_gather_nd);
  define_kernel("gather_along_axis", lower_gather_along_axis);
  define_kernel("one_hot", lower_one_hot);
});

}  // namespace mpsgraph::cpu
