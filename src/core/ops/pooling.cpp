// Family pooling: maximum and average over 2D windows, and their gradients.
//
// The gradient of a maximum goes to the first maximum of each window, in row-major order. Both gradients are linear in
// what comes in; their adjoints are max_pooling2d_at_maxima, which picks values at the positions of those maxima, and
// the average pooling itself. What is positions-only has derivative zero with respect to the source.
#include "core/ops/pooling.h"

#include "core/builder.h"
#include "core/ops/primitive.h"
#include "core/ops/shape.h"

namespace mpsgraph::ops {

namespace {

Pooling2d checked_pooling(const InferContext& context) {
  require_pair(context, "kernel", 1);
  const Pooling2d pooling(checked_windows(context), context.attributes);
  for (int i = 0; i < 2; ++i) {
    const int64_t reach = (pooling.kernel[i] - 1) * pooling.dilations[i] + 1;
    if (pooling.begin[i] >= reach || pooling.end[i] >= reach)
      context.shape_error(cat("padding ", to_string(context.attributes.integers("padding")),
                              " makes windows of padding only: kernel ",
                              to_string(context.attributes.integers("kernel")), " covers ", reach));
  }
  return pooling;
}

Shape pooled(const InferContext& context, const Pooling2d& pooling, const Shape& source) {
  const auto size = [&](int i) {
    return output_size(context, pooling, i, source[pooling.spatial[i]], pooling.kernel[i]);
  };
  const int64_t height = size(0), width = size(1);
  return image_shape(pooling, source[pooling.batch], source[pooling.channel], height, width);
}

std::vector<TensorType> infer_pooling(const InferContext& context) {
  context.require_float(0);
  return {{context.dtype(0), pooled(context, checked_pooling(context), image_dims(context, 0))}};
}

// (values, source): both have the source's shape.
std::vector<TensorType> infer_at_maxima(const InferContext& context) {
  context.require_float(0);
  context.require_same_dtype();
  const Pooling2d pooling = checked_pooling(context);
  const Shape values = image_dims(context, 0), source = image_dims(context, 1);
  if (!compatible(values, source))
    context.shape_error(cat("values and source must have one shape, came ", values, " and ", source));
  return {{context.dtype(0), pooled(context, pooling, merge(values, source))}};
}

// The source's shape for an incoming gradient; `stated` is what the other operand says of it.
Shape unpooled(const InferContext& context, const Pooling2d& pooling, const Shape& stated) {
  const Shape incoming = image_dims(context, 0);
  const Shape implied = image_shape(pooling, incoming[pooling.batch], incoming[pooling.channel], -1, -1);
  const Shape forward = pooled(context, pooling, stated);
  if (!compatible(forward, incoming))
    context.shape_error(cat("incoming gradient is ", incoming, ", the pooling of source ", stated, " is ", forward));
  return merge(stated, implied);
}

// (incoming, source)
std::vector<TensorType> infer_max_gradient(const InferContext& context) {
  context.require_float(0);
  context.require_same_dtype();
  return {{context.dtype(0), unpooled(context, checked_pooling(context), image_dims(context, 1))}};
}

// (incoming, input_shape)
std::vector<TensorType> infer_avg_gradient(const InferContext& context) {
  context.require_float(0);
  const Shape stated = stated_shape(context, 1, Dims(4, -1));
  return {{context.dtype(0), unpooled(context, checked_pooling(context), stated)}};
}

Tensor* add_like(GradientContext& g, std::string_view kind, std::vector<Tensor*> inputs) {
  return g.graph().add(kind, std::move(inputs), g.attributes());
}

void d_max_pooling(GradientContext& g) { g.set(0, add_like(g, "max_pooling2d_gradient", {g.incoming(), g.input(0)})); }

void d_max_pooling_gradient(GradientContext& g) {
  if (g.needs(0)) g.set(0, add_like(g, "max_pooling2d_at_maxima", {g.incoming(), g.input(1)}));
}

void d_max_pooling_at_maxima(GradientContext& g) {
  if (g.needs(0)) g.set(0, add_like(g, "max_pooling2d_gradient", {g.incoming(), g.input(1)}));
}

void d_avg_pooling(GradientContext& g) {
  Tensor* shape = Builder(g.graph()).shape_of(g.input(0));
  g.set(0, add_like(g, "avg_pooling2d_gradient", {g.incoming(), shape}));
}

void d_avg_pooling_gradient(GradientContext& g) {
  if (g.needs(0)) g.set(0, add_like(g, "avg_pooling2d", {g.incoming()}));
}

enum class Pooling { maximum, average };

OperationDefinition definition(Pooling pooling, std::string_view name, int inputs, Infer infer, Gradient gradient) {
  std::vector<AttributeSpec> attributes =
      window_attributes({required("kernel", AttributeKind::integers), required("strides", AttributeKind::integers),
                         optional("ceil_mode", false)});
  if (pooling == Pooling::average) attributes.push_back(optional("include_zero_pad_to_average", false));
  return primitive("pooling", name, inputs, std::move(attributes), std::move(infer), std::move(gradient));
}

}  // namespace

void register_pooling() {
  using enum Pooling;
  define(definition(maximum, "max_pooling2d", 1, infer_pooling, d_max_pooling));
  define(definition(maximum, "max_pooling2d_gradient", 2, infer_max_gradient, d_max_pooling_gradient));

  OperationDefinition at_maxima =
      definition(maximum, "max_pooling2d_at_maxima", 2, infer_at_maxima, d_max_pooling_at_maxima);
  at_maxima.internal = true;
  define(std::move(at_maxima));

  define(definition(average, "avg_pooling2d", 1, infer_pooling, d_avg_pooling));
  define(definition(average, "avg_pooling2d_gradient", 2, infer_avg_gradient, d_avg_pooling_gradient));
}

}  // namespace mpsgraph::ops
