// Compares kernels for Arm's extensions with plain loops. tests/arm/test_kernels.py compiles this file with the sources
// of the kernels, and runs it under qemu. The argument is the instruction set: dotprod or bf16.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "backends/cpu/convolution/convolution_integers.h"

using namespace mpsgraph::cpu;

namespace mpsgraph::cpu::neon {
void philox_eight_blocks(uint32_t* words, uint64_t key, uint64_t counter_low, uint64_t counter_high, uint64_t step);
}

namespace {

constexpr int columns = IntegerTiles::columns, group = IntegerTiles::group;
std::mt19937 generator(1);
int failures = 0;

void expect(bool holds, const char* what, int a, int b) {
  if (!holds && ++failures < 20) std::printf("%s: wrong at %d, %d\n", what, a, b);
}
int drawn(int low, int high) { return std::uniform_int_distribution<int>(low, high)(generator); }

// The result of an epilogue for one sum.
double finished(const IntegerEpilogue& e, int32_t sum, int column, double residual) {
  double v = std::fma(static_cast<double>(static_cast<float>(sum)), double{e.scale[column]}, double{e.bias[column]});
  if (e.has_residual) v += residual * double{e.residual_scale};
  return e.relu && v < 0 ? 0 : v;
}

void check_integers(const IntegerTiles& tiles, bool is_signed, IntegerResult result) {
  const int count = drawn(1, tiles.rows), width = drawn(1, columns);
  const int64_t first_steps = drawn(1, 9), last_steps = drawn(0, 6), steps = first_steps + last_steps;
  const int64_t gap = 4 * drawn(0, 3);  // bytes of a row between the runs
  std::vector<std::vector<uint8_t>> rows(static_cast<size_t>(count));
  const uint8_t* from[IntegerTiles::most_rows];
  std::vector<std::vector<std::byte>> out(rows.size(), std::vector<std::byte>(columns * 8));
  std::byte* to[IntegerTiles::most_rows];
  for (size_t r = 0; r < rows.size(); ++r) {
    for (int64_t i = 0; i < steps * group + gap; ++i) rows[r].push_back(static_cast<uint8_t>(drawn(0, 255)));
    from[r] = rows[r].data(), to[r] = out[r].data();
    for (int c = 0; c < columns; ++c) out[r][columns * 4 + c] = static_cast<std::byte>(drawn(0, 255));  // the residual
  }
  std::vector<int8_t> panel;
  for (int64_t i = 0; i < steps * columns * group; ++i) panel.push_back(static_cast<int8_t>(drawn(-128, 127)));
  const TileRun runs[] = {{0, 0, first_steps}, {first_steps * group + gap, first_steps, last_steps}};
  std::vector<int32_t> start, row_terms, column_terms;
  std::vector<float> scale, bias;
  for (int i = 0; i < columns; ++i) {
    start.push_back(drawn(-9999, 9999)), row_terms.push_back(drawn(-99, 99)), column_terms.push_back(drawn(-99, 99));
    scale.push_back(static_cast<float>(drawn(1, 99)) * 1e-5f);
    bias.push_back(static_cast<float>(drawn(-99, 99)) * 0.1f);
  }
  IntegerEpilogue e;
  e.start = drawn(0, 1) ? start.data() : nullptr;
  e.scale = scale.data(), e.bias = bias.data(), e.result = result;
  e.relu = drawn(0, 1), e.zero_point = result == IntegerResult::uint8 ? drawn(0, 255) : drawn(-128, 127);
  if (result == IntegerResult::int32) {
    if (drawn(0, 1)) e.row_terms = row_terms.data(), e.column_terms = column_terms.data();
  } else if (drawn(0, 1)) {
    e.has_residual = true, e.residual = columns * 4, e.residual_scale = 0.03f, e.residual_is_signed = drawn(0, 1);
  }
  tiles.multiply(count, from, is_signed, runs, 2, panel.data(), to, width, e);
  for (int r = 0; r < count; ++r)
    for (int c = 0; c < width; ++c) {
      int32_t sum = e.start ? e.start[c] : 0;
      for (const TileRun& run : runs)
        for (int64_t k = 0; k < run.steps * group; ++k) {
          const uint8_t byte = from[r][run.delta + k];
          const int x = (is_signed ? static_cast<int8_t>(byte) : int{byte}) + tiles.offset(is_signed);
          sum += x * panel[static_cast<size_t>((run.panel + k / group) * columns * group + c * group + k % group)];
        }
      if (result == IntegerResult::int32) {
        if (e.row_terms) sum += e.row_terms[r] * e.column_terms[c];
        int32_t found;
        std::memcpy(&found, to[r] + c * 4, 4);
        expect(found == sum, "int32", r, c);
        continue;
      }
      const auto residual = static_cast<uint8_t>(out[static_cast<size_t>(r)][static_cast<size_t>(columns * 4 + c)]);
      const double v = finished(e, sum, c, e.residual_is_signed ? static_cast<int8_t>(residual) : double(residual));
      if (result == IntegerResult::float32) {
        float found;
        std::memcpy(&found, to[r] + c * 4, 4);
        expect(std::abs(found - v) <= 1e-5 * std::max(1., std::abs(v)), "float32", r, c);
        continue;
      }
      const bool bytes_are_signed = result == IntegerResult::int8;
      const double low = bytes_are_signed ? -128 : 0, wanted = std::clamp(std::rint(v) + e.zero_point, low, low + 255);
      const auto byte = static_cast<uint8_t>(to[r][c]);
      const double found = bytes_are_signed ? static_cast<int8_t>(byte) : double(byte);
      expect(std::abs(found - wanted) <= (std::abs(v - std::floor(v) - 0.5) < 1e-3 ? 1 : 0), "bytes", r, c);
    }
}

void check_packing(const IntegerTiles& tiles) {
  const int64_t quads = drawn(1, 5), stride = columns + drawn(0, 9);
  std::vector<uint8_t> rows, panel(static_cast<size_t>(quads * group * columns));
  for (int64_t i = 0; i < quads * group * stride; ++i) rows.push_back(static_cast<uint8_t>(drawn(0, 255)));
  const uint8_t flipped = drawn(0, 1) ? 0x80 : 0;
  int32_t sums[columns];
  for (int c = 0; c < columns; ++c) sums[c] = c;
  tiles.pack(rows.data(), stride, quads, flipped, panel.data(), sums);
  for (int c = 0; c < columns; ++c) {
    int32_t sum = c;
    for (int64_t k = 0; k < quads * group; ++k) {
      const auto wanted = static_cast<uint8_t>(rows[static_cast<size_t>(k * stride + c)] ^ flipped);
      expect(panel[static_cast<size_t>((k / group * columns + c) * group + k % group)] == wanted, "pack", c, int(k));
      sum += static_cast<int8_t>(wanted);
    }
    expect(sums[c] == sum, "column sum", c, 0);
  }
}

// Philox 4x32-10 (Salmon et al., 2011), word by word.
void check_philox() {
  const uint64_t key = generator() * 0x100000001ull, low = (uint64_t{generator()} << 20) + generator(), step = 3;
  const uint64_t high = uint64_t{generator()} << 7;
  uint32_t words[32];
  neon::philox_eight_blocks(words, key, low, high, step);
  for (uint64_t block = 0; block < 8; ++block) {
    const uint64_t at = low + block * step;
    uint32_t c[] = {uint32_t(at), uint32_t(at >> 32), uint32_t(high), uint32_t(high >> 32)};
    auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      const uint64_t p0 = c[0] * 0xD2511F53ull, p1 = c[2] * 0xCD9E8D57ull;
      const uint32_t next[] = {uint32_t(p1 >> 32) ^ c[1] ^ k0, uint32_t(p1), uint32_t(p0 >> 32) ^ c[3] ^ k1,
                               uint32_t(p0)};
      std::copy_n(next, 4, c);
    }
    for (int i = 0; i < 4; ++i) expect(words[4 * block + static_cast<uint64_t>(i)] == c[i], "philox", int(block), i);
  }
}

}  // namespace

int main(int, char** argv) {
  const IntegerTiles& tiles =
      std::string_view(argv[1]) == "bf16" ? neon_bf16::integer_tiles() : neon_dotprod::integer_tiles();
  for (int i = 0; i < 2000; ++i) {
    check_integers(tiles, i % 2 == 1, static_cast<IntegerResult>(i / 2 % 4));
    check_packing(tiles);
    check_philox();
  }
  std::printf("%d wrong\n", failures);
  return failures == 0 ? 0 : 1;
}
