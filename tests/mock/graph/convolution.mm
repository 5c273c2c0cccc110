// Convolutions, their gradients with respect to source and weights, and the descriptors.
//
// From the documentation of the descriptors: a result's coordinate d reads the source at stride * d; dilation inserts
// zeros between weights; padding adds zeros to the source; channels are divided into `groups` partitions, each of which
// is connected only to the results of the same partition. A depthwise convolution's 'O' is the channel multiplier. All
// three operations are sums over the same triples of elements of source, weights, and result, so one traversal serves
// all of them. Weights are not flipped, as is usual. Padding styles other than explicit raise, because their amounts
// are not documented.
#include <algorithm>

#include "graph/graph.h"
#include "metal/mock_metal.h"
#include "mock.h"

using namespace mock;

@implementation MPSGraphConvolution2DOpDescriptor
+ (instancetype)descriptorWithStrideInX:(NSUInteger)strideInX
                              strideInY:(NSUInteger)strideInY
                        dilationRateInX:(NSUInteger)dilationRateInX
                        dilationRateInY:(NSUInteger)dilationRateInY
                                 groups:(NSUInteger)groups
                            paddingLeft:(NSUInteger)paddingLeft
                           paddingRight:(NSUInteger)paddingRight
                             paddingTop:(NSUInteger)paddingTop
                          paddingBottom:(NSUInteger)paddingBottom
                           paddingStyle:(MPSGraphPaddingStyle)paddingStyle
                             dataLayout:(MPSGraphTensorNamedDataLayout)dataLayout
                          weightsLayout:(MPSGraphTensorNamedDataLayout)weightsLayout {
  MPSGraphConvolution2DOpDescriptor* d = [[self alloc] init];
  d.strideInX = strideInX;
  d.strideInY = strideInY;
  d.dilationRateInX = dilationRateInX;
  d.dilationRateInY = dilationRateInY;
  d.groups = groups;
  d.paddingLeft = paddingLeft;
  d.paddingRight = paddingRight;
  d.paddingTop = paddingTop;
  d.paddingBottom = paddingBottom;
  d.paddingStyle = paddingStyle;
  d.dataLayout = dataLayout;
  d.weightsLayout = weightsLayout;
  return d;
}
@end

@implementation MPSGraphConvolution3DOpDescriptor
+ (instancetype)descriptorWithStrideInX:(NSUInteger)strideInX
                              strideInY:(NSUInteger)strideInY
                              strideInZ:(NSUInteger)strideInZ
                        dilationRateInX:(NSUInteger)dilationRateInX
                        dilationRateInY:(NSUInteger)dilationRateInY
                        dilationRateInZ:(NSUInteger)dilationRateInZ
                                 groups:(NSUInteger)groups
                            paddingLeft:(NSUInteger)paddingLeft
                           paddingRight:(NSUInteger)paddingRight
                             paddingTop:(NSUInteger)paddingTop
                          paddingBottom:(NSUInteger)paddingBottom
                           paddingFront:(NSUInteger)paddingFront
                            paddingBack:(NSUInteger)paddingBack
                           paddingStyle:(MPSGraphPaddingStyle)paddingStyle
                             dataLayout:(MPSGraphTensorNamedDataLayout)dataLayout
                          weightsLayout:(MPSGraphTensorNamedDataLayout)weightsLayout {
  MPSGraphConvolution3DOpDescriptor* d = [[self alloc] init];
  d.strideInX = strideInX;
  d.strideInY = strideInY;
  d.strideInZ = strideInZ;
  d.dilationRateInX = dilationRateInX;
  d.dilationRateInY = dilationRateInY;
  d.dilationRateInZ = dilationRateInZ;
  d.groups = groups;
  d.paddingLeft = paddingLeft;
  d.paddingRight = paddingRight;
  d.paddingTop = paddingTop;
  d.paddingBottom = paddingBottom;
  d.paddingFront = paddingFront;
  d.paddingBack = paddingBack;
  d.paddingStyle = paddingStyle;
  d.dataLayout = dataLayout;
  d.weightsLayout = weightsLayout;
  return d;
}
@end

