// Blocked GEMM, with operands packed for each level of cache.
//
// A block of the left operand stays in L2 while it is multiplied by all columns. A panel of the right operand stays in
// L1 while it is multiplied by all rows of the block. A few panels are packed at a time. While they are multiplied, the
// elements of the next panels are prefetched into L2. Packing then takes so little time that threads need not share
// packed operands.
//
// The inner dimension is summed in chunks, in order. Their sizes depend only on the inner dimension.
#include "backends/cpu/matrix/gemm.h"

#include <algorithm>
#include <memory>

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {
namespace {

// Rows of a left block, which then has at most 288 KB. Columns of a right block of gemm(), a multiple of every tile
// width, which then has at most 96 KB.
template <class T>
constexpr int64_t block_rows = gemm_block_bytes / sizeof(T);
template <class T>
constexpr int64_t block_columns = 384 / sizeof(T);
constexpr int64_t panels_at_once = 4;  // panels packed together, so that adjacent cache lines are read together

// The current thread's buffers for packed blocks. They are reused, because a small GEMM may take less time than an
// allocation.
template <class T>
struct Packed {
  alignas(64) T left[block_rows<T> * most_gemm_steps];
  alignas(64) T right[most_gemm_steps * block_columns<T>];

  static Packed& own() {
    static thread_local const std::unique_ptr<Packed> mine(new Packed);  // `new Packed` does not zero the buffers
    return *mine;
  }
};

// Return the rows of a block if `rows` rows are divided into blocks of about equal size.
template <class T>
int64_t rows_of_block(int64_t rows, int64_t unit) {
  const int64_t blocks = std::max<int64_t>(1, pieces_of(rows, block_rows<T> / unit * unit));
  return pieces_of(pieces_of(rows, blocks), unit) * unit;
}

// Pack the rows of an operand into tiles or panels of `width` rows, one after another.
template <class T>
void pack_rows(decltype(GemmTiles<T>::pack_rows) pack_tile, int64_t width, const Matrix<const T>& m, T* packed) {
  for (int64_t row = 0; row < m.rows; row += width, packed += width * m.columns)
    pack_tile(m.data + row * m.row_stride, std::min(width, m.rows - row), m.row_stride, m.column_stride, m.columns,
              packed);
}

// Prefetches a matrix into L2, a part at a time.
template <class T>
class Ahead {
 public:
  // Prefetch `m` in `parts` parts.
  Ahead(const Matrix<const T>& m, int64_t parts)
      : m_(m.column_stride == 1 ? m : m.transposed()),
        lines_(pieces_of(m_.rows * pieces_of(m_.columns, line), parts)) {}

  void next() {
    for (int64_t i = 0; i < lines_ && row_ < m_.rows; ++i) {
      __builtin_prefetch(m_.data + row_ * m_.row_stride + column_, 0, 2);
      if ((column_ += line) >= m_.columns) column_ = 0, ++row_;
    }
  }

 private:
  static constexpr int64_t line = 64 / sizeof(T);
  Matrix<const T> m_;
  int64_t lines_, row_ = 0, column_ = 0;
};

// Compute a tile of c in a buffer, for columns that do not fill whole vectors or are not contiguous.
template <class T>
[[gnu::noinline]] void multiply_in_buffer(const GemmTiles<T>& tiles, int64_t steps, const T* left, const T* right,
                                          const Matrix<T>& c, bool accumulate, const GemmEpilogue<T>& epilogue) {
  constexpr int64_t stride = most_gemm_columns;
  alignas(64) T sums[most_gemm_rows * stride], residual[most_gemm_rows * stride], bias[stride];
  GemmEpilogue<T> whole{nullptr, nullptr, epilogue.relu};
  if (epilogue.bias) std::copy_n(epilogue.bias, c.columns, bias), whole.bias = bias;
  if (epilogue.residual) whole.residual = residual;
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int64_t i = 0; i < c.columns && accumulate; ++i) sums[r * stride + i] = c.at(r, i);
    if (epilogue.residual) std::copy_n(epilogue.residual + r * c.row_stride, c.columns, residual + r * stride);
  }
  tiles.multiply(static_cast<int>(c.rows), static_cast<int>(pieces_of(c.columns, tiles.lanes)), steps, left, right,
                 sums, stride, accumulate, whole);
  for (int64_t r = 0; r < c.rows; ++r)
    for (int64_t i = 0; i < c.columns; ++i) c.at(r, i) = sums[r * stride + i];
}

