// Family convolution: 2D convolution and its gradients with respect to source and weights.
//
//   result[n,y,x,o] = sum over i, ky, kx of source[n, y*sy + ky*dy - top, x*sx + kx*dx - left, i] * weights[ky,kx,i,o]
//
// It is a correlation, as everywhere in deep learning. The three operations are bilinear, and the derivative of each is
// made of the other two, so that derivatives of any order follow.
#include "core/ops/convolution.h"

#include "core/builder.h"
#include "core/ops/primitive.h"
#include "core/ops/shape.h"

namespace mpsgraph::ops {

namespace {

// The three operands of one convolution, as far as their shapes are known.
struct Operands {
  Shape source, weights, result;
};

Convolution2d checked_convolution(const InferContext& context) {
  const Windows2d windows = checked_windows(context);
  const std::string& layout = context.attributes.string("weights_layout");
  if (layout != "HWIO" && layout != "OIHW")
    context.graph_error(cat("weights_layout '", layout, "' is not one of HWIO, OIHW"));
  const int64_t groups = context.attributes.integer("groups");
  if (groups < 1 || groups >= window_limit) context.shape_error(cat("groups must be from 1 to 2^31, came ", groups));
  return Convolution2d(windows, context.attributes);
}

std::string list(const Operands& operands) { return cat("source ", operands.source, ", weights ", operands.weights); }

int64_t source_channels(const InferContext& context, const Convolution2d& c, const Operands& operands) {
  const int64_t inputs = operands.weights[c.weights_in];
  int64_t channels = -1;
  if (inputs >= 0 && __builtin_mul_overflow(inputs, c.groups, &channels))
    context.shape_error(cat(inputs, " input channels in ", c.groups, " groups overflow: ", list(operands)));
  return channels;
}

// What source and weights (of rank 4, perhaps with unknown sizes) make; ShapeError when they do not fit.
Shape convolve(const InferContext& context, const Convolution2d& c, const Operands& operands) {
  const Attributes& attributes = context.attributes;
  const Shape& source = operands.source;
  const Shape& weights = operands.weights;
  const int64_t expected = source_channels(context, c, operands), came = source[c.channel];
  if (expected >= 0 && came >= 0 && expected != came)
    context.shape_error(cat("weights have ", weights[c.weights_in], " input channels",
                            c.groups > 1 ? cat(" in each of ", c.groups, " groups") : std::string(), " (",
                            attributes.string("weights_layout"), " axis ", c.weights_in, "), source has ", came, " (",
                            attributes.string("data_layout"), " axis ", c.channel, "): ", list(operands)));
  const int64_t outputs = weights[c.weights_out];
  if (outputs >= 0 && outputs % c.groups != 0)
    context.shape_error(cat(outputs, " output channels (", attributes.string("weights_layout"), " axis ", c.weights_out,
                            ") cannot be divided into ", c.groups, " groups: ", list(operands)));
  const auto size = [&](int i) {
    return output_size(context, c, i, source[c.spatial[i]], weights[c.weights_spatial[i]]);
  };
  const int64_t height = size(0), width = size(1);
  return image_shape(c, source[c.batch], outputs, height, width);
}

// The incoming gradient must look like the result of the forward convolution.
void require_incoming(const InferContext& context, const Convolution2d& c, const Operands& operands) {
  const Shape forward = convolve(context, c, operands);
  if (!compatible(forward, operands.result))
    context.shape_error(
        cat("incoming gradient is ", operands.result, ", the convolution of ", list(operands), " is ", forward));
}

void require_operands(const InferContext& context) {
  context.require_float(0);
  if (context.dtype(0) != context.dtype(1))
    context.dtype_error(cat("both operands need one dtype, came ", context.dtype(0), " and ", context.dtype(1),
                            "; cast one of them first"));
}

std::vector<TensorType> infer_convolution(const InferContext& context) {
  require_operands(context);
  const Convolution2d c = checked_convolution(context);
  return {{context.dtype(0), convolve(context, c, {image_dims(context, 0), image_dims(context, 1), {}})}};
}

std::vector<TensorType> infer_data_gradient(const InferContext& context) {
  require_operands(context);
  const Convolution2d c = checked_convolution(context);
  Operands operands{{}, image_dims(context, 1), image_dims(context, 0)};
  // A source size cannot be told from a result size: several give the same one.
  const Shape implied = image_shape(c, operands.result[c.batch], source_channels(context, c, operands), -1, -1);
  operands.source = stated_shape(context, 2, implied);
  require_incoming(context, c, operands);
  return {{context.dtype(0), operands.source}};
}

std::vector<TensorType> infer_weights_gradient(const InferContext& context) {
  require_operands(context);
  const Convolution2d c = checked_convolution(context);
  Operands operands{image_dims(context, 1), {}, image_dims(context, 0)};
  Dims implied(4, -1);
  implied[c.weights_out] = operands.result[c.channel];
  const int64_t channels = operands.source[c.channel];
  if (channels >= 0 && channels % c.groups != 0)
    context.shape_error(
        cat(channels, " source channels cannot be divided into ", c.groups, " groups: source ", operands.source));
  if (channels >= 0) implied[c.weights_in] = channels / c.groups;
  operands.weights = stated_shape(context, 2, Shape(implied));
  require_incoming(context, c, operands);
  return {{context.dtype(0), operands.weights}};
}

// The bilinear family: each adds one of the three operations with the attributes of the operation differentiated.
struct Bilinear {
  GradientContext& g;

