// The micro-kernel for 8-bit integers, used by convolutions that run as one matmul per filter tap (convolution_taps.h)
// and by integer matmul (matrix/byte_product.cpp).
//
// A tile is a few rows by `columns` columns of int32 sums in registers. A step is four bytes of a row, that is, four
// channels, which one instruction multiplies by four weights and accumulates; weights are packed into panels
// [step][columns][4]. Rows are unsigned. If the processor cannot multiply signed rows, they are read with their sign
// bit flipped, which adds 128. The contribution of that offset and of zero points to each sum is known in advance and
// passed as `start`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/convolution/convolution_tiles.h"

namespace mpsgraph::cpu {

enum class IntegerResult : uint8_t { uint8, int8, float32, int32 };

// The epilogue applied to each sum, by column: v = sum * scale + bias + residual * residual_scale, then ReLU, and for
// integer results saturate(round(v) + zero_point). All values are in units of the result's scale, and the residual's
// zero point is part of the bias. An int32 result is the sum itself plus the product of its row term and column term.
struct IntegerEpilogue {
  const int32_t* start = nullptr;  // initial values of the sums; null: zero
  const float *scale = nullptr, *bias = nullptr;
  ptrdiff_t residual = 0;  // byte offset from a result to the residual
  float residual_scale = 0;
  bool has_residual = false, residual_is_signed = false, relu = false;
  int32_t zero_point = 0;
  IntegerResult result = IntegerResult::uint8;
  const int32_t *row_terms = nullptr, *column_terms = nullptr;  // by row of the tile and by column; null if absent
};

struct IntegerTiles : TileRows {
  static constexpr int most_rows = 32, columns = 32, group = 4;
  // Multiply by all columns of a panel and store `width` of them. `turn` means that rows are signed.
  void (*multiply)(int count, const uint8_t* const* rows, bool turn, const TileRun* runs, int64_t run_count,
                   const int8_t* panel, std::byte* const* out, int width, const IntegerEpilogue& epilogue);
  // Pack `quads` groups of four matrix rows, `stride` apart, into a full panel, XORing each byte with `flipped`. The
  // packed bytes, now signed, are also added to the `sums` of their columns.
  void (*pack)(const uint8_t* rows, int64_t stride, int64_t quads, uint8_t flipped, uint8_t* panel, int32_t* sums);
  int32_t turned_by;  // offset added to signed rows
  bool wants_narrow = false;  // runs marked narrow are faster
};

// Return all steps of a panel as runs, split into narrow and wide runs if that is faster.
std::vector<TileRun> runs_of_panel(const IntegerTiles& tiles, const int8_t* panel, int64_t steps);

// Return the micro-kernels for convolutions, with all result types, or null without 8-bit dot products.
const IntegerTiles* integer_tiles();
// Return micro-kernels for int32 results, avoiding AMX for few rows, or null for the baseline instruction set.
const IntegerTiles* integer_sum_tiles(bool few_rows = false);

namespace avx2 {
const IntegerTiles& integer_tiles();  // int32 results only
void pack_byte_panel(const uint8_t* rows, int64_t stride, int64_t quads, uint8_t flipped, uint8_t* panel,
                     int32_t* sums);  // shared implementation of IntegerTiles::pack
}  // namespace avx2

namespace avx512_vnni {
const IntegerTiles& integer_tiles();
}
namespace amx_int8 {
const IntegerTiles& integer_tiles();
}

}  // namespace mpsgraph::cpu
