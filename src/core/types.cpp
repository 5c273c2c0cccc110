// Dtypes, shapes, and tensor types: names, sizes, printing, broadcasting, and the conversions between float and the two
// 16-bit floats.
#include "mpsgraph/core/types.h"

#include <array>
#include <bit>
#include <ostream>

#include "mpsgraph/core/errors.h"

namespace mpsgraph {
namespace {

struct DTypeFacts {
  std::string_view name;
  size_t size;
};
constexpr std::array<DTypeFacts, dtype_count> facts = {{
    {"float32", 4},
    {"float16", 2},
    {"bfloat16", 2},
    {"float64", 8},
    {"int8", 1},
    {"int16", 2},
    {"int32", 4},
    {"int64", 8},
    {"uint8", 1},
    {"uint16", 2},
    {"uint32", 4},
    {"uint64", 8},
    {"bool", 1},
    {"complex64", 8},
    {"complex128", 16},
}};

// Maximum number of dimensions to print. No tensor has a higher rank, so a longer list is a user's mistake and is
// shortened.
constexpr size_t longest = 16;

std::string join(const Dims& dims, char open, char close) {
  std::string text(1, open);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i) text += ',';
    if (i == longest) return cat(text, "...", close, " of length ", dims.size());
    text += std::to_string(dims[i]);
  }
  return text += close;
}

}  // namespace

std::string_view name(DType dtype) { return facts[static_cast<size_t>(dtype)].name; }

std::optional<DType> dtype_from_name(std::string_view wanted) {
  for (size_t i = 0; i < facts.size(); ++i) {
    if (facts[i].name == wanted) return static_cast<DType>(i);
  }
  return std::nullopt;
}

size_t size_of(DType dtype) { return facts[static_cast<size_t>(dtype)].size; }

bool is_float(DType dtype) { return dtype <= DType::float64; }

bool is_complex(DType dtype) { return dtype >= DType::complex64; }

bool is_inexact(DType dtype) { return is_float(dtype) || is_complex(dtype); }

bool is_integer(DType dtype) { return dtype >= DType::int8 && dtype <= DType::uint64; }

bool is_signed(DType dtype) { return dtype <= DType::int64 || is_complex(dtype); }

DType real_type(DType dtype) {
  return dtype == DType::complex64 ? DType::float32 : dtype == DType::complex128 ? DType::float64 : dtype;
}

std::optional<DType> complex_type(DType dtype) {
  if (is_complex(dtype)) return dtype;
  if (dtype == DType::float32) return DType::complex64;
  if (dtype == DType::float64) return DType::complex128;
  return std::nullopt;
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }

std::string to_string(const Dims& dims) { return join(dims, '(', ')'); }

int64_t element_count(const Dims& dims) {
  constexpr int64_t limit = int64_t{1} << 62;
  bool empty = false;
  for (int64_t d : dims) {
    if (d < 0)
      throw ShapeError(cat("the number of elements needs static dimensions, got ", d, " in shape ", to_string(dims)));
    empty |= d == 0;
  }
  if (empty) return 0;
  int64_t count = 1;
  for (int64_t d : dims) {
    if (__builtin_mul_overflow(count, d, &count) || count > limit) {
      throw ShapeError(cat("a tensor must have at most 2^62 elements, got shape ", to_string(dims)));
    }
  }
  return count;
}

Dims contiguous_strides(const Dims& dims) {
  Dims strides(dims.size());
  uint64_t stride = 1;  // unsigned, because the strides of an empty tensor, which address nothing, can overflow
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = static_cast<int64_t>(stride);
    stride *= static_cast<uint64_t>(std::max<int64_t>(dims[i], 1));
  }
  return strides;
}

bool Shape::known() const {
  if (!ranked_) return false;
  for (int64_t d : dims_) {
    if (d < 0) return false;
  }
  return true;
}

std::string to_string(const Shape& shape) { return shape.ranked() ? to_string(shape.dims()) : "(*)"; }

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << to_string(shape); }

bool compatible(const Shape& a, const Shape& b) {
  if (!a.ranked() || !b.ranked()) return true;
  if (a.rank() != b.rank()) return false;
  for (int i = 0; i < a.rank(); ++i) {
    if (a[i] >= 0 && b[i] >= 0 && a[i] != b[i]) return false;
  }
  return true;
}

Shape merge(const Shape& a, const Shape& b) {
  if (!a.ranked()) return b;
  if (!b.ranked()) return a;
  Dims dims = a.dims();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0) dims[i] = b.dims()[i];
  }
  return dims;
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  if (!a.ranked() || !b.ranked()) return Shape();
  const Dims& longer = a.rank() >= b.rank() ? a.dims() : b.dims();
  const Dims& shorter = a.rank() >= b.rank() ? b.dims() : a.dims();
  Dims dims = longer;
  const size_t offset = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t& x = dims[offset + i];
    const int64_t y = shorter[i];
    if (x == y || y == 1) continue;
    if (x == 1) {
      x = y;
    } else if (x < 0 || y < 0) {
      x = x < 0 ? y : x;  // the unknown dimension is 1 or equals the known one, so the result is the known one
    } else {
      return std::nullopt;
    }
  }
  return Shape(std::move(dims));
}

std::string to_string(const TensorType& type) {
  if (type.history) return cat("history(", TensorType{type.dtype, type.shape, type.history - 1}, ")");
  return std::string(name(type.dtype)) + (type.shape.ranked() ? join(type.shape.dims(), '[', ']') : "[*]");
}

std::ostream& operator<<(std::ostream& out, const TensorType& type) { return out << to_string(type); }

uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  // NaN becomes a quiet NaN
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x47800000u) return sign | 0x7c00u;  // numbers of 65536 and above overflow to infinity
  // The number is in the range of normal float16 numbers, or just above it. If rounding carries into the exponent, the
  // result is still correct, even if the carry turns it into infinity.
  if (magnitude >= 0x38800000u) {
    const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return static_cast<uint16_t>(sign | (rounded - 0x38000000u) >> 13);
  }
  // Numbers of at most 2^-25, half of float16's smallest subnormal number, are rounded to zero.
  if (magnitude <= 0x33000000u) return sign;
  const uint32_t shift = 126 - (magnitude >> 23);
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t rest = mantissa & ((1u << shift) - 1);
  const uint32_t halfway = 1u << (shift - 1);
  uint32_t half = mantissa >> shift;
  if (rest > halfway || (rest == halfway && (half & 1u))) ++half;
  return static_cast<uint16_t>(sign | half);
}

float half_to_float(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t exponent = bits >> 10 & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  // Subnormal float16 numbers and zero are exact in float.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);  // NaN becomes a quiet NaN
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float bfloat16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

}  // namespace mpsgraph
