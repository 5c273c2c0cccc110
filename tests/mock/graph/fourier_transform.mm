// Fourier transforms by their definition:
//
//   output[mu] = scale * sum_nu exp(+/- i 2 Pi mu nu / n) input[nu]       "+" when inverse, separately over each axis
//
// scale is 1, or the reciprocal of the volume of the transformed dimensions or of its square root. Real-to-Hermitean
// keeps n/2 + 1 points of the last axis; Hermitean-to-real returns (points - 1) * 2, and one more with
// roundToOddHermitean; missing points are the conjugates of input[n - nu]. "All axes must be contained within last four
// dimensions". Float16 is refused, and so are scales of Hermitean-to-real transforms, for which the documentation does
// not define the volume.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "graph/elementwise.h"
#include "mock.h"

using namespace mock;

@implementation MPSGraphFFTDescriptor
+ (instancetype)descriptor {
  return [[self alloc] init];
}
- (id)copyWithZone:(NSZone*)zone {
  MPSGraphFFTDescriptor* copy = [[MPSGraphFFTDescriptor alloc] init];
  copy.inverse = self.inverse;
  copy.scalingMode = self.scalingMode;
  copy.roundToOddHermitean = self.roundToOddHermitean;
  return copy;
}
@end

namespace {

struct Points {
  Dims dims;
  std::vector<Complex> values;
};

// Apply `function` to each signal along the axis; it returns `length` points.
template <class Function>
Points along(const Points& x, size_t axis, int64_t length, Function function) {
  Points result{x.dims, {}};
  result.dims[axis] = length;
  result.values.resize(static_cast<size_t>(count_of(result.dims)));
  const Dims from = strides_of(x.dims), to = strides_of(result.dims);
  Dims others = x.dims;
  others[axis] = 1;
  for_each_position(others, [&](const Dims& position) {
    std::vector<Complex> signal;
    for (int64_t i = 0; i < x.dims[axis]; ++i)
      signal.push_back(x.values[static_cast<size_t>(offset_of(position, from) + i * from[axis])]);
    const std::vector<Complex> made = function(signal);
    for (int64_t i = 0; i < length; ++i)
      result.values[static_cast<size_t>(offset_of(position, to) + i * to[axis])] = made[static_cast<size_t>(i)];
  });
  return result;
}

std::vector<Complex> transformed(const std::vector<Complex>& signal, bool inverse) {
  const size_t n = signal.size();
  std::vector<Complex> turns, result(n);
  for (size_t i = 0; i < n; ++i)
    turns.push_back(
        std::polar(1.0, (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n)));
  for (size_t mu = 0; mu < n; ++mu)
    for (size_t nu = 0; nu < n; ++nu) result[mu] += turns[mu * nu % n] * signal[nu];
  return result;
}

Points transformed(const Points& x, size_t axis, bool inverse) {
  return along(x, axis, x.dims[axis], [&](const auto& signal) { return transformed(signal, inverse); });
}

struct Plan {
  std::vector<size_t> axes;
  bool inverse, odd;
  MPSGraphFFTScalingMode scaling;

  Plan(NSArray<NSNumber*>* given, MPSGraphFFTDescriptor* descriptor, size_t rank)
      : inverse(descriptor.inverse), odd(descriptor.roundToOddHermitean), scaling(descriptor.scalingMode) {
    if (given.count == 0) misuse(@"Fourier transform: needs at least one axis, got none");
    for (NSNumber* number in given) {
      const size_t axis = axis_of(number.longLongValue, rank);
      if (axis + 4 < rank)
        misuse(@"only the last four axes support a Fourier transform, got axis %lu of %lu", axis, rank);
      if (!axes.empty() && axis <= axes.back()) misuse(@"Fourier transform: axes must be in ascending order");
      axes.push_back(axis);
    }
  }
  double scale(const Dims& dims) const {
    double volume = 1;
    for (const size_t axis : axes) volume *= static_cast<double>(dims[axis]);
    return scaling == MPSGraphFFTScalingModeSize      ? 1 / volume
           : scaling == MPSGraphFFTScalingModeUnitary ? 1 / std::sqrt(volume)
                                                      : 1;
  }
};

Points points_of(const Value& x) {
  Points points{x.dims, {}};
  for (int64_t i = 0; i < x.count(); ++i) points.values.push_back(x.complex(i));
  return points;
}

Value value_of(const Points& points, MPSDataType type, double scale) {
  Value result(type, points.dims);
  for (int64_t i = 0; i < result.count(); ++i) {
    const Complex value = points.values[static_cast<size_t>(i)] * scale;
    if (is_complex(type))
      result.set(i, value);
    else
      result.set(i, value.real());
  }
  return result;
}

void require_type(const Value& x, MPSDataType wanted) {
  if (x.type != wanted) misuse(@"Fourier transform: expected %s, got %s", type_name(wanted), type_name(x.type));
}

}  // namespace

