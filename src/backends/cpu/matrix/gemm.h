// Products of matrices of float and double, for matrix multiplication and convolution: what oneDNN has no product for,
// doubles, and all of them where it is absent.
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

// c = a·b, or c += a·b, on the calling thread. The same bits for an element whatever block of c it is computed with.
template <class T>
void gemm(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c, bool accumulate = false);

// The right factor packed as tiles read it, once for many left ones, and by several threads. Its products have the bits
// of gemm's.
template <class T>
class GemmPanels {
 public:
  GemmPanels(int64_t steps, int64_t columns);
  int64_t elements() const { return steps_ * panels_ * panel_columns_; }  // of the memory
  int64_t pieces() const;  // that are packed each by itself
  void pack(const Matrix<const T>& b, int64_t piece, T* memory) const;
  void multiply(const Matrix<const T>& a, const T* memory, const Matrix<T>& c) const;  // c = a·b

 private:
  int64_t steps_, columns_, panel_columns_, panels_;
};

}  // namespace mpsgraph::cpu