template <class T>
GemmEpilogue<T> epilogue_of_block(GemmEpilogue<T> epilogue, int64_t row, int64_t column, int64_t row_stride) {
  if (epilogue.bias) epilogue.bias += column;
  if (epilogue.residual) epilogue.residual += row * row_stride + column;
  return epilogue;
}

// Compute one block of c from packed operands.
template <class T>
void multiply_block(const GemmTiles<T>& tiles, int64_t steps, const T* left, const T* right, const Matrix<T>& c,
                    bool accumulate, const GemmEpilogue<T>& epilogue, Ahead<T> ahead) {
  for (int64_t column = 0; column < c.columns; column += tiles.columns, right += steps * tiles.columns) {
    const int64_t width = std::min<int64_t>(tiles.columns, c.columns - column);
    const bool whole_vectors = c.column_stride == 1 && width % tiles.lanes == 0;
    const T* rows = left;
    for (int64_t row = 0; row < c.rows; row += tiles.rows, rows += steps * tiles.rows) {
      ahead.next();
      const Matrix<T> tile = c.block(row, column, std::min<int64_t>(tiles.rows, c.rows - row), width);
      const GemmEpilogue<T> of_tile = epilogue_of_block(epilogue, row, column, c.row_stride);
      if (whole_vectors)
        tiles.multiply(static_cast<int>(tile.rows), static_cast<int>(width / tiles.lanes), steps, rows, right,
                       tile.data, c.row_stride, accumulate, of_tile);
      else
        multiply_in_buffer(tiles, steps, rows, right, tile, accumulate, of_tile);
    }
  }
}

}  // namespace

template <>
const GemmTiles<float>& gemm_tiles() {
  static const GemmTiles<float>& tiles = MPSGRAPH_BY_INSTRUCTION_SET(gemm_tiles_float);
  return tiles;
}
template <>
const GemmTiles<double>& gemm_tiles() {
  static const GemmTiles<double>& tiles = MPSGRAPH_BY_INSTRUCTION_SET(gemm_tiles_double);
  return tiles;
}

template <class T>
int64_t gemm_chunk(int64_t steps) {
  return pieces_of(steps, std::max<int64_t>(1, pieces_of(steps, gemm_tiles<T>().steps)));
}

template <class T>
void gemm(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c, bool accumulate,
          const GemmEpilogue<T>& epilogue) {
  if (c.column_stride != 1) return gemm(b.transposed(), a.transposed(), c.transposed(), accumulate);
  const GemmTiles<T>& tiles = gemm_tiles<T>();
  Packed<T>& packed = Packed<T>::own();
  const int64_t chunk = gemm_chunk<T>(a.columns), most_rows = rows_of_block<T>(c.rows, tiles.rows);
  for (int64_t row = 0; row < c.rows; row += most_rows) {
    const int64_t rows = std::min(most_rows, c.rows - row);
    int64_t step = 0;
    do {
      const int64_t steps = std::min(chunk, a.columns - step);
      const bool last = step + steps == a.columns;
      pack_rows(tiles.pack_rows, tiles.rows, a.block(row, step, rows, steps), packed.left);
      for (int64_t column = 0; column < c.columns; column += block_columns<T>) {
        const int64_t width = std::min(block_columns<T>, c.columns - column), end = column + width;
        pack_rows(tiles.pack_columns, tiles.columns, b.block(step, column, steps, width).transposed(), packed.right);
        const Matrix<const T> next = b.block(step, end, steps, std::min(block_columns<T>, c.columns - end));
        multiply_block(tiles, steps, packed.left, packed.right, c.block(row, column, rows, width),
                       accumulate || step > 0,
                       last ? epilogue_of_block(epilogue, row, column, c.row_stride) : GemmEpilogue<T>{},
                       Ahead<T>(next, pieces_of(rows, tiles.rows) * pieces_of(width, tiles.columns)));
      }
      step += steps;
    } while (step < a.columns);
  }
}

