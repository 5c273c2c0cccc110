// Convolutions over two and three axes, grouped and depthwise, and their gradients. A transposed convolution is lowered
// to the data gradient of the corresponding convolution.
//
// MPSGraph's depthwise convolutions are used if each channel produces one result. The documentation does not specify
// the order of several results per channel, but it does specify the order of groups. Depthwise convolutions with
// several results per channel therefore become convolutions with one group per channel.
#include <algorithm>

#include "backends/metal/indexing.h"
#include "backends/metal/steps.h"
#include "backends/metal/windows.h"
#include "core/ops/convolution.h"

namespace mpsgraph::metal {
namespace {

enum class Part : uint8_t { result, data, weights };  // the tensor that is computed from the other two

// The source, weights, and incoming gradient of a convolution. The tensor that the operation computes is nil, and the
// incoming gradient is nil in the forward operation.
struct Operands {
  Dims source_dims, weights_dims;
  MPSGraphTensor *source, *weights, *incoming;
};

Operands operands_of(const Lowering& l, Part part) {
  switch (part) {
    case Part::result: return {l.dims(0), l.dims(1), l.input(0), l.input(1), nil};
    case Part::data: return {l.result_dims(), l.dims(1), nil, l.input(1), l.input(0)};
    case Part::weights: break;
  }
  return {l.dims(1), l.result_dims(), l.input(1), nil, l.input(0)};
}

std::vector<ops::Window> windows_of(const ops::Convolution& c, const Operands& o) {
  std::vector<ops::Window> windows;
  for (int i = 0; i < c.count; ++i)
    windows.push_back(window_of(c, i, ops::size_at(o.source_dims, c.spatial[i]),
                                o.weights_dims[static_cast<size_t>(c.weights_spatial[i])]));
  return windows;
}

bool inputs_last(const ops::Convolution& c) { return c.weights_in > 1; }  // whether the weights are HWIO or DHWIO

// Before macOS 15.1, MPSGraph computes wrong results for more than 2^16 channels, and on 15.1.1 still for two axes:
// https://github.com/pytorch/pytorch/issues/129207 and 142836. PyTorch has tested two axes since March 2026, when macOS
// 26 was current, so such convolutions are rejected on older systems.
void check_channels(const Lowering& l, const Dims& source, const Dims& weights, const ops::Convolution& c) {
  const int64_t most = std::max(ops::size_at(source, c.channel), weights[static_cast<size_t>(c.weights_out)]);
  if (most <= 1 << 16) return;
  if (METAL_AVAILABLE(26.0, 26.0)) return;
  l.needs_system("26.0");
}

// For filters of size 256 or more along an axis, MPSGraph's GPU kernels overrun their threadgroup memory and compute
// wrong sums, so such convolutions are rejected: https://github.com/pytorch/pytorch/pull/188359
void check_kernels(const Lowering& l, const Dims& weights, const ops::Convolution& c) {
  for (int i = 0; i < c.count; ++i)
    if (const int64_t size = weights[static_cast<size_t>(c.weights_spatial[i])]; size >= 256)
      l.unsupported(cat("MPSGraph computes wrong sums for filters of size 256 or more along an axis, got ", size,
                        "; split the filter and add the convolutions with its parts, or use device=\"cpu\""));
}

// For 2^16 images or more, MPSGraph computes a wrong gradient of the weights, so such batches are rejected:
// https://github.com/pytorch/pytorch/issues/96225
void check_images(const Lowering& l, const Dims& source, const ops::Convolution& c) {
  int64_t images = element_count(source) / ops::size_at(source, c.channel);
  for (int i = 0; i < c.count; ++i) images /= ops::size_at(source, c.spatial[i]);
  if (images >= 1 << 16)
    l.unsupported(cat("MPSGraph computes wrong weight gradients for 65536 images or more, got ", images,
                      "; use smaller batches or device=\"cpu\""));
}

void check(const Lowering& l, Part part, const Operands& o, const ops::Convolution& c) {
  check_kernels(l, o.weights_dims, c);
  if (part == Part::weights) check_images(l, o.source_dims, c);
  check_channels(l, o.source_dims, o.weights_dims, c);
}

// --- two axes --------------------------------------------------------------------------------------------------------

MPSGraphTensorNamedDataLayout weights_layout2d(const ops::Convolution& c) {
  return inputs_last(c) ? MPSGraphTensorNamedDataLayoutHWIO : MPSGraphTensorNamedDataLayoutOIHW;
}

MPSGraphTensor* convolution2d(const Lowering& l, Part part, const ops::Convolution& c, int64_t groups,
                              const Operands& o) {
  check(l, part, o, c);
  const auto w = windows_of(c, o);
  MPSGraphConvolution2DOpDescriptor* descriptor =
      [MPSGraphConvolution2DOpDescriptor descriptorWithStrideInX:static_cast<NSUInteger>(w[1].stride)
                                                       strideInY:static_cast<NSUInteger>(w[0].stride)
                                                 dilationRateInX:static_cast<NSUInteger>(w[1].dilation)
                                                 dilationRateInY:static_cast<NSUInteger>(w[0].dilation)
                                                          groups:static_cast<NSUInteger>(groups)
                                                     paddingLeft:static_cast<NSUInteger>(w[1].begin)
                                                    paddingRight:static_cast<NSUInteger>(w[1].end)
                                                      paddingTop:static_cast<NSUInteger>(w[0].begin)
                                                   paddingBottom:static_cast<NSUInteger>(w[0].end)
                                                    paddingStyle:MPSGraphPaddingStyleExplicit
                                                      dataLayout:data_layout(c)
                                                   weightsLayout:weights_layout2d(c)];
  switch (part) {
    case Part::result:
      return [l.graph() convolution2DWithSourceTensor:o.source
                                        weightsTensor:o.weights
                                           descriptor:descriptor
                                                 name:l.name()];
    case Part::data:
      return [l.graph() convolution2DDataGradientWithIncomingGradientTensor:o.incoming
                                                              weightsTensor:o.weights
                                                                outputShape:numbers(o.source_dims)
                                               forwardConvolutionDescriptor:descriptor
                                                                       name:l.name()];
    case Part::weights: break;
  }
  return [l.graph() convolution2DWeightsGradientWithIncomingGradientTensor:o.incoming
                                                              sourceTensor:o.source
                                                               outputShape:numbers(o.weights_dims)
                                              forwardConvolutionDescriptor:descriptor
                                                                      name:l.name()];
}

// The gradient of a depthwise convolution with respect to its source. MPSGraph's compiler aborts the process if windows
// leave more elements at the end of an axis unread than there is padding (apple/coreai-torch#58). These elements, whose
// gradient is zero, are therefore cut off first.
template <class Gradient>
MPSGraphTensor* without_unread(const Lowering& l, const ops::Convolution& c, Operands o, const Gradient& gradient) {
  const Dims source = o.source_dims;
  Ints unread(source.size(), 0);
  const auto windows = windows_of(c, o);
  for (int i = 0; i < c.count; ++i) {
    const ops::Window& w = windows[static_cast<size_t>(i)];
    const auto axis = source.size() + static_cast<size_t>(c.spatial[i]);
    const int64_t room = source[axis] + w.begin + w.end - (w.kernel - 1) * w.dilation - 1;
    unread[axis] = std::max<int64_t>(0, room % w.stride - w.end);
    o.source_dims[axis] -= unread[axis];
  }
  if (o.source_dims == source) return gradient(o);
  if (std::ranges::min(o.source_dims) < 1) return l.filled(0, {l.dtype(), Shape(source)});
  return Steps(l).pad_zeros(gradient(o), Ints(source.size(), 0), unread);
}

template <Part part>
GraphTensors lower_convolution2d(Lowering& l) {
  const ops::Convolution c(l.attributes());
  return {convolution2d(l, part, c, c.groups, operands_of(l, part))};
}

MPSGraphTensor* depthwise2d(const Lowering& l, Part part, const ops::Convolution& c, const Operands& o) {
  check(l, part, o, c);
  const auto w = windows_of(c, o);
  MPSGraphDepthwiseConvolution2DOpDescriptor* descriptor =
      [MPSGraphDepthwiseConvolution2DOpDescriptor descriptorWithStrideInX:static_cast<NSUInteger>(w[1].stride)
                                                                strideInY:static_cast<NSUInteger>(w[0].stride)
                                                          dilationRateInX:static_cast<NSUInteger>(w[1].dilation)
                                                          dilationRateInY:static_cast<NSUInteger>(w[0].dilation)
                                                              paddingLeft:static_cast<NSUInteger>(w[1].begin)
                                                             paddingRight:static_cast<NSUInteger>(w[1].end)
                                                               paddingTop:static_cast<NSUInteger>(w[0].begin)
                                                            paddingBottom:static_cast<NSUInteger>(w[0].end)
                                                             paddingStyle:MPSGraphPaddingStyleExplicit
                                                               dataLayout:data_layout(c)
                                                            weightsLayout:weights_layout2d(c)];
  switch (part) {
    case Part::result:
      return [l.graph() depthwiseConvolution2DWithSourceTensor:o.source
                                                 weightsTensor:o.weights
                                                    descriptor:descriptor
                                                          name:l.name()];
    case Part::data:
      return [l.graph() depthwiseConvolution2DDataGradientWithIncomingGradientTensor:o.incoming
                                                                       weightsTensor:o.weights
                                                                         outputShape:numbers(o.source_dims)
                                                                          descriptor:descriptor
                                                                                name:l.name()];
    case Part::weights: break;
  }
  return [l.graph() depthwiseConvolution2DWeightsGradientWithIncomingGradientTensor:o.incoming
                                                                       sourceTensor:o.source
                                                                        outputShape:numbers(o.weights_dims)
                                                                         descriptor:descriptor
                                                                               name:l.name()];
}

// Weights of a depthwise convolution have the layout (y, x, channel, multiple) or (multiple, channel, y, x), where
// `multiple` counts the results per channel. These weights are reshaped to the layout of a grouped convolution: (y, x,
// 1, channel * multiple) or (channel * multiple, 1, y, x).
template <Part part>
GraphTensors lower_depthwise2d(Lowering& l) {
  const ops::Convolution c(l.attributes());
  Operands o = operands_of(l, part);
  const Dims weights = o.weights_dims;
  const int64_t channels = weights[static_cast<size_t>(c.weights_in)];
  const auto depthwise = [&](const Operands& operands) { return depthwise2d(l, part, c, operands); };
  if (weights[static_cast<size_t>(c.weights_out)] == 1)
    return {part == Part::data ? without_unread(l, c, o, depthwise) : depthwise(o)};
  const bool last = inputs_last(c);
  const int64_t results = channels * weights[static_cast<size_t>(c.weights_out)];
  o.weights_dims = last ? Dims{weights[0], weights[1], 1, results} : Dims{results, 1, weights[2], weights[3]};
  const auto exchanged = [&](MPSGraphTensor* tensor) {
    return last ? tensor : Steps(l).transpose(tensor, {1, 0, 2, 3});
  };
  if (o.weights) o.weights = l.reshape(exchanged(o.weights), o.weights_dims);
  MPSGraphTensor* made = convolution2d(l, part, c, channels, o);
  if (part != Part::weights) return {made};
  return {exchanged(l.reshape(made, last ? weights : Dims{weights[1], weights[0], weights[2], weights[3]}))};
}

// --- three axes ------------------------------------------------------------------------------------------------------

MPSGraphTensor* convolution3d(const Lowering& l, Part part, const ops::Convolution& c, int64_t groups, Operands o) {
  check(l, part, o, c);
  const auto w = windows_of(c, o);
  MPSGraphConvolution3DOpDescriptor* descriptor = [MPSGraphConvolution3DOpDescriptor
      descriptorWithStrideInX:static_cast<NSUInteger>(w[2].stride)
                    strideInY:static_cast<NSUInteger>(w[1].stride)
                    strideInZ:static_cast<NSUInteger>(w[0].stride)
              dilationRateInX:static_cast<NSUInteger>(w[2].dilation)
              dilationRateInY:static_cast<NSUInteger>(w[1].dilation)
              dilationRateInZ:static_cast<NSUInteger>(w[0].dilation)
                       groups:static_cast<NSUInteger>(groups)
                  paddingLeft:static_cast<NSUInteger>(w[2].begin)
                 paddingRight:static_cast<NSUInteger>(w[2].end)
                   paddingTop:static_cast<NSUInteger>(w[1].begin)
                paddingBottom:static_cast<NSUInteger>(w[1].end)
                 paddingFront:static_cast<NSUInteger>(w[0].begin)
                  paddingBack:static_cast<NSUInteger>(w[0].end)
                 paddingStyle:MPSGraphPaddingStyleExplicit
                   dataLayout:data_layout(c)
                weightsLayout:inputs_last(c) ? MPSGraphTensorNamedDataLayoutDHWIO : MPSGraphTensorNamedDataLayoutOIDHW];
  if (part == Part::result)
    return [l.graph() convolution3DWithSourceTensor:o.source
                                      weightsTensor:o.weights
                                         descriptor:descriptor
                                               name:l.name()];
  // MPSGraph has no float16 or bfloat16 gradients of 3-D convolutions (PyTorch rejects them: "ConvTranspose 3D with
  // BF16 or FP16 types is not supported on MPS"), so they are computed in float32 and cast afterwards.
  const auto single = [&](MPSGraphTensor* tensor) {
    return tensor.dataType == MPSDataTypeFloat32 ? tensor : l.cast(tensor, DType::float32);
  };
  o.incoming = single(o.incoming);
  if (part == Part::data)
    return [l.graph() convolution3DDataGradientWithIncomingGradientTensor:o.incoming
                                                            weightsTensor:single(o.weights)
                                                              outputShape:numbers(o.source_dims)
                                             forwardConvolutionDescriptor:descriptor
                                                                     name:l.name()];
  return [l.graph() convolution3DWeightsGradientWithIncomingGradientTensor:o.incoming
                                                              sourceTensor:single(o.source)
                                                               outputShape:numbers(o.weights_dims)
                                              forwardConvolutionDescriptor:descriptor
                                                                      name:l.name()];
}

template <Part part>
GraphTensors lower_convolution3d(Lowering& l) {
  const ops::Convolution c(l.attributes());
  return {convolution3d(l, part, c, c.groups, operands_of(l, part))};
}

MPSGraphTensor* depthwise3d(const Lowering& l, Part part, const ops::Convolution& c, const Operands& o) {
  check(l, part, o, c);
  Ints strides, dilations, padding;
  for (const ops::Window& w : windows_of(c, o)) {
    strides.push_back(w.stride);
    dilations.push_back(w.dilation);
    padding.insert(padding.end(), {w.begin, w.end});
  }
  MPSGraphDepthwiseConvolution3DOpDescriptor* descriptor =
      [MPSGraphDepthwiseConvolution3DOpDescriptor descriptorWithStrides:numbers(strides)
                                                          dilationRates:numbers(dilations)
                                                          paddingValues:numbers(padding)
                                                           paddingStyle:MPSGraphPaddingStyleExplicit];
  descriptor.channelDimensionIndex = c.channel;
  switch (part) {
    case Part::result:
      return [l.graph() depthwiseConvolution3DWithSourceTensor:o.source
                                                 weightsTensor:o.weights
                                                    descriptor:descriptor
                                                          name:l.name()];
    case Part::data:
      return [l.graph() depthwiseConvolution3DDataGradientWithIncomingGradientTensor:o.incoming
                                                                       weightsTensor:o.weights
                                                                         outputShape:numbers(o.source_dims)
                                                                          descriptor:descriptor
                                                                                name:l.name()];
    case Part::weights: break;
  }
  return [l.graph() depthwiseConvolution3DWeightsGradientWithIncomingGradientTensor:o.incoming
                                                                       sourceTensor:o.source
                                                                        outputShape:numbers(o.weights_dims)
                                                                         descriptor:descriptor
                                                                               name:l.name()];
}

// Converts tensors whose channels are on any of the last four axes to images in NDHWC layout and weights in DHWIO
// layout.
class ChannelsLast {
 public:
  ChannelsLast(const Lowering& l, int channel) : l_(l), channel_(channel) {}

