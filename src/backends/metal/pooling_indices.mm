// Maximum pooling with indices, the gradient that scatters to the indices, and its transpose, which gathers at them.
//
// MPSGraph has these operations over two and four axes for sources of rank 4, with the same index modes. If an index
// counts a leading axis that MPSGraph does not count, the offset of the element's position along that axis is added to
// MPSGraph's indices, and subtracted before indices are passed to MPSGraph. If a pooling requires two MPSGraph poolings
// in sequence, MPSGraph's indices are not used. The indices are then computed from slices of the source, one slice per
// kernel element.
#include "backends/metal/pooling.h"

#include <algorithm>

#include "backends/metal/steps.h"

namespace mpsgraph::metal {
namespace {

ops::IndicesMode indices_mode_of(const Lowering& l) {
  return *ops::indices_mode_from_name(l.attributes().string("return_indices_mode"));
}

MPSGraphPoolingReturnIndicesMode apples(const ops::IndicesMode& mode) {
  const int first =
      mode.global ? MPSGraphPoolingReturnIndicesGlobalFlatten1D : MPSGraphPoolingReturnIndicesLocalFlatten1D;
  return static_cast<MPSGraphPoolingReturnIndicesMode>(first + mode.axes - 1);
}

// Return how much a flat index changes between neighbors along each axis; 0 for axes that the index does not count.
Ints steps_of(const ops::IndicesMode& mode, const Dims& sizes) {
  Ints steps(sizes.size(), 0);
  int64_t step = 1;
  for (size_t axis = sizes.size(); axis-- > sizes.size() - static_cast<size_t>(mode.axes); step *= sizes[axis])
    steps[axis] = step;
  return steps;
}

// How to convert MPSGraph's index of a maximum to the index that the operation returns: request MPSGraph's index in
// `mode`, and add `added` (nil means 0). `added` is set only if the returned index counts four axes, but MPSGraph
// treats the first of these as part of the batch and counts only three. `added` is then p times the product of the
// sizes of the last three axes, where p is the element's position along the first axis.
struct Indices {
  ops::IndicesMode mode;
  MPSGraphTensor* added = nil;
};

Indices indices_of(const Lowering& l, const Dims& source, const Dims& result) {
  const ops::IndicesMode mode = indices_mode_of(l);
  const int rank = static_cast<int>(source.size());
  const bool one_batch = std::all_of(source.begin(), source.end() - 4, [](int64_t size) { return size == 1; });
  if (!mode.global || mode.axes < 4 || one_batch) return {mode};
  Ints before;
  for (int64_t i = 0; i < result[static_cast<size_t>(rank - 4)]; ++i)
    before.push_back(i * source[static_cast<size_t>(rank - 3)] * source[static_cast<size_t>(rank - 2)] *
                     source[static_cast<size_t>(rank - 1)]);
  return {{true, 3}, along_axis(l, before, rank - 4, rank)};
}

// Computes the index of a kernel element as the sum of an offset for its window's position, which all kernel elements
// share, and an offset of the kernel element within the window.
class TapIndices {
 public:
  TapIndices(const Lowering& l, const ops::Pooling& pooling, const Taps& taps, const Dims& source)
      : l_(l), taps_(taps), mode_(indices_mode_of(l)) {
    Dims sizes = source;
    if (!mode_.global) {
      sizes.assign(std::max<size_t>(source.size(), 4), 1);
      for (size_t i = 0; i < taps.axes().size(); ++i) sizes[static_cast<size_t>(taps.axes()[i])] = pooling.kernel[i];
    }
    steps_ = steps_of(mode_, sizes);
  }

  int64_t own(int64_t number) const {
    const Ints tap = taps_.tap(number);
    int64_t index = 0;
    for (size_t i = 0; i < tap.size(); ++i)
      index += tap[i] * step(i) * (mode_.global ? taps_.windows()[i].dilation : 1);
    return index;
  }
  MPSGraphTensor* of_place() const {  // Offset of the window's position; nil means 0.
    if (!mode_.global) return nil;
    const Dims& dims = taps_.result_dims();
    MPSGraphTensor* sum = nil;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      if (steps_[axis] == 0) continue;
      Ints places;
      for (int64_t p = 0; p < dims[axis]; ++p) places.push_back(at(axis, p) * steps_[axis]);
      MPSGraphTensor* along = along_axis(l_, places, static_cast<int>(axis), static_cast<int>(dims.size()));
      sum = sum ? Steps(l_).add(sum, along) : along;
    }
    return sum;
  }
  // Return a mask of the indices that refer to kernel element `number`. The offset of the window's position has already
  // been subtracted from `indices`.
  MPSGraphTensor* matches(MPSGraphTensor* indices, int64_t number) const {
    return Steps(l_).equal(indices, l_.scalar(static_cast<double>(own(number)), DType::int32));
  }

 private:
  int64_t step(size_t i) const { return steps_[static_cast<size_t>(taps_.axes()[i])]; }
  int64_t at(size_t axis, int64_t place) const {
    for (size_t i = 0; i < taps_.axes().size(); ++i)
      if (static_cast<size_t>(taps_.axes()[i]) == axis) return taps_.windows()[i].at(place, 0);
    return place;
  }

