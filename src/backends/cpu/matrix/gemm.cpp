// Blocks of the factors are packed into a thread's own memory, as caches hold them: a panel of the right one stays in
// the first-level cache while all rows of a block of the left one pass, and that block in the second-level cache while
// all panels do.
#include "backends/cpu/matrix/gemm.h"

#include <algorithm>
#include <memory>

#include "backends/cpu/instruction_set.h"
#include "backends/cpu/matrix/gemm_tiles.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t block_steps = 256;    // a panel of 32 KB with vectors of 64 bytes, of 16 KB with those of 32
constexpr int64_t block_rows = 96;      // 192 KB of doubles; a multiple of every tile's rows
constexpr int64_t block_columns = 512;  // 1 MB of doubles; likewise of columns

template <class T>
const GemmTiles<T>& tiles_of() {
  if constexpr (sizeof(T) == 4) {
    static const GemmTiles<T>& tiles = MPSGRAPH_BY_INSTRUCTION_SET(gemm_tiles_float);
    return tiles;
  } else {
    static const GemmTiles<T>& tiles = MPSGRAPH_BY_INSTRUCTION_SET(gemm_tiles_double);
    return tiles;
  }
}

// Memory of this thread for the packed blocks; it stays, as a product may take less time than finding it anew.
template <class T>
struct Packed {
  alignas(64) T left[block_rows * block_steps];
  alignas(64) T right[block_steps * block_columns];

  static Packed& own() {
    static thread_local const std::unique_ptr<Packed> mine(new Packed);  // not zeroed
    return *mine;
  }
};

// Rows of m, `height` of each step together, zeros for those that there are not.
template <class T>
void pack_rows(const Matrix<const T>& m, int64_t height, T* to) {
  for (int64_t row = 0; row < m.rows; row += height, to += height * m.columns) {
    const int64_t there = std::min(height, m.rows - row);
    const T* from = m.data + row * m.row_stride;
    if (there < height) std::fill_n(to, height * m.columns, T(0));
    if (m.row_stride == 1) {
      for (int64_t step = 0; step < m.columns; ++step)
        std::copy_n(from + step * m.column_stride, there, to + step * height);
    } else {
      for (int64_t r = 0; r < there; ++r)
        for (int64_t step = 0; step < m.columns; ++step) to[step * height + r] = from[r * m.row_stride + step];
    }
  }
}

// One block of c from packed factors.
template <class T>
void multiply_block(const GemmTiles<T>& tiles, int64_t steps, const T* left, const T* right, const Matrix<T>& c,
                    bool accumulate) {
  alignas(64) T part[most_gemm_rows * most_gemm_columns];
  for (int64_t column = 0; column < c.columns; column += tiles.columns, right += steps * tiles.columns) {
    const T* rows = left;
    for (int64_t row = 0; row < c.rows; row += tiles.rows, rows += steps * tiles.rows) {
      T* to = c.data + row * c.row_stride + column;
      const int64_t height = std::min<int64_t>(tiles.rows, c.rows - row),
                    width = std::min<int64_t>(tiles.columns, c.columns - column);
      if (height == tiles.rows && width == tiles.columns) {
        tiles.multiply(steps, rows, right, to, c.row_stride, accumulate);
        continue;
      }
      tiles.multiply(steps, rows, right, part, tiles.columns, false);
      for (int64_t r = 0; r < height; ++r)
        for (int64_t i = 0; i < width; ++i) {
          T& element = to[r * c.row_stride + i];
          element = accumulate ? part[r * tiles.columns + i] + element : part[r * tiles.columns + i];
        }
    }
  }
}

}  // namespace

template <class T>
void gemm(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c, bool accumulate) {
  if (c.column_stride != 1) return gemm(b.transposed(), a.transposed(), c.transposed(), accumulate);
  if (c.rows == 0) return;
  if (a.columns == 0 && !accumulate)
    for (int64_t row = 0; row < c.rows; ++row) std::fill_n(c.data + row * c.row_stride, c.columns, T(0));
  const GemmTiles<T>& tiles = tiles_of<T>();
  Packed<T>& packed = Packed<T>::own();
  for (int64_t column = 0; column < c.columns; column += block_columns) {
    const int64_t width = std::min(block_columns, c.columns - column);
    for (int64_t step = 0; step < a.columns; step += block_steps) {
      const int64_t steps = std::min(block_steps, a.columns - step);
      pack_rows(b.block(step, column, steps, width).transposed(), tiles.columns, packed.right);
      for (int64_t row = 0; row < c.rows; row += block_rows) {
        const int64_t height = std::min(block_rows, c.rows - row);
        pack_rows(a.block(row, step, height, steps), tiles.rows, packed.left);
        multiply_block(tiles, steps, packed.left, packed.right, c.block(row, column, height, width),
                       accumulate || step > 0);
      }
    }
  }
}

template void gemm(const Matrix<const float>&, const Matrix<const float>&, const Matrix<float>&, bool);
template void gemm(const Matrix<const double>&, const Matrix<const double>&, const Matrix<double>&, bool);

}  // namespace mpsgraph::cpu
