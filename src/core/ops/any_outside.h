// Vectorizable scan that reports whether any index is out of range. The function is inline so that each kernel can
// compile it for its own vector instruction set.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "mpsgraph/core/attributes.h"

namespace mpsgraph::ops {

// Calls f with the data as a pointer to the C++ integer type that matches dtype.
template <class F>
decltype(auto) with_integers(DType dtype, const std::byte* data, const F& f) {
  switch (dtype) {
    case DType::int8: return f(reinterpret_cast<const int8_t*>(data));
    case DType::int16: return f(reinterpret_cast<const int16_t*>(data));
    case DType::int64: return f(reinterpret_cast<const int64_t*>(data));
    case DType::uint8: return f(reinterpret_cast<const uint8_t*>(data));
    case DType::uint16: return f(reinterpret_cast<const uint16_t*>(data));
    case DType::uint32: return f(reinterpret_cast<const uint32_t*>(data));
    case DType::uint64: return f(reinterpret_cast<const uint64_t*>(data));
    default: return f(reinterpret_cast<const int32_t*>(data));
  }
}

// Branch-free so that the loop vectorizes. The unsigned comparison also catches negative indices, which become very
// large.
template <class T>
bool any_above(const T* index, int64_t count, int64_t length) {
  using Unsigned = std::make_unsigned_t<T>;
  if (length == 0) return count > 0;
  constexpr int64_t most = sizeof(T) == 8 ? INT64_MAX : static_cast<int64_t>(std::numeric_limits<T>::max());
  const auto last = static_cast<Unsigned>(std::min(length - 1, most));
  Unsigned largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, static_cast<Unsigned>(index[i]));
  return largest > last;
}

inline bool is_outside(int64_t index, int64_t length) {
  return static_cast<uint64_t>(index) >= static_cast<uint64_t>(length);
}

// Returns whether any of the `count` indices is out of range and is not one of the `ignored` values. Index i is checked
// against lengths[i % lengths.size()].
inline bool any_outside(const std::byte* indices, DType dtype, int64_t count, const Ints& lengths,
                        const Ints& ignored) {
  return with_integers(dtype, indices, [&](const auto* index) {
    if (lengths.size() == 1 && ignored.empty()) return any_above(index, count, lengths[0]);
    bool outside = false;
    for (int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<int64_t>(index[i]);
      bool counts = is_outside(value, lengths[static_cast<size_t>(i) % lengths.size()]);
      for (const int64_t other : ignored) counts &= value != other;
      outside |= counts;
    }
    return outside;
  });
}

}  // namespace mpsgraph::ops
