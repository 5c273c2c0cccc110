// Poolings over two and four axes, their gradients and indices, and the descriptors.
//
// From the documentation: with includeZeroPadToAverage, samples outside of the source count as zeros; otherwise the sum
// is divided by the number of samples that are not padding. Global indices are flattened over the last one to four axes
// of the source, local ones over those of the window. The gradient from indices has the mode of the forward pass. Not
// documented, and implemented as is usual: padding is never a maximum, the first of equal maxima receives the gradient,
// and NaN is a maximum. A window of only padding has no average (NaN here) and no index (raises). Sources must have
// rank 4, padding must be explicit, and ceilMode off, because the documentation of everything else is insufficient.
#include <cmath>
#include <limits>
#include <utility>

#include "graph/graph.h"
#include "metal/mock_metal.h"

using namespace mock;

@implementation MPSGraphPooling2DOpDescriptor
+ (instancetype)descriptorWithKernelWidth:(NSUInteger)kernelWidth
                             kernelHeight:(NSUInteger)kernelHeight
                                strideInX:(NSUInteger)strideInX
                                strideInY:(NSUInteger)strideInY
                          dilationRateInX:(NSUInteger)dilationRateInX
                          dilationRateInY:(NSUInteger)dilationRateInY
                              paddingLeft:(NSUInteger)paddingLeft
                             paddingRight:(NSUInteger)paddingRight
                               paddingTop:(NSUInteger)paddingTop
                            paddingBottom:(NSUInteger)paddingBottom
                             paddingStyle:(MPSGraphPaddingStyle)paddingStyle
                               dataLayout:(MPSGraphTensorNamedDataLayout)dataLayout {
  MPSGraphPooling2DOpDescriptor* d = [[self alloc] init];
  d.kernelWidth = kernelWidth;
  d.kernelHeight = kernelHeight;
  d.strideInX = strideInX;
  d.strideInY = strideInY;
  d.dilationRateInX = dilationRateInX;
  d.dilationRateInY = dilationRateInY;
  d.paddingLeft = paddingLeft;
  d.paddingRight = paddingRight;
  d.paddingTop = paddingTop;
  d.paddingBottom = paddingBottom;
  d.paddingStyle = paddingStyle;
  d.dataLayout = dataLayout;
  d.returnIndicesDataType = MPSDataTypeInt32;
  return d;
}
@end

@implementation MPSGraphPooling4DOpDescriptor
+ (instancetype)descriptorWithKernelSizes:(NSArray<NSNumber*>*)kernelSizes
                                  strides:(NSArray<NSNumber*>*)strides
                            dilationRates:(NSArray<NSNumber*>*)dilationRates
                            paddingValues:(NSArray<NSNumber*>*)paddingValues
                             paddingStyle:(MPSGraphPaddingStyle)paddingStyle {
  MPSGraphPooling4DOpDescriptor* d = [[self alloc] init];
  d.kernelSizes = kernelSizes;
  d.strides = strides;
  d.dilationRates = dilationRates;
  d.paddingValues = paddingValues;
  d.paddingStyle = paddingStyle;
  d.returnIndicesDataType = MPSDataTypeInt32;
  return d;
}
@end

namespace {

// One number per axis of a source of rank 4; axes without windows have a kernel of size 1.
struct Pooling {
  Dims kernel{1, 1, 1, 1}, strides{1, 1, 1, 1}, dilations{1, 1, 1, 1}, before{0, 0, 0, 0}, behind{0, 0, 0, 0};
  bool counts_padding = false;
  MPSGraphPoolingReturnIndicesMode mode = MPSGraphPoolingReturnIndicesNone;