  Dims tile(const Dims& dims) const {  // the size of each of the last four axes, in an order with channels last
    Dims tile(dims.end() - 4, dims.end());
    std::rotate(tile.begin() + 4 + channel_, tile.begin() + 5 + channel_, tile.end());
    return tile;
  }
  Dims images(const Dims& dims) const {
    Dims result = tile(dims);
    result.insert(result.begin(), element_count(dims) / element_count(result));
    return result;
  }
  Dims weights(const Dims& dims) const {
    Dims result = tile(dims);
    result.insert(result.end() - 1, 1);
    return result;
  }
  MPSGraphTensor* to(MPSGraphTensor* tensor, const Dims& of, const Dims& as) const {
    return tensor ? l_.reshape(moved(tensor, of, false), as) : nil;
  }
  MPSGraphTensor* from(MPSGraphTensor* tensor, const Dims& to) const {
    Dims dims(to.begin(), to.end() - 4);
    const Dims last = tile(to);
    dims.insert(dims.end(), last.begin(), last.end());
    return moved(l_.reshape(tensor, dims), dims, true);
  }

 private:
  MPSGraphTensor* moved(MPSGraphTensor* tensor, const Dims& dims, bool back) const {
    if (channel_ == -1) return tensor;
    const auto rank = static_cast<int64_t>(dims.size());
    Ints order;
    for (int64_t axis = 0; axis < rank; ++axis) order.push_back(axis);
    const auto at = order.end() + channel_;
    if (back)
      std::rotate(at, order.end() - 1, order.end());
    else
      std::rotate(at, at + 1, order.end());
    return Steps(l_).transpose(tensor, order);
  }

