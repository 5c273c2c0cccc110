// Integer matmul tiles. A tile is two vectors wide, and each vector of sums has its own register.
#include <array>
#include <cstddef>
#include <utility>

#include "backends/cpu/matrix/integer_tiles.h"
#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

constexpr int rows_of_whole_tile = vector_registers == 32 ? 12 : 6;

template <class T, int R>
void multiply_whole(const T* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t terms, T* out,
                    int64_t out_stride, int width) {
  constexpr int half = lanes<T>, columns = 2 * half;
  Vector<T> low[R] = {}, high[R] = {};
  for (int64_t k = 0; k < terms; ++k, b += b_stride) {
    const Vector<T> first = load(b), second = load(b + half);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      low[r] += a[r * a_stride + k] * first;
      high[r] += a[r * a_stride + k] * second;
    }
  }
  for (int r = 0; r < R; ++r, out += out_stride) {
    if (width == columns) {
      store(out, low[r]);
      store(out + half, high[r]);
    } else {
      for (int c = 0; c < width; ++c) out[c] = c < half ? low[r][c] : high[r][c - half];
    }
  }
}

template <class T, int... I>
constexpr auto all_whole(std::integer_sequence<int, I...>) {
  return std::array{&multiply_whole<T, I + 1>...};
}

template <class T>
void multiply_whole_rows(int count, const T* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t terms, T* out,
                         int64_t out_stride, int width) {
  static constexpr auto by_count = all_whole<T>(std::make_integer_sequence<int, rows_of_whole_tile>{});
  by_count[static_cast<size_t>(count - 1)](a, a_stride, b, b_stride, terms, out, out_stride, width);
}

template <class T>
constexpr WholeTiles<T> whole_tiles{rows_of_whole_tile, 2 * lanes<T>, multiply_whole_rows<T>};

}  // namespace

constinit const WholeTiles<uint32_t> tiles_of_32_bits = whole_tiles<uint32_t>;
constinit const WholeTiles<uint64_t> tiles_of_64_bits = whole_tiles<uint64_t>;

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
