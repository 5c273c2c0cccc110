// GEMM in float and double for matmul and convolution. In all builds, double uses this GEMM, because oneDNN does not
// support double. In builds without oneDNN, float uses it as well.
#pragma once

#include <cstdint>

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
  Matrix transposed() const { return {data, columns, rows, column_stride, row_stride}; }
};

// Compute c = a·b, or c += a·b, on the calling thread. Each element of c is bitwise the same no matter which block of c
// it is computed in.
template <class T>
void gemm(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c, bool accumulate = false);

// The right GEMM operand, packed once and then multiplied by many left operands, possibly by several threads at once.
// The results are bitwise identical to those of gemm().
template <class T>
class GemmPanels {
 public:
  GemmPanels(int64_t steps, int64_t columns);
  int64_t elements() const { return steps_ * panels_ * panel_columns_; }  // number of elements of the packed panels
  int64_t pieces() const;  // units that can be packed independently
  void pack(const Matrix<const T>& b, int64_t piece, T* memory) const;
  void multiply(const Matrix<const T>& a, const T* memory, const Matrix<T>& c) const;  // c = a·b

 private:
  int64_t steps_, columns_, panel_columns_, panels_;
};

}  // namespace mpsgraph::cpu
