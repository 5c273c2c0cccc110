// 8-bit integer convolution micro-kernels in AMX tile registers. AMX also multiplies signed rows.
#include <immintrin.h>

#include "backends/cpu/convolution/amx_products.h"
#include "backends/cpu/convolution/convolution_integers.h"
#include "backends/cpu/convolution/integer_epilogue.h"

namespace mpsgraph::cpu::amx_int8 {
namespace {

using namespace amx;
using avx512::finish_row;

constexpr int columns = IntegerTiles::columns;
static_assert(columns == 2 * side && IntegerTiles::group == word && IntegerTiles::most_rows == most_rows);

struct Unsigned {
  static void of_upper_rows() {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
  }
  static void of_lower_rows() {
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
};
struct Signed {
  static void of_upper_rows() {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
  }
  static void of_lower_rows() {
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
};

void multiply(int count, const uint8_t* const* rows, bool are_signed, const TileRun* runs, int64_t run_count,
              const int8_t* panel, std::byte* const* out, int width, const IntegerEpilogue& epilogue) {
  alignas(64) int32_t sums[most_rows * columns];
  (are_signed ? multiply_runs<Signed>
              : multiply_runs<Unsigned>)(count, reinterpret_cast<const std::byte* const*>(rows), runs, run_count, 1,
                                         reinterpret_cast<const std::byte*>(panel), reinterpret_cast<std::byte*>(sums));
  const __m512i start_low = epilogue.start ? _mm512_loadu_si512(epilogue.start) : _mm512_setzero_si512();
  const __m512i start_high = epilogue.start ? _mm512_loadu_si512(epilogue.start + side) : _mm512_setzero_si512();
  for (int r = 0; r < count; ++r)
    finish_row(_mm512_add_epi32(_mm512_load_si512(sums + r * columns), start_low),
               _mm512_add_epi32(_mm512_load_si512(sums + r * columns + side), start_high), width, out[r], epilogue, r);
}

}  // namespace

const IntegerTiles& integer_tiles() {
  static const IntegerTiles tiles{{most_rows, side, begin, end}, multiply, avx2::pack_byte_panel, 0, 0};
  return tiles;
}

}  // namespace mpsgraph::cpu::amx_int8
