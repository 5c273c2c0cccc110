// Blocked GEMM, with operands packed for each level of cache. A panel of the right operand stays in L1 while it is
// multiplied by all rows of a block of the left operand. This block stays in L2 while it is multiplied by all panels.
// The panels of one chunk of the inner dimension are used for all rows of the result. Chunks are summed in order, and
// their sizes depend only on the inner dimension.
#include "backends/cpu/matrix/gemm.h"

#include <algorithm>
#include <memory>

#include "backends/cpu/instruction_set.h"
#include "backends/cpu/matrix/gemm_tiles.h"

namespace mpsgraph::cpu {
namespace {

// maximum inner dimension of a chunk, so that a panel has at most 24 KB of doubles, and the rows of a tile have at most
// 12 KB
constexpr int64_t most_steps = 192;
constexpr int64_t block_rows = 96;  // rows of a left block: 144 KB of doubles; a multiple of every tile height
constexpr int64_t block_columns = 256;  // columns of a right block: 384 KB of doubles; a multiple of every tile width
// panels packed together, so that at least 512 contiguous bytes are read from each row
constexpr int64_t panels_at_once = 4;
constexpr int64_t steps_at_once = 16;  // matrix rows packed into each panel before moving to the next panel

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

// The current thread's buffers for packed blocks. They are reused, because a small GEMM may take less time than an
// allocation.
template <class T>
struct Packed {
  alignas(64) T left[block_rows * most_steps];
  alignas(64) T right[most_steps * block_columns];

