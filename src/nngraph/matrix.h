// Matrix and Vector, which the recurrent layers and converters of the legacy MPSNNGraph API read and write.
//
// A matrix consists of rows and columns in a buffer. Its rows may be padded (row bytes), and one object may hold
// several matrices of the same size, one after the other. Matrices own nothing but the buffer and never convert data.
// Batches of images are arrays [N, H, W, C].
#pragma once

#include <string_view>
#include <vector>

#include "mpsgraph/runtime/command_buffer.h"
#include "mpsgraph/runtime/device.h"
#include "mpsgraph/runtime/ndarray.h"

namespace mpsgraph::nngraph {

struct MPSGRAPH_API MatrixDescriptor {
  int64_t rows = 0, columns = 0, matrices = 1;
  int64_t row_bytes = 0, matrix_bytes = 0;  // strides in bytes; 0 means dense
  DType dtype = DType::float32;

  // Replaces zeros with defaults. Throws ShapeError for impossible sizes, and DTypeError for dtypes that are not
  // numeric.
  void complete();
};

class MPSGRAPH_API Matrix {
 public:
  explicit Matrix(MatrixDescriptor descriptor);  // creates a matrix of zeros
  Matrix(runtime::Device& device, MatrixDescriptor descriptor);  // creates a matrix of zeros in the memory of `device`
  Matrix(std::shared_ptr<runtime::Buffer> buffer, MatrixDescriptor descriptor, int64_t byte_offset = 0);
  // View of an array [rows, columns] or [matrices, rows, columns] whose columns are adjacent in memory.
  explicit Matrix(const runtime::NDArray& array);

  const MatrixDescriptor& descriptor() const { return descriptor_; }
  int64_t rows() const { return descriptor_.rows; }
  int64_t columns() const { return descriptor_.columns; }
  int64_t byte_offset() const { return byte_offset_; }
  DType dtype() const { return descriptor_.dtype; }
  // Array of shape [rows, columns], or [matrices, rows, columns] if this object holds several matrices.
  const runtime::NDArray& array() const { return array_; }
  // Return one of the matrices, shifted by `byte_offset` within the buffer. ShapeError messages start with `what`.
  runtime::NDArray at(int64_t index, int64_t byte_offset, std::string_view what) const;

 private:
  Matrix(runtime::Device* device, MatrixDescriptor descriptor);
  MatrixDescriptor descriptor_;
  int64_t byte_offset_ = 0;
  runtime::NDArray array_;
};

struct MPSGRAPH_API VectorDescriptor {
  int64_t length = 0, vectors = 1;
  int64_t vector_bytes = 0;  // stride between vectors in bytes; 0 means dense
  DType dtype = DType::float32;

  void complete();
};

class MPSGRAPH_API Vector {
 public:
  explicit Vector(VectorDescriptor descriptor);  // creates a vector of zeros
  Vector(runtime::Device& device, VectorDescriptor descriptor);
  Vector(std::shared_ptr<runtime::Buffer> buffer, VectorDescriptor descriptor, int64_t byte_offset = 0);
  explicit Vector(const runtime::NDArray& array);  // `array` has shape [length] or [vectors, length]

  const VectorDescriptor& descriptor() const { return descriptor_; }
  int64_t byte_offset() const { return byte_offset_; }
  const runtime::NDArray& array() const { return array_; }

 private:
  Vector(runtime::Device* device, VectorDescriptor descriptor);
  VectorDescriptor descriptor_;
  int64_t byte_offset_ = 0;
  runtime::NDArray array_;
};

// Order in which the pixels of an image are stored in a row of a matrix.
enum class DataLayout : uint8_t { height_x_width_x_feature_channels, feature_channels_x_height_x_width };

// Row and column at which a copy starts, and the index of the matrix if the object holds several.
struct MatrixOrigin {
  int64_t row = 0, column = 0, matrix = 0;
};

// Copy each of N images to or from one row of a matrix when the command buffer runs. Throws ShapeError, DTypeError if
// the dtypes differ, or DeviceError for shared or read-only memory; nothing is encoded in that case.
MPSGRAPH_API void encode_images_to_matrix(runtime::CommandBuffer& buffer, const runtime::NDArray& images,
                                          const Matrix& matrix, DataLayout layout, const MatrixOrigin& origin);
MPSGRAPH_API void encode_matrix_to_images(runtime::CommandBuffer& buffer, const Matrix& matrix,
                                          const runtime::NDArray& images, DataLayout layout,
                                          const MatrixOrigin& origin);

// A copy between arrays of the same dtype and shape. encode_copies runs them in sequence with the command buffer.
struct ArrayCopy {
  runtime::NDArray to, from;
};
MPSGRAPH_API void encode_copies(runtime::CommandBuffer& buffer, std::vector<ArrayCopy> copies, std::string label);

// Whether two arrays have an element in common. Interleaved views have none.
MPSGRAPH_API bool share_elements(const runtime::NDArray& a, const runtime::NDArray& b);

}  // namespace mpsgraph::nngraph