@implementation MPSGraphDepthwiseConvolution2DOpDescriptor
+ (instancetype)descriptorWithStrideInX:(NSUInteger)strideInX
                              strideInY:(NSUInteger)strideInY
                        dilationRateInX:(NSUInteger)dilationRateInX
                        dilationRateInY:(NSUInteger)dilationRateInY
                            paddingLeft:(NSUInteger)paddingLeft
                           paddingRight:(NSUInteger)paddingRight
                             paddingTop:(NSUInteger)paddingTop
                          paddingBottom:(NSUInteger)paddingBottom
                           paddingStyle:(MPSGraphPaddingStyle)paddingStyle
                             dataLayout:(MPSGraphTensorNamedDataLayout)dataLayout
                          weightsLayout:(MPSGraphTensorNamedDataLayout)weightsLayout {
  MPSGraphDepthwiseConvolution2DOpDescriptor* d = [[self alloc] init];
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
  d.weightsLayout = weightsLayout;
  return d;
}
@end

@implementation MPSGraphDepthwiseConvolution3DOpDescriptor
- (instancetype)init {
  if ((self = [super init])) self.channelDimensionIndex = -4;
  return self;
}
+ (instancetype)descriptorWithStrides:(NSArray<NSNumber*>*)strides
                        dilationRates:(NSArray<NSNumber*>*)dilationRates
                        paddingValues:(NSArray<NSNumber*>*)paddingValues
                         paddingStyle:(MPSGraphPaddingStyle)paddingStyle {
  MPSGraphDepthwiseConvolution3DOpDescriptor* d = [[self alloc] init];
  d.strides = strides;
  d.dilationRates = dilationRates;
  d.paddingValues = paddingValues;
  d.paddingStyle = paddingStyle;
  return d;
}
@end

