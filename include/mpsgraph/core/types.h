// Element types, shapes and tensor types: what is known of a tensor before it has a value.
//
// A Shape is unranked, or a list of dimensions of which -1 is not known yet. Types are values:
// cheap to copy, comparable, printable as "float32[-1,28,28,1]" ("float32[*]" when unranked).
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
  complex64,   // two float32: real, imaginary
  complex128,  // two float64: for derivatives by differences
};
inline constexpr int dtype_count = 15;
inline constexpr int max_rank = 16;  // as MPSNDArray

MPSGRAPH_API std::string_view name(DType dtype);                       // "float32", ..., "bool"
MPSGRAPH_API std::optional<DType> dtype_from_name(std::string_view);
MPSGRAPH_API size_t size_of(DType dtype);                              // bytes of one element
MPSGRAPH_API bool is_float(DType dtype);                               // real numbers only
MPSGRAPH_API bool is_complex(DType dtype);
MPSGRAPH_API bool is_inexact(DType dtype);                             // float or complex: what has derivatives
MPSGRAPH_API bool is_integer(DType dtype);                             // signed or unsigned, not bool
MPSGRAPH_API bool is_signed(DType dtype);  // has negative numbers: not bool, not unsigned
MPSGRAPH_API DType real_type(DType dtype);  // of the parts of a complex number; else itself
MPSGRAPH_API std::optional<DType> complex_type(DType dtype);  // whose parts are of this type, or itself
MPSGRAPH_API std::ostream& operator<<(std::ostream&, DType);

using Dims = std::vector<int64_t>;
MPSGRAPH_API std::string to_string(const Dims& dims);  // "(8,32,-1)"
MPSGRAPH_API int64_t element_count(const Dims& dims);  // throws ShapeError on overflow of 2^62 or unknown dimensions
MPSGRAPH_API Dims contiguous_strides(const Dims& dims);  // in elements, row-major

class MPSGRAPH_API Shape {
 public:
  Shape() = default;  // unranked
  Shape(Dims dims) : ranked_(true), dims_(std::move(dims)) {}
  Shape(std::initializer_list<int64_t> dims) : ranked_(true), dims_(dims) {}

  bool ranked() const { return ranked_; }
  bool known() const;  // ranked, and no dimension is -1
  int rank() const { return static_cast<int>(dims_.size()); }  // only when ranked
  const Dims& dims() const { return dims_; }  // only when ranked
  int64_t operator[](int axis) const { return dims_[axis]; }
  int64_t elements() const { return element_count(dims_); }  // only when known
  bool operator==(const Shape&) const = default;

 private:
  bool ranked_ = false;
  Dims dims_;
};
MPSGRAPH_API std::string to_string(const Shape& shape);  // "(8,-1)" or "(*)"
MPSGRAPH_API std::ostream& operator<<(std::ostream&, const Shape&);

// Could a value of one of these shapes also have the other? (-1 and unranked match anything.)
MPSGRAPH_API bool compatible(const Shape& a, const Shape& b);
// What is known when both hold. Throws nothing; call only when compatible.
MPSGRAPH_API Shape merge(const Shape& a, const Shape& b);
// numpy's rule; nullopt when the shapes cannot be broadcast. -1 against n > 1 gives n.
MPSGRAPH_API std::optional<Shape> broadcast(const Shape& a, const Shape& b);

struct MPSGRAPH_API TensorType {
  DType dtype = DType::float32;
  Shape shape;
  // Above 0: a history, which holds one value for each iteration of a loop, as many as it had when it ran, each of this
  // type with one less. Only derivatives of loops make them, and only control flow takes them.
  int history = 0;
  bool operator==(const TensorType&) const = default;
};
MPSGRAPH_API std::string to_string(const TensorType& type);  // "float32[-1,10]", "history(float32[10])"
MPSGRAPH_API std::ostream& operator<<(std::ostream&, const TensorType&);

// IEEE half and bfloat16, round to nearest even, NaN kept.
MPSGRAPH_API uint16_t float_to_half(float value);
MPSGRAPH_API float half_to_float(uint16_t bits);
MPSGRAPH_API uint16_t float_to_bfloat16(float value);
MPSGRAPH_API float bfloat16_to_float(uint16_t bits);

}  // namespace mpsgraph