  const Lowering& l_;
  const Taps& taps_;
  const ops::IndicesMode mode_;
  Ints steps_;
};

MPSGraphTensor* plus(const Lowering& l, MPSGraphTensor* indices, MPSGraphTensor* added) {
  return added ? Steps(l).add(indices, added) : indices;
}
MPSGraphTensor* minus(const Lowering& l, MPSGraphTensor* indices, MPSGraphTensor* added) {
  return added ? Steps(l).subtract(indices, added) : indices;
}

GraphTensors lower_return_indices(Lowering& l) {
  const ops::Pooling pooling(l.attributes());
  for (const ops::Window& w : pooling_windows(pooling, l.dims()))
    for (int64_t p = 0; p < w.output; ++p)
      if (ops::pooling_taps(w, p, false).count == 0)
        l.unsupported("Apple does not document the index for a window that covers only padding; use less padding or "
                      "dilation, or device=\"cpu\"");
  const auto stages = pooling_stages(pooling, l.dims());
  if (stages.size() > 1) {
    const Taps taps = taps_of(l, pooling, l.dims());
    const TapIndices indices(l, pooling, taps, l.dims());
    MPSGraphTensor* source = taps.padded(l.input());
    const OfTap value = [&](int64_t t) { return taps.slice(source, t); };
    MPSGraphTensor* taken = of_extremum(
        l, taps, value,
        [&](int64_t t) {
          return l.filled(static_cast<double>(indices.own(t)), {DType::int32, Shape(l.result_dims())});
        },
        true);
    return {of_extremum(l, taps, value, value, true), plus(l, taken, indices.of_place())};
  }
  const PoolingStage& stage = stages[0];
  const Indices indices = indices_of(l, l.dims(), l.result_dims());
  MPSGraphTensor* source = l.reshape(l.input(), stage.source);
  NSArray<MPSGraphTensor*>* made = nil;
  if (pooling.count == 2) {
    MPSGraphPooling2DOpDescriptor* descriptor = descriptor2d(stage);
    descriptor.returnIndicesMode = apples(indices.mode);
    descriptor.returnIndicesDataType = MPSDataTypeInt32;
    made = [l.graph() maxPooling2DReturnIndicesWithSourceTensor:source descriptor:descriptor name:l.name()];
  } else {
    MPSGraphPooling4DOpDescriptor* descriptor = descriptor4d(stage);
    descriptor.returnIndicesMode = apples(indices.mode);
    descriptor.returnIndicesDataType = MPSDataTypeInt32;
    made = [l.graph() maxPooling4DReturnIndicesWithSourceTensor:source descriptor:descriptor name:l.name()];
  }
  return {made[0], plus(l, l.reshape(made[1], l.result_dims()), indices.added)};
}

MPSGraphTensor* as_int32(const Lowering& l, size_t i) {
  return l.dtype(i) == DType::int32 ? l.input(i) : l.cast(l.input(i), DType::int32);
}

// Gradient of max pooling that scatters to the stored indices. Operands: incoming gradient, indices, output_shape.
GraphTensors lower_from_indices(Lowering& l) {
  const ops::Pooling pooling(l.attributes());
  const Dims& source = l.result_dims();
  const auto stages = pooling_stages(pooling, source);
  if (stages.size() > 1) {
    const Taps taps = taps_of(l, pooling, source);
    const TapIndices indices(l, pooling, taps, source);
    MPSGraphTensor *given = minus(l, as_int32(l, 1), indices.of_place()), *zero = l.scalar(0, l.dtype());
    std::vector<MPSGraphTensor*> slices;
    for (int64_t t = 0; t < taps.count(); ++t)
      slices.push_back(Steps(l).select(indices.matches(given, t), l.input(0), zero));
    return {taps.gathered(slices)};
  }
  const PoolingStage& stage = stages[0];
  const Indices indices = indices_of(l, source, l.dims(0));
  MPSGraphTensor* incoming = l.reshape(l.input(0), stage.result);
  MPSGraphTensor* given = l.reshape(minus(l, as_int32(l, 1), indices.added), stage.result);
  if (pooling.count == 2) {
    MPSGraphPooling2DOpDescriptor* descriptor = descriptor2d(stage);
    descriptor.returnIndicesMode = apples(indices.mode);
    descriptor.returnIndicesDataType = MPSDataTypeInt32;
    return {[l.graph() maxPooling2DGradientWithGradientTensor:incoming
                                                indicesTensor:given
                                                  outputShape:numbers(stage.source)
                                                   descriptor:descriptor
                                                         name:l.name()]};
  }
  MPSGraphPooling4DOpDescriptor* descriptor = descriptor4d(stage);
  descriptor.returnIndicesMode = apples(indices.mode);
  descriptor.returnIndicesDataType = MPSDataTypeInt32;
  return {[l.graph() maxPooling4DGradientWithGradientTensor:incoming
                                              indicesTensor:given
                                                outputShape:numbers(stage.source)
                                                 descriptor:descriptor
                                                       name:l.name()]};
}

// Read the values at the indices of a max pooling, and zero where an index is out of range. Operands: values, indices.
GraphTensors lower_at_indices(Lowering& l) {
  const ops::Pooling pooling(l.attributes());
  const Taps taps = taps_of(l, pooling, l.dims());
  const TapIndices indices(l, pooling, taps, l.dims());
  MPSGraphTensor *given = minus(l, as_int32(l, 1), indices.of_place()), *values = taps.padded(l.input(0));
  MPSGraphTensor* taken = l.scalar(0, l.dtype());
  for (int64_t t = 0; t < taps.count(); ++t)
    taken = Steps(l).select(indices.matches(given, t), taps.slice(values, t), taken);
  return {taken};
}

}  // namespace

const Lowerings pooling_indices_lowerings("pooling_indices", [] {
  for (const Kind kind : Kinds{"max_pooling2d_return_indices", "max_pooling4d_return_indices"})
    define_lowering(kind, lower_return_indices);
  for (const Kind kind : Kinds{"max_pooling2d_gradient_from_indices", "max_pooling4d_gradient_from_indices"})
    define_lowering(kind, lower_from_indices);
  for (const Kind kind : Kinds{"max_pooling2d_at_indices", "max_pooling4d_at_indices"})
    define_lowering(kind, lower_at_indices);
});

}  // namespace mpsgraph::metal