namespace {

// The positions of the axes of images and weights, and the parameters of the windows; windowed axes are in order,
// slowest first.
struct Convolution {
  std::vector<int64_t> strides, dilations, before, behind;
  int64_t groups = 1;
  bool depthwise = false;
  size_t rank = 4;  // of images
  size_t image = 0, channel = 0;
  std::vector<size_t> spatial;
  size_t weights_rank = 4, weights_out = 0, weights_in = 0;
  std::vector<size_t> weights_spatial;
};

void require_explicit(MPSGraphPaddingStyle style) {
  if (style != MPSGraphPaddingStyleExplicit)
    misuse(@"convolution: padding style %lu is not supported by the mock", (unsigned long)style);
}

void set_layouts(Convolution& c, MPSGraphTensorNamedDataLayout data, MPSGraphTensorNamedDataLayout weights) {
  const size_t count = c.strides.size();
  const bool first = data == MPSGraphTensorNamedDataLayoutNCHW || data == MPSGraphTensorNamedDataLayoutNCDHW;
  const bool last = data == MPSGraphTensorNamedDataLayoutNHWC || data == MPSGraphTensorNamedDataLayoutNDHWC;
  const bool two = data == MPSGraphTensorNamedDataLayoutNCHW || data == MPSGraphTensorNamedDataLayoutNHWC;
  if ((!first && !last) || two != (count == 2))
    misuse(@"convolution: data layout %lu is not supported", (unsigned long)data);
  const MPSGraphTensorNamedDataLayout outputs_first =
      two ? MPSGraphTensorNamedDataLayoutOIHW : MPSGraphTensorNamedDataLayoutOIDHW;
  const MPSGraphTensorNamedDataLayout outputs_last =
      two ? MPSGraphTensorNamedDataLayoutHWIO : MPSGraphTensorNamedDataLayoutDHWIO;
  if (weights != outputs_first && weights != outputs_last)
    misuse(@"convolution: weights layout %lu is not supported", (unsigned long)weights);
  c.rank = c.weights_rank = count + 2;
  c.channel = first ? 1 : count + 1;
  c.weights_out = weights == outputs_first ? 0 : count + 1;
  c.weights_in = weights == outputs_first ? 1 : count;
  for (size_t i = 0; i < count; ++i) {
    c.spatial.push_back(first ? 2 + i : 1 + i);
    c.weights_spatial.push_back(weights == outputs_first ? 2 + i : i);
  }
}

int64_t whole(NSUInteger number) { return static_cast<int64_t>(number); }

Convolution read(MPSGraphConvolution2DOpDescriptor* d) {
  require_explicit(d.paddingStyle);
  Convolution c;
  c.strides = {whole(d.strideInY), whole(d.strideInX)};
  c.dilations = {whole(d.dilationRateInY), whole(d.dilationRateInX)};
  c.before = {whole(d.paddingTop), whole(d.paddingLeft)};
  c.behind = {whole(d.paddingBottom), whole(d.paddingRight)};
  c.groups = whole(d.groups);
  set_layouts(c, d.dataLayout, d.weightsLayout);
  return c;
}

Convolution read(MPSGraphDepthwiseConvolution2DOpDescriptor* d) {
  require_explicit(d.paddingStyle);
  Convolution c;
  c.strides = {whole(d.strideInY), whole(d.strideInX)};
  c.dilations = {whole(d.dilationRateInY), whole(d.dilationRateInX)};
  c.before = {whole(d.paddingTop), whole(d.paddingLeft)};
  c.behind = {whole(d.paddingBottom), whole(d.paddingRight)};
  c.depthwise = true;
  set_layouts(c, d.dataLayout, d.weightsLayout);
  return c;
}

Convolution read(MPSGraphConvolution3DOpDescriptor* d) {
  require_explicit(d.paddingStyle);
  Convolution c;
  c.strides = {whole(d.strideInZ), whole(d.strideInY), whole(d.strideInX)};
  c.dilations = {whole(d.dilationRateInZ), whole(d.dilationRateInY), whole(d.dilationRateInX)};
  c.before = {whole(d.paddingFront), whole(d.paddingTop), whole(d.paddingLeft)};
  c.behind = {whole(d.paddingBack), whole(d.paddingBottom), whole(d.paddingRight)};
  c.groups = whole(d.groups);
  set_layouts(c, d.dataLayout, d.weightsLayout);
  return c;
}

// Channels are on one of the last four axes of both images and weights; axes before these are merged into the batch.
Convolution read(MPSGraphDepthwiseConvolution3DOpDescriptor* d) {
  require_explicit(d.paddingStyle);
  Convolution c;
  c.strides = dims_of(d.strides);
  c.dilations = dims_of(d.dilationRates);
  const Dims padding = dims_of(d.paddingValues);
  if (c.strides.size() != 3 || c.dilations.size() != 3 || padding.size() != 6)
    misuse(@"depthwiseConvolution3D: expected three strides, three dilations, and six paddings");
  for (size_t i = 0; i < 3; ++i) {
    c.before.push_back(padding[2 * i]);
    c.behind.push_back(padding[2 * i + 1]);
  }
  if (d.channelDimensionIndex < -4 || d.channelDimensionIndex > -1)
    misuse(@"channelDimensionIndex must be from -4 to -1, got %ld", (long)d.channelDimensionIndex);
  c.depthwise = true;
  c.rank = 5;
  c.channel = static_cast<size_t>(5 + d.channelDimensionIndex);
  c.weights_out = c.weights_in = c.channel - 1;
  for (size_t axis = 1; axis < 5; ++axis) {
    if (axis == c.channel) continue;
    c.spatial.push_back(axis);
    c.weights_spatial.push_back(axis - 1);
  }
  return c;
}

// One of the three tensors of a convolution.
struct Part {
  Dims dims, strides;
  std::vector<double> elements;
  Part() = default;
  explicit Part(const Dims& of) : dims(of), strides(strides_of(of)), elements(static_cast<size_t>(count_of(of))) {}
  explicit Part(const Value& value) : Part(value.dims) {
    for (size_t i = 0; i < elements.size(); ++i) elements[i] = value.real(static_cast<int64_t>(i));
  }
  Value as(MPSDataType type, const Dims& of) const {
    Value value(type, of);
    for (size_t i = 0; i < elements.size(); ++i) value.set(static_cast<int64_t>(i), elements[i]);
    return value;
  }
};

Dims result_dims(const Convolution& c, const Dims& source, const Dims& weights) {
  if (source.size() != c.rank || weights.size() != c.weights_rank)
    misuse(@"convolution: expected a source of rank %lu and weights of rank %lu, got %@ and %@", c.rank, c.weights_rank,
           text_of(source), text_of(weights));
  const int64_t channels = source[c.channel], inputs = weights[c.weights_in], outputs = weights[c.weights_out];
  Dims result = source;
  if (c.depthwise && c.weights_in == c.weights_out) {
    // The order of several results per channel is not documented.
    if (inputs != channels)
      misuse(@"convolution: weights %@ do not match the channels of source %@", text_of(weights), text_of(source));
    result[c.channel] = channels;
  } else if (c.depthwise) {
    if (inputs != channels)
      misuse(@"convolution: weights %@ do not match the channels of source %@", text_of(weights), text_of(source));
    if (outputs != 1)
      misuse(
          @"depthwise convolution: the channel multiplier must be 1, got %lld; the order of results is not documented",
          (long long)outputs);
    result[c.channel] = channels * outputs;
  } else {
    if (c.groups < 1 || inputs * c.groups != channels || outputs % c.groups != 0)
      misuse(@"convolution: %lld groups do not match source %@ and weights %@", (long long)c.groups, text_of(source),
             text_of(weights));
    result[c.channel] = outputs;
  }
  for (size_t i = 0; i < c.strides.size(); ++i) {
    const int64_t reach = (weights[c.weights_spatial[i]] - 1) * c.dilations[i] + 1;
    const int64_t room = source[c.spatial[i]] + c.before[i] + c.behind[i] - reach;
    if (c.strides[i] < 1 || c.dilations[i] < 1 || room < 0)
      misuse(@"convolution: weights %@ do not fit into source %@", text_of(weights), text_of(source));
    result[c.spatial[i]] = room / c.strides[i] + 1;
  }
  return result;
}

// Call add(s, w, r) for the elements of every product. The products are sums over the channels of one position and
// kernel element at a time.
template <class Add>
void walk(const Convolution& c, Part& source, Part& weights, Part& result, const Add& add) {
  const size_t count = c.strides.size();
  const int64_t inputs = c.depthwise ? 1 : weights.dims[c.weights_in];
  const int64_t groups = c.depthwise ? source.dims[c.channel] : c.groups;
  const int64_t outputs = result.dims[c.channel] / groups;
  const bool own_axis = c.depthwise && c.weights_in != c.weights_out;
  const int64_t group_step = own_axis ? weights.strides[c.weights_in] : outputs * weights.strides[c.weights_out];
  const int64_t s_step = source.strides[c.channel], r_step = result.strides[c.channel];
  const int64_t in_step = weights.strides[c.weights_in], out_step = weights.strides[c.weights_out];
  Dims places, taps;
  for (size_t i = 0; i < count; ++i) {
    places.push_back(result.dims[c.spatial[i]]);
    taps.push_back(weights.dims[c.weights_spatial[i]]);
  }
  for (int64_t n = 0; n < source.dims[c.image]; ++n)
    for_each_position(places, [&](const Dims& place) {
      for_each_position(taps, [&](const Dims& tap) {
        int64_t s = n * source.strides[c.image], r = n * result.strides[c.image], w = 0;
        for (size_t i = 0; i < count; ++i) {
          const int64_t at = place[i] * c.strides[i] + tap[i] * c.dilations[i] - c.before[i];
          if (at < 0 || at >= source.dims[c.spatial[i]]) return;  // reads padding
          s += at * source.strides[c.spatial[i]];
          r += place[i] * result.strides[c.spatial[i]];
          w += tap[i] * weights.strides[c.weights_spatial[i]];
        }
        for (int64_t g = 0; g < groups; ++g)
          for (int64_t i = 0; i < inputs; ++i) {
            double* const from = source.elements.data() + s + (g * inputs + i) * s_step;
            double* weight = weights.elements.data() + w + g * group_step + i * in_step;
            double* to = result.elements.data() + r + g * outputs * r_step;
            for (int64_t o = 0; o < outputs; ++o, weight += out_step, to += r_step) add(*from, *weight, *to);
          }
      });
    });
}

// Where a Mac computes wrong results, the mock returns zeros: for kernels of 256 or more along an axis, for more than
// 65536 channels before macOS 26, and for weight gradients over 65536 images or more.
bool has_tall_kernel(const Convolution& c, const Dims& weights) {
  return std::any_of(c.weights_spatial.begin(), c.weights_spatial.end(),
                     [&](size_t axis) { return weights[axis] >= 256; });
}
bool has_many_channels(const Convolution& c, const Dims& source, const Dims& result) {
  return mock_macos_version() < 26 && std::max(source[c.channel], result[c.channel]) > 65536;
}
bool has_many_images(const Convolution& c, const Dims& source) { return source[c.image] >= 65536; }

// MPSGraph subtracts the elements at the end of an axis that no window reads from the padding after it, and refuses a
// negative padding.
void require_read_source(const Convolution& c, const Dims& source, const Dims& weights) {
  for (size_t i = 0; c.depthwise && i < c.strides.size(); ++i) {
    const int64_t reach = (weights[c.weights_spatial[i]] - 1) * c.dilations[i] + 1;
    const int64_t unread = (source[c.spatial[i]] + c.before[i] + c.behind[i] - reach) % c.strides[i];
    if (unread > c.behind[i])
      misuse(@"'mps.depthwise_conv_3d_data_gradient' op Invalid `explicit_padding` value %lld, all values should be "
             @"non-negative",
             (long long)(c.behind[i] - unread));
  }
}

void require_real(const Value& a, const Value& b) {
  if (!is_real(a.type) || a.type != b.type)
    misuse(@"convolution: operands must be real and of the same type, got %s and %s", type_name(a.type),
           type_name(b.type));
}

// Reshape images of any rank to the rank of the layout, merging leading axes into the batch.
Dims batched(const Convolution& c, const Dims& dims) {
  if (!c.depthwise || c.rank != 5) return dims;
  if (dims.size() < 4)
    misuse(@"depthwiseConvolution3D: the source must have at least four axes, got %@", text_of(dims));
  Dims result(dims.end() - 4, dims.end());
  result.insert(result.begin(), count_of(dims) / count_of(result));
  return result;
}
Dims unbatched(const Dims& made, const Dims& like) {
  if (made.size() == like.size()) return made;
  Dims result(like.begin(), like.end() - 4);
  result.insert(result.end(), made.end() - 4, made.end());
  return result;
}

template <class Descriptor>
MPSGraphTensor* add_forward(MPSGraph* graph, NSString* kind, NSString* name, MPSGraphTensor* source,
                            MPSGraphTensor* weights, Descriptor* descriptor) {
  const Convolution c = read(descriptor);
  return add_one(graph, kind, name, {source, weights}, [c](const Values& in) {
    require_real(in[0], in[1]);
    Part s(in[0].reshaped(batched(c, in[0].dims))), w(in[1]), r(result_dims(c, s.dims, w.dims));
    if (!has_tall_kernel(c, w.dims) && !has_many_channels(c, s.dims, r.dims))
      walk(c, s, w, r, [](double source, double weight, double& result) { result += source * weight; });
    return r.as(in[0].type, unbatched(r.dims, in[0].dims));
  });
}

template <class Descriptor>
MPSGraphTensor* add_data_gradient(MPSGraph* graph, NSString* kind, NSString* name, MPSGraphTensor* incoming,
                                  MPSGraphTensor* weights, MPSShape* shape, Descriptor* descriptor) {
  const Convolution c = read(descriptor);
  const Dims dims = dims_of(shape);
  return add_one(graph, kind, name, {incoming, weights}, [c, dims](const Values& in) {
    require_real(in[0], in[1]);
    Part r(in[0].reshaped(batched(c, in[0].dims))), w(in[1]), s(batched(c, dims));
    if (in[0].type == MPSDataTypeBFloat16) misuse(@"convolution: the gradient of bfloat16 fails on a Mac");
    if (r.dims != result_dims(c, s.dims, w.dims))
      misuse(@"convolution: incoming gradient %@ does not match source %@", text_of(in[0].dims), text_of(dims));
    require_read_source(c, s.dims, w.dims);
    walk(c, s, w, r, [](double& source, double weight, double result) { source += result * weight; });
    return s.as(in[0].type, dims);
  });
}

template <class Descriptor>
MPSGraphTensor* add_weights_gradient(MPSGraph* graph, NSString* kind, NSString* name, MPSGraphTensor* incoming,
                                     MPSGraphTensor* source, MPSShape* shape, Descriptor* descriptor) {
  const Convolution c = read(descriptor);
  const Dims dims = dims_of(shape);
  return add_one(graph, kind, name, {incoming, source}, [c, dims](const Values& in) {
    require_real(in[0], in[1]);
    Part r(in[0].reshaped(batched(c, in[0].dims))), s(in[1].reshaped(batched(c, in[1].dims))), w(dims);
    if (in[0].type != MPSDataTypeFloat32)
      misuse(@"convolution: the gradient of weights fails on a Mac: destination datatype must be fp32");
    if (r.dims != result_dims(c, s.dims, w.dims))
      misuse(@"convolution: incoming gradient %@ does not match source %@ and weights %@", text_of(in[0].dims),
             text_of(in[1].dims), text_of(dims));
    if (!has_many_images(c, s.dims))
      walk(c, s, w, r, [](double source, double& weight, double result) { weight += result * source; });
    return w.as(in[0].type, dims);
  });
}

}  // namespace

