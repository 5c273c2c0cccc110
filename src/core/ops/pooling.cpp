// Operation family pooling: maximum, average, and L2 norm over windows of two or four axes, and their gradients.
//
// The gradient of a maximum goes to the first maximum of each window in row-major order. The gradients of maximum and
// average pooling are linear in the incoming gradient. The adjoint of the maximum pooling gradient is
// max_pooling_at_maxima, which reads values at the positions of the maxima; the adjoint of the average pooling gradient
// is average pooling itself. The positions of the maxima have a zero derivative with respect to the source. The L2 norm
// is composed of sums over windows.
#include "core/ops/pooling.h"

#include "core/ops/pooling_arguments.h"
#include "core/ops/primitive.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {

Pooling checked_pooling(const InferContext& context, int axes) {
  require_numbers(context, "kernel", axes, 1);
  const Pooling pooling(checked_windows(context, axes), context.attributes);
  for (int i = 0; i < axes; ++i) {
    const int64_t reach = (pooling.kernel[i] - 1) * pooling.dilations[i] + 1;
    if (pooling.begin[i] >= reach || pooling.end[i] >= reach)
      context.shape_error(cat("padding must be smaller than the extent of the window, or windows would consist of ",
                              "padding only, got padding ", to_string(context.attributes.integers("padding")),
                              " for kernel ", to_string(context.attributes.integers("kernel")), ", which covers ",
                              reach));
  }
  return pooling;
}

Shape pooled(const InferContext& context, const Pooling& pooling, const Shape& source) {
  Sizes sizes = unknown_sizes;
  for (int i = 0; i < pooling.count; ++i)
    sizes[i] = output_size(context, pooling, i, size_at(source, pooling.spatial[i]), pooling.kernel[i]);
  return image_shape(pooling, source, pooling.channel ? size_at(source, pooling.channel) : -1, sizes);
}

Shape unpooled(const InferContext& context, const Pooling& pooling, const Shape& stated) {
  const Shape incoming = image(context, 0, pooling);
  const int64_t channels = pooling.channel ? size_at(incoming, pooling.channel) : -1;
  const Shape implied = image_shape(pooling, incoming, channels, unknown_sizes);
  const Shape forward = pooled(context, pooling, stated);
  if (!compatible(forward, incoming))
    context.shape_error(cat("incoming gradient must have the shape ", forward, " of the pooling's result, got ",
                            incoming, ": source ", stated));
  return merge(stated, implied);
}

OperationDefinition pooling_definition(Kind name, int axes, int inputs, std::vector<AttributeSpec> others, Infer infer,
                                       Gradient gradient) {
  others.push_back(required("kernel", AttributeKind::integers));
  others.push_back(required("strides", AttributeKind::integers));
  others.push_back(optional("ceil_mode", false));
  if (axes == 2) others.push_back(layout_attribute(2));
  return primitive(name, inputs, window_attributes(axes, std::move(others)), std::move(infer), std::move(gradient));
}