  void set(size_t axis, NSUInteger size, NSUInteger stride, NSUInteger dilation, NSUInteger first, NSUInteger last) {
    kernel[axis] = static_cast<int64_t>(size);
    strides[axis] = static_cast<int64_t>(stride);
    dilations[axis] = static_cast<int64_t>(dilation);
    before[axis] = static_cast<int64_t>(first);
    behind[axis] = static_cast<int64_t>(last);
  }
};

void require(MPSGraphPaddingStyle style, BOOL ceil_mode, MPSDataType indices) {
  if (style != MPSGraphPaddingStyleExplicit)
    misuse(@"pooling: padding style %lu is not supported by the mock", (unsigned long)style);
  if (ceil_mode) misuse(@"pooling: the combination of ceilMode and padding is not documented");
  if (indices != MPSDataTypeInt32) misuse(@"pooling: indices must be int32, got %s", type_name(indices));
}

Pooling read(MPSGraphPooling2DOpDescriptor* d) {
  require(d.paddingStyle, d.ceilMode, d.returnIndicesDataType);
  const bool nhwc = d.dataLayout == MPSGraphTensorNamedDataLayoutNHWC;
  if (!nhwc && d.dataLayout != MPSGraphTensorNamedDataLayoutNCHW)
    misuse(@"pooling: data layout %lu is not supported", (unsigned long)d.dataLayout);
  const size_t y = nhwc ? 1 : 2;
  Pooling p;
  p.set(y, d.kernelHeight, d.strideInY, d.dilationRateInY, d.paddingTop, d.paddingBottom);
  p.set(y + 1, d.kernelWidth, d.strideInX, d.dilationRateInX, d.paddingLeft, d.paddingRight);
  p.counts_padding = d.includeZeroPadToAverage;
  p.mode = d.returnIndicesMode;
  return p;
}

Pooling read(MPSGraphPooling4DOpDescriptor* d) {
  require(d.paddingStyle, d.ceilMode, d.returnIndicesDataType);
  Pooling p;
  p.kernel = dims_of(d.kernelSizes);
  p.strides = dims_of(d.strides);
  p.dilations = dims_of(d.dilationRates);
  const Dims padding = dims_of(d.paddingValues);
  if (p.kernel.size() != 4 || p.strides.size() != 4 || p.dilations.size() != 4 || padding.size() != 8)
    misuse(@"pooling4D: expected four sizes, strides, and dilations, and eight paddings");
  for (size_t axis = 0; axis < 4; ++axis) {
    p.before[axis] = padding[2 * axis];
    p.behind[axis] = padding[2 * axis + 1];
  }
  p.counts_padding = d.includeZeroPadToAverage;
  p.mode = d.returnIndicesMode;
  return p;
}

Dims result_dims(const Pooling& p, const Dims& source) {
  if (source.size() != 4) misuse(@"pooling: the mock only supports sources of rank 4, got %@", text_of(source));
  Dims result(4);
  for (size_t axis = 0; axis < 4; ++axis) {
    if (p.kernel[axis] < 1 || p.strides[axis] < 1 || p.dilations[axis] < 1)
      misuse(@"pooling: kernel sizes, strides, and dilations must be at least 1");
    const int64_t reach = (p.kernel[axis] - 1) * p.dilations[axis] + 1;
    const int64_t room = source[axis] + p.before[axis] + p.behind[axis] - reach;
    if (room < 0) misuse(@"pooling: a window of %@ does not fit into %@", text_of(p.kernel), text_of(source));
    result[axis] = room / p.strides[axis] + 1;
  }
  return result;
}

// A sample of a window: the element's number in the source, and its indices for each mode.
struct Sample {
  int64_t element;
  Dims at, tap;
};

// Call visit(number of the window, its samples without padding).
template <class Visit>
void for_each_window(const Pooling& p, const Dims& source, const Visit& visit) {
  const Dims strides = strides_of(source);
  int64_t number = 0;
  std::vector<Sample> samples;
  for_each_position(result_dims(p, source), [&](const Dims& place) {
    samples.clear();
    for_each_position(p.kernel, [&](const Dims& tap) {
      Dims at(4);
      for (size_t axis = 0; axis < 4; ++axis) {
        at[axis] = place[axis] * p.strides[axis] + tap[axis] * p.dilations[axis] - p.before[axis];
        if (at[axis] < 0 || at[axis] >= source[axis]) return;
      }
      samples.push_back({offset_of(at, strides), at, tap});
    });
    visit(number++, samples);
  });
}

// Return the number of the first maximum among the samples, or -1 if there are none.
int64_t first_maximum(const Value& source, const std::vector<Sample>& samples) {
  int64_t best = -1;
  for (size_t i = 0; i < samples.size(); ++i) {
    const double now = source.real(samples[i].element);
    const double most = best < 0 ? 0 : source.real(samples[static_cast<size_t>(best)].element);
    if (best < 0 || now > most || (std::isnan(now) && !std::isnan(most))) best = static_cast<int64_t>(i);
  }
  return best;
}

int64_t flattened(const Dims& at, const Dims& sizes, size_t axes) {
  int64_t index = 0;
  for (size_t axis = sizes.size() - axes; axis < sizes.size(); ++axis) index = index * sizes[axis] + at[axis];
  return index;
}

int64_t index_of(const Pooling& p, const Dims& source, const Sample& sample) {
  const auto mode = static_cast<size_t>(p.mode);
  return mode <= MPSGraphPoolingReturnIndicesGlobalFlatten4D
             ? flattened(sample.at, source, mode)
             : flattened(sample.tap, p.kernel, mode - MPSGraphPoolingReturnIndicesGlobalFlatten4D);
}

void require_real(const Value& value) {
  if (!is_real(value.type))
    misuse(@"pooling: the source must be a floating-point tensor, got %s", type_name(value.type));
}

void require_incoming(const Pooling& p, const Value& incoming, MPSDataType type, const Dims& source) {
  if (incoming.type != type || incoming.dims != result_dims(p, source))
    misuse(@"pooling: incoming gradient %s %@ does not match the source %s %@", type_name(incoming.type),
           text_of(incoming.dims), type_name(type), text_of(source));
}

Value of_sums(MPSDataType type, const Dims& dims, const std::vector<double>& sums) {
  Value value(type, dims);
  for (size_t i = 0; i < sums.size(); ++i) value.set(static_cast<int64_t>(i), sums[i]);
  return value;
}

Values maxima(const Pooling& p, const Value& source) {
  require_real(source);
  Value result(source.type, result_dims(p, source.dims)), indices(MPSDataTypeInt32, result.dims);
  for_each_window(p, source.dims, [&](int64_t window, const std::vector<Sample>& samples) {
    const int64_t best = first_maximum(source, samples);
    if (best < 0) {
      if (p.mode != MPSGraphPoolingReturnIndicesNone) misuse(@"pooling: a window of only padding has no index");
      result.set(window, -std::numeric_limits<double>::infinity());
      return;
    }
    const Sample& sample = samples[static_cast<size_t>(best)];
    result.copy(window, source, sample.element);
    if (p.mode != MPSGraphPoolingReturnIndicesNone) indices.set(window, index_of(p, source.dims, sample));
  });
  return {result, indices};
}

Value maximum_gradient(const Pooling& p, const Value& incoming, const Value& source) {
  require_incoming(p, incoming, source.type, source.dims);
  std::vector<double> sums(static_cast<size_t>(source.count()));
  for_each_window(p, source.dims, [&](int64_t window, const std::vector<Sample>& samples) {
    const int64_t best = first_maximum(source, samples);
    if (best >= 0) sums[static_cast<size_t>(samples[static_cast<size_t>(best)].element)] += incoming.real(window);
  });
  return of_sums(source.type, source.dims, sums);
}

Value gradient_from_indices(const Pooling& p, const Value& incoming, const Value& indices, const Dims& source) {
  require_incoming(p, incoming, incoming.type, source);
  if (p.mode == MPSGraphPoolingReturnIndicesNone)
    misuse(@"pooling: the gradient from indices requires returnIndicesMode");
  if (indices.type != MPSDataTypeInt32 || indices.dims != incoming.dims)
    misuse(@"pooling: indices must be int32 with the shape %@ of the incoming gradient, got %s %@",
           text_of(incoming.dims), type_name(indices.type), text_of(indices.dims));
  std::vector<double> sums(static_cast<size_t>(count_of(source)));
  for_each_window(p, source, [&](int64_t window, const std::vector<Sample>& samples) {
    for (const Sample& sample : samples)
      if (index_of(p, source, sample) == indices.whole(window)) {
        sums[static_cast<size_t>(sample.element)] += incoming.real(window);
        break;
      }
  });
  return of_sums(incoming.type, source, sums);
}

double divisor(const Pooling& p, const std::vector<Sample>& samples) {
  return p.counts_padding ? static_cast<double>(count_of(p.kernel)) : static_cast<double>(samples.size());
}

// The axis along which a Mac sums windows as differences of running sums in float32, which lose the digits of small
// numbers after large ones; 4 if there is none. That was reported for windows that move along 18,000 elements.
size_t axis_of_running_sums(const Pooling& p, const Dims& source, const Dims& result) {
  size_t axis = 0;
  const auto runs = [&] {
    return p.kernel[axis] > 1 && p.dilations[axis] == 1 && result[axis] > 1 && source[axis] > 4096;
  };
  while (axis < 4 && !runs()) ++axis;
  return axis;
}

std::vector<double> numbers_of(const Pooling& p, const Value& source, const Dims& result) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < source.count(); ++i) numbers.push_back(source.real(i));
  const size_t axis = axis_of_running_sums(p, source.dims, result);
  if (axis == 4) return numbers;
  const int64_t step = strides_of(source.dims)[axis], size = source.dims[axis];
  for (int64_t first = 0; first < source.count(); ++first) {
    if (first / step % size != 0) continue;
    float sum = 0;
    for (int64_t i = 0; i < size; ++i) {
      double& number = numbers[static_cast<size_t>(first + i * step)];
      const float before = std::exchange(sum, static_cast<float>(sum + number));
      number = static_cast<double>(sum) - before;
    }
  }
  return numbers;
}