@implementation MPSGraph (MockConvolution)

- (MPSGraphTensor*)convolution2DWithSourceTensor:(MPSGraphTensor*)source
                                   weightsTensor:(MPSGraphTensor*)weights
                                      descriptor:(MPSGraphConvolution2DOpDescriptor*)descriptor
                                            name:(NSString*)name {
  return add_forward(self, @"convolution2D", name, source, weights, descriptor);
}
- (MPSGraphTensor*)convolution2DDataGradientWithIncomingGradientTensor:(MPSGraphTensor*)incoming
                                                         weightsTensor:(MPSGraphTensor*)weights
                                                           outputShape:(MPSShape*)shape
                                          forwardConvolutionDescriptor:(MPSGraphConvolution2DOpDescriptor*)descriptor
                                                                  name:(NSString*)name {
  return add_data_gradient(self, @"convolution2DDataGradient", name, incoming, weights, shape, descriptor);
}
- (MPSGraphTensor*)convolution2DWeightsGradientWithIncomingGradientTensor:(MPSGraphTensor*)incoming
                                                             sourceTensor:(MPSGraphTensor*)source
                                                              outputShape:(MPSShape*)shape
                                             forwardConvolutionDescriptor:(MPSGraphConvolution2DOpDescriptor*)descriptor
                                                                     name:(NSString*)name {
  return add_weights_gradient(self, @"convolution2DWeightsGradient", name, incoming, source, shape, descriptor);
}

