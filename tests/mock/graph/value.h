// Value: what a tensor of the mock's MPSGraph holds while a graph runs.
//
// Every element is held in double precision, or as a 64-bit integer, and rounded to the element type when it is stored:
// nothing here shares code, layouts or tricks with the engine under test.
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
bool is_complex(MPSDataType type);  // two float32, or two float16
bool is_whole(MPSDataType type);  // integers and bool
bool is_unsigned(MPSDataType type);
size_t element_bytes(MPSDataType type);
MPSDataType part_type(MPSDataType type);  // of a complex type
MPSDataType complex_type(MPSDataType type);  // of a real type
const char* type_name(MPSDataType type);

Dims dims_of(MPSShape* shape);
MPSShape* shape_of(const Dims& dims);
NSString* text_of(const Dims& dims);
int64_t count_of(const Dims& dims);
Dims strides_of(const Dims& dims);  // row-major, in elements
size_t axis_of(int64_t axis, size_t rank);  // negative counts from the end; raises when outside

// Calls visit(position) for each position in row-major order. `position` may be read only.
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
  Value(MPSDataType type, Dims dims);  // zeros
  static Value of(MPSDataType type, Dims dims, const void* bytes);
  static Value of_integers(const std::vector<int64_t>& numbers, MPSDataType type = MPSDataTypeInt32);  // rank 1

  MPSDataType type = MPSDataTypeFloat32;
  Dims dims;

  int64_t count() const { return count_of(dims); }
  size_t rank() const { return dims.size(); }
  void store(void* bytes) const;  // row-major, packed

  // Elements by row-major number. Readers convert from any type; writers round to the type, integers wrap around.
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
  void copy(int64_t i, const Value& from, int64_t j);  // of the same type, exactly

  std::vector<int64_t> integers() const;
  Value reshaped(Dims to) const;
  Value cast(MPSDataType to) const;  // real to integer truncates towards zero; to bool: not zero
  Value broadcast(const Dims& to) const;

 private:
  double number(int64_t i) const;  // of an integer
  void set_rounded(int64_t i, double value);
  struct Elements {
    std::vector<double> reals;  // of complex types: the real parts
    std::vector<double> imaginaries;
    std::vector<int64_t> wholes;  // unsigned 64-bit as the same bits
  };
  Elements& changed() {  // copies share their elements until one of them is written to
    if (elements_.use_count() > 1) elements_ = std::make_shared<Elements>(*elements_);
    return *elements_;
  }
  std::shared_ptr<Elements> elements_ = std::make_shared<Elements>();
};

using Values = std::vector<Value>;

Dims broadcast_dims(const Dims& a, const Dims& b);  // raises when they do not fit

}  // namespace mock