  const Lowering& l_;
  const int channel_;
};

template <Part part>
GraphTensors lower_depthwise3d(Lowering& l) {
  const ops::Convolution c(l.attributes());
  const Operands o = operands_of(l, part);
  const int64_t channels = ops::size_at(o.source_dims, c.channel);
  const auto depthwise = [&](const Operands& operands) { return depthwise3d(l, part, c, operands); };
  if (ops::size_at(o.weights_dims, c.channel) == channels)
    return {part == Part::data ? without_unread(l, c, o, depthwise) : depthwise(o)};
  const ChannelsLast last(l, c.channel);
  Attributes attributes = l.attributes();
  attributes.erase("channel_dimension_index");
  attributes.set("data_layout", std::string("NDHWC"));
  attributes.set("weights_layout", std::string("DHWIO"));
  attributes.set("groups", channels);
  const ops::Convolution grouped(attributes);
  Operands moved{last.images(o.source_dims), last.weights(o.weights_dims), nil, nil, nil};
  moved.source = last.to(o.source, o.source_dims, moved.source_dims);
  moved.weights = last.to(o.weights, o.weights_dims, moved.weights_dims);
  if (o.incoming) moved.incoming = last.to(o.incoming, l.dims(0), last.images(l.dims(0)));
  return {last.from(convolution3d(l, part, grouped, channels, moved), l.result_dims())};
}

// --- columns ---------------------------------------------------------------------------------------------------------

// Apple does not document the order of the patches that imToCol returns, so images are sliced here.
Taps patches(const Lowering& l, const Dims& image) {
  const ops::Windows windows(l.attributes());
  const Ints& kernel = l.attributes().integers("kernel");
  std::vector<int> axes;
  std::vector<ops::Window> each;
  for (int i = 0; i < 2; ++i) {
    axes.push_back(4 + windows.spatial[i]);
    each.push_back(window_of(windows, i, ops::size_at(image, windows.spatial[i]), kernel[i]));
  }
  return Taps(l, image, axes, each);
}

// Axis of im_to_col's result that counts the filter taps: after the channels in NCHW, before them in NHWC.
int64_t axis_of_taps(const Lowering& l) { return ops::Windows(l.attributes()).channel == -1 ? 3 : 2; }

GraphTensors lower_im_to_col(Lowering& l) {
  const Taps taps = patches(l, l.dims());
  const auto cut = [&](const GraphTensors& in) {
    MPSGraphTensor* padded = taps.padded(in[0]);
    NSMutableArray<MPSGraphTensor*>* slices = [NSMutableArray array];
    for (int64_t t = 0; t < taps.count(); ++t) [slices addObject:taps.slice(padded, t)];
    return [l.graph() stackTensors:slices axis:axis_of_taps(l) name:nil];
  };
  return {carried(l, l.dtype(), moved_as(l.dtype()), {l.input()}, cut)};
}

GraphTensors lower_col_to_im(Lowering& l) {
  const Taps taps = patches(l, l.result_dims());
  const int64_t axis = axis_of_taps(l);
  Dims stacked = taps.result_dims();
  stacked.insert(stacked.begin() + axis, taps.count());
  const auto add = [&](const GraphTensors& in) {
    const Steps s(l);
    MPSGraphTensor* columns = s.reshape(in[0], stacked);
    std::vector<MPSGraphTensor*> slices;
    for (int64_t t = 0; t < taps.count(); ++t)
      slices.push_back(s.reshape(s.slice(columns, axis, t, 1), taps.result_dims()));
    return taps.gathered(slices);
  };
  return {carried(l, l.dtype(), summed_as(l.dtype()), {l.input()}, add)};
}

}  // namespace

const Lowerings convolution_lowerings("convolution", [] {
  define_lowering("convolution2d", lower_convolution2d<Part::result>);
  define_lowering("convolution2d_data_gradient", lower_convolution2d<Part::data>);
  define_lowering("convolution2d_weights_gradient", lower_convolution2d<Part::weights>);
  define_lowering("convolution3d", lower_convolution3d<Part::result>);
  define_lowering("convolution3d_data_gradient", lower_convolution3d<Part::data>);
  define_lowering("convolution3d_weights_gradient", lower_convolution3d<Part::weights>);
  define_lowering("depthwise_convolution2d", lower_depthwise2d<Part::result>);
  define_lowering("depthwise_convolution2d_data_gradient", lower_depthwise2d<Part::data>);
  define_lowering("depthwise_convolution2d_weights_gradient", lower_depthwise2d<Part::weights>);
  define_lowering("depthwise_convolution3d", lower_depthwise3d<Part::result>);
  define_lowering("depthwise_convolution3d_data_gradient", lower_depthwise3d<Part::data>);
  define_lowering("depthwise_convolution3d_weights_gradient", lower_depthwise3d<Part::weights>);
  define_lowering("im_to_col", lower_im_to_col);
  define_lowering("col_to_im", lower_col_to_im);
});

}  // namespace mpsgraph::metal