namespace {

std::vector<TensorType> infer_pooling(const InferContext& context, int axes) {
  context.require_float(0);
  const Pooling pooling = checked_pooling(context, axes);
  return {{context.dtype(0), pooled(context, pooling, image(context, 0, pooling))}};
}

// Reads values at the positions of the source's maxima. Operands: values and source, which must have the same shape.
std::vector<TensorType> infer_at_maxima(const InferContext& context, int axes) {
  context.require_float(0);
  context.require_same_dtype();
  const Pooling pooling = checked_pooling(context, axes);
  const Shape values = image(context, 0, pooling), source = image(context, 1, pooling);
  if (!compatible(values, source))
    context.shape_error(cat("values and source must have the same shape, got ", values, " and ", source));
  return {{context.dtype(0), pooled(context, pooling, merge(values, source))}};
}

// The operands are the incoming gradient and the source.
std::vector<TensorType> infer_source_gradient(const InferContext& context, int axes) {
  context.require_float(0);
  context.require_same_dtype();
  const Pooling pooling = checked_pooling(context, axes);
  return {{context.dtype(0), unpooled(context, pooling, image(context, 1, pooling))}};
}

// The operands are the incoming gradient and input_shape.
std::vector<TensorType> infer_shape_gradient(const InferContext& context, int axes) {
  context.require_float(0);
  const Pooling pooling = checked_pooling(context, axes);
  return {{context.dtype(0), unpooled(context, pooling, stated_image(context, 1, pooling))}};
}

// Returns a derivative rule that adds one operation of the given kind, with the attributes of the operation that is
// differentiated.
Gradient like(Kind kind, std::vector<int> inputs) {  // in `inputs`, -1 stands for the incoming gradient
  return [kind, inputs](GradientContext& g) {
    if (!g.needs(0)) return;
    std::vector<Tensor*> operands;
    for (int i : inputs) operands.push_back(i < 0 ? g.incoming() : g.input(i));
    g.set(0, g.graph().add(kind, operands, g.attributes()));
  };
}

Gradient like_with_shape(Kind kind) {
  return [kind](GradientContext& g) {
    g.set(0, g.graph().add(kind, {g.incoming(), Builder(g.graph()).shape_of(g.input(0))}, g.attributes()));
  };
}

using Inputs = std::vector<Tensor*>;

// Casts to float32, or keeps float64, because squares easily overflow in half precision.
Tensor* wide(Builder& b, Tensor* x) { return x->dtype() == DType::float64 ? x : b.cast(x, DType::float32); }

Tensor* norms(Builder& b, Tensor* x, const Attributes& attributes) {
  return b.unary("square_root", b.graph().add("sum_pooling4d", {b.mul(x, x)}, attributes));
}

Inputs as_norms(Builder& b, const Inputs& inputs, const Attributes& attributes) {
  return {b.cast(norms(b, wide(b, inputs[0]), attributes), inputs[0]->dtype())};
}

// Decomposes the gradient of L2-norm pooling: each source element times the sum, over the windows that contain it, of
// incoming gradient / norm of the window. A window of zeros contributes zero.
Inputs as_norm_gradient(Builder& b, const Inputs& inputs, const Attributes& attributes) {
  Tensor *incoming = wide(b, inputs[0]), *x = wide(b, inputs[1]);
  Tensor* share = b.binary("division_no_nan", incoming, norms(b, x, attributes));
  Tensor* sum = b.graph().add("sum_pooling4d_gradient", {share, b.shape_of(x)}, attributes);
  return {b.cast(b.mul(x, sum), inputs[1]->dtype())};
}

struct PoolingKinds {
  int axes;
  Kind max, max_gradient, at_maxima, avg, avg_gradient;
};
constexpr PoolingKinds images{
    2, "max_pooling2d", "max_pooling2d_gradient", "max_pooling2d_at_maxima", "avg_pooling2d", "avg_pooling2d_gradient"};
constexpr PoolingKinds tiles{
    4, "max_pooling4d", "max_pooling4d_gradient", "max_pooling4d_at_maxima", "avg_pooling4d", "avg_pooling4d_gradient"};

OperationDefinition definition(Kind name, int axes, int inputs, auto infer, Gradient gradient,
                               std::vector<AttributeSpec> others = {}) {
  return pooling_definition(
      name, axes, inputs, std::move(others), [infer, axes](const InferContext& c) { return infer(c, axes); },
      std::move(gradient));
}

OperationDefinition internal(OperationDefinition definition) {
  definition.internal = true;
  return definition;
}

OperationDefinition composite(OperationDefinition definition, Decompose decompose) {
  definition.decompose = std::move(decompose);
  return definition;
}

}  // namespace

