// Poolings over two and four axes: maximum, average, sum, and their gradients. Norms are lowered as sums of squares.
//
// Apple's documentation of 4-D pooling does not define additional leading axes. If a tensor has such axes, those
// without windows are merged into the batch, or two 2-D poolings are applied in sequence. Averages use MPSGraph's
// divisor if it matches. Otherwise an average over whole windows is multiplied by constants, because this library's
// divisor can count zero padding but never the overhang of ceil_mode.
//
// Apple documents neither how MPSGraph's poolings treat NaN nor which of several equal maxima receives the gradient.
// This library promises that NaN is the maximum and that the first maximum receives the gradient. MPSGraph's poolings
// are used anyway, because composing poolings of slices would be several times slower.
#include "backends/metal/pooling.h"

#include <algorithm>
#include <optional>

#include "backends/metal/steps.h"

namespace mpsgraph::metal {
namespace {

bool trivial(const ops::Window& w) { return w.kernel == 1 && w.stride == 1 && w.begin == 0 && behind(w) == 0; }

NSUInteger size_of(int64_t number) { return static_cast<NSUInteger>(number); }

}  // namespace

MPSGraphPooling2DOpDescriptor* descriptor2d(const PoolingStage& stage) {
  const ops::Window &y = stage.windows[0], &x = stage.windows[1];
  return [MPSGraphPooling2DOpDescriptor descriptorWithKernelWidth:size_of(x.kernel)
                                                     kernelHeight:size_of(y.kernel)
                                                        strideInX:size_of(x.stride)
                                                        strideInY:size_of(y.stride)
                                                  dilationRateInX:size_of(x.dilation)
                                                  dilationRateInY:size_of(y.dilation)
                                                      paddingLeft:size_of(x.begin)
                                                     paddingRight:size_of(behind(x))
                                                       paddingTop:size_of(y.begin)
                                                    paddingBottom:size_of(behind(y))
                                                     paddingStyle:MPSGraphPaddingStyleExplicit
                                                       dataLayout:stage.layout];
}

MPSGraphPooling4DOpDescriptor* descriptor4d(const PoolingStage& stage) {
  Ints kernel, strides, dilations, padding;
  for (const ops::Window& w : stage.windows) {
    kernel.push_back(w.kernel);
    strides.push_back(w.stride);
    dilations.push_back(w.dilation);
    padding.insert(padding.end(), {w.begin, behind(w)});
  }
  return [MPSGraphPooling4DOpDescriptor descriptorWithKernelSizes:numbers(kernel)
                                                          strides:numbers(strides)
                                                    dilationRates:numbers(dilations)
                                                    paddingValues:numbers(padding)
                                                     paddingStyle:MPSGraphPaddingStyleExplicit];
}

std::vector<ops::Window> pooling_windows(const ops::Pooling& pooling, const Dims& source) {
  std::vector<ops::Window> windows;
  for (int i = 0; i < pooling.count; ++i)
    windows.push_back(pooling.window(i, ops::size_at(source, pooling.spatial[i])));
  return windows;
}

std::vector<PoolingStage> pooling_stages(const ops::Pooling& pooling, const Dims& source) {
  const auto w = pooling_windows(pooling, source);
  if (pooling.count == 2) {
    Dims result = source;
    for (int i = 0; i < 2; ++i) result[static_cast<size_t>(4 + pooling.spatial[i])] = w[i].output;
    return {{source, result, w, data_layout(pooling)}};
  }
  const Dims tile(source.end() - 4, source.end());
  const int64_t batch = element_count(source) / element_count(tile);
  if (batch == 1 || trivial(w[0]))
    return {{{batch * tile[0], tile[1], tile[2], tile[3]},
             {batch * w[0].output, w[1].output, w[2].output, w[3].output},
             w,
             {}}};
  std::vector<PoolingStage> stages;
  const MPSGraphTensorNamedDataLayout nhwc = MPSGraphTensorNamedDataLayoutNHWC;
  if (!trivial(w[2]) || !trivial(w[3]))
    stages.push_back({{batch * tile[0] * tile[1], tile[2], tile[3], 1},
                      {batch * tile[0] * tile[1], w[2].output, w[3].output, 1},
                      {w[2], w[3]},
                      nhwc});
  const int64_t columns = w[2].output * w[3].output;
  stages.push_back(
      {{batch, tile[0], tile[1], columns}, {batch, w[0].output, w[1].output, columns}, {w[0], w[1]}, nhwc});
  return stages;
}

// --- maximum ---------------------------------------------------------------------------------------------------------

namespace {

MPSGraphTensor* maximum(const Lowering& l, const PoolingStage& stage, MPSGraphTensor* source) {
  if (stage.windows.size() == 2)
    return [l.graph() maxPooling2DWithSourceTensor:source descriptor:descriptor2d(stage) name:l.name()];
  return [l.graph() maxPooling4DWithSourceTensor:source descriptor:descriptor4d(stage) name:l.name()];
}

MPSGraphTensor* d_maximum(const Lowering& l, const PoolingStage& stage, MPSGraphTensor* incoming,
                          MPSGraphTensor* source) {
  if (stage.windows.size() == 2)
    return [l.graph() maxPooling2DGradientWithGradientTensor:incoming
                                                sourceTensor:source
                                                  descriptor:descriptor2d(stage)
                                                        name:l.name()];
  return [l.graph() maxPooling4DGradientWithGradientTensor:incoming
                                              sourceTensor:source
                                                descriptor:descriptor4d(stage)
                                                      name:l.name()];
}

GraphTensors lower_max_pooling(Lowering& l) {
  MPSGraphTensor* made = l.input();
  for (const PoolingStage& stage : pooling_stages(ops::Pooling(l.attributes()), l.dims()))
    made = maximum(l, stage, l.reshape(made, stage.source));
  return {made};
}

// If the maximum is computed in two stages, first within rows and then over rows, the second stage picks the first row
// whose maximum equals that of the window, and the first stage picks the first maximum in that row. The gradient
// therefore still goes to the first maximum of the window.
GraphTensors lower_d_maximum(Lowering& l) {
  const auto stages = pooling_stages(ops::Pooling(l.attributes()), l.dims(1));
  GraphTensors sources{l.input(1)};
  for (size_t i = 0; i < stages.size(); ++i) {
    sources[i] = l.reshape(sources[i], stages[i].source);
    if (i + 1 < stages.size()) sources.push_back(maximum(l, stages[i], sources[i]));
  }
  MPSGraphTensor* incoming = l.input(0);
  for (size_t i = stages.size(); i-- > 0;)
    incoming = d_maximum(l, stages[i], l.reshape(incoming, stages[i].result), sources[i]);
  return {incoming};
}

GraphTensors lower_at_maxima(Lowering& l) {
  const Taps taps = taps_of(l, ops::Pooling(l.attributes()), l.dims());
  MPSGraphTensor *values = taps.padded(l.input(0)), *source = taps.padded(l.input(1));
  return {of_extremum(
      l, taps, [&](int64_t t) { return taps.slice(source, t); }, [&](int64_t t) { return taps.slice(values, t); },
      true)};
}

// --- average and sum -------------------------------------------------------------------------------------------------

// Converts an average over whole windows to the average or sum that the pooling defines: the average (or, in the
// gradient, the incoming gradient) is multiplied by one factor per position along each windowed axis.
struct Weighting {
  bool excludes_padding = false;  // if set, MPSGraph divides by the number of elements inside the tensor
  // List of factors of each windowed axis, one factor per position. A list is empty if all its factors are 1.
  std::vector<std::vector<float>> factors;
};

Weighting weighting_of(const ops::Pooling& pooling, const std::vector<ops::Window>& windows, bool sums,
                       bool one_stage) {
  bool pads = false, sees_nothing = false;
  Weighting weighting;
  for (const ops::Window& w : windows) {
    std::vector<float> factors;
    for (int64_t p = 0; p < w.output; ++p) {
      const int64_t divisor = ops::pooling_taps(w, p, pooling.include_zero_pad_to_average).divisor;
      pads = pads || divisor != w.kernel;
      sees_nothing = sees_nothing || divisor == 0;
      const int64_t by = sums ? 1 : divisor;
      factors.push_back(by == 0 ? 0.0f : static_cast<float>(w.kernel) / static_cast<float>(by));
    }
    const bool ones = std::all_of(factors.begin(), factors.end(), [](float f) { return f == 1.0f; });
    weighting.factors.push_back(ones ? std::vector<float>{} : factors);
  }
  if (!sums && one_stage && pads && !sees_nothing && !pooling.include_zero_pad_to_average) {
    weighting.excludes_padding = true;
    weighting.factors.clear();
  }
  return weighting;
}

MPSGraphTensor* weighted(const Lowering& l, const Weighting& weighting, const ops::Pooling& pooling,
                         MPSGraphTensor* tensor, const Dims& dims) {
  const int rank = static_cast<int>(dims.size());
  for (size_t i = 0; i < weighting.factors.size(); ++i) {
    if (weighting.factors[i].empty()) continue;
    MPSGraphTensor* factors = along_axis(l, weighting.factors[i], rank + pooling.spatial[i], rank, l.dtype());
    tensor = [l.graph() multiplicationWithPrimaryTensor:tensor secondaryTensor:factors name:nil];
  }
  return tensor;
}

// MPSGraph averages windows along a long axis by differences of running sums, so that small numbers after large ones
// are lost (pytorch/pytorch#179608). A long axis is therefore cut into parts, which keep every running sum short.
constexpr int64_t long_axis = 4096;

// The axis of the source along which window `i` of a stage moves.
size_t axis_of(const PoolingStage& stage, size_t i) {
  return stage.windows.size() == 4 ? i : stage.layout == MPSGraphTensorNamedDataLayoutNHWC ? 1 + i : 2 + i;
}

// The longest part of an axis. Parts contain several windows, even if a window is long.
int64_t longest_part(const ops::Window& w) { return std::max(long_axis, 2 * w.reach()); }

// Return the number of a window that moves along a long axis, if there is one.
std::optional<size_t> long_window(const PoolingStage& stage) {
  for (size_t i = 0; i < stage.windows.size(); ++i) {
    const ops::Window& w = stage.windows[i];
    if (w.output > 1 && w.kernel > 1 && w.dilation == 1 && stage.source[axis_of(stage, i)] > longest_part(w)) return i;
  }
  return std::nullopt;
}

MPSGraphTensor* average(const Lowering& l, const PoolingStage& stage, bool excludes_padding, MPSGraphTensor* source);

MPSGraphTensor* average_in_parts(const Lowering& l, PoolingStage stage, size_t i, MPSGraphTensor* source) {
  const Steps s(l);
  const size_t axis = axis_of(stage, i);
  const ops::Window whole = stage.windows[i];
  if (whole.begin > 0 || behind(whole) > 0) {
    Ints left(stage.source.size(), 0), right = left;
    left[axis] = whole.begin;
    right[axis] = behind(whole);
    source = s.pad_zeros(source, left, right);
  }
  const int64_t each = (longest_part(whole) - whole.reach()) / whole.stride + 1;
  ops::Window& w = stage.windows[i];
  w.begin = w.end = w.overhang = 0;
  GraphTensors parts;
  for (int64_t start = 0; start < whole.output; start += each) {
    w.output = std::min(each, whole.output - start);
    const int64_t length = (w.output - 1) * w.stride + w.reach();
    stage.source[axis] = length;
    stage.result[axis] = w.output;
    MPSGraphTensor* part = s.slice(source, static_cast<int64_t>(axis), start * w.stride, length);
    parts.push_back(average(l, stage, false, part));
  }
  return s.concat(parts, static_cast<int64_t>(axis));
}

MPSGraphTensor* average(const Lowering& l, const PoolingStage& stage, bool excludes_padding, MPSGraphTensor* source) {
  if (const auto i = long_window(stage)) return average_in_parts(l, stage, *i, source);
  if (stage.windows.size() == 2) {
    MPSGraphPooling2DOpDescriptor* descriptor = descriptor2d(stage);
    descriptor.includeZeroPadToAverage = !excludes_padding;
    return [l.graph() avgPooling2DWithSourceTensor:source descriptor:descriptor name:l.name()];
  }
  MPSGraphPooling4DOpDescriptor* descriptor = descriptor4d(stage);
  descriptor.includeZeroPadToAverage = !excludes_padding;
  return [l.graph() avgPooling4DWithSourceTensor:source descriptor:descriptor name:l.name()];
}

// The gradient of an average only depends on the shape of the source.
MPSGraphTensor* d_average(const Lowering& l, const PoolingStage& stage, bool excludes_padding,
                          MPSGraphTensor* incoming) {
  MPSGraphTensor* source = l.filled(0, {l.dtype(), Shape(stage.source)});
  if (stage.windows.size() == 2) {
    MPSGraphPooling2DOpDescriptor* descriptor = descriptor2d(stage);
    descriptor.includeZeroPadToAverage = !excludes_padding;
    return [l.graph() avgPooling2DGradientWithGradientTensor:incoming
                                                sourceTensor:source
                                                  descriptor:descriptor
                                                        name:l.name()];
  }
  MPSGraphPooling4DOpDescriptor* descriptor = descriptor4d(stage);
  descriptor.includeZeroPadToAverage = !excludes_padding;
  return [l.graph() avgPooling4DGradientWithGradientTensor:incoming
                                              sourceTensor:source
                                                descriptor:descriptor
                                                      name:l.name()];
}

template <bool sums>
GraphTensors lower_average(Lowering& l) {
  const ops::Pooling pooling(l.attributes());
  const auto stages = pooling_stages(pooling, l.dims());
  const bool whole = stages.size() == 1 && !long_window(stages[0]);
  const Weighting weighting = weighting_of(pooling, pooling_windows(pooling, l.dims()), sums, whole);
  MPSGraphTensor* made = l.input();
  for (const PoolingStage& stage : stages)
    made = average(l, stage, weighting.excludes_padding, l.reshape(made, stage.source));
  return {weighted(l, weighting, pooling, l.reshape(made, l.result_dims()), l.result_dims())};
}

template <bool sums>
GraphTensors lower_d_average(Lowering& l) {
  const ops::Pooling pooling(l.attributes());
  const Dims& source = l.result_dims();
  const auto stages = pooling_stages(pooling, source);
  const Weighting weighting = weighting_of(pooling, pooling_windows(pooling, source), sums, stages.size() == 1);
  MPSGraphTensor* incoming = weighted(l, weighting, pooling, l.input(), l.dims());
  for (size_t i = stages.size(); i-- > 0;)
    incoming = d_average(l, stages[i], weighting.excludes_padding, l.reshape(incoming, stages[i].result));
  return {incoming};
}

}  // namespace

Taps taps_of(const Lowering& l, const ops::Pooling& pooling, const Dims& source) {
  std::vector<int> axes;
  for (int i = 0; i < pooling.count; ++i) axes.push_back(static_cast<int>(source.size()) + pooling.spatial[i]);
  return Taps(l, source, axes, pooling_windows(pooling, source));
}

const Lowerings pooling_lowerings("pooling", [] {
  for (const Kind kind : Kinds{"max_pooling2d", "max_pooling4d"}) define_lowering(kind, lower_max_pooling);
  for (const Kind kind : Kinds{"max_pooling2d_gradient", "max_pooling4d_gradient"})
    define_lowering(kind, lower_d_maximum);
  for (const Kind kind : Kinds{"max_pooling2d_at_maxima", "max_pooling4d_at_maxima"})
    define_lowering(kind, lower_at_maxima);
  for (const Kind kind : Kinds{"avg_pooling2d", "avg_pooling4d"}) define_lowering(kind, lower_average<false>);
  for (const Kind kind : Kinds{"avg_pooling2d_gradient", "avg_pooling4d_gradient"})
    define_lowering(kind, lower_d_average<false>);
  define_lowering("sum_pooling4d", lower_average<true>);
  define_lowering("sum_pooling4d_gradient", lower_d_average<true>);
});

}  // namespace mpsgraph::metal
