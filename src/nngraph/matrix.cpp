// Matrices and vectors: validation of sizes and strides, views, and copies between images and matrices.
#include "nngraph/matrix.h"

#include <algorithm>
#include <cstring>

#include "mpsgraph/runtime/command_queue.h"
#include "nngraph/recurrent_backend.h"
#include "runtime/backend.h"

namespace mpsgraph::nngraph {

using runtime::NDArray;

namespace {

// Upper limit for each of the three sizes of a matrix object: rows, columns, and number of matrices. The length of a
// row in bytes then fits into int64; larger products are checked for overflow.
constexpr int64_t most = int64_t{1} << 40;

void require_size(std::string_view what, std::string_view size, int64_t value, int64_t least) {
  if (value < least || value > most)
    throw ShapeError(cat("[", what, "] ", size, " must be from ", least, " to ", most, ", got ", value));
}

// Check a stride in bytes, and replace 0 with `dense`, the stride without padding. The stride must be a multiple of the
// element size and at least `dense`.
void complete_stride(std::string_view what, std::string_view name, int64_t& bytes, int64_t dense, int64_t item) {
  if (bytes == 0) bytes = dense;
  if (bytes < dense || bytes % item)
    throw ShapeError(cat("[", what, "] ", name, " must be at least ", dense, " and a multiple of the element size ",
                         item, ", got ", bytes));
}

void require_numbers(std::string_view what, DType dtype) {
  if (!is_float(dtype) && !is_integer(dtype))
    throw DTypeError(cat("[", what, "] dtype must be a float or integer type such as float32 or float16, got ", dtype));
}

// Allocate zeroed memory on `device`, or in process memory if it is null.
NDArray filled_with_zeros(runtime::Device* device, int64_t bytes) {
  const Dims dims{bytes};
  NDArray memory = device ? device->backend().allocate(DType::uint8, dims) : NDArray::allocate(DType::uint8, dims);
  std::memset(memory.data(), 0, memory.bytes());
  return memory;
}

// Return the part of the matrix that a copy of these images reads or writes, as a view [N, H W C] with one row per
// image.
NDArray rows_of_images(std::string_view what, const NDArray& images, const Matrix& matrix, const MatrixOrigin& origin) {
  if (images.dims().size() != 4)
    throw ShapeError(cat("[", what, "] images must have shape [N, H, W, C], got ", to_string(images.dims())));
  if (images.dtype() != matrix.dtype())
    throw DTypeError(cat("[", what,
                         "] images and matrix must have the same dtype, because the copy converts nothing; got ",
                         images.dtype(), " and ", matrix.dtype()));
  const MatrixDescriptor& d = matrix.descriptor();
  const int64_t n = images.dims()[0], h = images.dims()[1], w = images.dims()[2], c = images.dims()[3];
  if (origin.row < 0 || origin.column < 0 || origin.row > d.rows - n || origin.column > d.columns - h * w * c)
    throw ShapeError(cat("[", what, "] ", n, " image(s) of ", h, " x ", w, " x ", c, " need ", n, " row(s) and ",
                         h * w * c, " column(s) starting at row ", origin.row, ", column ", origin.column,
                         ", but the matrix has ", d.rows, " row(s) and ", d.columns, " column(s)"));
  const NDArray one = matrix.at(origin.matrix, 0, what);
  const auto item = static_cast<int64_t>(size_of(d.dtype));
  const int64_t row = d.row_bytes / item;
  const size_t offset = static_cast<size_t>(one.data() - one.buffer()->data()) +
                        static_cast<size_t>((origin.row * row + origin.column) * item);
  return NDArray(one.buffer(), d.dtype, {n, h * w * c}, {row, 1}, offset);
}

// View the same rows as images [N, H, W, C].
NDArray as_images(const NDArray& rows, const Dims& dims, DataLayout layout) {
  const int64_t row = rows.strides()[0], h = dims[1], w = dims[2], c = dims[3];
  const Dims strides =
      layout == DataLayout::height_x_width_x_feature_channels ? Dims{row, w * c, c, 1} : Dims{row, w, 1, h * w};
  return NDArray(rows.buffer(), rows.dtype(), dims, strides, static_cast<size_t>(rows.data() - rows.buffer()->data()));
}

void check_copy(std::string_view what, const runtime::CommandBuffer& buffer, const NDArray& to, const NDArray& from) {
  buffer.mark();  // throws DeviceError if the buffer has been committed
  if (!to.writable()) throw DeviceError(cat("[", what, "] the destination is read-only; pass a writable array"));
  if (share_elements(to, from))
    throw DeviceError(cat("[", what, "] source and destination must not share memory; pass separate arrays"));
}

}  // namespace

void MatrixDescriptor::complete() {
  const auto item = static_cast<int64_t>(size_of(dtype));
  require_numbers("MatrixDescriptor", dtype);
  require_size("MatrixDescriptor", "rows", rows, 0);
  require_size("MatrixDescriptor", "columns", columns, 0);
  require_size("MatrixDescriptor", "matrices", matrices, 1);
  complete_stride("MatrixDescriptor", "row_bytes", row_bytes, columns * item, item);
  int64_t dense;
  if (__builtin_mul_overflow(rows, row_bytes, &dense))
    throw ShapeError(
        cat("[MatrixDescriptor] ", rows, " row(s) of ", row_bytes, " bytes exceed the largest possible size"));
  complete_stride("MatrixDescriptor", "matrix_bytes", matrix_bytes, dense, item);
}

void VectorDescriptor::complete() {
  const auto item = static_cast<int64_t>(size_of(dtype));
  require_numbers("VectorDescriptor", dtype);
  require_size("VectorDescriptor", "length", length, 0);
  require_size("VectorDescriptor", "vectors", vectors, 1);
  complete_stride("VectorDescriptor", "vector_bytes", vector_bytes, length * item, item);
}

// --- matrices --------------------------------------------------------------------------------------------------------

namespace {

NDArray view_of(std::shared_ptr<runtime::Buffer> buffer, const MatrixDescriptor& d, int64_t byte_offset) {
  const auto item = static_cast<int64_t>(size_of(d.dtype));
  if (byte_offset < 0 || byte_offset % item)
    throw ShapeError(cat("[Matrix] the offset must be a non-negative multiple of the element size ", item,
                         " in bytes, got ", byte_offset));
  Dims dims{d.rows, d.columns}, strides{d.row_bytes / item, 1};
  if (d.matrices > 1) {
    dims.insert(dims.begin(), d.matrices);
    strides.insert(strides.begin(), d.matrix_bytes / item);
  }
  return NDArray(std::move(buffer), d.dtype, std::move(dims), std::move(strides), static_cast<size_t>(byte_offset));
}

MatrixDescriptor completed(MatrixDescriptor descriptor) {
  descriptor.complete();
  return descriptor;
}

VectorDescriptor completed(VectorDescriptor descriptor) {
  descriptor.complete();
  return descriptor;
}

MatrixDescriptor descriptor_of(const NDArray& array) {
  const Dims &dims = array.dims(), &strides = array.strides();
  const size_t rank = dims.size();
  if (rank != 2 && rank != 3)
    throw ShapeError(
        cat("[Matrix] array must have shape [rows, columns] or [matrices, rows, columns], got ", to_string(dims)));
  const auto item = static_cast<int64_t>(size_of(array.dtype()));
  MatrixDescriptor d{
      .rows = dims[rank - 2], .columns = dims[rank - 1], .matrices = rank == 3 ? dims[0] : 1, .dtype = array.dtype()};
  if (array.elements() == 0) return d;
  // The stride of a dimension of size 1 is irrelevant.
  if (d.columns > 1 && strides[rank - 1] != 1)
    throw ShapeError(cat("[Matrix] the elements of a row must be adjacent in memory, got strides ", to_string(strides),
                         " (in elements); make a contiguous copy"));
  if (d.rows > 1) d.row_bytes = strides[rank - 2] * item;
  if (d.matrices > 1) d.matrix_bytes = strides[0] * item;
  if (d.row_bytes < 0 || d.matrix_bytes < 0 || (d.rows > 1 && d.row_bytes == 0))
    throw ShapeError(cat("[Matrix] strides must not be negative, and rows must not overlap; got strides ",
                         to_string(strides), " (in elements); make a contiguous copy"));
  return d;
}

int64_t offset_of(const NDArray& array) { return array.data() - array.buffer()->data(); }

}  // namespace

Matrix::Matrix(runtime::Device* device, MatrixDescriptor descriptor) : descriptor_(completed(descriptor)) {
  int64_t bytes;
  if (__builtin_mul_overflow(descriptor_.matrices, descriptor_.matrix_bytes, &bytes))
    throw ShapeError(cat("[Matrix] ", descriptor_.matrices, " matrices of ", descriptor_.matrix_bytes,
                         " bytes exceed the largest possible size"));
  array_ = view_of(filled_with_zeros(device, bytes).buffer(), descriptor_, 0);
}

Matrix::Matrix(MatrixDescriptor descriptor) : Matrix(nullptr, descriptor) {}

Matrix::Matrix(runtime::Device& device, MatrixDescriptor descriptor) : Matrix(&device, descriptor) {}

Matrix::Matrix(std::shared_ptr<runtime::Buffer> buffer, MatrixDescriptor descriptor, int64_t byte_offset)
    : descriptor_(completed(descriptor)),
      byte_offset_(byte_offset),
      array_(view_of(std::move(buffer), descriptor_, byte_offset)) {}

Matrix::Matrix(const NDArray& array) : Matrix(array.buffer(), descriptor_of(array), offset_of(array)) {}

NDArray Matrix::at(int64_t index, int64_t byte_offset, std::string_view what) const {
  const auto item = static_cast<int64_t>(size_of(dtype()));
  if (index < 0 || index >= descriptor_.matrices)
    throw ShapeError(
        cat("[", what, "] matrix index ", index, " is out of range; the number of matrices is ", descriptor_.matrices));
  const int64_t begin = byte_offset_ + index * descriptor_.matrix_bytes + byte_offset;
  const int64_t needed = rows() && columns() ? (rows() - 1) * descriptor_.row_bytes + columns() * item : 0;
  const auto there = static_cast<int64_t>(array_.buffer()->bytes());
  if (byte_offset < 0 || byte_offset % item || begin + needed > there)
    throw ShapeError(cat("[", what, "] a matrix of ", rows(), " x ", columns(), " at byte ", begin,
                         " must lie within its buffer of ", there, " bytes and start at a multiple of ", item,
                         " bytes"));
  return NDArray(array_.buffer(), dtype(), {rows(), columns()}, {descriptor_.row_bytes / item, 1},
                 static_cast<size_t>(begin));
}

// --- vectors ---------------------------------------------------------------------------------------------------------

namespace {

NDArray view_of(std::shared_ptr<runtime::Buffer> buffer, const VectorDescriptor& d, int64_t byte_offset) {
  const auto item = static_cast<int64_t>(size_of(d.dtype));
  if (byte_offset < 0 || byte_offset % item)
    throw ShapeError(cat("[Vector] the offset must be a non-negative multiple of the element size ", item,
                         " in bytes, got ", byte_offset));
  Dims dims{d.length}, strides{1};
  if (d.vectors > 1) {
    dims.insert(dims.begin(), d.vectors);
    strides.insert(strides.begin(), d.vector_bytes / item);
  }
  return NDArray(std::move(buffer), d.dtype, std::move(dims), std::move(strides), static_cast<size_t>(byte_offset));
}

VectorDescriptor vector_descriptor_of(const NDArray& array) {
  const Dims &dims = array.dims(), &strides = array.strides();
  const size_t rank = dims.size();
  if (rank != 1 && rank != 2)
    throw ShapeError(cat("[Vector] array must have shape [length] or [vectors, length], got ", to_string(dims)));
  VectorDescriptor d{.length = dims[rank - 1], .vectors = rank == 2 ? dims[0] : 1, .dtype = array.dtype()};
  if (array.elements() == 0) return d;
  if (d.length > 1 && strides[rank - 1] != 1)
    throw ShapeError(cat("[Vector] the elements must be adjacent in memory, got strides ", to_string(strides),
                         " (in elements); make a contiguous copy"));
  if (d.vectors > 1) d.vector_bytes = strides[0] * static_cast<int64_t>(size_of(array.dtype()));
  return d;
}

}  // namespace

Vector::Vector(runtime::Device* device, VectorDescriptor descriptor) : descriptor_(completed(descriptor)) {
  int64_t bytes;
  if (__builtin_mul_overflow(descriptor_.vectors, descriptor_.vector_bytes, &bytes))
    throw ShapeError(cat("[Vector] ", descriptor_.vectors, " vectors of ", descriptor_.vector_bytes,
                         " bytes exceed the largest possible size"));
  array_ = view_of(filled_with_zeros(device, bytes).buffer(), descriptor_, 0);
}

Vector::Vector(VectorDescriptor descriptor) : Vector(nullptr, descriptor) {}

Vector::Vector(runtime::Device& device, VectorDescriptor descriptor) : Vector(&device, descriptor) {}

Vector::Vector(std::shared_ptr<runtime::Buffer> buffer, VectorDescriptor descriptor, int64_t byte_offset)
    : descriptor_(completed(descriptor)),
      byte_offset_(byte_offset),
      array_(view_of(std::move(buffer), descriptor_, byte_offset)) {}

Vector::Vector(const NDArray& array) : Vector(array.buffer(), vector_descriptor_of(array), offset_of(array)) {}

// --- copies ----------------------------------------------------------------------------------------------------------

void encode_images_to_matrix(runtime::CommandBuffer& buffer, const NDArray& images, const Matrix& matrix,
                             DataLayout layout, const MatrixOrigin& origin) {
  constexpr std::string_view what = "ImageCopyToMatrix";
  const NDArray rows = rows_of_images(what, images, matrix, origin);
  check_copy(what, buffer, rows, images);
  if (const RecurrentBackend* backend = find_recurrent_backend(buffer.queue().device().name()))
    return backend->encode_images_to_rows(buffer, images, rows, layout);
  encode_copies(buffer, {{as_images(rows, images.dims(), layout), images}}, std::string(what));
}

void encode_matrix_to_images(runtime::CommandBuffer& buffer, const Matrix& matrix, const NDArray& images,
                             DataLayout layout, const MatrixOrigin& origin) {
  constexpr std::string_view what = "MatrixCopyToImage";
  const NDArray rows = rows_of_images(what, images, matrix, origin);
  check_copy(what, buffer, images, rows);
  if (const RecurrentBackend* backend = find_recurrent_backend(buffer.queue().device().name()))
    return backend->encode_rows_to_images(buffer, rows, images, layout);
  encode_copies(buffer, {{images, as_images(rows, images.dims(), layout)}}, std::string(what));
}

void encode_copies(runtime::CommandBuffer& buffer, std::vector<ArrayCopy> copies, std::string label) {
  // Copies of fewer elements than this take at most about a millisecond, so the thread that waits for them makes them
  // itself.
  constexpr int64_t quick = 1 << 20;
  int64_t elements = 0;
  for (const ArrayCopy& copy : copies) elements += copy.to.elements();
  buffer.encode_device_work(
      [copies = std::move(copies)](runtime::DeviceCommands*) mutable {
        for (ArrayCopy& copy : copies) copy.to.copy_from(copy.from);
      },
      std::move(label), elements < quick);
}

namespace {

// Return the address ranges that the array's elements occupy, sorted by start address.
std::vector<std::pair<intptr_t, intptr_t>> runs_of(const NDArray& array) {
  const Dims &dims = array.dims(), &strides = array.strides();
  const auto item = static_cast<int64_t>(size_of(array.dtype()));
  size_t outer = dims.size();
  int64_t length = 1;
  while (outer > 0 && (dims[outer - 1] == 1 || strides[outer - 1] == length)) length *= dims[--outer];
  std::vector<std::pair<intptr_t, intptr_t>> runs;
  Dims index(outer, 0);
  const auto base = reinterpret_cast<intptr_t>(array.data());
  for (;;) {
    int64_t at = 0;
    for (size_t axis = 0; axis < outer; ++axis) at += index[axis] * strides[axis];
    runs.emplace_back(base + at * item, base + (at + length) * item);
    size_t axis = outer;
    while (axis > 0 && ++index[axis - 1] == dims[axis - 1]) index[--axis] = 0;
    if (axis == 0) break;
  }
  std::ranges::sort(runs);
  return runs;
}

}  // namespace

bool share_elements(const NDArray& a, const NDArray& b) {
  if (!runtime::overlap(a, b)) return false;
  if (a.contiguous() && b.contiguous()) return true;
  const auto of_a = runs_of(a), of_b = runs_of(b);
  for (size_t i = 0, j = 0; i < of_a.size() && j < of_b.size();) {
    if (of_a[i].first < of_b[j].second && of_b[j].first < of_a[i].second) return true;
    of_a[i].second < of_b[j].second ? ++i : ++j;
  }
  return false;
}

}  // namespace mpsgraph::nngraph