Value average(const Pooling& p, const Value& source) {
  require_real(source);
  Value result(source.type, result_dims(p, source.dims));
  const std::vector<double> numbers = numbers_of(p, source, result.dims);
  for_each_window(p, source.dims, [&](int64_t window, const std::vector<Sample>& samples) {
    double sum = 0;  // float16 is summed in float16: no wider type is documented
    for (const Sample& sample : samples) {
      sum += numbers[static_cast<size_t>(sample.element)];
      if (element_bytes(source.type) > 2) continue;
      result.set(window, sum);
      sum = result.real(window);
    }
    result.set(window, sum / divisor(p, samples));
  });
  return result;
}

Value average_gradient(const Pooling& p, const Value& incoming, const Value& source) {
  require_incoming(p, incoming, source.type, source.dims);
  std::vector<double> sums(static_cast<size_t>(source.count()));
  for_each_window(p, source.dims, [&](int64_t window, const std::vector<Sample>& samples) {
    for (const Sample& sample : samples)
      sums[static_cast<size_t>(sample.element)] += incoming.real(window) / divisor(p, samples);
  });
  return of_sums(source.type, source.dims, sums);
}

MPSGraphTensor* add_maximum(MPSGraph* graph, NSString* kind, NSString* name, MPSGraphTensor* source, Pooling p) {
  p.mode = MPSGraphPoolingReturnIndicesNone;
  return add_one(graph, kind, name, {source}, [p](const Values& in) { return maxima(p, in[0])[0]; });
}
NSArray<MPSGraphTensor*>* add_with_indices(MPSGraph* graph, NSString* kind, NSString* name, MPSGraphTensor* source,
                                           const Pooling& p) {
  if (p.mode == MPSGraphPoolingReturnIndicesNone) misuse(@"%@: returnIndicesMode must be set", kind);
  return add(graph, kind, name, {source}, [p](const Values& in) { return maxima(p, in[0]); });
}
MPSGraphTensor* add_maximum_gradient(MPSGraph* graph, NSString* kind, NSString* name, MPSGraphTensor* incoming,
                                     MPSGraphTensor* source, const Pooling& p) {
  return add_one(graph, kind, name, {incoming, source},
                 [p](const Values& in) { return maximum_gradient(p, in[0], in[1]); });
}
MPSGraphTensor* add_gradient_from_indices(MPSGraph* graph, NSString* kind, NSString* name, MPSGraphTensor* incoming,
                                          MPSGraphTensor* indices, MPSShape* shape, const Pooling& p) {
  const Dims dims = dims_of(shape);
  return add_one(graph, kind, name, {incoming, indices},
                 [p, dims](const Values& in) { return gradient_from_indices(p, in[0], in[1], dims); });
}
MPSGraphTensor* add_average(MPSGraph* graph, NSString* kind, NSString* name, MPSGraphTensor* source, const Pooling& p) {
  return add_one(graph, kind, name, {source}, [p](const Values& in) { return average(p, in[0]); });
}
MPSGraphTensor* add_average_gradient(MPSGraph* graph, NSString* kind, NSString* name, MPSGraphTensor* incoming,
                                     MPSGraphTensor* source, const Pooling& p) {
  return add_one(graph, kind, name, {incoming, source},
                 [p](const Values& in) { return average_gradient(p, in[0], in[1]); });
}

}  // namespace

