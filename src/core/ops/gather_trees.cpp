// The internal operation tree_ensemble of the family gather: an ensemble of decision trees. Every row of x traverses
// every tree.
//
//   tree_ensemble(x [n, features], features, yes, no int32 [nodes], splits [nodes], missing bool [nodes],
//                 roots int32 [trees], weights [nodes, targets]) -> [n, targets]
//
// The dtype of splits is that of x, and the dtype of the result is that of weights. In each tree, a row starts at the
// root and moves `depth` times from node i to a child. The child is yes[i] if x[features[i]] <= splits[i] (< if
// comparison is "less_than"), or if the value is NaN and missing[i] is true; otherwise it is no[i]. Leaves point to
// themselves. The weights of the reached leaves are reduced over the trees by sum, minimum, or maximum (`reduction`).
// The leaf that a row reaches is a step function of x, so the derivative is zero. ONNX models contain such trees.
#include "core/ops/primitive.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

std::vector<TensorType> infer_trees(const InferContext& c) {
  constexpr std::string_view names[] = {"x", "features", "yes", "no", "splits", "missing", "roots", "weights"};
  for (size_t i : {1, 2, 3, 4, 5, 6}) c.require_rank(i, 1);
  c.require_rank(0, 2);
  c.require_rank(7, 2);
  const Shape nodes = {c.shape(1).ranked() ? c.shape(1)[0] : -1};
  for (size_t i : {1, 2, 3, 6})
    if (c.dtype(i) != DType::int32) c.dtype_error(cat(names[i], " must be int32, got ", c.type(i)));
  for (size_t i : {0, 7})
    if (c.dtype(i) != DType::float32 && c.dtype(i) != DType::float64)
      c.dtype_error(cat(names[i], " must be float32 or float64, got ", c.type(i)));
  if (c.dtype(4) != c.dtype(0)) c.dtype_error(cat("splits must have the dtype ", c.dtype(0), " of x, got ", c.type(4)));
  if (c.dtype(5) != DType::boolean) c.dtype_error(cat("missing must be bool, got ", c.type(5)));
  for (size_t i : {2, 3, 4, 5})
    if (!compatible(c.shape(i), nodes))
      c.shape_error(cat(names[i], " must have the shape ", nodes, " of features, got ", c.shape(i)));
  if (c.shape(7).ranked() && !compatible(Shape{c.shape(7)[0]}, nodes))
    c.shape_error(cat("weights must have one row for each element of features ", nodes, ", got ", c.shape(7)));
  if (c.attributes.integer("depth") < 0)
    c.graph_error(cat("depth must be at least 0, got ", c.attributes.integer("depth")));
  const std::string &comparison = c.attributes.string("comparison"), &reduction = c.attributes.string("reduction");
  if (comparison != "less_than_or_equal_to" && comparison != "less_than")
    c.graph_error(cat("comparison must be less_than_or_equal_to or less_than, got '", comparison, "'"));
  if (reduction != "sum" && reduction != "minimum" && reduction != "maximum")
    c.graph_error(cat("reduction must be sum, minimum or maximum, got '", reduction, "'"));
  const auto size = [&](size_t input, int axis) { return c.shape(input).ranked() ? c.shape(input)[axis] : -1; };
  return {{c.dtype(7), Shape{size(0, 0), size(7, 1)}}};
}

std::vector<Tensor*> tree_parts(Builder& b, const std::vector<Tensor*>& in, const Attributes& a) {
  Graph& g = b.graph();
  Tensor *x = in[0], *weights = in[7];
  const auto of_nodes = [&](size_t table, Tensor* at) {
    return g.add("gather", {in[table], at}, {{"axis", int64_t{0}}});
  };
  const int64_t rows = x->shape()[0], trees = in[6]->shape()[0];
  Tensor* shape = b.ints({rows, trees});
  Tensor* at = b.broadcast_to(b.reshape(in[6], {1, trees}), shape);
  for (int64_t step = 0; step < a.integer("depth"); ++step) {
    Tensor* value = g.add("gather_along_axis", {x, of_nodes(1, at)}, {{"axis", int64_t{1}}});
    Tensor* taken = b.binary(kind_named(a.string("comparison")), value, of_nodes(4, at));
    Tensor* takes_nan = of_nodes(5, at);
    taken = b.binary("logical_or", taken, b.binary("logical_and", b.unary("is_nan", value), takes_nan));
    Tensor* otherwise = of_nodes(3, at);
    at = b.select(taken, of_nodes(2, at), otherwise);
  }
  Tensor* given = of_nodes(7, at);  // weights of the reached leaves, of shape [n, trees, targets]
  const std::string& reduction = a.string("reduction");
  const std::string kind = cat("reduction_", reduction, reduction == "sum" ? "" : "_propagate_nan");
  Tensor* all = g.add(kind_named(kind), {given}, {{"axes", Ints{1}}});
  return {b.reshape(all, {rows, weights->shape()[1]})};
}

}  // namespace

const Family gather_trees_family("gather", [] {
  OperationDefinition d = primitive(
      "tree_ensemble", 8,
      {required("depth", AttributeKind::integer), optional("comparison", std::string("less_than_or_equal_to")),
       optional("reduction", std::string("sum"))},
      infer_trees, nullptr);
  d.gradient_is_zero = true;
  d.decompose = tree_parts;
  d.internal = true;
  define(std::move(d));
});

}  // namespace mpsgraph::ops
