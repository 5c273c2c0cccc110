// Blocked GEMM, with operands packed for each level of cache.
//
// A block of the left operand stays in L2 while it is multiplied by all columns. A panel of the right operand stays in
// L1 while it is multiplied by all rows of the block. A few panels are packed at a time. While they are multiplied, the
// elements of the next panels are prefetched into L2. Packing then takes so little time that threads need not share
// packed operands. If the right operand has few columns, the left operand is read in place. If the left operand has few
// rows, the transposed product is computed instead.
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
// A product with at most this many rows or columns reads its larger operand in place, `rows_in_place` rows at a time.
template <class T>
constexpr int64_t most_rows_in_place = 64 / sizeof(T);
template <class T>
constexpr int64_t most_columns_in_place = 384 / sizeof(T);
constexpr int64_t rows_in_place = 48;
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

// The left operand of a block: packed, or in place. Tiles are `tile` elements apart.
template <class T>
struct LeftRows {
  const T* data;
  int64_t tile, row_stride, step_stride;

  static LeftRows packed(const T* data, const GemmTiles<T>& tiles, int64_t steps) {
    return {data, tiles.rows * steps, 1, tiles.rows};
  }
  static LeftRows in_place(const Matrix<const T>& a, const GemmTiles<T>& tiles) {
    return {a.data, tiles.rows * a.row_stride, a.row_stride, a.column_stride};
  }
};

// Compute a tile of c in a buffer, for columns that do not fill whole vectors or are not contiguous.
template <class T>
[[gnu::noinline]] void multiply_in_buffer(const GemmTiles<T>& tiles, int64_t steps, const LeftRows<T>& left,
                                          const T* right, const Matrix<T>& c, bool accumulate,
                                          const GemmEpilogue<T>& epilogue) {
  constexpr int64_t stride = most_gemm_columns;
  alignas(64) T sums[most_gemm_rows * stride];
  tiles.multiply(static_cast<int>(c.rows), static_cast<int>(pieces_of(c.columns, tiles.lanes)), steps, left.data,
                 left.row_stride, left.step_stride, right, sums, stride, false, {});
  const int64_t bias_stride = c.column_stride == 1;
  for (int64_t r = 0; r < c.rows; ++r)
    for (int64_t i = 0; i < c.columns; ++i) {
      T& element = c.at(r, i);
      T sum = sums[r * stride + i];
      if (accumulate) sum += element;
      if (epilogue.bias) sum += epilogue.bias[bias_stride ? i : r];
      if (epilogue.residual) sum += (&element)[epilogue.residual - c.data];
      element = epilogue.relu && sum < 0 ? T(0) : sum;
    }
}

// Return the epilogue of the block of c that begins at this row and column.
template <class T>
GemmEpilogue<T> epilogue_of_block(GemmEpilogue<T> epilogue, const Matrix<T>& c, int64_t row, int64_t column) {
  if (epilogue.bias) epilogue.bias += c.column_stride == 1 ? column : row;
  if (epilogue.residual) epilogue.residual += row * c.row_stride + column * c.column_stride;
  return epilogue;
}

// Compute one block of c from panels of the right operand.
template <class T>
void multiply_block(const GemmTiles<T>& tiles, int64_t steps, const LeftRows<T>& left, const T* right,
                    const Matrix<T>& c, bool accumulate, const GemmEpilogue<T>& epilogue, Ahead<T> ahead) {
  for (int64_t column = 0; column < c.columns; column += tiles.columns, right += steps * tiles.columns) {
    const int64_t width = std::min<int64_t>(tiles.columns, c.columns - column);
    const bool whole_vectors = c.column_stride == 1 && width % tiles.lanes == 0;
    LeftRows<T> rows = left;
    for (int64_t row = 0; row < c.rows; row += tiles.rows, rows.data += left.tile) {
      ahead.next();
      const Matrix<T> tile = c.block(row, column, std::min<int64_t>(tiles.rows, c.rows - row), width);
      const GemmEpilogue<T> of_tile = epilogue_of_block(epilogue, c, row, column);
      if (whole_vectors)
        tiles.multiply(static_cast<int>(tile.rows), static_cast<int>(width / tiles.lanes), steps, rows.data,
                       rows.row_stride, rows.step_stride, right, tile.data, c.row_stride, accumulate, of_tile);
      else
        multiply_in_buffer(tiles, steps, rows, right, tile, accumulate, of_tile);
    }
  }
}

