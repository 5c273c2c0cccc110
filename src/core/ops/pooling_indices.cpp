// Operation family pooling: maxima with their indices, and the gradient that follows the indices.
//
// The gradient is linear in the incoming gradient. Its adjoint, max_pooling_at_indices, reads the elements of a tensor
// at the indices. Out-of-range indices read zero, and their gradient is dropped.
#include "core/ops/pooling.h"
#include "core/ops/pooling_arguments.h"
#include "core/ops/primitive.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {

std::optional<IndicesMode> indices_mode_from_name(std::string_view name) {
  for (bool global : {true, false})
    for (int axes = 1; axes <= 4; ++axes)
      if (name == cat(global ? "global" : "local", "_flatten_", axes, "d")) return IndicesMode{global, axes};
  return std::nullopt;
}

bool locates(const IndicesMode& mode, const Pooling& pooling) {
  for (int i = 0; i < pooling.count; ++i)
    if (pooling.kernel[i] > 1 && pooling.spatial[i] < -mode.axes) return false;
  return true;
}

namespace {

IndicesMode checked_indices_mode(const InferContext& context) {
  const std::string& name = context.attributes.string("return_indices_mode");
  if (const auto mode = indices_mode_from_name(name)) return *mode;
  context.graph_error(cat("return_indices_mode must be global_flatten_1d to global_flatten_4d or local_flatten_1d to ",
                          "local_flatten_4d, got '", name, "'"));
}

// Throws ShapeError if the source has more elements than int32 indices can count.
void require_countable_sources(const InferContext& context, const IndicesMode& mode, const Pooling& pooling,
                               const Shape& source) {
  int64_t counted = 1;
  for (int axis = -mode.axes; axis < 0 && mode.global && source.ranked(); ++axis) {
    if (size_at(source, axis) < 0) return;
    if (__builtin_mul_overflow(counted, size_at(source, axis), &counted)) counted = window_limit;
  }
  for (int i = 0; i < pooling.count && !mode.global; ++i)
    if (__builtin_mul_overflow(counted, pooling.kernel[i], &counted)) counted = window_limit;
  if (counted >= window_limit)
    context.shape_error(cat("int32 indices with return_indices_mode ", context.attributes.string("return_indices_mode"),
                            " cannot count the elements of source ", source,
                            "; use a local mode or one that flattens fewer axes"));
}

std::vector<TensorType> infer_return_indices(const InferContext& context, int axes) {
  context.require_float(0);
  const Pooling pooling = checked_pooling(context, axes);
  const Shape source = image(context, 0, pooling), result = pooled(context, pooling, source);
  require_countable_sources(context, checked_indices_mode(context), pooling, source);
  return {{context.dtype(0), result}, {DType::int32, result}};
}

Pooling checked_indices(const InferContext& context, int axes) {
  context.require_float(0);
  if (!is_integer(context.dtype(1)))
    context.dtype_error(cat("indices must be integers, got ", context.dtype(1), "; cast them to int32 first"));
  const Pooling pooling = checked_pooling(context, axes);
  if (!locates(checked_indices_mode(context), pooling))
    context.graph_error(cat("return_indices_mode ", context.attributes.string("return_indices_mode"),
                            " does not determine the source elements, because windows of kernel ",
                            to_string(context.attributes.integers("kernel")),
                            " extend over axes that the indices do not include; use a mode that flattens more axes"));
  return pooling;
}

// Gradient of max pooling that scatters to stored indices. Operands: incoming gradient, indices, output_shape.
std::vector<TensorType> infer_gradient_from_indices(const InferContext& context, int axes) {
  const Pooling pooling = checked_indices(context, axes);
  const Shape incoming = image(context, 0, pooling), indices = image(context, 1, pooling);
  if (!compatible(incoming, indices))
    context.shape_error(
        cat("incoming gradient and indices must have the same shape, got ", incoming, " and ", indices));
  const Shape source = unpooled(context, pooling, stated_image(context, 2, pooling));
  require_countable_sources(context, checked_indices_mode(context), pooling, source);
  return {{context.dtype(0), source}};
}

// Reads values at the stored indices of a max pooling. Operands: values, which have the source's shape, and indices.
std::vector<TensorType> infer_at_indices(const InferContext& context, int axes) {
  const Pooling pooling = checked_indices(context, axes);
  const Shape made = pooled(context, pooling, image(context, 0, pooling)), indices = image(context, 1, pooling);
  if (!compatible(made, indices))
    context.shape_error(
        cat("indices must have the shape ", made, " of the pooling of values ", context.shape(0), ", got ", indices));
  return {{context.dtype(0), merge(made, indices)}};
}

struct IndicesKinds {
  int axes;
  Kind return_indices, gradient, at_indices, source_gradient;
};
constexpr IndicesKinds images_with_indices{2, "max_pooling2d_return_indices", "max_pooling2d_gradient_from_indices",
                                           "max_pooling2d_at_indices", "max_pooling2d_gradient"};
constexpr IndicesKinds tiles_with_indices{4, "max_pooling4d_return_indices", "max_pooling4d_gradient_from_indices",
                                          "max_pooling4d_at_indices", "max_pooling4d_gradient"};

// Derivative of a pooling that returns indices. The rule uses the indices if they determine the source elements;
// otherwise the rule computes the positions of the maxima again.
void d_return_indices(GradientContext& g, const IndicesKinds& k) {
  Attributes attributes = g.attributes();
  const IndicesMode mode = *indices_mode_from_name(attributes.string("return_indices_mode"));
  if (locates(mode, Pooling(attributes))) {
    Tensor* shape = Builder(g.graph()).shape_of(g.input(0));
    return g.set(0, g.graph().add(k.gradient, {g.incoming(), g.output(1), shape}, attributes));
  }
  attributes.erase("return_indices_mode");
  g.set(0, g.graph().add(k.source_gradient, {g.incoming(), g.input(0)}, attributes));
}

}  // namespace

