// Loop of reversed.h.
// Instruction sets: avx2, avx512.
#include <immintrin.h>

#include <cstring>

#include "backends/cpu/shape/reversed.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

#if MPSGRAPH_VECTOR_BYTES == 64
using V = __m512i;
// reverse the order of the 16-byte parts, and then that of the items within each part
V reversed(V v, __m128i within) {
  return _mm512_shuffle_epi8(_mm512_shuffle_i64x2(v, v, 0x1b), _mm512_broadcast_i32x4(within));
}
#else
using V = __m256i;
V reversed(V v, __m128i within) {
  return _mm256_shuffle_epi8(_mm256_permute2x128_si256(v, v, 1), _mm256_broadcastsi128_si256(within));
}
#endif

void reverse(std::byte* to, const std::byte* from, int64_t n, int64_t size) {
  const __m128i within = size == 1   ? _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
                         : size == 2 ? _mm_set_epi8(1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
                         : size == 4 ? _mm_set_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12)
                                     : _mm_set_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8);
  constexpr auto width = static_cast<int64_t>(sizeof(V));
  const int64_t all = n * size;
  const auto step = [&](int64_t at) {
    V v;
    std::memcpy(&v, from + all - width - at, sizeof v);
    v = reversed(v, within);
    std::memcpy(to + at, &v, sizeof v);
  };
  const auto one_by_one = [&](auto item) {
    for (int64_t i = 0; i < n; ++i) std::memcpy(to + i * size, from + (n - 1 - i) * size, sizeof item);
  };
  if (all >= width) {
    for (int64_t at = 0; at + width <= all; at += width) step(at);
    if (all % width > 0) step(all - width);  // the last vector overlaps the previous one
  } else if (size == 1) {
    one_by_one(uint8_t{});
  } else if (size == 2) {
    one_by_one(uint16_t{});
  } else if (size == 4) {
    one_by_one(uint32_t{});
  } else {
    one_by_one(uint64_t{});
  }
}

}  // namespace

constinit const ReverseItems reverse_items = reverse;

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
