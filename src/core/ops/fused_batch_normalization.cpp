// Fused batch normalization, created by the compiler's pass normalize, for data with channels along `axis`:
//
//   m, v = fused_batch_moments(x)                     mean and variance of each channel
//   y = fused_batch_normalization(x, m, v, ...)       activation((x - m) * scale + beta + residual)
//   dgamma, dbeta, masked = fused_batch_normalization_sums(g, x, m, v, ...)
//   dx = fused_batch_normalization_gradient(g, x, m, v, dgamma, dbeta, ...)
//
// with scale = gamma / sqrt(v + epsilon). The last two operations can first multiply g by the derivative of a relu. The
// attribute mask is "computed" if the relu's result is recomputed from the normalization, and "given" if that result is
// an operand. With "given", `masked` is the product of g and the derivative of the relu. Per-channel tensors are
// float32, with size 1 on all other axes; gamma and beta may omit leading axes of size 1.
#include <algorithm>

#include "core/definition.h"
#include "core/ops/shape.h"

namespace mpsgraph::ops {
namespace {

TensorType channel_type(const InferContext& c, size_t x) {
  const Shape& shape = c.shape(x);
  Dims dims(shape.rank(), 1);
  const int axis = c.axis(c.attributes.integer("axis"), shape.rank());
  dims[axis] = shape[axis];
  return {DType::float32, Shape(dims)};
}

// Checks operands one after the other. Each must have the type of x (`data`) or hold one number per channel
// (`channels`).
struct OperandCheck {
  const InferContext& c;
  size_t x;
  size_t next = 0;

  void data(std::string_view role) {
    present(role);
    if (c.type(next) != c.type(x))
      c.shape_error(cat(role, " must have the type ", c.type(x), " of the source, got ", c.type(next)));
    ++next;
  }
  void channels(std::string_view role) {
    present(role);
    const TensorType one = channel_type(c, x);
    if (c.dtype(next) != DType::float32 || c.shape(next).elements() != one.shape.elements())
      c.shape_error(cat(role, " must be ", one, ", got ", c.type(next)));
    ++next;
  }
  void present(std::string_view role) const {
    if (next >= c.count())
      c.graph_error(
          cat("the attributes require the operand ", role, " at index ", next, ", got ", c.count(), " operand(s)"));
  }
  void end() const {
    if (c.count() != next) c.graph_error(cat("expected ", next, " operands, got ", c.count()));
  }
};

bool flag(const InferContext& c, std::string_view name) { return c.attributes.boolean(name); }

void one_of(const InferContext& c, std::string_view attribute, std::initializer_list<std::string_view> allowed) {
  const std::string& value = c.attributes.string(attribute);
  if (std::find(allowed.begin(), allowed.end(), value) == allowed.end())
    c.graph_error(cat("attribute '", attribute, "' does not support the value '", value, "'"));
}

std::vector<TensorType> infer_moments(const InferContext& c) { return {channel_type(c, 0), channel_type(c, 0)}; }

std::vector<TensorType> infer_fused_normalization(const InferContext& c) {
  one_of(c, "activation", {"none", "relu"});
  OperandCheck in{c, 0, 1};
  for (std::string_view role : {"mean", "variance"}) in.channels(role);
  if (flag(c, "has_gamma")) in.channels("gamma");
  if (flag(c, "has_beta")) in.channels("beta");
  if (flag(c, "has_residual")) in.data("residual");
  in.end();
  return {c.type(0)};
}

std::vector<TensorType> infer_sums(const InferContext& c) {
  one_of(c, "mask", {"none", "computed", "given"});
  const bool given = c.attributes.string("mask") == "given";
  OperandCheck in{c, 1};
  in.data("incoming gradient");
  in.data("source");
  for (std::string_view role : {"mean", "variance"}) in.channels(role);
  if (flag(c, "has_gamma")) in.channels("gamma");
  if (flag(c, "has_beta")) in.channels("beta");
  if (given) in.data("mask (positive where the gradient passes)");
  if (flag(c, "has_second")) in.data("second part of the incoming gradient");
  in.end();
  std::vector<TensorType> types{channel_type(c, 1), channel_type(c, 1)};
  if (given) types.push_back(c.type(0));
  return types;
}

std::vector<TensorType> infer_fused_gradient(const InferContext& c) {
  one_of(c, "mask", {"none", "computed"});
  OperandCheck in{c, 1};
  in.data("incoming gradient");
  in.data("source");
  for (std::string_view role : {"mean", "variance", "gamma_gradient", "beta_gradient"}) in.channels(role);
  if (flag(c, "has_gamma")) in.channels("gamma");
  if (flag(c, "has_beta")) in.channels("beta");
  in.end();
  return {c.type(1)};
}

void define_internal(Kind name, int min_inputs, int max_inputs, std::vector<AttributeSpec> attributes, Infer infer) {
  OperationDefinition d;
  d.name = name;
  d.min_inputs = min_inputs;
  d.max_inputs = max_inputs;
  d.attributes = std::move(attributes);
  d.attributes.push_back(required("axis", AttributeKind::integer));
  d.infer = std::move(infer);
  d.internal = true;
  define(std::move(d));
}

}  // namespace

const Family fused_batch_normalization_family("fused", [] {
  const AttributeSpec epsilon = optional("epsilon", 1e-5), gamma = optional("has_gamma", false),
                      beta = optional("has_beta", false), mask = optional("mask", std::string("none"));
  define_internal("fused_batch_moments", 1, 1, {}, infer_moments);
  define_internal("fused_batch_normalization", 3, 6,
                  {epsilon, gamma, beta, optional("has_residual", false), optional("activation", std::string("none"))},
                  infer_fused_normalization);
  define_internal("fused_batch_normalization_sums", 4, 8, {epsilon, gamma, beta, mask, optional("has_second", false)},
                  infer_sums);
  define_internal("fused_batch_normalization_gradient", 6, 8, {epsilon, gamma, beta, mask}, infer_fused_gradient);
});

}  // namespace mpsgraph::ops