const Family pooling_indices_family("pooling", [] {
  static constexpr std::array<IndicesKinds, 2> both{images_with_indices, tiles_with_indices};
  for (const IndicesKinds& k : both) {
    const AttributeSpec mode = optional("return_indices_mode", std::string("global_flatten_4d"));
    const auto add = [&](Kind name, int inputs, auto infer, Gradient gradient, bool internal = false) {
      OperationDefinition definition = pooling_definition(
          name, k.axes, inputs, {mode}, [infer, axes = k.axes](const InferContext& c) { return infer(c, axes); },
          std::move(gradient));
      definition.internal = internal;
      define(std::move(definition));
    };
    add(k.return_indices, 1, infer_return_indices, [&k](GradientContext& g) { d_return_indices(g, k); });
    add(k.gradient, 3, infer_gradient_from_indices, [&k](GradientContext& g) {
      if (g.needs(0)) g.set(0, g.graph().add(k.at_indices, {g.incoming(), g.input(1)}, g.attributes()));
    });
    add(
        k.at_indices, 2, infer_at_indices,
        [&k](GradientContext& g) {
          if (!g.needs(0)) return;
          Tensor* shape = Builder(g.graph()).shape_of(g.input(0));
          g.set(0, g.graph().add(k.gradient, {g.incoming(), g.input(1), shape}, g.attributes()));
        },
        true);
  }

  describe("max_pooling2d_return_indices",
           "source, kernel: window, strides: strides, *, return_indices_mode, "
           "padding: padding, dilations: sizes, data_layout, ceil_mode -> tuple[Tensor, Tensor]",
           DTypeClass::floats,
           cat(R"(
Compute the maximum of each window of an image, and the index of its first occurrence.

values = max_pooling2d(source); indices[n, y, x, c] = the position of the maximum, counted in row-major order
over the last k axes of the source or of the window.

Args:
    source: Floating-point images of shape (N, H, W, C), or (N, C, H, W) with data_layout="NCHW".
    return_indices_mode: "global_flatten_<k>d", for k from 1 to 4, counts elements of the source over its last k
        axes: k = 2 with NCHW gives y * W + x, as in PyTorch; k = 3 with NHWC gives (y * W + x) * C + c, as in
        TensorFlow; and k = 4 (the default) counts all elements. "local_flatten_<k>d" counts positions in the
        window over its last k axes, including padding.
Returns: The pair (values, indices), with the dtype of source and int32, both of shape (N, out_h, out_w, C), or (N,
C, out_h, out_w). Of several equal maxima, the index is that of the first. NaN is greater than any number. A
window that covers no pixel has index -1.
Gradient: max_pooling2d_gradient_from_indices if the indices identify the positions of the maxima, otherwise
max_pooling2d_gradient.
Source: MPSGraph maxPooling2DReturnIndicesWithSourceTensor:descriptor:name:; its mode none is max_pooling2d.
>>> x = g.reshape(g.constant([1.0, 2.0, 4.0, 3.0]), (1, 1, 2, 2))
>>> values, indices = g.max_pooling2d_return_indices(x, 2, data_layout="NCHW")
>>> g.run({}, values).item(), g.run({}, indices).item()
(4.0, 2))",
               pooling2d_arguments));
  describe("max_pooling2d_gradient_from_indices",
           "incoming, indices, output_shape: shape, kernel: window, strides: strides, *, return_indices_mode, "
           "padding: padding, dilations: sizes, data_layout, ceil_mode",
           DTypeClass::floats, R"(
Compute the gradient of max_pooling2d with respect to its source, from the indices of the forward pass.

The result starts as zeros, and each element of incoming is added at the position that its index points to.
Indices that point outside the image, or with NCHW outside the channel, are skipped.

Args:
    indices: Integer indices with the shape of incoming, from max_pooling2d_return_indices.
Gradient: to incoming, the elements of the incoming gradient that the indices point to.
Source: MPSGraph maxPooling2DGradientWithGradientTensor:indicesTensor:outputShape:descriptor:name: and its
variant with outputShapeTensor:.
>>> d, indices = g.constant(5.0, (1, 1, 1, 1)), g.constant(2, (1, 1, 1, 1), mg.int32)
>>> g.run({}, g.max_pooling2d_gradient_from_indices(d, indices, (1, 2, 2, 1), 2)).numpy().ravel().tolist()
[0.0, 0.0, 5.0, 0.0])");
  describe("max_pooling4d_return_indices",
           "source, kernel: window, strides: strides, *, return_indices_mode, "
           "padding: padding, dilations: sizes, ceil_mode -> tuple[Tensor, Tensor]",
           DTypeClass::floats,
           cat(R"(
Compute the maximum of each window over the last four axes, and the index of its first occurrence.

values = max_pooling4d(source); indices = the position of each maximum, counted as by
max_pooling2d_return_indices.

Args:
    source: Floating-point tensor of rank 4 or higher.
    return_indices_mode: "global_flatten_<k>d", for k from 1 to 4, counts elements of the source over its last k
        axes; "local_flatten_<k>d" counts positions in the window, including padding.
Returns: The pair (values, indices), with the dtype of source and int32, both of the same shape.
Gradient: max_pooling4d_gradient_from_indices if the indices identify the positions of the maxima, otherwise
max_pooling4d_gradient.
Source: MPSGraph maxPooling4DReturnIndicesWithSourceTensor:descriptor:name:.
>>> x = g.reshape(g.constant([1.0, 2.0, 4.0, 3.0]), (1, 2, 1, 2))
>>> values, indices = g.max_pooling4d_return_indices(x, (1, 2, 1, 2))
>>> g.run({}, values).item(), g.run({}, indices).item()
(4.0, 2))",
               pooling4d_arguments));
  describe("max_pooling4d_gradient_from_indices",
           "incoming, indices, output_shape: shape, kernel: window, strides: strides, *, return_indices_mode, "
           "padding: padding, dilations: sizes, ceil_mode",
           DTypeClass::floats, R"(
Compute the gradient of max_pooling4d with respect to its source, from the indices of the forward pass.

The result starts as zeros, and each element of incoming is added at the position that its index points to.
Indices that point outside the window axes are skipped.

Args:
    indices: Integer indices with the shape of incoming, from max_pooling4d_return_indices.
Gradient: to incoming, the elements of the incoming gradient that the indices point to.
Source: MPSGraph maxPooling4DGradientWithGradientTensor:indicesTensor:outputShape:descriptor:name: and its
variant with outputShapeTensor:.
>>> d, indices = g.constant(5.0, (1, 1, 1, 1)), g.constant(2, (1, 1, 1, 1), mg.int32)
>>> y = g.max_pooling4d_gradient_from_indices(d, indices, (1, 2, 2, 1), (1, 2, 2, 1))
>>> g.run({}, y).numpy().ravel().tolist()
[0.0, 0.0, 5.0, 0.0])");
});

}  // namespace mpsgraph::ops
