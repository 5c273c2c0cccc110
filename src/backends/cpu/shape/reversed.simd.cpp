// Loop of reversed.h.
// Instruction sets: avx2, avx512.
#include <cstring>

#include "backends/cpu/shape/reversed.h"
#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

using Order = Vector<uint8_t, 16>;

#if defined(__aarch64__)
using V = uint8x16_t;
V reversed(V v, Order within) { return vqtbl1q_u8(v, (V)within); }
#elif MPSGRAPH_VECTOR_BYTES == 64
using V = __m512i;
// reverse the order of the 16-byte parts, and then that of the items within each part
V reversed(V v, Order within) {
  return _mm512_shuffle_epi8(_mm512_shuffle_i64x2(v, v, 0x1b), _mm512_broadcast_i32x4((__m128i)within));
}
#else
using V = __m256i;
V reversed(V v, Order within) {
  return _mm256_shuffle_epi8(_mm256_permute2x128_si256(v, v, 1), _mm256_broadcastsi128_si256((__m128i)within));
}
#endif

void reverse(std::byte* to, const std::byte* from, int64_t n, int64_t size) {
  Order within;
  for (int i = 0; i < 16; ++i) within[i] = static_cast<uint8_t>(i ^ (16 - size));
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
