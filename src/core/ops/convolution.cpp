// Operation family convolution: 2-D and 3-D convolutions, grouped and depthwise, and their gradients with respect to
// source and weights. In two dimensions, the result for image n at position (y, x) and output channel o is
//
//   result[n,y,x,o] = sum over i, ky, kx of source[n, y*sy + ky*dy - top, x*sx + kx*dx - left, i] * weights[ky,kx,i,o]
//
// with strides s, dilations d, and padding (top, left). This is a cross-correlation, as usual in deep learning. A
// convolution and its two gradients are bilinear, and the derivative of each is expressed by the other two, so
// derivatives of any order exist.
#include "core/ops/convolution.h"

#include "core/ops/convolution_arguments.h"
#include "core/ops/primitive.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {

namespace {

// Shapes of a convolution's source, weights, and result; dimensions may be unknown.
struct ConvolutionShapes {
  Shape source, weights, result;
};

// Names of a convolution and of its two gradients, and the number of spatial axes.
struct ConvolutionKinds {
  Kind forward, data_gradient, weights_gradient;
  int axes;
};
constexpr ConvolutionKinds plain2d{"convolution2d", "convolution2d_data_gradient", "convolution2d_weights_gradient", 2};
constexpr ConvolutionKinds plain3d{"convolution3d", "convolution3d_data_gradient", "convolution3d_weights_gradient", 3};
constexpr ConvolutionKinds depthwise2d{"depthwise_convolution2d", "depthwise_convolution2d_data_gradient",
                                       "depthwise_convolution2d_weights_gradient", 2};
constexpr ConvolutionKinds depthwise3d{"depthwise_convolution3d", "depthwise_convolution3d_data_gradient",
                                       "depthwise_convolution3d_weights_gradient", 3};

Convolution checked_convolution(const InferContext& context, int axes) {
  const Windows windows = checked_windows(context, axes);
  const Attributes& attributes = context.attributes;
  if (attributes.has("weights_layout")) {
    const std::string& layout = attributes.string("weights_layout");
    const std::string_view first = axes == 2 ? "HWIO" : "DHWIO", second = axes == 2 ? "OIHW" : "OIDHW";
    if (layout != first && layout != second)
      context.graph_error(cat("weights_layout must be ", first, " or ", second, ", got '", layout, "'"));
  }
  if (attributes.has("groups")) {
    const int64_t groups = attributes.integer("groups");
    if (groups < 1 || groups >= window_limit)
      context.shape_error(cat("groups must be at least 1 and less than 2^31, got ", groups));
  }
  return Convolution(windows, attributes);
}

std::string list(const ConvolutionShapes& operands) {
  return cat("source ", operands.source, ", weights ", operands.weights);
}

Shape weights_shape(const InferContext& context, size_t input, const Convolution& c) {
  context.require_rank(input, c.weights_rank);
  return context.shape(input).ranked() ? context.shape(input) : Shape(Dims(c.weights_rank, -1));
}

int64_t product(const InferContext& context, int64_t a, int64_t b, const ConvolutionShapes& operands) {
  int64_t result = -1;
  if (a >= 0 && b >= 0 && __builtin_mul_overflow(a, b, &result))
    context.shape_error(cat("the number of channels, ", a, " * ", b, ", overflows int64: ", list(operands)));
  return result;
}

// The number of source channels that the weights require; -1 if that number is unknown or the weights do not determine
// it.
int64_t source_channels(const InferContext& context, const Convolution& c, const ConvolutionShapes& operands) {
  const int64_t inputs = operands.weights[c.weights_in];
  if (!c.depthwise) return product(context, inputs, c.groups, operands);
  return c.weights_in == c.weights_out ? -1 : inputs;
}

int64_t result_channels(const InferContext& context, const Convolution& c, const ConvolutionShapes& operands) {
  const int64_t outputs = operands.weights[c.weights_out], came = size_at(operands.source, c.channel);
  if (c.weights_in == c.weights_out) {
    const bool fits = outputs < 0 || came < 0 || (came == 0 ? outputs == 0 : outputs % came == 0);
    if (!fits)
      context.shape_error(cat("the number of output channels of the weights (", outputs,
                              ") must be a multiple of the number of source channels (", came, "), got shapes ",
                              list(operands)));
    return outputs;
  }
  if (c.depthwise) return product(context, operands.weights[c.weights_in], outputs, operands);
  if (outputs >= 0 && outputs % c.groups != 0)
    context.shape_error(cat("the number of output channels must be divisible by the number of groups, got ", outputs,
                            " channel(s) (", context.attributes.string("weights_layout"), " axis ", c.weights_out,
                            ") and ", c.groups, " groups: ", list(operands)));
  return outputs;
}

// The result shape of convolving source with weights. Throws ShapeError if the shapes of source and weights are
// inconsistent.
Shape convolve(const InferContext& context, const Convolution& c, const ConvolutionShapes& operands) {
  const int64_t expected = source_channels(context, c, operands), came = size_at(operands.source, c.channel);
  if (expected >= 0 && came >= 0 && expected != came)
    context.shape_error(cat("weights have ", operands.weights[c.weights_in], " input channel(s)",
                            c.groups > 1 ? cat(" in each of ", c.groups, " groups") : std::string(), " (",
                            context.attributes.string("weights_layout"), " axis ", c.weights_in, "), but source has ",
                            came, " (", context.attributes.string("data_layout"), " axis ", c.fixed_rank + c.channel,
                            "): ", list(operands)));
  const int64_t channels = result_channels(context, c, operands);
  Sizes sizes = unknown_sizes;
  for (int i = 0; i < c.count; ++i)
    sizes[i] =
        output_size(context, c, i, size_at(operands.source, c.spatial[i]), operands.weights[c.weights_spatial[i]]);
  return image_shape(c, operands.source, channels, sizes);
}

// Checks that the incoming gradient has the shape of the forward convolution's result.
void require_incoming(const InferContext& context, const Convolution& c, const ConvolutionShapes& operands) {
  const Shape forward = convolve(context, c, operands);
  if (!compatible(forward, operands.result))
    context.shape_error(cat("incoming gradient must have the shape ", forward, " of the convolution's result, got ",
                            operands.result, ": ", list(operands)));
}

void require_operands(const InferContext& context) {
  context.require_float(0);
  context.require_same_dtype(0, 2);
}

std::vector<TensorType> infer_convolution(const InferContext& context, int axes) {
  require_operands(context);
  const Convolution c = checked_convolution(context, axes);
  return {{context.dtype(0), convolve(context, c, {image(context, 0, c), weights_shape(context, 1, c), {}})}};
}

std::vector<TensorType> infer_data_gradient(const InferContext& context, int axes) {
  require_operands(context);
  const Convolution c = checked_convolution(context, axes);
  ConvolutionShapes operands{{}, weights_shape(context, 1, c), image(context, 0, c)};
  // The data gradient's spatial sizes come from an operand. They cannot be inferred from the incoming gradient, because
  // with strides several source sizes give the same result size.
  const Shape implied = image_shape(c, operands.result, source_channels(context, c, operands), unknown_sizes);
  operands.source = stated_image(context, 2, c, implied);
  require_incoming(context, c, operands);
  return {{context.dtype(0), operands.source}};
}

std::vector<TensorType> infer_weights_gradient(const InferContext& context, int axes) {
  require_operands(context);
  const Convolution c = checked_convolution(context, axes);
  ConvolutionShapes operands{image(context, 1, c), {}, image(context, 0, c)};
  Dims implied(c.weights_rank, -1);
  const int64_t channels = size_at(operands.source, c.channel), outputs = size_at(operands.result, c.channel);
  const int64_t groups = c.depthwise ? 1 : c.groups;
  if (channels >= 0 && channels % groups != 0)
    context.shape_error(cat("the number of source channels must be divisible by the number of groups, got ", channels,
                            " channel(s) and ", groups, " groups: source ", operands.source));
  if (channels >= 0) implied[c.weights_in] = channels / groups;
  if (!c.depthwise || c.weights_in == c.weights_out) implied[c.weights_out] = outputs;
  operands.weights = stated_shape(context, 2, Shape(implied));
  require_incoming(context, c, operands);
  return {{context.dtype(0), operands.weights}};
}

// Adds one of the three bilinear operations (convolution, data gradient, weights gradient) with the attributes of the
// operation that is differentiated.
struct Bilinear {
  GradientContext& g;
  const ConvolutionKinds& kinds;

