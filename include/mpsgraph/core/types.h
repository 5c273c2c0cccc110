// Dtypes, shapes, and tensor types: what is known about a tensor before it has a value.
//
// A Shape is either unranked or a list of dimensions, where -1 is an unknown dimension. Types are values that are cheap
// to copy and compare. They print as "float32[-1,28,28,1]", or "float32[*]" if unranked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mpsgraph/export.h"

namespace mpsgraph {

enum class DType : uint8_t {
  float32,
  float16,
  bfloat16,
  float64,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  boolean,
  complex64,  // two float32 numbers: real and imaginary part
  complex128,  // two float64 numbers; exists for gradient checks by finite differences
};
inline constexpr int dtype_count = 15;
inline constexpr int max_rank = 16;  // the same limit as MPSNDArray

MPSGRAPH_API std::string_view name(DType dtype);  // "float32", ..., "bool"
MPSGRAPH_API std::optional<DType> dtype_from_name(std::string_view);
MPSGRAPH_API size_t size_of(DType dtype);  // returns the number of bytes of one element
MPSGRAPH_API bool is_float(DType dtype);  // false for complex dtypes
MPSGRAPH_API bool is_complex(DType dtype);
// Whether the dtype is floating-point or complex. Only such dtypes have gradients.
MPSGRAPH_API bool is_inexact(DType dtype);
MPSGRAPH_API bool is_integer(DType dtype);  // signed or unsigned, but not bool
// whether the dtype has negative numbers; false for bool and unsigned integers
MPSGRAPH_API bool is_signed(DType dtype);
// returns the dtype of the parts of a complex number; returns other dtypes unchanged
MPSGRAPH_API DType real_type(DType dtype);
// Returns the complex dtype whose parts have this dtype, or nullopt if there is none. Complex dtypes are returned
// unchanged.
MPSGRAPH_API std::optional<DType> complex_type(DType dtype);
MPSGRAPH_API std::ostream& operator<<(std::ostream&, DType);

using Dims = std::vector<int64_t>;
MPSGRAPH_API std::string to_string(const Dims& dims);  // "(8,32,-1)"
// Returns the product of the dimensions. Throws ShapeError if a dimension is unknown or the product exceeds 2^62.
MPSGRAPH_API int64_t element_count(const Dims& dims);
MPSGRAPH_API Dims contiguous_strides(const Dims& dims);  // row-major strides, counted in elements

// The shape of a tensor: unranked, or a list of dimensions.
class MPSGRAPH_API Shape {
 public:
  Shape() = default;  // unranked
  Shape(Dims dims) : ranked_(true), dims_(std::move(dims)) {}
  Shape(std::initializer_list<int64_t> dims) : ranked_(true), dims_(dims) {}

  bool ranked() const { return ranked_; }
  bool known() const;  // ranked, with no dimension of -1
  int rank() const { return static_cast<int>(dims_.size()); }  // valid only if ranked
  const Dims& dims() const { return dims_; }  // valid only if ranked
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t elements() const { return element_count(dims_); }  // valid only if known
  bool operator==(const Shape&) const = default;

 private:
  bool ranked_ = false;
  Dims dims_;
};
MPSGRAPH_API std::string to_string(const Shape& shape);  // "(8,-1)" or "(*)"
MPSGRAPH_API std::ostream& operator<<(std::ostream&, const Shape&);

// Whether a value can have both shapes. -1 and unranked match every dimension and shape.
MPSGRAPH_API bool compatible(const Shape& a, const Shape& b);
// Combines the known dimensions of both shapes, which must be compatible. Does not throw.
MPSGRAPH_API Shape merge(const Shape& a, const Shape& b);
// Returns the broadcast shape by NumPy's rule, or nullopt if the shapes cannot be broadcast. Broadcasting -1 with n > 1
// gives n.
MPSGRAPH_API std::optional<Shape> broadcast(const Shape& a, const Shape& b);

// The dtype and shape of a tensor.
struct MPSGRAPH_API TensorType {
  DType dtype = DType::float32;
  Shape shape;
  // If above 0, this is the type of a history: a list with one value per iteration of a loop, whatever the number of
  // iterations in the run. Each of these values has this type with `history` reduced by one. Only gradients of loops
  // create histories, and only control flow takes histories as operands.
  int history = 0;
  bool operator==(const TensorType&) const = default;
};
MPSGRAPH_API std::string to_string(const TensorType& type);  // "float32[-1,10]", "history(float32[10])"
MPSGRAPH_API std::ostream& operator<<(std::ostream&, const TensorType&);

// Conversions to and from IEEE half precision and bfloat16. They round to nearest even and preserve NaN.
MPSGRAPH_API uint16_t float_to_half(float value);
MPSGRAPH_API float half_to_float(uint16_t bits);
MPSGRAPH_API uint16_t float_to_bfloat16(float value);
MPSGRAPH_API float bfloat16_to_float(uint16_t bits);

}  // namespace mpsgraph