  static Packed& own() {
    static thread_local const std::unique_ptr<Packed> mine(new Packed);  // `new Packed` does not zero the buffers
    return *mine;
  }
};

struct Steps {
  int64_t begin, count;
};
int64_t chunks_of(int64_t steps) { return (steps + most_steps - 1) / most_steps; }
Steps steps_of(int64_t steps, int64_t chunk) {
  const int64_t chunks = chunks_of(steps), begin = steps * chunk / chunks;
  return {begin, steps * (chunk + 1) / chunks - begin};
}

// Pack the left operand of a tile to packed[k][row] with `height` rows, padding missing rows with zeros.
template <class T>
void pack(const Matrix<const T>& m, int64_t height, decltype(GemmTiles<T>::pack_rows) whole, T* packed) {
  if (m.rows >= height) return whole(m.data, m.row_stride, m.column_stride, m.columns, packed);
  std::fill_n(packed, height * m.columns, T(0));
  for (int64_t r = 0; r < m.rows; ++r)
    for (int64_t step = 0; step < m.columns; ++step)
      packed[step * height + r] = m.data[r * m.row_stride + step * m.column_stride];
}

// Pack the left operand into row tiles, one after another.
template <class T>
void pack_left(const GemmTiles<T>& tiles, const Matrix<const T>& a, T* packed) {
  for (int64_t row = 0; row < a.rows; row += tiles.rows, packed += tiles.rows * a.columns)
    pack(a.block(row, 0, std::min<int64_t>(tiles.rows, a.rows - row), a.columns), tiles.rows, tiles.pack_rows, packed);
}

// Pack the right operand into panels of columns. A few rows at a time are packed into several panels, so that each
// cache line is read completely while it is in cache.
template <class T>
void pack_right(const GemmTiles<T>& tiles, const Matrix<const T>& b, T* packed) {
  const int64_t width = tiles.columns, size = width * b.rows;
  for (int64_t first = 0; first < b.columns; first += width * panels_at_once) {
    const int64_t end = std::min(b.columns, first + width * panels_at_once);
    for (int64_t step = 0; step < b.rows; step += steps_at_once)
      for (int64_t column = first; column < end; column += width) {
        const int64_t steps = std::min(steps_at_once, b.rows - step);
        pack(b.block(step, column, steps, std::min(width, b.columns - column)).transposed(), width, tiles.pack_columns,
             packed + column / width * size + step * width);
      }
  }
}

// Compute one block of c from packed operands.
template <class T>
void multiply_block(const GemmTiles<T>& tiles, int64_t steps, const T* left, const T* right, const Matrix<T>& c,
                    bool accumulate) {
  alignas(64) T part[most_gemm_rows * most_gemm_columns];
  for (int64_t column = 0; column < c.columns; column += tiles.columns, right += steps * tiles.columns) {
    const T* rows = left;
    for (int64_t row = 0; row < c.rows; row += tiles.rows, rows += steps * tiles.rows) {
      T* to = c.data + row * c.row_stride + column * c.column_stride;
      const int64_t height = std::min<int64_t>(tiles.rows, c.rows - row),
                    width = std::min<int64_t>(tiles.columns, c.columns - column);
      if (height == tiles.rows && width == tiles.columns && c.column_stride == 1) {
        tiles.multiply(steps, rows, right, to, c.row_stride, accumulate);
        continue;
      }
      tiles.multiply(steps, rows, right, part, tiles.columns, false);
      for (int64_t r = 0; r < height; ++r)
        for (int64_t i = 0; i < width; ++i) {
          T& element = to[r * c.row_stride + i * c.column_stride];
          element = accumulate ? part[r * tiles.columns + i] + element : part[r * tiles.columns + i];
        }
    }
  }
}

template <class T>
void clear(const Matrix<T>& c) {
  for (int64_t row = 0; row < c.rows; ++row)
    for (int64_t i = 0; i < c.columns; ++i) c.data[row * c.row_stride + i * c.column_stride] = T(0);
}

}  // namespace

template <class T>
void gemm(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c, bool accumulate) {
  if (c.column_stride != 1) return gemm(b.transposed(), a.transposed(), c.transposed(), accumulate);
  if (c.rows == 0) return;
  if (a.columns == 0 && !accumulate) clear(c);
  const GemmTiles<T>& tiles = tiles_of<T>();
  Packed<T>& packed = Packed<T>::own();
  for (int64_t column = 0; column < c.columns; column += block_columns) {
    const int64_t width = std::min(block_columns, c.columns - column);
    for (int64_t chunk = 0; chunk < chunks_of(a.columns); ++chunk) {
      const auto [step, steps] = steps_of(a.columns, chunk);
      pack_right(tiles, b.block(step, column, steps, width), packed.right);
      for (int64_t row = 0; row < c.rows; row += block_rows) {
        const int64_t height = std::min(block_rows, c.rows - row);
        pack_left(tiles, a.block(row, step, height, steps), packed.left);
        multiply_block(tiles, steps, packed.left, packed.right, c.block(row, column, height, width),
                       accumulate || chunk > 0);
      }
    }
  }
}

// Panels are stored in the order [chunk][panel][k][column].
template <class T>
GemmPanels<T>::GemmPanels(int64_t steps, int64_t columns)
    : steps_(steps),
      columns_(columns),
      panel_columns_(tiles_of<T>().columns),
      panels_((columns + panel_columns_ - 1) / panel_columns_) {}

template <class T>
int64_t GemmPanels<T>::pieces() const {
  return chunks_of(steps_) * ((panels_ + panels_at_once - 1) / panels_at_once);
}

template <class T>
void GemmPanels<T>::pack(const Matrix<const T>& b, int64_t piece, T* memory) const {
  const int64_t chunks = chunks_of(steps_), first = piece / chunks * panels_at_once, column = first * panel_columns_;
  const auto [step, steps] = steps_of(steps_, piece % chunks);
  const int64_t width = std::min(columns_ - column, panels_at_once * panel_columns_);
  pack_right(tiles_of<T>(), b.block(step, column, steps, width),
             memory + (step * panels_ + first * steps) * panel_columns_);
}

template <class T>
void GemmPanels<T>::multiply(const Matrix<const T>& a, const T* memory, const Matrix<T>& c) const {
  if (steps_ == 0) clear(c);
  const GemmTiles<T>& tiles = tiles_of<T>();
  T* const left = Packed<T>::own().left;
  for (int64_t row = 0; row < c.rows; row += block_rows) {
    const int64_t height = std::min(block_rows, c.rows - row);
    for (int64_t chunk = 0; chunk < chunks_of(steps_); ++chunk) {
      const auto [step, steps] = steps_of(steps_, chunk);
      pack_left(tiles, a.block(row, step, height, steps), left);
      multiply_block(tiles, steps, left, memory + step * panels_ * panel_columns_, c.block(row, 0, height, c.columns),
                     chunk > 0);
    }
  }
}

template void gemm(const Matrix<const float>&, const Matrix<const float>&, const Matrix<float>&, bool);
template void gemm(const Matrix<const double>&, const Matrix<const double>&, const Matrix<double>&, bool);
template class GemmPanels<float>;
template class GemmPanels<double>;

}  // namespace mpsgraph::cpu
