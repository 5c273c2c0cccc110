// Blocked GEMM, with operands packed for each level of cache.
//
// A block of the right operand is packed and then multiplied by all rows, one block of rows at a time. A block of the
// left operand stays in L2 while it is multiplied by all panels of the right block. A panel of the right operand stays
// in L1 while it is multiplied by all rows of the left block, and the next panel is prefetched into L2. Packing then
// takes little time. If the right operand has few columns, the left
// operand is read in place. If the left operand has few rows, the transposed product is computed instead.
//
// The inner dimension is summed in chunks, in order. Their sizes depend only on the inner dimension.
#include "backends/cpu/matrix/gemm.h"

#include <algorithm>
#include <memory>

#include "backends/cpu/instruction_set.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

// Rows of a left block, which then has at most 288 KB and stays in L2. Columns of a right block of gemm(), which then
// has at most 1.5 MB. Both are multiples of every tile size.
template <class T>
constexpr int64_t block_rows = gemm_left_bytes / sizeof(T);
template <class T>
constexpr int64_t block_columns = gemm_right_bytes / sizeof(T);
// A product with at most this many rows or columns reads its larger operand in place, `rows_in_place` rows at a time.
template <class T>
constexpr int64_t most_rows_in_place = 64 / sizeof(T);
template <class T>
constexpr int64_t most_columns_in_place = 384 / sizeof(T);
template <class T>
constexpr int64_t part_columns = 384 / sizeof(T);  // a multiple of every tile width
constexpr int64_t rows_in_place = 48;
constexpr int64_t steps_at_once = 8;   // of operands whose elements are contiguous in each step
constexpr int64_t panels_at_once = 4;  // of a piece of GemmPanels, so that adjacent cache lines are read together

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

// Return the size of a block, a multiple of `unit`, if `size` rows or columns are divided into blocks of about equal
// size, each with at most `most` rows or columns.
int64_t size_of_block(int64_t size, int64_t most, int64_t unit) {
  const int64_t blocks = std::max<int64_t>(1, pieces_of(size, most / unit * unit));
  return pieces_of(pieces_of(size, blocks), unit) * unit;
}