// Panels are stored in the order [chunk][panel][k][column].
template <class T>
GemmPanels<T>::GemmPanels(int64_t steps, int64_t columns)
    : tiles_(gemm_tiles<T>()),
      steps_(steps),
      columns_(columns),
      panels_(pieces_of(columns, tiles_.columns)),
      chunk_(gemm_chunk<T>(steps)),
      chunks_(std::max<int64_t>(1, pieces_of(steps, std::max<int64_t>(1, chunk_)))) {}

template <class T>
int64_t GemmPanels<T>::pieces() const {
  return chunks_ * pieces_of(panels_, panels_at_once);
}

template <class T>
void GemmPanels<T>::pack(const Matrix<const T>& b, int64_t piece, T* memory) const {
  const int64_t first = piece / chunks_ * panels_at_once, column = first * tiles_.columns;
  const int64_t step = piece % chunks_ * chunk_, steps = std::min(chunk_, steps_ - step);
  const int64_t width = std::min(columns_ - column, panels_at_once * tiles_.columns);
  pack_rows(tiles_.pack_columns, tiles_.columns, b.block(step, column, steps, width).transposed(),
            memory + (step * panels_ + first * steps) * tiles_.columns);
}

template <class T>
void GemmPanels<T>::multiply(const Matrix<const T>& a, const T* memory, const Matrix<T>& c, int64_t first, int64_t last,
                             const GemmEpilogue<T>& epilogue) const {
  T* const left = Packed<T>::own().left;
  const int64_t most_rows = rows_of_block<T>(c.rows, tiles_.rows);
  const int64_t columns = std::min(columns_, last * tiles_.columns) - first * tiles_.columns;
  for (int64_t row = 0; row < c.rows; row += most_rows) {
    const int64_t rows = std::min(most_rows, c.rows - row);
    for (int64_t i = 0; i < chunks_; ++i) {
      const int64_t step = i * chunk_, steps = std::min(chunk_, steps_ - step);
      pack_rows(tiles_.pack_rows, tiles_.rows, a.block(row, step, rows, steps), left);
      // While one panel is multiplied, the next one is prefetched.
      const T* const panels = memory + (step * panels_ + first * steps) * tiles_.columns;
      const Matrix<const T> next{panels + steps * tiles_.columns, last - first - 1, steps * tiles_.columns,
                                 steps * tiles_.columns, 1};
      multiply_block(tiles_, steps, left, panels, c.block(row, 0, rows, columns), i > 0,
                     i + 1 == chunks_ ? epilogue_of_block(epilogue, row, 0, c.row_stride) : GemmEpilogue<T>{},
                     Ahead<T>(next, std::max<int64_t>(1, last - first - 1) * pieces_of(rows, tiles_.rows)));
    }
  }
}

template int64_t gemm_chunk<float>(int64_t);
template int64_t gemm_chunk<double>(int64_t);
template void gemm(const Matrix<const float>&, const Matrix<const float>&, const Matrix<float>&, bool,
                   const GemmEpilogue<float>&);
template void gemm(const Matrix<const double>&, const Matrix<const double>&, const Matrix<double>&, bool,
                   const GemmEpilogue<double>&);
template class GemmPanels<float>;
template class GemmPanels<double>;

}  // namespace mpsgraph::cpu
