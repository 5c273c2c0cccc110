// Tables that map dtypes to Apple's types and back. A constant's bytes are shared with Apple's data without a copy.
#include "backends/metal/types.h"

#include <algorithm>

#include "backends/metal/availability.h"
#include "mpsgraph/core/errors.h"

namespace mpsgraph::metal {

MPSDataType data_type(DType dtype, const std::string& where) {
  const auto newer = [&](const char* version) -> MPSDataType {
    throw UnsupportedError(cat("[metal] ", dtype, " requires macOS ", version, " or later; use another dtype, or ",
                               "device=\"cpu\"", where));
  };
  switch (dtype) {
    case DType::float32: return MPSDataTypeFloat32;
    case DType::float16: return MPSDataTypeFloat16;
    case DType::bfloat16:
      if (METAL_AVAILABLE(14.0, 17.0)) return MPSDataTypeBFloat16;
      return newer("14.0");
    case DType::int8: return MPSDataTypeInt8;
    case DType::int16: return MPSDataTypeInt16;
    case DType::int32: return MPSDataTypeInt32;
    case DType::int64: return MPSDataTypeInt64;
    case DType::uint8: return MPSDataTypeUInt8;
    case DType::uint16: return MPSDataTypeUInt16;
    case DType::uint32: return MPSDataTypeUInt32;
    case DType::uint64: return MPSDataTypeUInt64;
    case DType::boolean: return MPSDataTypeBool;
    case DType::complex64:
      if (METAL_AVAILABLE(14.0, 17.0)) return MPSDataTypeComplexFloat32;
      return newer("14.0");
    case DType::float64:
    case DType::complex128: break;
  }
  throw UnsupportedError(cat("[metal] Apple GPUs do not support ", dtype, "; cast to ",
                             is_complex(dtype) ? "complex64" : "float32", " first, or use device=\"cpu\"", where));
}

MPSShape* shape_of(const Dims& dims) { return dims.empty() ? @[ @1 ] : numbers(dims); }

MPSShape* shape_of(const TensorType& type) { return shape_of(type.shape.dims()); }

NSArray<NSNumber*>* numbers(const Ints& values) {
  NSMutableArray<NSNumber*>* array = [NSMutableArray arrayWithCapacity:values.size()];
  for (const int64_t value : values) [array addObject:@(value)];
  return array;
}

Dims dims_of(MPSShape* shape) {
  Dims dims;
  for (NSNumber* size in shape) dims.push_back(size.longLongValue);
  return dims;
}

std::string to_string(MPSDataType type) {
  if (METAL_AVAILABLE(14.0, 17.0)) {
    if (type == MPSDataTypeBFloat16) return "bfloat16";
    if (type == MPSDataTypeComplexFloat32) return "complex64";
  }
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    // these dtypes are not available on every system
    if (dtype == DType::bfloat16 || dtype == DType::complex64) continue;
    if (dtype != DType::float64 && dtype != DType::complex128 && data_type(dtype) == type)
      return std::string(name(dtype));
  }
  return cat("MPSDataType ", static_cast<uint32_t>(type));
}

void require_size(const Dims& dims, size_t element_bytes, const std::string& where) {
  constexpr int64_t most = INT32_MAX;
  constexpr double most_bytes = 4294967296;
  double elements = 1;
  bool fits = true;
  for (const int64_t size : dims) {
    elements *= static_cast<double>(size);
    fits = fits && size <= most;
  }
  if (fits && elements <= static_cast<double>(most) && elements * static_cast<double>(element_bytes) <= most_bytes)
    return;
  throw UnsupportedError(
      cat("[metal] an array of shape ", mpsgraph::to_string(dims), " with ", element_bytes,
          " bytes per element exceeds Metal's limits (dimensions and element count below 2^31, at most ",
          "2^32 bytes); use smaller shapes, or device=\"cpu\"", where));
}

namespace {

// The low 16 bits of a type are its width in bits, or, for complex types, the width of one part.
size_t bytes_of_type(MPSDataType type) {
  const size_t part = (static_cast<uint32_t>(type) & 0xFFFF) / 8;
  return type == MPSDataTypeBool ? 1 : part;
}

}  // namespace

void require_size(MPSGraphTensor* tensor, const Dims& dims) { require_size(dims, bytes_of_type(tensor.dataType)); }

void require_size_of(MPSGraphTensor* a, MPSGraphTensor* b) {
  Dims x = dims_of(a.shape), y = dims_of(b.shape);
  if (x.size() < y.size()) std::swap(x, y);
  for (size_t i = 0; i < y.size(); ++i) {
    int64_t& size = x[x.size() - y.size() + i];
    size = std::max(size, y[i]);
  }
  require_size(a, x);
}

NSData* bytes_of(const ConstantPtr& value) {
  const size_t bytes = static_cast<size_t>(value->elements()) * size_of(value->dtype());
  if (value->is_splat()) {
    NSMutableData* data = [NSMutableData dataWithLength:bytes];
    value->expand_into(data.mutableBytes);
    return data;
  }
  // MPSGraph may read the constant later, so the deallocator block keeps the constant alive until the NSData is
  // released.
  const ConstantPtr kept = value;
  return [[NSData alloc] initWithBytesNoCopy:const_cast<std::byte*>(value->bytes())
                                      length:bytes
                                 deallocator:^(void*, NSUInteger) { (void)kept; }];
}

}  // namespace mpsgraph::metal
