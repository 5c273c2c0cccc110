// Results so large that they leave the caches before anybody reads them are written past these: memory is not read
// before it is written then, and what the caches hold stays there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mpsgraph::cpu {

constexpr size_t streaming_threshold = 24 << 20;  // bytes
constexpr size_t cache_line = 64;              // bytes: no vector is longer

// Bytes of the largest cache that this thread's core uses; 0: not known.
size_t outermost_cache();

inline bool at_a_line(const void* p) { return reinterpret_cast<uintptr_t>(p) % cache_line == 0; }

// A vector to where a vector begins. Who has written so calls streaming_fence before others may read.
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

// Whole cache lines to where one begins.
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
  __builtin_ia32_sfence();  // on other processors what hands results over is a fence for these, too
#endif
}

}  // namespace mpsgraph::cpu