@implementation MPSGraph (MockFourierTransform)

- (MPSGraphTensor*)fastFourierTransformWithTensor:(MPSGraphTensor*)tensor
                                             axes:(NSArray<NSNumber*>*)axes
                                       descriptor:(MPSGraphFFTDescriptor*)descriptor
                                             name:(NSString*)name {
  const Plan plan(axes, descriptor, tensor.shape.count);
  return add_one(self, @"fastFourierTransform", name, {tensor}, [plan](const Values& in) {
    require_type(in[0], is_complex(in[0].type) ? MPSDataTypeComplexFloat32 : MPSDataTypeFloat32);
    Points points = points_of(in[0]);
    for (const size_t axis : plan.axes) points = transformed(points, axis, plan.inverse);
    return value_of(points, MPSDataTypeComplexFloat32, plan.scale(in[0].dims));
  });
}

- (MPSGraphTensor*)realToHermiteanFFTWithTensor:(MPSGraphTensor*)tensor
                                           axes:(NSArray<NSNumber*>*)axes
                                     descriptor:(MPSGraphFFTDescriptor*)descriptor
                                           name:(NSString*)name {
  const Plan plan(axes, descriptor, tensor.shape.count);
  return add_one(self, @"realToHermiteanFFT", name, {tensor}, [plan](const Values& in) {
    require_type(in[0], MPSDataTypeFloat32);
    Points points = points_of(in[0]);
    for (const size_t axis : plan.axes) points = transformed(points, axis, plan.inverse);
    const size_t last = plan.axes.back();
    points = along(points, last, points.dims[last] / 2 + 1, [](const auto& signal) { return signal; });
    return value_of(points, MPSDataTypeComplexFloat32, plan.scale(in[0].dims));
  });
}

- (MPSGraphTensor*)HermiteanToRealFFTWithTensor:(MPSGraphTensor*)tensor
                                           axes:(NSArray<NSNumber*>*)axes
                                     descriptor:(MPSGraphFFTDescriptor*)descriptor
                                           name:(NSString*)name {
  const Plan plan(axes, descriptor, tensor.shape.count);
  if (plan.scaling != MPSGraphFFTScalingModeNone)
    misuse(@"Fourier transform to real tensors: the volume for the scale is not documented");
  return add_one(self, @"HermiteanToRealFFT", name, {tensor}, [plan](const Values& in) {
    require_type(in[0], MPSDataTypeComplexFloat32);
    Points points = points_of(in[0]);
    // Where a Mac computes wrong results along several axes, the mock returns zeros.
    if (mock_macos_version() < 14.4 && plan.axes.size() > 1) std::ranges::fill(points.values, Complex());
    const size_t last = plan.axes.back();
    for (const size_t axis : plan.axes)
      if (axis != last) points = transformed(points, axis, plan.inverse);
    const int64_t n = (points.dims[last] - 1) * 2 + plan.odd;
    if (n <= 0) misuse(@"Fourier transform: a Hermitean signal of even length needs at least two points");
    points = along(points, last, n, [&](std::vector<Complex> signal) {
      for (size_t nu = signal.size(); nu < static_cast<size_t>(n); ++nu)
        signal.push_back(std::conj(signal[static_cast<size_t>(n) - nu]));
      return transformed(signal, plan.inverse);
    });
    return value_of(points, MPSDataTypeFloat32, 1);
  });
}
@end