@implementation MPSGraph (MockPooling)

- (MPSGraphTensor*)maxPooling2DWithSourceTensor:(MPSGraphTensor*)source
                                     descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                           name:(NSString*)name {
  return add_maximum(self, @"maxPooling2D", name, source, read(descriptor));
}
- (NSArray<MPSGraphTensor*>*)maxPooling2DReturnIndicesWithSourceTensor:(MPSGraphTensor*)source
                                                            descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                                                  name:(NSString*)name {
  return add_with_indices(self, @"maxPooling2DReturnIndices", name, source, read(descriptor));
}
- (MPSGraphTensor*)maxPooling2DGradientWithGradientTensor:(MPSGraphTensor*)gradient
                                             sourceTensor:(MPSGraphTensor*)source
                                               descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                                     name:(NSString*)name {
  return add_maximum_gradient(self, @"maxPooling2DGradient", name, gradient, source, read(descriptor));
}
- (MPSGraphTensor*)maxPooling2DGradientWithGradientTensor:(MPSGraphTensor*)gradient
                                            indicesTensor:(MPSGraphTensor*)indices
                                              outputShape:(MPSShape*)shape
                                               descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                                     name:(NSString*)name {
  return add_gradient_from_indices(self, @"maxPooling2DGradient", name, gradient, indices, shape, read(descriptor));
}
- (MPSGraphTensor*)avgPooling2DWithSourceTensor:(MPSGraphTensor*)source
                                     descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                           name:(NSString*)name {
  return add_average(self, @"avgPooling2D", name, source, read(descriptor));
}
- (MPSGraphTensor*)avgPooling2DGradientWithGradientTensor:(MPSGraphTensor*)gradient
                                             sourceTensor:(MPSGraphTensor*)source
                                               descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                                     name:(NSString*)name {
  return add_average_gradient(self, @"avgPooling2DGradient", name, gradient, source, read(descriptor));
}

