// Fused layer normalization, created by the compiler's pass normalize, over `axis` and all following axes:
//
//   y, m, v = fused_layer_normalization(x, ...)            (x - m) / sqrt(v + epsilon) * gamma + beta
//   dx, dgamma, dbeta = fused_layer_normalization_gradient(g, x, m, v, ...)
//
// The gradient operation can take a residual, which is added to dx. It returns dgamma and dbeta only if has_sums is set
// and there is a gamma. Statistics, gamma, and beta are float32 even for half-precision data, and float64 for float64
// data.
#include "core/definition.h"
#include "core/ops/shape.h"

namespace mpsgraph::ops {
namespace {

// Type of a tensor with one number per normalized row if `of_rows` is set (mean and variance), otherwise with one
// number per element of a row (gamma and beta).
TensorType layer_type(const InferContext& c, size_t x, bool of_rows) {
  const Shape& shape = c.shape(x);
  Dims dims = shape.dims();
  const int axis = c.axis(c.attributes.integer("axis"), shape.rank());
  for (int i = 0; i < shape.rank(); ++i)
    if (of_rows == (i >= axis)) dims[i] = 1;
  return {c.dtype(x) == DType::float64 ? DType::float64 : DType::float32, Shape(dims)};
}

// Checks the operands in order, starting at `next`.
struct LayerOperands {
  const InferContext& c;
  size_t x, next;

  void like(std::string_view role, const TensorType& type) {
    if (next >= c.count())
      c.graph_error(
          cat("the attributes require the operand ", role, " at index ", next, ", got ", c.count(), " operand(s)"));
    if (c.dtype(next) != type.dtype || c.shape(next).elements() != type.shape.elements())
      c.shape_error(cat(role, " must be ", type, ", got ", c.type(next)));
    ++next;
  }
  void data(std::string_view role) { like(role, c.type(x)); }
  void row(std::string_view role) { like(role, layer_type(c, x, true)); }
  void parameter(std::string_view role) { like(role, layer_type(c, x, false)); }
  void end() const {
    if (c.count() != next) c.graph_error(cat("expected ", next, " operands, got ", c.count()));
  }
};

std::vector<TensorType> infer_fused_layer(const InferContext& c) {
  LayerOperands in{c, 0, 1};
  if (c.attributes.boolean("has_gamma")) in.parameter("gamma");
  if (c.attributes.boolean("has_beta")) in.parameter("beta");
  in.end();
  return {c.type(0), layer_type(c, 0, true), layer_type(c, 0, true)};
}

std::vector<TensorType> infer_fused_layer_gradient(const InferContext& c) {
  LayerOperands in{c, 1, 0};
  in.data("incoming gradient");
  in.data("source");
  for (std::string_view role : {"mean", "variance"}) in.row(role);
  if (c.attributes.boolean("has_gamma")) in.parameter("gamma");
  if (c.attributes.boolean("has_residual")) in.data("residual");
  in.end();
  std::vector<TensorType> types{c.type(1)};
  if (c.attributes.boolean("has_sums")) types.insert(types.end(), 2, layer_type(c, 1, false));
  return types;
}

void define_layer(Kind name, int min_inputs, int max_inputs, std::vector<std::string_view> flags, Infer infer) {
  OperationDefinition d;
  d.name = name;
  d.min_inputs = min_inputs;
  d.max_inputs = max_inputs;
  d.attributes = {required("axis", AttributeKind::integer), optional("epsilon", 1e-5)};
  for (std::string_view flag : flags) d.attributes.push_back(optional(flag, false));
  d.infer = std::move(infer);
  d.internal = true;
  define(std::move(d));
}

}  // namespace

const Family fused_layer_normalization_family("fused", [] {
  define_layer("fused_layer_normalization", 1, 3, {"has_gamma", "has_beta"}, infer_fused_layer);
  define_layer("fused_layer_normalization_gradient", 4, 6, {"has_gamma", "has_residual", "has_sums"},
               infer_fused_layer_gradient);
});

}  // namespace mpsgraph::ops
