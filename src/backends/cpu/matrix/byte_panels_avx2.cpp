// Packing of 8-bit panels for the matmuls in byte_product.cpp: for each column, four bytes with consecutive inner
// indices are adjacent.
#include <immintrin.h>

#include "backends/cpu/convolution/convolution_integers.h"

namespace mpsgraph::cpu::avx2 {
namespace {

constexpr int columns = IntegerTiles::columns, quad = IntegerTiles::group, lanes = 8, vectors = columns / lanes;
static_assert(columns == sizeof(__m256i) && quad == 4);

__m256i load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
void store(__m256i v, void* to) { _mm256_storeu_si256(static_cast<__m256i*>(to), v); }

// Return the sums of groups of four adjacent signed bytes.
__m256i sums_of_quads(__m256i bytes) {
  return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes), _mm256_set1_epi16(1));
}

}  // namespace

void pack_byte_panel(const uint8_t* rows, int64_t stride, int64_t quads, uint8_t flipped, uint8_t* panel,
                     int32_t* sums) {
  const __m256i flip = _mm256_set1_epi8(static_cast<char>(flipped));
  __m256i totals[vectors];
  for (int v = 0; v < vectors; ++v) totals[v] = load(sums + v * lanes);
  for (int64_t i = 0; i < quads; ++i, rows += quad * stride, panel += columns * quad) {
    const auto row = [&](int64_t k) { return _mm256_xor_si256(load(rows + k * stride), flip); };
    // The unpack instructions work separately on 128-bit lanes, so each vector holds four columns of the first half and
    // four columns of the second half.
    const __m256i low = _mm256_unpacklo_epi8(row(0), row(1)), high = _mm256_unpackhi_epi8(row(0), row(1));
    const __m256i next_low = _mm256_unpacklo_epi8(row(2), row(3)), next_high = _mm256_unpackhi_epi8(row(2), row(3));
    const __m256i parts[] = {_mm256_unpacklo_epi16(low, next_low), _mm256_unpackhi_epi16(low, next_low),
                             _mm256_unpacklo_epi16(high, next_high), _mm256_unpackhi_epi16(high, next_high)};
    const __m256i made[vectors] = {
        _mm256_permute2x128_si256(parts[0], parts[1], 0x20), _mm256_permute2x128_si256(parts[2], parts[3], 0x20),
        _mm256_permute2x128_si256(parts[0], parts[1], 0x31), _mm256_permute2x128_si256(parts[2], parts[3], 0x31)};
    for (int v = 0; v < vectors; ++v) {
      store(made[v], panel + v * lanes * quad);
      totals[v] = _mm256_add_epi32(totals[v], sums_of_quads(made[v]));
    }
  }
  for (int v = 0; v < vectors; ++v) store(totals[v], sums + v * lanes);
}

}  // namespace mpsgraph::cpu::avx2