  Tensor* convolution(Tensor* source, Tensor* weights) const {
    return g.graph().add("convolution2d", {source, weights}, g.attributes());
  }
  Tensor* d_source(Tensor* incoming, Tensor* weights, Tensor* source) const {
    Tensor* shape = Builder(g.graph()).shape_of(source);
    return g.graph().add("convolution2d_data_gradient", {incoming, weights, shape}, g.attributes());
  }
  Tensor* d_weights(Tensor* incoming, Tensor* source, Tensor* weights) const {
    Tensor* shape = Builder(g.graph()).shape_of(weights);
    return g.graph().add("convolution2d_weights_gradient", {incoming, source, shape}, g.attributes());
  }
};

void d_convolution(GradientContext& g) {
  const Bilinear make{g};
  Tensor *source = g.input(0), *weights = g.input(1);
  if (g.needs(0)) g.set(0, make.d_source(g.incoming(), weights, source));
  if (g.needs(1)) g.set(1, make.d_weights(g.incoming(), source, weights));
}

// y = d_source(r, w): <s, y> = <conv(s, w), r>, so what comes in stands where the source stood.
void d_data_gradient(GradientContext& g) {
  const Bilinear make{g};
  Tensor *result = g.input(0), *weights = g.input(1), *source = g.incoming();
  if (g.needs(0)) g.set(0, make.convolution(source, weights));
  if (g.needs(1)) g.set(1, make.d_weights(result, source, weights));
}

// y = d_weights(r, s): <w, y> = <conv(s, w), r>, so what comes in stands where the weights stood.
void d_weights_gradient(GradientContext& g) {
  const Bilinear make{g};
  Tensor *result = g.input(0), *source = g.input(1), *weights = g.incoming();
  if (g.needs(0)) g.set(0, make.convolution(source, weights));
  if (g.needs(1)) g.set(1, make.d_source(result, weights, source));
}

}  // namespace

void register_convolution() {
  const auto add = [](std::string_view name, int inputs, Infer infer, Gradient gradient) {
    define(
        primitive("convolution", name, inputs,
                  window_attributes({optional("weights_layout", std::string("HWIO")), optional("groups", int64_t{1})}),
                  std::move(infer), std::move(gradient)));
  };
  add("convolution2d", 2, infer_convolution, d_convolution);
  // (incoming, weights, output_shape): also the transposed convolution
  add("convolution2d_data_gradient", 3, infer_data_gradient, d_data_gradient);
  // (incoming, source, output_shape)
  add("convolution2d_weights_gradient", 3, infer_weights_gradient, d_weights_gradient);
}

}  // namespace mpsgraph::ops