// Pack the rows of an operand into tiles or panels of `width` rows. If the elements of a column are contiguous, a few
// columns are packed at a time, so that memory is read sequentially.
template <class T>
void pack_rows(decltype(GemmTiles<T>::pack_rows) pack_tile, int64_t width, const Matrix<const T>& m, T* packed) {
  const int64_t at_once = m.row_stride == 1 ? steps_at_once : m.columns;
  for (int64_t step = 0; step < m.columns; step += at_once)
    for (int64_t row = 0; row < m.rows; row += width)
      pack_tile(&m.at(row, step), std::min(width, m.rows - row), m.row_stride, m.column_stride,
                std::min(at_once, m.columns - step), packed + row * m.columns + step * width);
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
      if (row / rows_in_place % 16 == 15) poll_run();
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

// Compute c = a·b or c += a·b, packing both operands. The elements that are packed next are prefetched.
template <class T>
void multiply_packed(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c, bool accumulate,
                     const GemmEpilogue<T>& epilogue) {
  const GemmTiles<T>& tiles = gemm_tiles<T>();
  Packed<T>& packed = Packed<T>::own();
  const int64_t chunk = gemm_chunk<T>(a.columns), most_rows = size_of_block(c.rows, block_rows<T>, tiles.rows);
  // A single left block stays packed while the columns of the right operand are packed, a few at a time.
  const bool single = c.rows <= most_rows;
  const int64_t most_columns = single ? c.columns : size_of_block(c.columns, block_columns<T>, tiles.columns);
  const int64_t part = single ? part_columns<T> : most_columns;
  for (int64_t column = 0; column < c.columns; column += most_columns) {
    const int64_t end = std::min(column + most_columns, c.columns);
    int64_t step = 0;
    do {
      const int64_t steps = std::min(chunk, a.columns - step);
      const bool last = step + steps == a.columns;
      const auto pack_right = [&](int64_t begin, int64_t width) {
        pack_rows(tiles.pack_columns, tiles.columns, b.block(step, begin, steps, width).transposed(), packed.right);
      };
      if (!single) pack_right(column, end - column);
      for (int64_t row = 0; row < c.rows; row += most_rows) {
        const int64_t rows = std::min(most_rows, c.rows - row), below = row + rows;
        poll_run();
        pack_rows(tiles.pack_rows, tiles.rows, a.block(row, step, rows, steps), packed.left);
        for (int64_t begin = column; begin < end; begin += part) {
          const int64_t width = std::min(part, end - begin), right = begin + width;
          if (single) pack_right(begin, width);
          const Matrix<const T> next = single ? b.block(step, right, steps, std::min(part, end - right))
                                              : a.block(below, step, std::min(most_rows, c.rows - below), steps);
          multiply_block(tiles, steps, LeftRows<T>::packed(packed.left, tiles, steps), packed.right,
                         c.block(row, begin, rows, width), accumulate || step > 0,
                         last ? epilogue_of_block(epilogue, c, row, begin) : GemmEpilogue<T>{},
                         Ahead<T>(next, pieces_of(rows, tiles.rows) * pieces_of(width, tiles.columns)));
        }
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
  const bool low = c.rows <= most_rows_in_place<T>, narrow = c.columns <= most_columns_in_place<T>;
  const auto multiply = low || narrow ? multiply_in_place<T> : multiply_packed<T>;
  if (low == narrow ? c.column_stride != 1 : low)
    multiply(b.transposed(), a.transposed(), c.transposed(), accumulate, epilogue);
  else
    multiply(a, b, c, accumulate, epilogue);
}

// Panels are stored in the order [chunk][panel][k][column].
template <class T>
GemmPanels<T>::GemmPanels(int64_t steps, int64_t columns, int64_t chunk)
    : tiles_(gemm_tiles<T>()),
      steps_(steps),
      columns_(columns),
      panels_(pieces_of(columns, tiles_.columns)),
      chunk_(chunk),
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
void GemmPanels<T>::pack_chunk(const Matrix<const T>& b, int64_t chunk, int64_t panel, T* memory) const {
  tiles_.pack_columns(b.data, b.columns, b.column_stride, b.row_stride, b.rows,
                      memory + (chunk * chunk_ * panels_ + panel * b.rows) * tiles_.columns);
}

template <class T>
void GemmPanels<T>::multiply_chunk(int64_t i, const Matrix<const T>* in_place, const T* packed, const T* memory,
                                   const Matrix<T>& c, int64_t first, int64_t last, bool accumulate,
                                   const GemmEpilogue<T>& epilogue) const {
  const int64_t step = i * chunk_, steps = std::min(chunk_, steps_ - step), panel = steps * tiles_.columns;
  const T* const panels = memory + step * panels_ * tiles_.columns + first * panel;
  // While one panel is multiplied, the next one is prefetched.
  const Matrix<const T> next{panels + panel, last - first - 1, panel, panel, 1};
  const LeftRows<T> left =
      in_place ? LeftRows<T>::in_place(*in_place, tiles_) : LeftRows<T>::packed(packed, tiles_, steps);
  multiply_block(tiles_, steps, left, panels, c, accumulate || i > 0, i + 1 == chunks_ ? epilogue : GemmEpilogue<T>{},
                 Ahead<T>(next, std::max<int64_t>(1, last - first - 1) * pieces_of(c.rows, tiles_.rows)));
}

template <class T>
void GemmPanels<T>::multiply(const Matrix<const T>& a, const T* memory, const Matrix<T>& c, int64_t first, int64_t last,
                             bool accumulate, const GemmEpilogue<T>& epilogue) const {
  T* const left = Packed<T>::own().left;
  const int64_t columns = std::min(columns_, last * tiles_.columns) - first * tiles_.columns;
  const bool in_place = columns <= most_columns_in_place<T>;
  const int64_t most_rows = in_place ? rows_in_place : size_of_block(c.rows, block_rows<T>, tiles_.rows);
  for (int64_t row = 0; row < c.rows; row += most_rows) {
    if (row / most_rows % 16 == 15 || !in_place) poll_run();
    const int64_t rows = std::min(most_rows, c.rows - row);
    for (int64_t i = 0; i < chunks_; ++i) {
      const int64_t step = i * chunk_;
      const Matrix<const T> block = a.block(row, step, rows, std::min(chunk_, steps_ - step));
      if (!in_place) pack_rows(tiles_.pack_rows, tiles_.rows, block, left);
      multiply_chunk(i, in_place ? &block : nullptr, left, memory, c.block(row, 0, rows, columns), first, last,
                     accumulate, epilogue_of_block(epilogue, c, row, int64_t{0}));
    }
  }
}

template <class T>
void GemmPanels<T>::multiply(const GemmRows<T>& a, const T* memory, const Matrix<T>& c, int64_t first,
                             int64_t last) const {
  const int64_t rows = pieces_of(a.rows, tiles_.rows) * tiles_.rows;
  for (int64_t i = 0; i < chunks_; ++i)
    multiply_chunk(i, nullptr, a.packed + rows * i * chunk_, memory, c, first, last, false, {});
}

template <class T>
GemmRows<T>::GemmRows(const Matrix<const T>& a) : packed(Packed<T>::own().left), rows(a.rows) {
  const GemmTiles<T>& tiles = gemm_tiles<T>();
  const int64_t chunk = gemm_chunk<T>(a.columns), all = pieces_of(a.rows, tiles.rows) * tiles.rows;
  for (int64_t step = 0; step < a.columns; step += chunk)
    pack_rows(tiles.pack_rows, tiles.rows, a.block(0, step, a.rows, std::min(chunk, a.columns - step)),
              Packed<T>::own().left + all * step);
}

template <class T>
int64_t GemmRows<T>::most_rows(int64_t steps) {
  const int64_t unit = gemm_tiles<T>().rows;
  return block_rows<T> * most_gemm_steps / std::max<int64_t>(steps, most_gemm_steps) / unit * unit;
}

template int64_t gemm_chunk<float>(int64_t);
template int64_t gemm_chunk<double>(int64_t);
template void gemm(const Matrix<const float>&, const Matrix<const float>&, const Matrix<float>&, bool,
                   const GemmEpilogue<float>&);
template void gemm(const Matrix<const double>&, const Matrix<const double>&, const Matrix<double>&, bool,
                   const GemmEpilogue<double>&);
template struct GemmRows<float>;
template class GemmPanels<float>;
template class GemmPanels<double>;

}  // namespace mpsgraph::cpu
