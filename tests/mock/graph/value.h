// Value holds the contents of an MPSGraph tensor while the mock runs a graph.
//
// Elements are stored in double precision or as 64-bit integers, and are rounded to the element type when they are
// written. The implementation deliberately shares no code, layouts, or optimizations with the engine under test.
#pragma once

#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include <complex>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace mock {

using Dims = std::vector<int64_t>;
using Complex = std::complex<double>;

bool is_real(MPSDataType type);  // float32, float16, bfloat16
bool is_complex(MPSDataType type);  // pairs of float32 or float16
bool is_whole(MPSDataType type);  // integers and bool
bool is_unsigned(MPSDataType type);
size_t element_bytes(MPSDataType type);  // raises for elements of 4 bits
size_t bytes_of(MPSDataType type, int64_t count);  // size of an array; two elements of 4 bits share a byte
MPSDataType part_type(MPSDataType type);  // real type of the parts of a complex type
MPSDataType complex_type(MPSDataType type);  // complex type with parts of a real type
const char* type_name(MPSDataType type);

Dims dims_of(MPSShape* shape);
MPSShape* shape_of(const Dims& dims);
NSString* text_of(const Dims& dims);
int64_t count_of(const Dims& dims);
Dims strides_of(const Dims& dims);  // row-major strides, in elements
size_t axis_of(int64_t axis, size_t rank);  // negative axes count from the end; raises if out of range

// Call visit(position) for each position in row-major order. The callback must not modify `position`.
template <class Visit>
void for_each_position(const Dims& dims, Visit&& visit) {
  if (count_of(dims) == 0) return;
  Dims position(dims.size(), 0);
  for (;;) {
    visit(static_cast<const Dims&>(position));
    size_t axis = dims.size();
    while (axis > 0 && ++position[axis - 1] == dims[axis - 1]) position[--axis] = 0;
    if (axis == 0) return;
  }
}
int64_t offset_of(const Dims& position, const Dims& strides);

class Value {
 public:
  Value() = default;
  Value(MPSDataType type, Dims dims);  // filled with zeros
  static Value of(MPSDataType type, Dims dims, const void* bytes);
  // a tensor of rank 1
  static Value of_integers(const std::vector<int64_t>& numbers, MPSDataType type = MPSDataTypeInt32);

  MPSDataType type = MPSDataTypeFloat32;
  Dims dims;

  int64_t count() const { return count_of(dims); }
  size_t rank() const { return dims.size(); }
  void store(void* bytes) const;  // row-major, packed

  // Elements are addressed by their row-major index. Reading functions convert from any type; writing functions round
  // to the type, and integers wrap around.
  double real(int64_t i) const { return elements_->wholes.empty() ? elements_->reals[i] : number(i); }
  int64_t whole(int64_t i) const {
    return elements_->wholes.empty() ? static_cast<int64_t>(elements_->reals[i]) : elements_->wholes[i];
  }
  uint64_t natural(int64_t i) const { return static_cast<uint64_t>(whole(i)); }
  bool truth(int64_t i) const;
  Complex complex(int64_t i) const;
  void set(int64_t i, double value) {
    if (type == MPSDataTypeFloat32)
      changed().reals[i] = static_cast<double>(static_cast<float>(value));
    else
      set_rounded(i, value);
  }
  void set(int64_t i, int64_t value);
  void set(int64_t i, bool value) { set(i, static_cast<int64_t>(value)); }
  void set(int64_t i, Complex value);
  void copy(int64_t i, const Value& from, int64_t j);  // copies an element of the same type without rounding

  std::vector<int64_t> integers() const;
  Value reshaped(Dims to) const;
  Value cast(MPSDataType to) const;  // real to integer truncates toward zero; nonzero becomes true
  Value broadcast(const Dims& to) const;

 private:
  double number(int64_t i) const;  // reads an integer element as a double
  void set_rounded(int64_t i, double value);
  struct Elements {
    std::vector<double> reals;  // the real parts if the type is complex
    std::vector<double> imaginaries;
    std::vector<int64_t> wholes;  // unsigned 64-bit integers have the same bit pattern
  };
  Elements& changed() {  // copies share their elements until one of them is written
    if (elements_.use_count() > 1) elements_ = std::make_shared<Elements>(*elements_);
    return *elements_;
  }
  std::shared_ptr<Elements> elements_ = std::make_shared<Elements>();
};

using Values = std::vector<Value>;

Dims broadcast_dims(const Dims& a, const Dims& b);  // raises if the shapes are not compatible

}  // namespace mock
