// Converts numbers to keys and back, and sorts keys with the only form of Apple's sort that this library relies on.
#include "backends/metal/order.h"

#include <algorithm>
#include <limits>

#include "backends/metal/indexing.h"
#include "backends/metal/steps.h"

namespace mpsgraph::metal {

namespace {

constexpr int64_t low32 = std::numeric_limits<int32_t>::min(), high32 = std::numeric_limits<int32_t>::max();
constexpr int64_t low64 = std::numeric_limits<int64_t>::min(), high64 = std::numeric_limits<int64_t>::max();

bool is_wide(DType dtype) { return is_integer(dtype) && size_of(dtype) == 8; }
// Whether the dtype is a 32- or 64-bit unsigned integer, whose highest bit is not a sign.
bool is_biased(DType dtype) { return dtype == DType::uint32 || dtype == DType::uint64; }

// Invert all bits of a negative float except the sign. The function is its own inverse.
MPSGraphTensor* turned(const Lowering& l, MPSGraphTensor* bits) {
  const Steps s(l);
  return s.select(s.less(bits, l.ints({0})), s.exclusive_or(bits, l.ints({high32})), bits);
}

}  // namespace

DType order_key_type(DType dtype) { return is_wide(dtype) ? DType::int64 : DType::int32; }

MPSGraphTensor* order_key(const Lowering& l, MPSGraphTensor* x, DType dtype, bool nan_above) {
  const Steps s(l);
  if (is_float(dtype)) {
    x = s.cast(x, DType::float32);
    MPSGraphTensor* zero = l.scalar(0, DType::float32);
    // -0 is replaced with 0, because the two are equal and need the same key.
    MPSGraphTensor* bits = s.reinterpret(s.select(s.equal(x, zero), zero, x), DType::int32);
    return s.select(s.is_nan(x), l.ints({nan_above ? high32 : low32}), turned(l, bits));
  }
  const DType as = order_key_type(dtype);
  if (!is_biased(dtype)) return s.cast(x, as);
  return s.exclusive_or(s.reinterpret(x, as), l.ints({is_wide(dtype) ? low64 : low32}, as));
}

MPSGraphTensor* number_of_key(const Lowering& l, MPSGraphTensor* key, DType dtype) {
  const Steps s(l);
  if (is_float(dtype)) return s.cast(s.reinterpret(turned(l, key), DType::float32), dtype);
  if (!is_biased(dtype)) return s.cast(key, dtype);
  return s.reinterpret(s.exclusive_or(key, l.ints({is_wide(dtype) ? low64 : low32}, order_key_type(dtype))), dtype);
}

int64_t last_key(DType dtype, bool above) {
  constexpr int64_t infinity = 0x7F800000;
  // the key of minus infinity is the inverse of the key of infinity
  if (is_float(dtype)) return above ? infinity : ~infinity;
  if (is_wide(dtype)) return above ? high64 : low64;
  if (is_biased(dtype)) return above ? high32 : low32;
  const auto bits = static_cast<int>(8 * size_of(dtype));
  if (!is_signed(dtype)) return above ? (int64_t{1} << bits) - 1 : 0;
  return above ? (int64_t{1} << (bits - 1)) - 1 : -(int64_t{1} << (bits - 1));
}

namespace {

// Ascending argsort of int32 along the last axis. It is stable according to Apple's engineers (pytorch/pytorch#86750).
// No other form of Apple's sort is used: sorts of int64, for example, lose elements on macOS 15.4
// (pytorch/pytorch#155560). More than 2^22 rows are sorted in parts, because MPSGraph returns wrong indices for them
// (pytorch/pytorch#183885).
MPSGraphTensor* sorted_order(const Lowering& l, MPSGraphTensor* keys) {
  constexpr int64_t most = int64_t{1} << 22;
  const auto sorted = [&](MPSGraphTensor* rows) {
    return [l.graph() argSortWithTensor:rows axis:static_cast<NSInteger>(rows.shape.count) - 1 name:l.name()];
  };
  const Dims dims = dims_of(keys.shape);
  const int64_t rows = element_count(dims) / dims.back();
  if (rows <= most) return sorted(keys);
  const Steps s(l);
  MPSGraphTensor* matrix = s.reshape(keys, {rows, dims.back()});
  GraphTensors parts;
  for (int64_t start = 0; start < rows; start += most)
    parts.push_back(sorted(s.slice(matrix, 0, start, std::min(most, rows - start))));
  return s.reshape(s.concat(parts, 0), dims);
}

}  // namespace

MPSGraphTensor* ascending_order(const Lowering& l, MPSGraphTensor* keys) {
  if (keys.dataType == MPSDataTypeInt32) return sorted_order(l, keys);
  // Sort 64-bit keys by their low 32 bits (unsigned), then by their high 32 bits. Reinterpreting the keys as int32
  // splits them along a new last axis.
  const Steps s(l);
  Dims halves = dims_of(keys.shape);
  const auto last = static_cast<int64_t>(halves.size()) - 1;
  const Dims dims = halves;
  halves.push_back(2);
  MPSGraphTensor* parts = s.reshape(s.reinterpret(keys, DType::int32), halves);
  MPSGraphTensor* low = s.reshape(s.slice(parts, last + 1, 0, 1), dims);
  MPSGraphTensor* high = s.reshape(s.slice(parts, last + 1, 1, 1), dims);
  MPSGraphTensor* by_low = sorted_order(l, s.exclusive_or(low, l.ints({low32})));
  MPSGraphTensor* by_high = sorted_order(l, moved_along(l, DType::int32, high, by_low, last));
  return moved_along(l, DType::int32, by_low, by_high, last);
}

}  // namespace mpsgraph::metal