- (MPSGraphTensor*)convolution3DWithSourceTensor:(MPSGraphTensor*)source
                                   weightsTensor:(MPSGraphTensor*)weights
                                      descriptor:(MPSGraphConvolution3DOpDescriptor*)descriptor
                                            name:(NSString*)name {
  return add_forward(self, @"convolution3D", name, source, weights, descriptor);
}
- (MPSGraphTensor*)convolution3DDataGradientWithIncomingGradientTensor:(MPSGraphTensor*)incoming
                                                         weightsTensor:(MPSGraphTensor*)weights
                                                           outputShape:(MPSShape*)shape
                                          forwardConvolutionDescriptor:(MPSGraphConvolution3DOpDescriptor*)descriptor
                                                                  name:(NSString*)name {
  if (incoming->result.type != MPSDataTypeFloat32) misuse(@"convolution3D: gradients must be float32");
  return add_data_gradient(self, @"convolution3DDataGradient", name, incoming, weights, shape, descriptor);
}
- (MPSGraphTensor*)convolution3DWeightsGradientWithIncomingGradientTensor:(MPSGraphTensor*)incoming
                                                             sourceTensor:(MPSGraphTensor*)source
                                                              outputShape:(MPSShape*)shape
                                             forwardConvolutionDescriptor:(MPSGraphConvolution3DOpDescriptor*)descriptor
                                                                     name:(NSString*)name {
  if (incoming->result.type != MPSDataTypeFloat32) misuse(@"convolution3D: gradients must be float32");
  return add_weights_gradient(self, @"convolution3DWeightsGradient", name, incoming, source, shape, descriptor);
}