  Tensor* convolution(Tensor* source, Tensor* weights) const {
    return g.graph().add(kinds.forward, {source, weights}, g.attributes());
  }
  Tensor* d_source(Tensor* incoming, Tensor* weights, Tensor* source) const {
    Tensor* shape = Builder(g.graph()).shape_of(source);
    return g.graph().add(kinds.data_gradient, {incoming, weights, shape}, g.attributes());
  }
  Tensor* d_weights(Tensor* incoming, Tensor* source, Tensor* weights) const {
    Tensor* shape = Builder(g.graph()).shape_of(weights);
    return g.graph().add(kinds.weights_gradient, {incoming, source, shape}, g.attributes());
  }
};

void d_convolution(GradientContext& g, const Bilinear& make) {
  Tensor *source = g.input(0), *weights = g.input(1);
  if (g.needs(0)) g.set(0, make.d_source(g.incoming(), weights, source));
  if (g.needs(1)) g.set(1, make.d_weights(g.incoming(), source, weights));
}

// y = d_source(r, w) satisfies <s, y> = <conv(s, w), r> for every source s, so the incoming gradient of y takes the
// role of the source.
void d_data_gradient(GradientContext& g, const Bilinear& make) {
  Tensor *result = g.input(0), *weights = g.input(1), *source = g.incoming();
  if (g.needs(0)) g.set(0, make.convolution(source, weights));
  if (g.needs(1)) g.set(1, make.d_weights(result, source, weights));
}

// y = d_weights(r, s) satisfies <w, y> = <conv(s, w), r> for all weights w, so the incoming gradient of y takes the
// role of the weights.
void d_weights_gradient(GradientContext& g, const Bilinear& make) {
  Tensor *result = g.input(0), *source = g.input(1), *weights = g.incoming();
  if (g.needs(0)) g.set(0, make.convolution(source, weights));
  if (g.needs(1)) g.set(1, make.d_source(result, weights, source));
}

void define_three(const ConvolutionKinds& kinds, const std::vector<AttributeSpec>& attributes) {
  const auto add = [&](Kind name, int inputs, auto infer, auto gradient) {
    define(primitive(
        name, inputs, attributes, [infer, axes = kinds.axes](const InferContext& c) { return infer(c, axes); },
        [gradient, &kinds](GradientContext& g) { gradient(g, Bilinear{g, kinds}); }));
  };
  add(kinds.forward, 2, infer_convolution, d_convolution);
  // The data gradient's operands are the incoming gradient, the weights, and output_shape.
  add(kinds.data_gradient, 3, infer_data_gradient, d_data_gradient);
  // The weights gradient's operands are the incoming gradient, the source, and output_shape.
  add(kinds.weights_gradient, 3, infer_weights_gradient, d_weights_gradient);
}

}  // namespace

