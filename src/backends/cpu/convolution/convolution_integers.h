// The micro-kernel for 8-bit integers, used by convolutions that run as one matmul per filter tap (convolution_taps.h)
// and by integer matmul (matrix/byte_product.cpp).
//
// A tile is a block of a few rows by `columns` columns of the result, whose int32 sums stay in registers. The inner
// dimension advances in steps of four bytes of a row, that is, four channels, which one instruction multiplies by four
// weights and accumulates. Weights are packed into panels [step][columns][4]. If the processor cannot multiply rows of
// this signedness, their sign bits are flipped when they are loaded, which adds an offset of 128 or -128 to each value.
// The contribution of this offset and of zero points to each sum is known in advance and passed as `start`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/convolution/convolution_tiles.h"

namespace mpsgraph::cpu {

enum class IntegerResult : uint8_t { uint8, int8, float32, int32 };

// The epilogue applied to each sum. It computes v = sum * scale + bias + residual * residual_scale, with a scale and a
// bias per column, and then applies ReLU. Integer results are saturate(round(v) + zero_point). All values are in units
// of the result's scale, and the bias includes the zero point of the residual. An int32 result is the sum itself plus
// the product of its row term and its column term.
struct IntegerEpilogue {
  const int32_t* start = nullptr;  // initial values of the sums; null if all sums start at zero
  const float *scale = nullptr, *bias = nullptr;
  ptrdiff_t residual = 0;  // byte offset from a result to the residual
  float residual_scale = 0;
  bool has_residual = false, residual_is_signed = false, relu = false;
  int32_t zero_point = 0;
  IntegerResult result = IntegerResult::uint8;
  // for int32 results, row_terms[r] * column_terms[c] is added to the sum in row r and column c; null if unused
  const int32_t *row_terms = nullptr, *column_terms = nullptr;
};

struct IntegerTiles : TileRows {
  static constexpr int most_rows = 32, columns = 32, group = 4;
  // Multiply `count` rows by a panel and store the first `width` columns of the product.
  void (*multiply)(int count, const uint8_t* const* rows, bool is_signed, const TileRun* runs, int64_t run_count,
                   const int8_t* panel, std::byte* const* out, int width, const IntegerEpilogue& epilogue);
  // Pack `quads` groups of four matrix rows, `stride` bytes apart, into a full panel. Each byte is XORed with
  // `flipped`, which makes it signed, and is then added to the sum of its column in `sums`.
  void (*pack)(const uint8_t* rows, int64_t stride, int64_t quads, uint8_t flipped, uint8_t* panel, int32_t* sums);
  int32_t signed_offset, unsigned_offset;  // what the micro-kernel adds to elements of signed and of unsigned rows
  bool wants_narrow = false;  // whether runs marked as narrow are faster
  int32_t offset(bool is_signed) const { return is_signed ? signed_offset : unsigned_offset; }
};

// Divide all steps of a panel into runs. Narrow and wide steps (see TileRun) form separate runs if that is faster than
// a single wide run.
std::vector<TileRun> runs_of_panel(const IntegerTiles& tiles, const int8_t* panel, int64_t steps);

// Return the micro-kernels for convolutions, which support all result types, or null if 8-bit dot products are not
// available.
const IntegerTiles* integer_tiles();
// Return micro-kernels for int32 results, or null for the baseline instruction set. `few_rows` selects micro-kernels
// without AMX.
const IntegerTiles* integer_sum_tiles(bool few_rows = false);

namespace avx2 {
const IntegerTiles& integer_tiles();  // supports int32 results only
void pack_byte_panel(const uint8_t* rows, int64_t stride, int64_t quads, uint8_t flipped, uint8_t* panel,
                     int32_t* sums);  // shared implementation of IntegerTiles::pack
}  // namespace avx2

namespace neon_dotprod {
const IntegerTiles& integer_tiles();
}
namespace neon_bf16 {
const IntegerTiles& integer_tiles();
}
namespace avx512_vnni {
const IntegerTiles& integer_tiles();
}
namespace amx_int8 {
const IntegerTiles& integer_tiles();
}

}  // namespace mpsgraph::cpu
