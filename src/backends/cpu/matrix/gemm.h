// Blocked GEMM in float and double, used by matmuls, convolutions, and matrix inverses. packed_product.h divides a
// matmul among threads.
#pragma once

#include <cstdint>

#include "backends/cpu/matrix/gemm_tiles.h"

namespace mpsgraph::cpu {

// A matrix view. Elements must be contiguous along rows or along columns.
template <class T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0, columns = 0;
  int64_t row_stride = 0, column_stride = 1;  // one of the strides is 1

  Matrix block(int64_t row, int64_t column, int64_t rows_, int64_t columns_) const {
    return {data + row * row_stride + column * column_stride, rows_, columns_, row_stride, column_stride};
  }
  T& at(int64_t row, int64_t column) const { return data[row * row_stride + column * column_stride]; }
  Matrix transposed() const { return {data, columns, rows, column_stride, row_stride}; }
};

inline int64_t pieces_of(int64_t size, int64_t piece) { return (size + piece - 1) / piece; }

template <class T>
const GemmTiles<T>& gemm_tiles();  // returns the micro-kernel for this processor

// Return the inner dimension of the chunks in which a product with `steps` steps is summed.
template <class T>
int64_t gemm_chunk(int64_t steps);

// Bytes of a block of the left and the right operand in each step of the inner dimension. gemm() packs the left operand
// once for each right block.
constexpr int64_t gemm_left_bytes = 1152, gemm_right_bytes = 6144;

// Compute c = a·b, or c += a·b, on the calling thread. Each element of c is bitwise the same no matter which block of c
// it is computed in. If there is an epilogue, the rows of c must be contiguous.
template <class T>
void gemm(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c, bool accumulate = false,
          const GemmEpilogue<T>& epilogue = {});

// The left GEMM operand, packed into a buffer of the calling thread, where it stays until the thread's next GEMM.
template <class T>
struct GemmRows {
  explicit GemmRows(const Matrix<const T>& a);  // `a` has at most most_rows(a.columns) rows
  static int64_t most_rows(int64_t steps);

  const T* packed;
  int64_t rows;
};

// The right GEMM operand, packed once and then multiplied by many left operands, possibly by several threads at once.
// The results are bitwise identical to those of gemm().
template <class T>
class GemmPanels {
 public:
  // Steps are summed in chunks of `chunk`, which a part of a longer inner dimension shares with the whole.
  GemmPanels(int64_t steps, int64_t columns, int64_t chunk);
  GemmPanels(int64_t steps, int64_t columns) : GemmPanels(steps, columns, gemm_chunk<T>(steps)) {}

  int64_t elements() const { return steps_ * panels_ * tiles_.columns; }  // number of elements of the packed panels
  int64_t pieces() const;  // units that can be packed independently
  void pack(const Matrix<const T>& b, int64_t piece, T* memory) const;
  int64_t chunk() const { return chunk_; }  // steps of a chunk of the inner dimension; the last one may be shorter
  int64_t chunks() const { return chunks_; }
  // Pack one chunk of one panel. `b` contains only the rows and columns of this part.
  void pack_chunk(const Matrix<const T>& b, int64_t chunk, int64_t panel, T* memory) const;
  // Compute c = a·b, or c += a·b, for the panels from `first` to `last`. c and the epilogue begin at the first of these
  // panels. If there is an epilogue, the rows of c must be contiguous.
  void multiply(const Matrix<const T>& a, const T* memory, const Matrix<T>& c, int64_t first, int64_t last,
                bool accumulate, const GemmEpilogue<T>& epilogue) const;
  void multiply(const Matrix<const T>& a, const T* memory, const Matrix<T>& c) const {
    multiply(a, memory, c, 0, panels_, false, {});
  }
  void multiply(const GemmRows<T>& a, const T* memory, const Matrix<T>& c, int64_t first, int64_t last) const;

 private:
  // Compute c = a·b or c += a·b for chunk `i` of the inner dimension.
  void multiply_chunk(int64_t i, const Matrix<const T>* in_place, const T* packed, const T* memory, const Matrix<T>& c,
                      int64_t first, int64_t last, bool accumulate, const GemmEpilogue<T>& epilogue) const;

  const GemmTiles<T>& tiles_;
  int64_t steps_, columns_, panels_, chunk_, chunks_;
};

}  // namespace mpsgraph::cpu
