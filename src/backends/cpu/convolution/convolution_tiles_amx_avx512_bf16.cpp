// bfloat16 convolution micro-kernels in AMX tile registers. Packing and the epilogue use the vector code.
#include <algorithm>

#include "backends/cpu/convolution/amx_products.h"
#include "backends/cpu/convolution/convolution_micro_kernels.h"

namespace mpsgraph::cpu::avx512_bf16 {
namespace {

using namespace amx;

using S = BFloat16;
using F = BFloat16;
using Epilogue = TileEpilogue<S>;
using Vectors = MicroKernels<S, F>;
constexpr int half = Vectors::lanes, columns = Vectors::columns, group = Vectors::group;
static_assert(columns == 2 * side && group * sizeof(F) == word);

struct Pairs {
  static void of_upper_rows() {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
  }
  static void of_lower_rows() {
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
};

const std::byte* const* bytes_of(const F* const* rows) { return reinterpret_cast<const std::byte* const*>(rows); }
const std::byte* bytes_of(const F* from) { return reinterpret_cast<const std::byte*>(from); }
std::byte* bytes_of(float* sums) { return reinterpret_cast<std::byte*>(sums); }

void multiply_in_registers(int count, const F* const* rows, const TileRun* runs, int64_t run_count, const F* panel,
                           S* const* out, int width, const Epilogue& epilogue) {
  alignas(64) float sums[most_rows * columns];
  for (int r = 0; r < count; ++r) Vectors::ask_for_row(out[r], width, epilogue);
  multiply_runs<Pairs>(count, bytes_of(rows), runs, run_count, sizeof(F), bytes_of(panel), bytes_of(sums));
  for (int r = 0; r < count; ++r) Vectors::finish(sums + r * columns, out[r], width, epilogue);
}

void add_in_registers(int count, const F* const* rows, int64_t steps, const F* panel, float* const* sums) {
  alignas(64) float products[most_rows * columns];
  const TileRun run{0, 0, steps};
  multiply_runs<Pairs>(count, bytes_of(rows), &run, 1, sizeof(F), bytes_of(panel), bytes_of(products));
  for (int r = 0; r < count; ++r)
    for (int i : {0, half}) store(sums[r] + i, load(sums[r] + i) + load(products + r * columns + i));
}

// ---- transposed rows ----

// multiply_transposed() indexes its sums by row element and column. Rows can therefore be loaded into registers 6 and 7
// without a copy. The panel is used many times and is transposed once, when it is packed: for each column, the words of
// sixteen rows become contiguous, with zeros after the last row.
void gather_columns(const S* const* rows, const int* valid, int64_t row_stride, int64_t count, int width, F* panel) {
  for (int64_t r = 0; r < count; r += side, panel += side * columns * group) {
    const auto there = static_cast<int>(std::min<int64_t>(side, count - r));
    for (int part : {0, half}) {
      Floats square[side] = {};
      for (int k = 0; k < there; ++k) {
        const S* from = rows[r + k] + part;
        if (width == columns && valid[r + k] == group) {
          square[k] = Vectors::pairs_of(from, from + row_stride);
          continue;
        }
        F words[half * group] = {};
        for (int c = 0; part + c < width && c < half; ++c)
          for (int i = 0; i < valid[r + k]; ++i) words[c * group + i] = from[i * row_stride + c];
        square[k] = load_as<Floats>(words);
      }
      transpose(square);
      for (int c = 0; c < half; ++c) Vectors::store_words(panel + (part + c) * side * group, square[c]);
    }
  }
}

void multiply_turned(int count, const F* const* rows, int64_t first, int64_t row_count, const F* panel, float* sums,
                     bool fresh, S* out, int64_t out_stride) {
  alignas(64) std::byte copied[side * step_bytes];
  alignas(64) float turned[columns * most_rows];
  const bool both = count > side;
  for (int r = 0; out && r < count; ++r) Vectors::ask_for_row(out + r * out_stride, columns, {});
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t r = 0; r < row_count; r += side, panel += side * columns * group) {
    const auto there = static_cast<int>(std::min<int64_t>(side, row_count - r));
    const std::byte* const* from = bytes_of(rows + r);
    ptrdiff_t apart = there == side && count % side == 0 ? distance_of(from, side) : 0;
    const std::byte* steps = from[0] + first * word;
    if (apart == 0) {
      copy_rows(there, from, first * word, count, copied, step_bytes);
      std::memset(copied + there * step_bytes, 0, static_cast<size_t>((side - there) * step_bytes));
      steps = copied, apart = step_bytes;
    }
    memory_is_read();
    _tile_loadd(6, steps, apart);
    _tile_loadd(4, panel, line);
    _tile_loadd(5, panel + side * side * group, line);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(2, 5, 6);
    if (!both) continue;
    _tile_loadd(7, steps + line, apart);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(3, 5, 7);
  }
  constexpr int64_t turned_row = most_rows * sizeof(float);
  _tile_stored(0, turned, turned_row);
  _tile_stored(1, turned + side, turned_row);
  _tile_stored(2, turned + side * most_rows, turned_row);
  _tile_stored(3, turned + side * most_rows + side, turned_row);
  memory_is_read();
  for (int step = 0; step < count; step += side)
    for (int part : {0, half}) {
      Floats square[side];
      for (int c = 0; c < side; ++c) square[c] = load(turned + (part + c) * most_rows + step);
      transpose(square);
      for (int i = 0; i < std::min(side, count - step); ++i) {
        float* sum = sums + (step + i) * columns + part;
        const Floats total = fresh ? square[i] : square[i] + load(sum);
        out ? store(out + (step + i) * out_stride + part, total) : store(sum, total);
      }
    }
}

constexpr ConvolutionTiles<S, F> tiles = [] {
  ConvolutionTiles<S, F> made = Vectors::tiles;
  static_cast<TileRows&>(made) = {most_rows, side, begin, end};
  made.multiply = multiply_in_registers;
  made.add = add_in_registers;
  made.multiply_transposed = multiply_turned;
  made.gather = gather_columns;
  return made;
}();

}  // namespace
}  // namespace mpsgraph::cpu::avx512_bf16

namespace mpsgraph::cpu {

const ConvolutionTiles<BFloat16, BFloat16>& amx_bf16::register_tiles() { return avx512_bf16::tiles; }

}  // namespace mpsgraph::cpu
