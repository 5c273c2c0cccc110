// The micro-kernel of a convolution of 8-bit integers that runs as one matrix product per kernel tap
// (convolution_taps.h), and of products of such matrices (matrix/byte_product.cpp).
//
// A tile is a few rows by `columns` columns of sums in int32 registers. A step is four bytes of a row, four channels,
// which one instruction multiplies with four weights and adds; weights come as panels [step][columns][4]. Rows are
// unsigned: where signed ones cannot be multiplied, they are read with their sign bit flipped, which adds 128. What
// that and a zero point add to a sum is known beforehand and stands in `start`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/convolution/convolution_tiles.h"

namespace mpsgraph::cpu {

enum class IntegerResult : uint8_t { uint8, int8, float32, int32 };

// The epilogue of a sum, by column: v = sum * scale + bias + residual * residual_scale; relu; of an integer result then
// saturate(round(v) + zero_point). Everything is in steps of the result; the residual's zero point is in the bias. An
// int32 result is the sum itself, and what the rows' own terms add, each times a number for each column.
struct IntegerEpilogue {
  const int32_t* start = nullptr;  // what sums begin with; null: zero
  const float *scale = nullptr, *bias = nullptr;
  ptrdiff_t residual = 0;  // from a result's byte to the one that is added to it
  float residual_scale = 0;
  bool has_residual = false, residual_is_signed = false, relu = false;
  int32_t zero_point = 0;
  IntegerResult result = IntegerResult::uint8;
  const int32_t *row_terms = nullptr, *column_terms = nullptr;  // by row of the tile and by column; null: nothing
};

struct IntegerTiles : TileRows {
  static constexpr int most_rows = 32, columns = 32, group = 4;
  // For all columns of a panel, of which `width` are stored. `turn`: rows are signed.
  void (*multiply)(int count, const uint8_t* const* rows, bool turn, const TileRun* runs, int64_t run_count,
                   const int8_t* panel, std::byte* const* out, int width, const IntegerEpilogue& epilogue);
  // `quads` times four rows of a matrix, `stride` apart, to a whole panel, each byte with the bits of `flipped` turned;
  // to `sums`, of each column, are added its bytes, which are signed then.
  void (*pack)(const uint8_t* rows, int64_t stride, int64_t quads, uint8_t flipped, uint8_t* panel, int32_t* sums);
  int32_t turned_by;  // what is added to signed rows
  bool wants_narrow = false;  // are runs that are marked as narrow quicker?
};

// All steps of a panel, in runs of narrow ones and others where that makes them quicker.
std::vector<TileRun> runs_of_panel(const IntegerTiles& tiles, const int8_t* panel, int64_t steps);

// Those for convolutions, with all results; null where the processor has no instruction for them.
const IntegerTiles* integer_tiles();
// Those for int32 results, of few rows without AMX; null for the baseline.
const IntegerTiles* integer_sum_tiles(bool few_rows = false);

namespace avx2 {
const IntegerTiles& integer_tiles();  // int32 results only
void pack_byte_panel(const uint8_t* rows, int64_t stride, int64_t quads, uint8_t flipped, uint8_t* panel,
                     int32_t* sums);  // IntegerTiles::pack of all
}  // namespace avx2

namespace avx512_vnni {
const IntegerTiles& integer_tiles();
}
namespace amx_int8 {
const IntegerTiles& integer_tiles();
}

}  // namespace mpsgraph::cpu
