// Streaming (non-temporal) stores, for results that are too large to stay in the cache until they are read. These
// stores avoid reading the target cache lines from memory and do not evict other data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mpsgraph::cpu {

constexpr size_t streaming_threshold = 24 << 20;  // bytes; smaller results use ordinary stores
constexpr size_t cache_line = 64;              // bytes; also the size of the widest vector

// Return the size in bytes of the last-level cache of this thread's core, or 0 if unknown.
size_t outermost_cache();

inline bool at_a_line(const void* p) { return reinterpret_cast<uintptr_t>(p) % cache_line == 0; }

// Store a vector to an aligned address with a streaming store. Call streaming_fence before another thread may read the
// data.
template <class V>
[[gnu::always_inline]] inline void stream_store(float* p, V v) {
#if defined(__clang__)
  __builtin_nontemporal_store(v, reinterpret_cast<V*>(p));
#elif defined(__x86_64__)
  if constexpr (sizeof v == 64)
    __builtin_ia32_movntps512(p, v);
  else if constexpr (sizeof v == 32)
    __builtin_ia32_movntps256(p, v);
  else
    __builtin_ia32_movntps(p, v);
#else
  std::memcpy(p, &v, sizeof v);
#endif
}

// Copy whole cache lines to a line-aligned address with streaming stores.
inline void streaming_copy(std::byte* to, const std::byte* from, int64_t bytes) {
  typedef float Vector __attribute__((vector_size(16)));
  constexpr size_t vectors = cache_line / sizeof(Vector);
  for (int64_t i = 0; i < bytes; i += static_cast<int64_t>(cache_line)) {
    Vector line[vectors];
    std::memcpy(line, from + i, sizeof line);
    for (size_t v = 0; v < vectors; ++v) stream_store(reinterpret_cast<float*>(to + i) + 4 * v, line[v]);
  }
}

[[gnu::always_inline]] inline void streaming_fence() {
#ifdef __x86_64__
  __builtin_ia32_sfence();  // on other processors, the ordinary release barrier suffices
#endif
}

}  // namespace mpsgraph::cpu
