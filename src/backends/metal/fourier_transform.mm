// Fourier transforms, which require macOS 14.
//
// MPSGraph transforms only the last four axes; other axes are moved to the end and back. The attribute `axes` lists the
// axes in ascending order, so its last entry is the last of the tensor's axes that are transformed. For transforms to
// real tensors, Apple does not document whether the scale depends on the number of input points or output points, so
// the scale is applied here.
#include <algorithm>

#include "backends/metal/complex.h"
#include "backends/metal/formula.h"
#include "core/ops/fourier_transform.h"

namespace mpsgraph::metal {
namespace {

constexpr int reach = 4;

// Return a permutation that moves the transformed axes to the end and otherwise keeps the order of the axes.
Ints transformed_last(const std::vector<int>& axes, int rank) {
  Ints permutation;
  for (int axis = 0; axis < rank; ++axis)
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) permutation.push_back(axis);
  permutation.insert(permutation.end(), axes.begin(), axes.end());
  return permutation;
}

// Transpose a tensor. The real and imaginary parts of a complex tensor are transposed separately, because Apple does
// not document transposing complex tensors.
MPSGraphTensor* transpose(const Lowering& l, MPSGraphTensor* tensor, const Ints& permutation) {
  const auto transposed = [&](MPSGraphTensor* part) {
    return [l.graph() transposeTensor:part permutation:numbers(permutation) name:nil];
  };
  if (tensor.dataType != MPSDataTypeComplexFloat32) return transposed(tensor);
  const Parts parts = parts_of(l, tensor);
  return complex_tensor(l, {{l, transposed(parts.re.tensor())}, {l, transposed(parts.im.tensor())}});
}

Ints inverse_of(const Ints& permutation) {
  Ints inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i)
    inverse[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
  return inverse;
}

enum class Transform { complex, to_hermitean, to_real };

MPSGraphTensor* transform(Lowering& l, Transform kind, MPSGraphTensor* tensor, NSArray<NSNumber*>* axes) {
  if (METAL_AVAILABLE(14.0, 17.0)) {
    MPSGraphFFTDescriptor* descriptor = [MPSGraphFFTDescriptor descriptor];
    descriptor.inverse = l.attributes().boolean("inverse");
    const std::string& scaling = l.attributes().string("scaling");
    if (kind != Transform::to_real)
      descriptor.scalingMode = scaling == "size"      ? MPSGraphFFTScalingModeSize
                               : scaling == "unitary" ? MPSGraphFFTScalingModeUnitary
                                                      : MPSGraphFFTScalingModeNone;
    switch (kind) {
      case Transform::complex:
        return [l.graph() fastFourierTransformWithTensor:tensor axes:axes descriptor:descriptor name:l.name()];
      case Transform::to_hermitean:
        return [l.graph() realToHermiteanFFTWithTensor:tensor axes:axes descriptor:descriptor name:l.name()];
      case Transform::to_real: break;
    }
    // Before macOS 14.4, MPSGraph's transforms along several axes are wrong (torch.fft.hfft2), so all axes but the last
    // are transformed first.
    if (axes.count > 1) {
      if (METAL_AVAILABLE(14.4, 17.4)) {
      } else {
        NSArray<NSNumber*>* others = [axes subarrayWithRange:NSMakeRange(0, axes.count - 1)];
        tensor = [l.graph() fastFourierTransformWithTensor:tensor axes:others descriptor:descriptor name:nil];
        axes = @[ axes.lastObject ];
      }
    }
    descriptor.roundToOddHermitean = l.attributes().boolean("round_to_odd_hermitean");
    MPSGraphTensor* result = [l.graph() HermiteanToRealFFTWithTensor:tensor
                                                                axes:axes
                                                          descriptor:descriptor
                                                                name:l.name()];
    const double scale = ops::fourier_scale(l.attributes(), l.result_dims());
    return scale == 1 ? result : (Term(l, result) * scale).tensor();
  }
  l.needs_system("14.0");
}

GraphTensors lower_transform(Lowering& l, Transform kind) {
  const std::vector<int> axes = ops::fourier_axes(l.attributes(), l.rank());
  if (axes.front() >= l.rank() - reach) return {transform(l, kind, l.input(), numbers(Ints(axes.begin(), axes.end())))};
  const Ints permutation = transformed_last(axes, l.rank());
  Ints last;
  for (size_t i = permutation.size() - axes.size(); i < permutation.size(); ++i)
    last.push_back(static_cast<int64_t>(i));
  MPSGraphTensor* result = transform(l, kind, transpose(l, l.input(), permutation), numbers(last));
  return {transpose(l, result, inverse_of(permutation))};
}

}  // namespace

const Lowerings fourier_transform_lowerings("fourier_transform", [] {
  define_lowering("fast_fourier_transform", [](Lowering& l) { return lower_transform(l, Transform::complex); });
  define_lowering("real_to_hermitean_fft", [](Lowering& l) { return lower_transform(l, Transform::to_hermitean); });
  define_lowering("hermitean_to_real_fft", [](Lowering& l) { return lower_transform(l, Transform::to_real); });
});

}  // namespace mpsgraph::metal
