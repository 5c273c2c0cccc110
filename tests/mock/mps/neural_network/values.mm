// Rounding to image formats, and transfers of floats to and from the buffers of states.
#include <algorithm>
#include <cmath>

#include "mps/neural_network/layer.h"

namespace mock {

// Round to float16: 11 significant bits with ties to even, steps of 2^-24 near zero, and infinity beyond 65504.
double rounded_to_half(double value) {
  if (!std::isfinite(value) || value == 0) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const double step = std::ldexp(1.0, std::max(exponent - 11, -24));
  const double result = std::nearbyint(value / step) * step;
  return std::abs(result) > 65504 ? std::copysign(INFINITY, value) : result;
}

double rounded(double value, MPSImageFeatureChannelFormat format) {
  const auto normalized = [&](double most) {
    return std::isnan(value) ? 0 : std::nearbyint(std::clamp(value, 0.0, 1.0) * most) / most;
  };
  switch (format) {
    case MPSImageFeatureChannelFormatFloat32: return static_cast<float>(value);
    case MPSImageFeatureChannelFormatFloat16: return rounded_to_half(value);
    case MPSImageFeatureChannelFormatUnorm8: return normalized(255);
    case MPSImageFeatureChannelFormatUnorm16: return normalized(65535);
    default: misuse(@"image channel format %lu is not supported by the mock", static_cast<NSUInteger>(format));
  }
}

std::vector<double> floats(const float* values, size_t count, double otherwise) {
  if (!values) return std::vector<double>(count, otherwise);
  return std::vector<double>(values, values + count);
}

std::vector<double> load_floats(id<MTLBuffer> buffer, NSUInteger offset, size_t count) {
  const Value row = floats_of(buffer, offset, count).load();
  std::vector<double> result(count);
  for (size_t i = 0; i < count; ++i) result[i] = row.real(static_cast<int64_t>(i));
  return result;
}

void store_floats(id<MTLBuffer> buffer, NSUInteger offset, const std::vector<double>& values) {
  Value row(MPSDataTypeFloat32, {1, static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) row.set(static_cast<int64_t>(i), values[i]);
  floats_of(buffer, offset, values.size()).store(row);
}

void require_lowered(NSString* who, MPSState* state, NSUInteger before) {
  if (state.isTemporary && state.readCount + 1 != before)
    misuse(@"%@ must decrement the readCount of its %@: expected %lu, got %lu", who, [state class], before - 1,
           state.readCount);
}

}  // namespace mock
