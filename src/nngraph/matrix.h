// Matrix and Vector: what the recurrent layers and converters of the older interface read and write.
//
// A matrix is rows and columns over a buffer, whose rows may stand apart (row bytes); it may hold several of a size,
// one after the other. Nothing is owned but the buffer, nothing is converted. Image batches are arrays [N, H, W, C].
#pragma once

#include <string_view>
#include <vector>

#include "mpsgraph/runtime/command_buffer.h"
#include "mpsgraph/runtime/device.h"
#include "mpsgraph/runtime/ndarray.h"

namespace mpsgraph::nngraph {

struct MPSGRAPH_API MatrixDescriptor {
  int64_t rows = 0, columns = 0, matrices = 1;
  int64_t row_bytes = 0, matrix_bytes = 0;  // 0: dense
  DType dtype = DType::float32;

  void complete();  // fills in what is 0. ShapeError for sizes that cannot be, DTypeError for types without numbers
};

class MPSGRAPH_API Matrix {
 public:
  explicit Matrix(MatrixDescriptor descriptor);  // zeros
  Matrix(runtime::Device& device, MatrixDescriptor descriptor);  // zeros in its memory
  Matrix(std::shared_ptr<runtime::Buffer> buffer, MatrixDescriptor descriptor, int64_t byte_offset = 0);
  // Over an array [rows, columns] or [matrices, rows, columns] whose columns are dense.
  explicit Matrix(const runtime::NDArray& array);

  const MatrixDescriptor& descriptor() const { return descriptor_; }
  int64_t rows() const { return descriptor_.rows; }
  int64_t columns() const { return descriptor_.columns; }
  int64_t byte_offset() const { return byte_offset_; }
  DType dtype() const { return descriptor_.dtype; }
  // [rows, columns], or [matrices, rows, columns] where there are several.
  const runtime::NDArray& array() const { return array_; }
  // One of them, moved on by bytes within the buffer. `what` names it in a ShapeError.
  runtime::NDArray at(int64_t index, int64_t byte_offset, std::string_view what) const;

 private:
  Matrix(runtime::Device* device, MatrixDescriptor descriptor);
  MatrixDescriptor descriptor_;
  int64_t byte_offset_ = 0;
  runtime::NDArray array_;
};

struct MPSGRAPH_API VectorDescriptor {
  int64_t length = 0, vectors = 1;
  int64_t vector_bytes = 0;  // 0: dense
  DType dtype = DType::float32;

  void complete();
};

class MPSGRAPH_API Vector {
 public:
  explicit Vector(VectorDescriptor descriptor);  // zeros
  Vector(runtime::Device& device, VectorDescriptor descriptor);
  Vector(std::shared_ptr<runtime::Buffer> buffer, VectorDescriptor descriptor, int64_t byte_offset = 0);
  explicit Vector(const runtime::NDArray& array);  // [length] or [vectors, length]

  const VectorDescriptor& descriptor() const { return descriptor_; }
  int64_t byte_offset() const { return byte_offset_; }
  const runtime::NDArray& array() const { return array_; }

 private:
  Vector(runtime::Device* device, VectorDescriptor descriptor);
  VectorDescriptor descriptor_;
  int64_t byte_offset_ = 0;
  runtime::NDArray array_;
};

// How an image is a row of a matrix.
enum class DataLayout : uint8_t { height_x_width_x_feature_channels, feature_channels_x_height_x_width };

// Where in a matrix, and in which of several.
struct MatrixOrigin {
  int64_t row = 0, column = 0, matrix = 0;
};

// Each of N images becomes, or comes from, one row of a matrix, by a copy when the command buffer runs. ShapeError,
// DTypeError when types differ, DeviceError for shared or read-only memory; then nothing is encoded.
MPSGRAPH_API void encode_images_to_matrix(runtime::CommandBuffer& buffer, const runtime::NDArray& images,
                                          const Matrix& matrix, DataLayout layout, const MatrixOrigin& origin);
MPSGRAPH_API void encode_matrix_to_images(runtime::CommandBuffer& buffer, const Matrix& matrix,
                                          const runtime::NDArray& images, DataLayout layout,
                                          const MatrixOrigin& origin);

// Copies between arrays of one type and shape, one after the other, when the command buffer runs.
struct ArrayCopy {
  runtime::NDArray to, from;
};
MPSGRAPH_API void encode_copies(runtime::CommandBuffer& buffer, std::vector<ArrayCopy> copies, std::string label);

// Do they share an element? Views that interleave do not.
MPSGRAPH_API bool share_elements(const runtime::NDArray& a, const runtime::NDArray& b);

}  // namespace mpsgraph::nngraph