- (MPSGraphTensor*)depthwiseConvolution2DWithSourceTensor:(MPSGraphTensor*)source
                                            weightsTensor:(MPSGraphTensor*)weights
                                               descriptor:(MPSGraphDepthwiseConvolution2DOpDescriptor*)descriptor
                                                     name:(NSString*)name {
  return add_forward(self, @"depthwiseConvolution2D", name, source, weights, descriptor);
}
- (MPSGraphTensor*)
    depthwiseConvolution2DDataGradientWithIncomingGradientTensor:(MPSGraphTensor*)incoming
                                                   weightsTensor:(MPSGraphTensor*)weights
                                                     outputShape:(MPSShape*)shape
                                                      descriptor:(MPSGraphDepthwiseConvolution2DOpDescriptor*)descriptor
                                                            name:(NSString*)name {
  return add_data_gradient(self, @"depthwiseConvolution2DDataGradient", name, incoming, weights, shape, descriptor);
}
- (MPSGraphTensor*)
    depthwiseConvolution2DWeightsGradientWithIncomingGradientTensor:(MPSGraphTensor*)incoming
                                                       sourceTensor:(MPSGraphTensor*)source
                                                        outputShape:(MPSShape*)shape
                                                         descriptor:
                                                             (MPSGraphDepthwiseConvolution2DOpDescriptor*)descriptor
                                                               name:(NSString*)name {
  return add_weights_gradient(self, @"depthwiseConvolution2DWeightsGradient", name, incoming, source, shape,
                              descriptor);
}

