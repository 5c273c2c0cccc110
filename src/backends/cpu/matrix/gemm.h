// Matrix products of float and double in parallel, for matrix multiplication and convolution.
//
// A thin wrapper of Eigen, so that only one file compiles it. Operands are views; each needs a stride of 1
// along rows or columns. The caller decides what runs in parallel.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

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

// c = a·b, or c += a·b, on the calling thread. For float and double.
template <class T>
void gemm(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c, bool accumulate = false);

// c = a·b with all threads; each element of c is computed by one.
template <class T>
void parallel_gemm(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c);

}  // namespace mpsgraph::cpu