const Family convolution_family("convolution", [] {
  const AttributeSpec groups = optional("groups", int64_t{1});
  const AttributeSpec hwio = optional("weights_layout", std::string("HWIO"));
  define_three(plain2d, window_attributes(2, {hwio, groups, layout_attribute(2)}));
  define_three(plain3d,
               window_attributes(3, {optional("weights_layout", std::string("DHWIO")), groups, layout_attribute(3)}));
  define_three(depthwise2d, window_attributes(2, {hwio, layout_attribute(2)}));
  define_three(depthwise3d, window_attributes(3, {optional("channel_dimension_index", int64_t{-4})}));

  describe("convolution2d",
           "source, weights, *, "
           "strides: sizes, dilations: sizes, groups, padding: padding, data_layout, weights_layout",
           DTypeClass::floats,
           cat(R"(
Compute a two-dimensional convolution (a cross-correlation, as usual in machine learning).

result[n, y, x, o] = sum over i, j, c of
source[n, y * stride_y + i * dilation_y - top, x * stride_x + j * dilation_x - left, c] * weights[i, j, c, o].

Args:
    source: Floating-point images of shape (N, H, W, C), or (N, C, H, W) with data_layout="NCHW".
    weights: Kernel of shape (kernel_h, kernel_w, C / groups, O), or (O, C / groups, kernel_h, kernel_w) with
        weights_layout="OIHW"; the dtype of source.
Returns: A tensor of shape (N, out_h, out_w, O), or (N, O, out_h, out_w) with data_layout="NCHW".
Gradient: computed by convolution2d_data_gradient for source, and by convolution2d_weights_gradient for weights.
Source: MPSGraph convolution2DWithSourceTensor:weightsTensor:descriptor:name:.
>>> x, w = g.constant(1.0, (1, 3, 3, 1)), g.constant(1.0, (3, 3, 1, 1))
>>> g.run({}, g.convolution2d(x, w)).tolist()
[[[[9.0]]]]
>>> g.convolution2d(x, w, padding="TF_SAME").shape
(1, 3, 3, 1))",
               convolution2d_arguments));
  describe("convolution2d_data_gradient",
           "incoming, weights, output_shape: shape, *, "
           "strides: sizes, dilations: sizes, groups, padding: padding, data_layout, weights_layout",
           DTypeClass::floats, R"(
Compute the gradient of convolution2d with respect to its source.

result[n, y, x, c] = sum of incoming * weights over all uses of source[n, y, x, c] in the convolution.

Gradient: computed by convolution2d for incoming, and by convolution2d_weights_gradient for weights.
Source: MPSGraph convolution2DDataGradientWithIncomingGradientTensor:weightsTensor:outputShape:
forwardConvolutionDescriptor:name:.
>>> d, w = g.constant(1.0, (1, 1, 1, 1)), g.constant(2.0, (1, 2, 1, 1))
>>> g.run({}, g.convolution2d_data_gradient(d, w, (1, 1, 2, 1))).tolist()
[[[[2.0], [2.0]]]])");
  describe("convolution2d_weights_gradient",
           "incoming, source, output_shape: shape, *, "
           "strides: sizes, dilations: sizes, groups, padding: padding, data_layout, weights_layout",
           DTypeClass::floats, R"(
Compute the gradient of convolution2d with respect to its weights.

result[i, j, c, o] = sum of incoming * source over all uses of weights[i, j, c, o] in the convolution.

Gradient: computed by convolution2d for incoming, and by convolution2d_data_gradient for source.
Source: MPSGraph convolution2DWeightsGradientWithIncomingGradientTensor:sourceTensor:outputShape:
forwardConvolutionDescriptor:name:.
>>> d, x = g.constant(1.0, (1, 2, 2, 1)), g.constant(3.0, (1, 2, 2, 1))
>>> g.run({}, g.convolution2d_weights_gradient(d, x, (1, 1, 1, 1))).tolist()
[[[[12.0]]]])");
  describe("convolution3d",
           "source, weights, *, "
           "strides: sizes, dilations: sizes, groups, padding: padding, data_layout, weights_layout",
           DTypeClass::floats,
           cat(R"(
Compute a three-dimensional convolution (a cross-correlation): convolution2d with an additional depth axis.

result[n, z, y, x, o] = sum over h, i, j, c of
source[n, z * stride_z + h * dilation_z - front, y * stride_y + ..., x * ..., c] * weights[h, i, j, c, o].

Args:
    source: Floating-point volumes of shape (N, D, H, W, C), or (N, C, D, H, W) with data_layout="NCDHW".
    weights: Kernel of shape (kernel_d, kernel_h, kernel_w, C / groups, O), or (O, C / groups, kernel_d,
        kernel_h, kernel_w) with weights_layout="OIDHW"; the dtype of source.
Returns: A tensor of shape (N, out_d, out_h, out_w, O), or (N, O, out_d, out_h, out_w) with data_layout="NCDHW".
Gradient: computed by convolution3d_data_gradient for source, and by convolution3d_weights_gradient for weights.
Source: MPSGraph convolution3DWithSourceTensor:weightsTensor:descriptor:name:.
>>> x, w = g.constant(1.0, (1, 2, 3, 3, 1)), g.constant(1.0, (2, 3, 3, 1, 1))
>>> g.run({}, g.convolution3d(x, w)).item()
18.0
>>> g.convolution3d(x, w, padding="TF_SAME").shape
(1, 2, 3, 3, 1))",
               convolution3d_arguments));
  describe("convolution3d_data_gradient",
           "incoming, weights, output_shape: shape, *, "
           "strides: sizes, dilations: sizes, groups, padding: padding, data_layout, weights_layout",
           DTypeClass::floats, R"(
Compute the gradient of convolution3d with respect to its source.

This operation also serves as the transposed convolution over three axes.

result[n, z, y, x, c] = sum of incoming * weights over all uses of source[n, z, y, x, c] in the convolution.

Gradient: computed by convolution3d for incoming, and by convolution3d_weights_gradient for weights.
Source: MPSGraph convolution3DDataGradientWithIncomingGradientTensor:weightsTensor:outputShape:
forwardConvolutionDescriptor:name: and its variant with outputShapeTensor:.
>>> d, w = g.constant(1.0, (1, 1, 1, 1, 1)), g.constant(2.0, (1, 1, 2, 1, 1))
>>> g.run({}, g.convolution3d_data_gradient(d, w, (1, 1, 1, 2, 1))).numpy().ravel().tolist()
[2.0, 2.0])");
  describe("convolution3d_weights_gradient",
           "incoming, source, output_shape: shape, *, "
           "strides: sizes, dilations: sizes, groups, padding: padding, data_layout, weights_layout",
           DTypeClass::floats, R"(
Compute the gradient of convolution3d with respect to its weights.

result[h, i, j, c, o] = sum of incoming * source over all uses of weights[h, i, j, c, o] in the convolution.

Gradient: computed by convolution3d for incoming, and by convolution3d_data_gradient for source.
Source: MPSGraph convolution3DWeightsGradientWithIncomingGradientTensor:sourceTensor:outputShape:
forwardConvolutionDescriptor:name: and its variant with outputShapeTensor:.
>>> d, x = g.constant(1.0, (1, 2, 2, 2, 1)), g.constant(3.0, (1, 2, 2, 2, 1))
>>> g.run({}, g.convolution3d_weights_gradient(d, x, (1, 1, 1, 1, 1))).item()
24.0)");
  describe("depthwise_convolution2d",
           "source, weights, *, "
           "strides: sizes, dilations: sizes, padding: padding, data_layout, weights_layout",
           DTypeClass::floats,
           cat(R"(
Convolve each channel of an image separately.

result[n, y, x, c * M + m] = sum over i, j of
source[n, y * stride_y + i * dilation_y - top, x * stride_x + ..., c] * weights[i, j, c, m].

Args:
    source: Floating-point images of shape (N, H, W, C), or (N, C, H, W) with data_layout="NCHW".
    weights: Kernel of shape (kernel_h, kernel_w, C, M), or (M, C, kernel_h, kernel_w) with
        weights_layout="OIHW"; the dtype of source. M, on the axis of output channels, is the channel
        multiplier.
Returns: A tensor of shape (N, out_h, out_w, C * M), or (N, C * M, out_h, out_w) with data_layout="NCHW".
Gradient: computed by depthwise_convolution2d_data_gradient for source, and by
depthwise_convolution2d_weights_gradient for weights.
Source: MPSGraph depthwiseConvolution2DWithSourceTensor:weightsTensor:descriptor:name:.
>>> x = g.reshape(g.constant([1.0, 10.0, 2.0, 20.0]), (1, 1, 2, 2))
>>> g.run({}, g.depthwise_convolution2d(x, g.constant(1.0, (1, 2, 2, 1)))).tolist()
[[[[3.0, 30.0]]]])",
               convolution2d_arguments));
  describe("depthwise_convolution2d_data_gradient",
           "incoming, weights, output_shape: shape, *, "
           "strides: sizes, dilations: sizes, padding: padding, data_layout, weights_layout",
           DTypeClass::floats, R"(
Compute the gradient of depthwise_convolution2d with respect to its source.

result[n, y, x, c] = sum of incoming * weights over all uses of source[n, y, x, c] in the convolution.

Gradient: computed by depthwise_convolution2d for incoming, and by depthwise_convolution2d_weights_gradient for
weights.
Source: MPSGraph
depthwiseConvolution2DDataGradientWithIncomingGradientTensor:weightsTensor:outputShape:descriptor:name:.
>>> d, w = g.constant(1.0, (1, 1, 1, 2)), g.reshape(g.constant([2.0, 3.0]), (1, 1, 2, 1))
>>> g.run({}, g.depthwise_convolution2d_data_gradient(d, w, (1, 1, 1, 2))).tolist()
[[[[2.0, 3.0]]]])");
  describe("depthwise_convolution2d_weights_gradient",
           "incoming, source, output_shape: shape, *, "
           "strides: sizes, dilations: sizes, padding: padding, data_layout, weights_layout",
           DTypeClass::floats, R"(
Compute the gradient of depthwise_convolution2d with respect to its weights.

result[i, j, c, m] = sum of incoming * source over all uses of weights[i, j, c, m] in the convolution.

Gradient: computed by depthwise_convolution2d for incoming, and by depthwise_convolution2d_data_gradient for
source.
Source: MPSGraph
depthwiseConvolution2DWeightsGradientWithIncomingGradientTensor:sourceTensor:outputShape:descriptor:name:.
>>> d, x = g.constant(1.0, (1, 2, 2, 1)), g.constant(3.0, (1, 2, 2, 1))
>>> g.run({}, g.depthwise_convolution2d_weights_gradient(d, x, (1, 1, 1, 1))).tolist()
[[[[12.0]]]])");
  describe("depthwise_convolution3d",
           "source, weights, *, "
           "strides: sizes, dilations: sizes, padding: padding, channel_dimension_index",
           DTypeClass::floats,
           cat(R"(
Convolve each channel of a volume separately.

result[..., c * M + m, z, y, x] = sum over h, i, j of
source[..., c, z * stride_z + h * dilation_z - front, y * ..., x * ...] * weights[c * M + m, h, i, j].

Args:
    source: Floating-point volumes of shape (..., C, D, H, W), of rank 4 or higher; the channels may be on any
        of the last four axes.
    weights: Kernel of shape (C * M, kernel_d, kernel_h, kernel_w), whose channels are on the axis that
        channel_dimension_index selects among its four axes; the dtype of source. M is the number of results for
        each channel, usually 1.
Returns: A tensor with the shape of source except for the sizes of the last four axes.
Gradient: computed by depthwise_convolution3d_data_gradient for source, and by
depthwise_convolution3d_weights_gradient for weights.
Source: MPSGraph depthwiseConvolution3DWithSourceTensor:weightsTensor:descriptor:name:, with its default layout.
>>> x = g.reshape(g.constant([1.0, 2.0, 10.0, 20.0]), (1, 2, 1, 1, 2))
>>> g.run({}, g.depthwise_convolution3d(x, g.constant(1.0, (2, 1, 1, 2)))).numpy().ravel().tolist()
[3.0, 30.0])",
               convolution3d_arguments));
  describe("depthwise_convolution3d_data_gradient",
           "incoming, weights, output_shape: shape, *, "
           "strides: sizes, dilations: sizes, padding: padding, channel_dimension_index",
           DTypeClass::floats, R"(
Compute the gradient of depthwise_convolution3d with respect to its source.

result[..., c, z, y, x] = sum of incoming * weights over all uses of source[..., c, z, y, x] in the convolution.

Gradient: computed by depthwise_convolution3d for incoming, and by depthwise_convolution3d_weights_gradient for
weights.
Source: MPSGraph
depthwiseConvolution3DDataGradientWithIncomingGradientTensor:weightsTensor:outputShape:descriptor:name:.
>>> d, w = g.constant(1.0, (2, 1, 1, 1)), g.reshape(g.constant([2.0, 3.0]), (2, 1, 1, 1))
>>> g.run({}, g.depthwise_convolution3d_data_gradient(d, w, (2, 1, 1, 1))).numpy().ravel().tolist()
[2.0, 3.0])");
  describe("depthwise_convolution3d_weights_gradient",
           "incoming, source, output_shape: shape, *, "
           "strides: sizes, dilations: sizes, padding: padding, channel_dimension_index",
           DTypeClass::floats, R"(
Compute the gradient of depthwise_convolution3d with respect to its weights.

result[c, h, i, j] = sum of incoming * source over all uses of weights[c, h, i, j] in the convolution.

Gradient: computed by depthwise_convolution3d for incoming, and by depthwise_convolution3d_data_gradient for
source.
Source: MPSGraph
depthwiseConvolution3DWeightsGradientWithIncomingGradientTensor:sourceTensor:outputShape:descriptor:name:.
>>> d, x = g.constant(1.0, (1, 2, 2, 2)), g.constant(3.0, (1, 2, 2, 2))
>>> g.run({}, g.depthwise_convolution3d_weights_gradient(d, x, (1, 1, 1, 1))).item()
24.0)");
});

}  // namespace mpsgraph::ops