- (MPSGraphTensor*)maxPooling4DWithSourceTensor:(MPSGraphTensor*)source
                                     descriptor:(MPSGraphPooling4DOpDescriptor*)descriptor
                                           name:(NSString*)name {
  return add_maximum(self, @"maxPooling4D", name, source, read(descriptor));
}
- (NSArray<MPSGraphTensor*>*)maxPooling4DReturnIndicesWithSourceTensor:(MPSGraphTensor*)source
                                                            descriptor:(MPSGraphPooling4DOpDescriptor*)descriptor
                                                                  name:(NSString*)name {
  return add_with_indices(self, @"maxPooling4DReturnIndices", name, source, read(descriptor));
}
- (MPSGraphTensor*)maxPooling4DGradientWithGradientTensor:(MPSGraphTensor*)gradient
                                             sourceTensor:(MPSGraphTensor*)source
                                               descriptor:(MPSGraphPooling4DOpDescriptor*)descriptor
                                                     name:(NSString*)name {
  return add_maximum_gradient(self, @"maxPooling4DGradient", name, gradient, source, read(descriptor));
}
- (MPSGraphTensor*)maxPooling4DGradientWithGradientTensor:(MPSGraphTensor*)gradient
                                            indicesTensor:(MPSGraphTensor*)indices
                                              outputShape:(MPSShape*)shape
                                               descriptor:(MPSGraphPooling4DOpDescriptor*)descriptor
                                                     name:(NSString*)name {
  return add_gradient_from_indices(self, @"maxPooling4DGradient", name, gradient, indices, shape, read(descriptor));
}
- (MPSGraphTensor*)avgPooling4DWithSourceTensor:(MPSGraphTensor*)source
                                     descriptor:(MPSGraphPooling4DOpDescriptor*)descriptor
                                           name:(NSString*)name {
  return add_average(self, @"avgPooling4D", name, source, read(descriptor));
}
- (MPSGraphTensor*)avgPooling4DGradientWithGradientTensor:(MPSGraphTensor*)gradient
                                             sourceTensor:(MPSGraphTensor*)source
                                               descriptor:(MPSGraphPooling4DOpDescriptor*)descriptor
                                                     name:(NSString*)name {
  return add_average_gradient(self, @"avgPooling4DGradient", name, gradient, source, read(descriptor));
}
@end