- (MPSGraphTensor*)depthwiseConvolution3DWithSourceTensor:(MPSGraphTensor*)source
                                            weightsTensor:(MPSGraphTensor*)weights
                                               descriptor:(MPSGraphDepthwiseConvolution3DOpDescriptor*)descriptor
                                                     name:(NSString*)name {
  return add_forward(self, @"depthwiseConvolution3D", name, source, weights, descriptor);
}
- (MPSGraphTensor*)
    depthwiseConvolution3DDataGradientWithIncomingGradientTensor:(MPSGraphTensor*)incoming
                                                   weightsTensor:(MPSGraphTensor*)weights
                                                     outputShape:(MPSShape*)shape
                                                      descriptor:(MPSGraphDepthwiseConvolution3DOpDescriptor*)descriptor
                                                            name:(NSString*)name {
  return add_data_gradient(self, @"depthwiseConvolution3DDataGradient", name, incoming, weights, shape, descriptor);
}
- (MPSGraphTensor*)
    depthwiseConvolution3DWeightsGradientWithIncomingGradientTensor:(MPSGraphTensor*)incoming
                                                       sourceTensor:(MPSGraphTensor*)source
                                                        outputShape:(MPSShape*)shape
                                                         descriptor:
                                                             (MPSGraphDepthwiseConvolution3DOpDescriptor*)descriptor
                                                               name:(NSString*)name {
  return add_weights_gradient(self, @"depthwiseConvolution3DWeightsGradient", name, incoming, source, shape,
                              descriptor);
}
@end
