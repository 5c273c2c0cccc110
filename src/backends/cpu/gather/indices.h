// Reads index tensors of any integer type, dispatching on the type once per loop instead of once per element.
//
// with_indices(dtype, f) calls f(read), where read(data, i) returns element i as int64.
#pragma once

#include "backends/cpu/dispatch.h"

namespace mpsgraph::cpu {

template <class F>
decltype(auto) with_indices(DType dtype, const F& f) {
  if (dtype == DType::int32)
    return f([](const std::byte* data, int64_t i) -> int64_t { return reinterpret_cast<const int32_t*>(data)[i]; });
  if (dtype == DType::int64)
    return f([](const std::byte* data, int64_t i) -> int64_t { return reinterpret_cast<const int64_t*>(data)[i]; });
  return f([dtype](const std::byte* data, int64_t i) -> int64_t { return integer_at(data, dtype, i); });
}

// Geometry of gather_nd and scatter_nd: a tensor [batch, n, inner] is indexed by [batch, picks] index vectors. Each
// pick consists of `depth` indices into `axes`, whose sizes multiply to n.
struct NdPicks {
  int64_t batch = 1, n = 1, inner = 1, picks = 1, depth = 0;
  Dims axes;
  NdPicks(int64_t batches, const Dims& from, const Dims& indices) : depth(indices.back()) {
    for (int64_t i = 0; i < static_cast<int64_t>(from.size()); ++i) {
      const int64_t size = from[static_cast<size_t>(i)];
      (i < batches ? batch : i < batches + depth ? n : inner) *= size;
      if (i >= batches && i < batches + depth) axes.push_back(size);
    }
    for (size_t i = static_cast<size_t>(batches); i + 1 < indices.size(); ++i) picks *= indices[i];
  }
  // Return the flat position in [0, n) that index vector number `at` selects, or -1 if an index is out of range. Index
  // vectors are numbered consecutively over all batches.
  template <class Read>
  int64_t position(const Read& read, const std::byte* indices, int64_t at) const {
    int64_t result = 0;
    bool inside = true;
    for (int64_t d = 0; d < depth; ++d) {
      const int64_t index = read(indices, at * depth + d), size = axes[static_cast<size_t>(d)];
      inside &= index >= 0 && index < size;
      result = result * size + (inside ? index : 0);
    }
    return inside ? result : -1;
  }
};

}  // namespace mpsgraph::cpu
