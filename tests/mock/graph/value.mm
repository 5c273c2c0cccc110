// Storage, rounding, and broadcasting of values.
#include "graph/value.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "graph/breakage.h"
#include "metal/mock_metal.h"

namespace mock {

// --- element types ---------------------------------------------------------------------------------------------------

bool is_complex(MPSDataType type) { return type == MPSDataTypeComplexFloat32 || type == MPSDataTypeComplexFloat16; }
bool is_real(MPSDataType type) {
  return type == MPSDataTypeFloat32 || type == MPSDataTypeFloat16 || type == MPSDataTypeBFloat16;
}
bool is_unsigned(MPSDataType type) {
  return type == MPSDataTypeUInt4 || type == MPSDataTypeUInt8 || type == MPSDataTypeUInt16 ||
         type == MPSDataTypeUInt32 || type == MPSDataTypeUInt64;
}
bool is_whole(MPSDataType type) {
  return is_unsigned(type) || type == MPSDataTypeBool || type == MPSDataTypeInt8 || type == MPSDataTypeInt16 ||
         type == MPSDataTypeInt32 || type == MPSDataTypeInt64;
}

namespace {

size_t element_bits(MPSDataType type) {
  if (!is_real(type) && !is_complex(type) && !is_whole(type))
    misuse(@"element type 0x%x is not supported by the mock", static_cast<unsigned>(type));
  if (is_complex(type)) return 2 * element_bits(part_type(type));
  return static_cast<unsigned>(type) & 0xFFFF;
}

}  // namespace

size_t element_bytes(MPSDataType type) {
  const size_t bits = element_bits(type);
  if (bits % 8) misuse(@"an element of %s is smaller than a byte", type_name(type));
  return bits / 8;
}

size_t bytes_of(MPSDataType type, int64_t count) { return (static_cast<size_t>(count) * element_bits(type) + 7) / 8; }

MPSDataType part_type(MPSDataType type) {
  return type == MPSDataTypeComplexFloat32   ? MPSDataTypeFloat32
         : type == MPSDataTypeComplexFloat16 ? MPSDataTypeFloat16
                                             : type;
}
MPSDataType complex_type(MPSDataType type) {
  return type == MPSDataTypeFloat16 ? MPSDataTypeComplexFloat16 : MPSDataTypeComplexFloat32;
}

const char* type_name(MPSDataType type) {
  switch (type) {
    case MPSDataTypeFloat32: return "float32";
    case MPSDataTypeFloat16: return "float16";
    case MPSDataTypeBFloat16: return "bfloat16";
    case MPSDataTypeComplexFloat32: return "complex float32";
    case MPSDataTypeComplexFloat16: return "complex float16";
    case MPSDataTypeBool: return "bool";
    case MPSDataTypeInt8: return "int8";
    case MPSDataTypeInt16: return "int16";
    case MPSDataTypeInt32: return "int32";
    case MPSDataTypeInt64: return "int64";
    case MPSDataTypeUInt4: return "uint4";
    case MPSDataTypeUInt8: return "uint8";
    case MPSDataTypeUInt16: return "uint16";
    case MPSDataTypeUInt32: return "uint32";
    case MPSDataTypeUInt64: return "uint64";
    default: return "another type";
  }
}

namespace {

// Round to the nearest number with `digits` binary digits, ties to even. `least` is the exponent of the smallest normal
// number, and `largest` is the largest finite one.
double rounded(double value, int digits, int least, double largest) {
  if (!std::isfinite(value) || value == 0) return value;
  int exponent;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent - digits, least - digits + 1);
  const double result = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  return std::fabs(result) > largest ? std::copysign(std::numeric_limits<double>::infinity(), value) : result;
}

double round_to(double value, MPSDataType type) {
  switch (part_type(type)) {
    case MPSDataTypeFloat16: return rounded(value, 11, -14, 65504.0);
    case MPSDataTypeBFloat16: return rounded(value, 8, -126, 3.3895313892515355e38);
    default: return static_cast<double>(static_cast<float>(value));
  }
}

int64_t wrap(int64_t value, MPSDataType type) {
  switch (type) {
    case MPSDataTypeBool: return value != 0;
    case MPSDataTypeInt8: return static_cast<int8_t>(value);
    case MPSDataTypeInt16: return static_cast<int16_t>(value);
    case MPSDataTypeInt32: return static_cast<int32_t>(value);
    case MPSDataTypeUInt4: return value & 15;
    case MPSDataTypeUInt8: return static_cast<uint8_t>(value);
    case MPSDataTypeUInt16: return static_cast<uint16_t>(value);
    case MPSDataTypeUInt32: return static_cast<uint32_t>(value);
    default: return value;
  }
}

double load_real(const std::byte* bytes, MPSDataType type) {
  if (type == MPSDataTypeFloat32) {
    float value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  if (type == MPSDataTypeBFloat16) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  double value = exponent == 31
                     ? (fraction ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity())
                 : exponent == 0 ? std::ldexp(fraction, -24)
                                 : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

void store_real(double value, std::byte* bytes, MPSDataType type) {
  const auto single = static_cast<float>(value);
  if (type == MPSDataTypeFloat32) {
    std::memcpy(bytes, &single, sizeof single);
    return;
  }
  uint16_t bits;
  if (type == MPSDataTypeBFloat16) {
    uint32_t wide;
    std::memcpy(&wide, &single, sizeof wide);
    bits = static_cast<uint16_t>(wide >> 16);
    if (std::isnan(value)) bits |= 0x40;
  } else {
    const double size = std::fabs(value);
    if (std::isnan(value)) {
      bits = 0x7E00;
    } else if (std::isinf(value)) {
      bits = 0x7C00;
    } else if (size < std::ldexp(1.0, -14)) {
      bits = static_cast<uint16_t>(std::ldexp(size, 24));
    } else {
      int exponent;
      const double fraction = std::frexp(size, &exponent);
      bits = static_cast<uint16_t>(((exponent + 14) << 10) + (static_cast<int>(std::ldexp(fraction, 11)) & 1023));
    }
    if (std::signbit(value)) bits |= 0x8000;
  }
  std::memcpy(bytes, &bits, sizeof bits);
}

template <class T>
int64_t load_as(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<int64_t>(value);
}

int64_t load_whole(const std::byte* bytes, MPSDataType type) {
  switch (type) {
    case MPSDataTypeInt8: return load_as<int8_t>(bytes);
    case MPSDataTypeInt16: return load_as<int16_t>(bytes);
    case MPSDataTypeInt32: return load_as<int32_t>(bytes);
    case MPSDataTypeUInt16: return load_as<uint16_t>(bytes);
    case MPSDataTypeUInt32: return load_as<uint32_t>(bytes);
    case MPSDataTypeInt64:
    case MPSDataTypeUInt64: return load_as<int64_t>(bytes);
    default: return load_as<uint8_t>(bytes);
  }
}

}  // namespace

// --- shapes ----------------------------------------------------------------------------------------------------------

Dims dims_of(MPSShape* shape) {
  Dims dims;
  for (NSNumber* size in shape) dims.push_back(size.longLongValue);
  return dims;
}

MPSShape* shape_of(const Dims& dims) {
  NSMutableArray<NSNumber*>* shape = [NSMutableArray array];
  for (const int64_t size : dims) [shape addObject:@(size)];
  return shape;
}

NSString* text_of(const Dims& dims) {
  NSString* text = @"(";
  for (size_t i = 0; i < dims.size(); ++i)
    text = [text stringByAppendingString:[NSString stringWithFormat:i ? @",%lld" : @"%lld", (long long)dims[i]]];
  return [text stringByAppendingString:@")"];
}

int64_t count_of(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t size : dims) count *= size;
  return count;
}

Dims strides_of(const Dims& dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

size_t axis_of(int64_t axis, size_t rank) {
  const int64_t counted = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
  if (counted < 0 || counted >= static_cast<int64_t>(rank))
    misuse(@"axis %lld is out of range for a tensor of rank %lu", (long long)axis, rank);
  return static_cast<size_t>(counted);
}

int64_t offset_of(const Dims& position, const Dims& strides) {
  int64_t offset = 0;
  for (size_t i = 0; i < position.size(); ++i) offset += position[i] * strides[i];
  return offset;
}

Dims broadcast_dims(const Dims& a, const Dims& b) {
  Dims result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) misuse(@"shapes %@ and %@ cannot be broadcast together", text_of(a), text_of(b));
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

// --- values ----------------------------------------------------------------------------------------------------------

Value::Value(MPSDataType type, Dims of) : type(type), dims(std::move(of)) {
  element_bits(type);
  for (const int64_t size : dims)
    if (size <= 0) misuse(@"MPSGraph does not support tensors without elements, got shape %@", text_of(dims));
  const auto elements = static_cast<size_t>(count());
  if (static_cast<double>(elements) * static_cast<double>(element_bits(type)) > 8 * 4294967296.0) {
    break_size();
    misuse(@"a tensor must not exceed 2^32 bytes, got shape %@", text_of(dims));
  }
  if (is_whole(type))
    elements_->wholes.resize(elements);
  else
    elements_->reals.resize(elements);
  if (is_complex(type)) elements_->imaginaries.resize(elements);
}

Value Value::of(MPSDataType type, Dims dims, const void* bytes) {
  Value value(type, std::move(dims));
  const auto* at = static_cast<const std::byte*>(bytes);
  if (type == MPSDataTypeUInt4) {  // the first element of a byte is in the low bits
    for (int64_t i = 0; i < value.count(); ++i)
      value.elements_->wholes[i] = std::to_integer<int64_t>(at[i / 2] >> (i % 2 * 4)) & 15;
    return value;
  }
  const size_t step = element_bytes(type);
  for (int64_t i = 0; i < value.count(); ++i, at += step) {
    if (is_whole(type))
      value.elements_->wholes[i] = load_whole(at, type);
    else
      value.elements_->reals[i] = load_real(at, part_type(type));
    if (is_complex(type)) value.elements_->imaginaries[i] = load_real(at + step / 2, part_type(type));
  }
  return value;
}

Value Value::of_integers(const std::vector<int64_t>& numbers, MPSDataType type) {
  Value value(type, {static_cast<int64_t>(numbers.size())});
  for (size_t i = 0; i < numbers.size(); ++i) value.set(static_cast<int64_t>(i), numbers[i]);
  return value;
}

void Value::store(void* bytes) const {
  auto* at = static_cast<std::byte*>(bytes);
  if (type == MPSDataTypeUInt4) {
    std::memset(at, 0, bytes_of(type, count()));
    for (int64_t i = 0; i < count(); ++i) at[i / 2] |= static_cast<std::byte>(elements_->wholes[i] << (i % 2 * 4));
    return;
  }
  const size_t step = element_bytes(type);
  for (int64_t i = 0; i < count(); ++i, at += step) {
    if (is_whole(type))
      std::memcpy(at, &elements_->wholes[i], step);  // little-endian: the low bytes come first
    else
      store_real(elements_->reals[i], at, part_type(type));
    if (is_complex(type)) store_real(elements_->imaginaries[i], at + step / 2, part_type(type));
  }
}

double Value::number(int64_t i) const {
  return type == MPSDataTypeUInt64 ? static_cast<double>(natural(i)) : static_cast<double>(elements_->wholes[i]);
}
bool Value::truth(int64_t i) const {
  return is_whole(type) ? elements_->wholes[i] != 0
                        : elements_->reals[i] != 0 || (is_complex(type) && elements_->imaginaries[i] != 0);
}
Complex Value::complex(int64_t i) const { return {real(i), is_complex(type) ? elements_->imaginaries[i] : 0.0}; }

void Value::set_rounded(int64_t i, double value) {
  if (is_whole(type))
    changed().wholes[i] = wrap(static_cast<int64_t>(value), type);
  else
    changed().reals[i] = round_to(value, type);
}
void Value::set(int64_t i, int64_t value) {
  if (is_whole(type))
    changed().wholes[i] = wrap(value, type);
  else
    changed().reals[i] = round_to(static_cast<double>(value), type);
}
void Value::set(int64_t i, Complex value) {
  set(i, value.real());
  if (is_complex(type)) changed().imaginaries[i] = round_to(value.imag(), type);
}
void Value::copy(int64_t i, const Value& from, int64_t j) {
  Elements& to = changed();
  if (is_whole(type))
    to.wholes[i] = from.elements_->wholes[j];
  else
    to.reals[i] = from.elements_->reals[j];
  if (is_complex(type)) to.imaginaries[i] = from.elements_->imaginaries[j];
}

std::vector<int64_t> Value::integers() const {
  std::vector<int64_t> result(static_cast<size_t>(count()));
  for (size_t i = 0; i < result.size(); ++i) result[i] = whole(static_cast<int64_t>(i));
  return result;
}

Value Value::reshaped(Dims to) const {
  if (count_of(to) != count())
    misuse(@"shape %@ cannot be reshaped to %@: the number of elements differs", text_of(dims), text_of(to));
  Value result = *this;
  result.dims = std::move(to);
  return result;
}

Value Value::cast(MPSDataType to) const {
  if (to == type) return *this;
  Value result(to, dims);
  for (int64_t i = 0; i < count(); ++i) {
    if (to == MPSDataTypeBool)
      result.set(i, truth(i));
    else if (is_complex(to))
      result.set(i, complex(i));
    else if (is_whole(type) && is_whole(to))
      result.set(i, elements_->wholes[i]);
    else if (is_whole(to) && !std::isfinite(real(i)))
      result.set(i, int64_t{0});
    else if (to == MPSDataTypeUInt64 && real(i) >= 9223372036854775808.0)
      result.set(i, static_cast<int64_t>(static_cast<uint64_t>(real(i))));
    else
      result.set(i, real(i));
  }
  return result;
}

Value Value::broadcast(const Dims& to) const {
  if (to == dims) return *this;
  Value result(type, to);
  Dims strides = strides_of(dims), steps(to.size(), 0);
  const size_t lead = to.size() - dims.size();
  for (size_t i = 0; i < dims.size(); ++i) steps[lead + i] = dims[i] == 1 ? 0 : strides[i];
  int64_t next = 0;
  for_each_position(to, [&](const Dims& position) { result.copy(next++, *this, offset_of(position, steps)); });
  return result;
}

}  // namespace mock
