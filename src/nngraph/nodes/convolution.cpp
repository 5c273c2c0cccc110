// Node family convolution: MPSCNNConvolutionNode, …TransposeNode, …FullyConnectedNode. The weights come from a data
// source.
//
// A convolution is a cross-correlation. Its gradients with respect to weights and biases are sums over the batch, not
// means.
#include <algorithm>

#include "nngraph/windows.h"

namespace mpsgraph::nngraph {
namespace {

void require_channels(const Lowering& l) {
  const int64_t expected = l.layer->convolution.input_feature_channels;
  if (l.channels() != expected)
    l.shape_error(cat("the number of image channels must be ", expected,
                      " as in the descriptor of the data source, got ", l.channels()));
}

Tensor* with_biases_and_neuron(const Lowering& l, Tensor* image) {
  if (Tensor* biases = l.parameter("biases")) image = l.b.add(image, biases);
  const Neuron& n = l.layer->convolution.neuron;
  return neuron(l.b, n.type, n.a, n.b, n.c, nullptr, image);
}

Tensor* lower_convolution(Lowering& l) {
  require_channels(l);
  const ConvolutionDescriptor& d = l.layer->convolution;
  Windowed w = windowed(l, {d.kernel_height, d.kernel_width, d.stride_in_pixels_y, d.stride_in_pixels_x,
                            d.dilation_rate_y, d.dilation_rate_x});
  if (!d.depthwise) w.attributes.set("groups", d.groups);
  Tensor* image = l.add(d.depthwise ? Kind("depthwise_convolution2d") : "convolution2d",
                        {w.source, l.parameter("weights")}, w.attributes);
  return with_biases_and_neuron(l, image);
}

Tensor* lower_fully_connected(Lowering& l) {
  require_channels(l);
  const ConvolutionDescriptor& d = l.layer->convolution;
  if (d.kernel_height != l.height() || d.kernel_width != l.width())
    l.shape_error(cat("the kernel of a fully connected filter must cover the whole image: the kernel is ",
                      d.kernel_height, "x", d.kernel_width, ", but the images are ", l.height(), "x", l.width()));
  if (d.groups != 1 || d.depthwise)
    l.graph_error("a fully connected filter supports neither groups nor depthwise kernels");
  const int64_t inputs = l.height() * l.width() * l.channels();
  Tensor* rows = l.b.reshape(l.sources[0], Ints{l.batch(), inputs});
  Tensor* columns = l.b.reshape(l.parameter("weights"), Ints{inputs, d.output_feature_channels});
  Tensor* result = with_biases_and_neuron(l, l.b.matmul(rows, columns));
  return l.b.reshape(result, Ints{l.batch(), 1, 1, d.output_feature_channels});
}

// Return the windows, along one axis, of the convolution that a transposed convolution reverses. The source state
// determines that convolution and its windows. Without a source state, the windows follow from the padding policy.
WindowAxis undone(const Lowering& l, int axis, int64_t pixels, int64_t kernel, int64_t stride) {
  if (!l.undone) return l.node.padding.reverse(axis, pixels, kernel, stride);
  const int64_t size = axis == 0 ? l.undone->height() : l.undone->width();
  WindowAxis windows = l.undone->node.padding.forward(axis, size, kernel, stride);
  if (windows.size != pixels)
    l.shape_error(cat("images do not match the result of ", l.undone->node.title(),
                      ", which this node reverses: with kernel size ", kernel, " and stride ", stride,
                      ", an axis of size ", size, " gives ", windows.size, " pixel(s), got ", pixels));
  return {size, windows.before, std::max<int64_t>(0, windows.after)};
}

// If the windows start after the beginning of an axis, crop the pixels before the first window. Returns the number of
// cropped pixels.
int64_t cut(WindowAxis& axis) {
  const int64_t pixels = std::max<int64_t>(0, -axis.before);
  axis.before += pixels;
  axis.size -= pixels;
  return pixels;
}

// Apple's transposed convolution inserts zeros between the pixels and applies a convolution with stride 1 and unrotated
// weights. The core's transposed convolution is the gradient of a convolution, which rotates the kernel by 180 degrees,
// so the kernel is rotated here first.
Tensor* lower_transpose(Lowering& l) {
  require_channels(l);
  const ConvolutionDescriptor& d = l.layer->convolution;
  if (d.groups != 1 || d.depthwise)
    l.graph_error("a transposed convolution supports neither groups nor depthwise kernels");
  if (d.dilation_rate_x != 1 || d.dilation_rate_y != 1)
    l.graph_error("the dilation rates of a transposed convolution must be 1");
  WindowAxis y = undone(l, 0, l.height(), d.kernel_height, d.stride_in_pixels_y);
  WindowAxis x = undone(l, 1, l.width(), d.kernel_width, d.stride_in_pixels_x);
  const Ints unread{0, l.undone ? cut(y) : 0, l.undone ? cut(x) : 0, 0};  // pixels before the first window
  if (y.size < 1 || x.size < 1 || y.before < 0 || x.before < 0 || y.after < 0 || x.after < 0)
    l.shape_error(
        cat("padding (", to_string(l.node.padding), ") crops images of ", l.height(), "x", l.width(), " to nothing"));
  const int64_t all = 0b1111;  // mask that reverses the first two axes
  Tensor* turned = l.add("slice", {l.parameter("weights")},
                         {{"starts", Ints{0, 0, 0, 0}},
                          {"ends", Ints{0, 0, 0, 0}},
                          {"strides", Ints{-1, -1, 1, 1}},
                          {"start_mask", all},
                          {"end_mask", all}});
  // weights of the reversed convolution, of shape (height, width, out, in)
  Tensor* hwoi = l.b.transpose(turned, {0, 1, 3, 2});
  Tensor* image = l.add("convolution_transpose2d",
                        {l.sources[0], hwoi, l.b.ints({l.batch(), y.size, x.size, d.output_feature_channels})},
                        {{"strides", Ints{d.stride_in_pixels_y, d.stride_in_pixels_x}},
                         {"dilations", Ints{1, 1}},
                         {"padding", Ints{y.before, y.after, x.before, x.after}},
                         {"padding_style", std::string("EXPLICIT")}});
  if (unread[1] + unread[2] > 0) image = l.add("pad", {image}, {{"left", unread}, {"right", Ints{0, 0, 0, 0}}});
  return with_biases_and_neuron(l, image);
}

void check_options(const FilterNode& node) {
  const std::string& precision = node.attributes().string("accumulator_precision");
  if (precision != "float32" && precision != "float16")
    throw GraphError(cat("[", node.title(), "] accumulator_precision must be \"float32\" or \"float16\", got \"",
                         precision, "\"", node.where()));
}

NodeDefinition of_convolution(std::string_view name, std::string_view apple, std::string_view apple_gradient,
                              std::function<Tensor*(Lowering&)> lower) {
  NodeDefinition d;
  d.name = name;
  d.apple = apple;
  d.first_macos = "10.13";
  d.apple_gradient = apple_gradient;
  d.parameters = DataSource::Kind::convolution;
  d.attributes = {optional("accumulator_precision", std::string("float32"))};
  d.windows = true;
  d.lower = std::move(lower);
  d.check = check_options;
  return d;
}

}  // namespace

const NodeFamily convolution_family("convolution", [] {
  define_node(
      of_convolution("convolution", "MPSCNNConvolutionNode", "MPSCNNConvolutionGradientNode", lower_convolution));
  NodeDefinition transpose = of_convolution("convolution_transpose", "MPSCNNConvolutionTransposeNode",
                                            "MPSCNNConvolutionTransposeGradientNode", lower_transpose);
  transpose.undoes = "convolution";
  define_node(std::move(transpose));
  NodeDefinition fully_connected = of_convolution("fully_connected", "MPSCNNFullyConnectedNode",
                                                  "MPSCNNFullyConnectedGradientNode", lower_fully_connected);
  fully_connected.matrix = true;
  define_node(std::move(fully_connected));
});

}  // namespace mpsgraph::nngraph