// Compute c = a·b or c += a·b with few columns. The left operand is read in place.
template <class T>
void multiply_in_place(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c, bool accumulate,
                       const GemmEpilogue<T>& epilogue) {
  const GemmTiles<T>& tiles = gemm_tiles<T>();
  T* const right = Packed<T>::own().right;
  const int64_t chunk = gemm_chunk<T>(a.columns);
  int64_t step = 0;
  do {
    const int64_t steps = std::min(chunk, a.columns - step);
    const bool last = step + steps == a.columns;
    pack_rows(tiles.pack_columns, tiles.columns, b.block(step, 0, steps, b.columns).transposed(), right);
    for (int64_t row = 0; row < c.rows; row += rows_in_place) {
      const int64_t rows = std::min(rows_in_place, c.rows - row), end = row + rows;
      const Matrix<const T> next = a.block(end, step, std::min(rows_in_place, c.rows - end), steps);
      multiply_block(tiles, steps, LeftRows<T>::in_place(a.block(row, step, rows, steps), tiles), right,
                     c.block(row, 0, rows, c.columns), accumulate || step > 0,
                     last ? epilogue_of_block(epilogue, c, row, int64_t{0}) : GemmEpilogue<T>{},
                     Ahead<T>(next, pieces_of(rows, tiles.rows) * pieces_of(c.columns, tiles.columns)));
    }
    step += steps;
  } while (step < a.columns);
}

// Compute c = a·b or c += a·b, packing both operands.
template <class T>
void multiply_packed(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c, bool accumulate,
                     const GemmEpilogue<T>& epilogue) {
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
        multiply_block(tiles, steps, LeftRows<T>::packed(packed.left, tiles, steps), packed.right,
                       c.block(row, column, rows, width), accumulate || step > 0,
                       last ? epilogue_of_block(epilogue, c, row, column) : GemmEpilogue<T>{},
                       Ahead<T>(next, pieces_of(rows, tiles.rows) * pieces_of(width, tiles.columns)));
      }
      step += steps;
    } while (step < a.columns);
  }
}

}  // namespace

template <>
const GemmTiles<float>& gemm_tiles() {
  return gemm_tiles_float();
}
template <>
const GemmTiles<double>& gemm_tiles() {
  return gemm_tiles_double();
}

template <class T>
int64_t gemm_chunk(int64_t steps) {
  return pieces_of(steps, std::max<int64_t>(1, pieces_of(steps, gemm_tiles<T>().steps)));
}

template <class T>
void gemm(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c, bool accumulate,
          const GemmEpilogue<T>& epilogue) {
  if (c.rows == 0 || c.columns == 0) return;
  const bool few_rows = c.rows <= most_rows_in_place<T>, few_columns = c.columns <= most_columns_in_place<T>;
  const auto multiply = few_rows || few_columns ? multiply_in_place<T> : multiply_packed<T>;
  if (few_rows == few_columns ? c.column_stride != 1 : few_rows)
    multiply(b.transposed(), a.transposed(), c.transposed(), accumulate, epilogue);
  else
    multiply(a, b, c, accumulate, epilogue);
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
  const int64_t columns = std::min(columns_, last * tiles_.columns) - first * tiles_.columns;
  const bool in_place = columns <= most_columns_in_place<T>;
  const int64_t most_rows = in_place ? rows_in_place : rows_of_block<T>(c.rows, tiles_.rows);
  for (int64_t row = 0; row < c.rows; row += most_rows) {
    const int64_t rows = std::min(most_rows, c.rows - row);
    for (int64_t i = 0; i < chunks_; ++i) {
      const int64_t step = i * chunk_, steps = std::min(chunk_, steps_ - step);
      const Matrix<const T> block = a.block(row, step, rows, steps);
      if (!in_place) pack_rows(tiles_.pack_rows, tiles_.rows, block, left);
      // While one panel is multiplied, the next one is prefetched.
      const T* const panels = memory + (step * panels_ + first * steps) * tiles_.columns;
      const Matrix<const T> next{panels + steps * tiles_.columns, last - first - 1, steps * tiles_.columns,
                                 steps * tiles_.columns, 1};
      multiply_block(tiles_, steps,
                     in_place ? LeftRows<T>::in_place(block, tiles_) : LeftRows<T>::packed(left, tiles_, steps), panels,
                     c.block(row, 0, rows, columns), i > 0,
                     i + 1 == chunks_ ? epilogue_of_block(epilogue, c, row, int64_t{0}) : GemmEpilogue<T>{},
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
