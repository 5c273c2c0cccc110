// Products of matrices of float and double on the calling thread, for matrix multiplication and convolution.
//
// What oneDNN has no product for: doubles, and all of them where it is absent.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

// A view; it needs a stride of 1 along rows or columns.
template <class T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0, columns = 0;
  int64_t row_stride = 0, column_stride = 1;  // one of them is 1

  Matrix block(int64_t row, int64_t column, int64_t rows_, int64_t columns_) const {
    return {data + row * row_stride + column * column_stride, rows_, columns_, row_stride, column_stride};
  }
  Matrix transposed() const { return {data, columns, rows, column_stride, row_stride}; }
};

// c = a·b, or c += a·b. The same bits for an element whatever block of c it is computed with.
template <class T>
void gemm(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c, bool accumulate = false);

}  // namespace mpsgraph::cpu