const Family pooling_family("pooling", [] {
  for (const PoolingKinds& k : {images, tiles}) {
    define(definition(k.max, k.axes, 1, infer_pooling, like(k.max_gradient, {-1, 0})));
    define(definition(k.max_gradient, k.axes, 2, infer_source_gradient, like(k.at_maxima, {-1, 1})));
    define(internal(definition(k.at_maxima, k.axes, 2, infer_at_maxima, like(k.max_gradient, {-1, 1}))));

    const AttributeSpec include = optional("include_zero_pad_to_average", false);
    define(definition(k.avg, k.axes, 1, infer_pooling, like_with_shape(k.avg_gradient), {include}));
    define(definition(k.avg_gradient, k.axes, 2, infer_shape_gradient, like(k.avg, {-1}), {include}));
  }

  define(internal(definition("sum_pooling4d", 4, 1, infer_pooling, like_with_shape("sum_pooling4d_gradient"))));
  define(internal(definition("sum_pooling4d_gradient", 4, 2, infer_shape_gradient, like("sum_pooling4d", {-1}))));
  define(composite(definition("l2_norm_pooling4d", 4, 1, infer_pooling, like("l2_norm_pooling4d_gradient", {-1, 0})),
                   as_norms));
  define(composite(definition("l2_norm_pooling4d_gradient", 4, 2, infer_source_gradient, {}), as_norm_gradient));

  describe("max_pooling2d",
           "source, kernel: window, strides: strides, *, "
           "padding: padding, dilations: sizes, data_layout, ceil_mode",
           DTypeClass::floats,
           cat(R"(
Compute the maximum of each window of an image.

result[n, y, x, c] = max over i, j of source[n, y * stride_y + i * dilation_y - top, x * stride_x + ..., c].
Padding is never the maximum.

Args:
    source: Floating-point images of shape (N, H, W, C), or (N, C, H, W) with data_layout="NCHW".
Returns: A tensor of shape (N, out_h, out_w, C), or (N, C, out_h, out_w) with data_layout="NCHW".
Gradient: computed by max_pooling2d_gradient.
Source: MPSGraph maxPooling2DWithSourceTensor:descriptor:name:.
>>> x = g.reshape(g.constant([1.0, 2.0, 3.0, 4.0]), (1, 2, 2, 1))
>>> g.run({}, g.max_pooling2d(x, 2)).tolist()
[[[[4.0]]]])",
               pooling2d_arguments));
  describe("max_pooling2d_gradient",
           "incoming, source, kernel: window, strides: strides, *, "
           "padding: padding, dilations: sizes, data_layout, ceil_mode",
           DTypeClass::floats, R"(
Compute the gradient of max_pooling2d with respect to its source.

The result starts as zeros, and each element of incoming is added at the first maximum of its window.

Gradient: to incoming, the elements of the incoming gradient at the maxima; to source, zero.
Source: MPSGraph maxPooling2DGradientWithGradientTensor:sourceTensor:descriptor:name:.
>>> x = g.reshape(g.constant([1.0, 2.0, 3.0, 4.0]), (1, 2, 2, 1))
>>> g.run({}, g.max_pooling2d_gradient(g.constant(5.0, (1, 1, 1, 1)), x, 2)).tolist()
[[[[0.0], [0.0]], [[0.0], [5.0]]]])");
  describe("avg_pooling2d",
           "source, kernel: window, strides: strides, *, "
           "padding: padding, dilations: sizes, data_layout, ceil_mode, include_zero_pad_to_average",
           DTypeClass::floats,
           cat(R"(
Compute the mean of each window of an image.

result[n, y, x, c] = mean of source over the window. Padding counts as zeros with include_zero_pad_to_average;
otherwise the mean is taken over the pixels inside the image.

Args:
    source: Floating-point images of shape (N, H, W, C), or (N, C, H, W) with data_layout="NCHW".
Returns: A tensor of shape (N, out_h, out_w, C), or (N, C, out_h, out_w) with data_layout="NCHW".
Gradient: computed by avg_pooling2d_gradient.
Source: MPSGraph avgPooling2DWithSourceTensor:descriptor:name:.
>>> x = g.reshape(g.constant([1.0, 2.0, 3.0, 4.0]), (1, 2, 2, 1))
>>> g.run({}, g.avg_pooling2d(x, 2)).tolist()
[[[[2.5]]]])",
               pooling2d_arguments));
  describe("avg_pooling2d_gradient",
           "incoming, input_shape: shape, kernel: window, strides: strides, *, "
           "padding: padding, dilations: sizes, data_layout, ceil_mode, include_zero_pad_to_average",
           DTypeClass::floats, R"(
Compute the gradient of avg_pooling2d with respect to its source.

Each element of incoming is divided equally among the elements of its window, and the shares are added up.

Gradient: computed by avg_pooling2d for incoming.
Source: MPSGraph avgPooling2DGradientWithGradientTensor:sourceTensor:descriptor:name:, which takes the source
instead of its shape.
>>> g.run({}, g.avg_pooling2d_gradient(g.constant(4.0, (1, 1, 1, 1)), (1, 2, 2, 1), 2)).tolist()
[[[[1.0], [1.0]], [[1.0], [1.0]]]])");
  describe("max_pooling4d",
           "source, kernel: window, strides: strides, *, "
           "padding: padding, dilations: sizes, ceil_mode",
           DTypeClass::floats,
           cat(R"(
Compute the maximum of each window over the last four axes.

result[..., a, b, y, x] = max over the window of source[..., a * stride_a + i * dilation_a - before_a, ...].
Padding is never the maximum.

Args:
    source: Floating-point tensor of rank 4 or higher.
Returns: A tensor with the shape of source except for the sizes of the last four axes.
Gradient: computed by max_pooling4d_gradient.
Source: MPSGraph maxPooling4DWithSourceTensor:descriptor:name:.
>>> volumes = g.placeholder((-1, 3, 8, 32, 32))
>>> g.max_pooling4d(volumes, (1, 2, 2, 2), strides=(1, 2, 2, 2)).shape
(-1, 3, 4, 16, 16))",
               pooling4d_arguments));
  describe("max_pooling4d_gradient",
           "incoming, source, kernel: window, strides: strides, *, "
           "padding: padding, dilations: sizes, ceil_mode",
           DTypeClass::floats, R"(
Compute the gradient of max_pooling4d with respect to its source.

The result starts as zeros, and each element of incoming is added at the first maximum of its window.

Gradient: to incoming, the elements of the incoming gradient at the maxima; to source, zero.
Source: MPSGraph maxPooling4DGradientWithGradientTensor:sourceTensor:descriptor:name:.
>>> x = g.reshape(g.constant([1.0, 2.0, 3.0, 4.0]), (2, 1, 2, 1))
>>> y = g.max_pooling4d_gradient(g.constant(5.0, (1, 1, 1, 1)), x, (2, 1, 2, 1))
>>> g.run({}, y).numpy().ravel().tolist()
[0.0, 0.0, 0.0, 5.0])");
  describe("avg_pooling4d",
           "source, kernel: window, strides: strides, *, "
           "padding: padding, dilations: sizes, ceil_mode, include_zero_pad_to_average",
           DTypeClass::floats,
           cat(R"(
Compute the mean of each window over the last four axes.

result = mean of source over the window. Padding counts as zeros with include_zero_pad_to_average; otherwise the
mean is taken over the elements inside the source.

Args:
    source: Floating-point tensor of rank 4 or higher.
Returns: A tensor with the shape of source except for the sizes of the last four axes.
Gradient: computed by avg_pooling4d_gradient.
Source: MPSGraph avgPooling4DWithSourceTensor:descriptor:name:.
>>> x = g.reshape(g.constant([1.0, 2.0, 3.0, 4.0]), (2, 1, 2, 1))
>>> g.run({}, g.avg_pooling4d(x, (2, 1, 2, 1))).item()
2.5)",
               pooling4d_arguments));
  describe("avg_pooling4d_gradient",
           "incoming, input_shape: shape, kernel: window, strides: strides, *, "
           "padding: padding, dilations: sizes, ceil_mode, include_zero_pad_to_average",
           DTypeClass::floats, R"(
Compute the gradient of avg_pooling4d with respect to its source.

Each element of incoming is divided equally among the elements of its window, and the shares are added up.

Gradient: computed by avg_pooling4d for incoming.
Source: MPSGraph avgPooling4DGradientWithGradientTensor:sourceTensor:descriptor:name:, which takes the source
instead of its shape.
>>> d = g.constant(4.0, (1, 1, 1, 1))
>>> g.run({}, g.avg_pooling4d_gradient(d, (2, 1, 2, 1), (2, 1, 2, 1))).numpy().ravel().tolist()
[1.0, 1.0, 1.0, 1.0])");
  describe("l2_norm_pooling4d",
           "source, kernel: window, strides: strides, *, "
           "padding: padding, dilations: sizes, ceil_mode",
           DTypeClass::floats,
           cat(R"(
Compute the Euclidean norm of each window over the last four axes.

result = sqrt(sum over the window of source * source). Padding counts as zeros.

Args:
    source: Floating-point tensor of rank 4 or higher.
Returns: A tensor with the shape of source except for the sizes of the last four axes.
Gradient: computed by l2_norm_pooling4d_gradient.
Source: MPSGraph L2NormPooling4DWithSourceTensor:descriptor:name:.
>>> x = g.reshape(g.constant([3.0, 4.0]), (1, 1, 2, 1))
>>> g.run({}, g.l2_norm_pooling4d(x, (1, 1, 2, 1))).item()
5.0)",
               pooling4d_arguments));
  describe("l2_norm_pooling4d_gradient",
           "incoming, source, kernel: window, strides: strides, *, "
           "padding: padding, dilations: sizes, ceil_mode",
           DTypeClass::floats, R"(
Compute the gradient of l2_norm_pooling4d with respect to its source.

result = source * the sum of incoming / norm over the windows that contain the element; a window of zeros
contributes 0.

Gradient: derived from the operation's decomposition.
Source: MPSGraph L2NormPooling4DGradientWithGradientTensor:sourceTensor:descriptor:name:.
>>> x, d = g.reshape(g.constant([3.0, 4.0]), (1, 1, 2, 1)), g.constant(10.0, (1, 1, 1, 1))
>>> g.run({}, g.l2_norm_pooling4d_gradient(d, x, (1, 1, 2, 1))).numpy().ravel().tolist()
[6.0, 8.0])");
});

}  // namespace mpsgraph::ops
