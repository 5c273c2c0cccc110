// Operation family scatter_nd: combines updates into a tensor at given indices, in one of seven modes.
//
//   scatter             result[..., indices[i], ...] ∘= updates[..., i, ...]      at `axis`
//   scatter_nd          result[b..., indices[b..., i..., 0], ..., r...] ∘= updates[b..., i..., r...]
//   scatter_along_axis  result[..., indices[..., i, ...], ...] ∘= updates[..., i, ...]      at `axis`
//
// where result starts as data, and ∘ is add, sub, mul, div, min, max, or set. Updates of the same element are applied
// in order. An update with an out-of-range index is dropped, unless out_of_range is "clip" or "error". The derivative
// of each scatter uses the corresponding gather: the gradient of the updates gathers the incoming gradient at the
// elements that the updates were written to, and the gradient of data is the incoming gradient where data still affects
// the result.
#include <algorithm>

#include "core/ops/indices.h"
#include "core/ops/out_of_range.h"
#include "core/ops/primitive.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {

namespace {

constexpr std::string_view scatter_modes[] = {"add", "sub", "mul", "div", "min", "max", "set"};

// Checks the operands of a scatter (data, updates, indices) and returns the result type. The updates must have the
// shape `forward`.
std::vector<TensorType> result_of(const InferContext& context, const Shape& forward) {
  const std::string& mode = context.attributes.string("mode");
  if (std::find(std::begin(scatter_modes), std::end(scatter_modes), mode) == std::end(scatter_modes))
    context.graph_error(cat("mode must be add, sub, mul, div, min, max or set, got '", mode, "'"));
  context.require_same_dtype(0, 2);
  require_indices(context, 2);
  if (context.dtype(0) == DType::boolean && mode != "set")
    context.dtype_error(
        cat("mode ", mode, " requires numeric data, got bool: cast it to int32 first, or use mode set"));
  if (is_complex(context.dtype(0)) && mode != "add" && mode != "sub" && mode != "set")
    context.dtype_error(
        cat("mode ", mode, " does not support complex data, got ", context.dtype(0), ": use mode add, sub or set"));
  if (!compatible(forward, context.shape(1)))
    context.shape_error(cat("updates must have shape ", forward, " for indices ", context.shape(2), " into data ",
                            context.shape(0), ", got ", context.shape(1)));
  check_out_of_range(context);
  return {context.type(0)};
}

std::vector<TensorType> infer_scatter(const InferContext& context) {
  context.require_rank(2, 1);
  Shape forward = context.shape(0);
  if (forward.ranked()) {
    Dims dims = forward.dims();
    const int axis = context.axis(context.attributes.integer("axis"), forward.rank());
    dims[axis] = context.shape(2).ranked() ? context.shape(2)[0] : -1;
    forward = Shape(dims);
  }
  return result_of(context, forward);
}

std::vector<TensorType> infer_scatter_nd(const InferContext& context) {
  return result_of(context, gathered_nd(context, context.shape(0), 2));
}

std::vector<TensorType> infer_scatter_along_axis(const InferContext& context) {
  return result_of(context, gathered_along_axis(context, context.shape(0), 2, context.attributes.integer("axis")));
}

std::vector<TensorType> infer_scatter_along_axis_unvalued(const InferContext& context) {
  return result_of(context, gathered_along_axis(context, context.shape(0), 2, {}));
}

class Rule {
 public:
  Rule(GradientContext& g, Kind gather)
      : g_(g), gather_(gather), b_(g.graph()), data_(g.input(0)), updates_(g.input(1)) {}

  void apply() {
    const std::string& mode = g_.attributes().string("mode");
    if (mode == "add" || mode == "sub") return sum(mode == "sub");
    if (mode == "mul") return product();
    if (mode == "div") return quotient();
    if (mode == "set") return replacement();
    extremum();
  }

 private:
  Tensor* scattered(Tensor* data, Tensor* updates, std::string_view mode) {
    Attributes attributes = g_.attributes();
    attributes.set("mode", std::string(mode));
    return g_.add_alike(g_.operation.kind(), {data, updates, g_.input(2)}, attributes);
  }
  Tensor* gathered(Tensor* x) {
    Attributes attributes = g_.attributes();
    attributes.erase("mode");
    convert_out_of_range(attributes, gather_);
    return g_.add_alike(gather_, {x, g_.input(2)}, attributes);
  }
  Tensor* zero() { return b_.scalar_like(data_, 0); }

  void sum(bool subtracted) {
    g_.set(0, g_.incoming());
    if (g_.needs(1)) g_.set(1, subtracted ? b_.neg(gathered(g_.incoming())) : gathered(g_.incoming()));
  }

  // Mode mul: the result is the product of data and all updates of the same element, so the derivative with respect to
  // an update is the product of all other factors. If one factor is zero, only that factor has a nonzero derivative; if
  // several factors are zero, all derivatives are zero.
  void product() {
    if (g_.needs(0)) g_.set(0, b_.mul(g_.incoming(), scattered(b_.ones_like(data_), updates_, "mul")));
    if (!g_.needs(1)) return;
    Tensor* is_zero = b_.binary("equal", updates_, zero());
    Tensor* others = b_.select(is_zero, b_.scalar_like(updates_, 1), updates_);
    Tensor* counted = b_.cast(is_zero, data_->dtype());
    Tensor* zeros = scattered(b_.zeros_like(data_), counted, "add");
    Tensor* product = scattered(b_.ones_like(data_), others, "mul");
    Tensor* factor = b_.mul(b_.mul(g_.incoming(), data_), product);
    Tensor* none = zero();
    Tensor* at_zero = gathered(b_.select(b_.binary("equal", zeros, b_.scalar_like(zeros, 1)), factor, none));
    Tensor* elsewhere = gathered(b_.select(b_.binary("equal", zeros, none), factor, none));
    g_.set(1, b_.select(is_zero, at_zero, b_.div(elsewhere, others)));
  }

  void quotient() {
    Tensor* divided = scattered(b_.ones_like(data_), updates_, "div");
    if (g_.needs(0)) g_.set(0, b_.mul(g_.incoming(), divided));
    if (g_.needs(1)) {
      Tensor* result = b_.mul(data_, divided);
      g_.set(1, b_.neg(b_.div(gathered(b_.mul(g_.incoming(), result)), updates_)));
    }
  }

  // Modes min and max: data and updates that attain the extremum share the gradient equally.
  void extremum() {
    Tensor* result = g_.output();
    const DType dtype = data_->dtype();
    Tensor* data_wins = b_.binary("equal", data_, result);
    Tensor* update_wins = b_.binary("equal", updates_, gathered(result));
    Tensor* winners = b_.cast(update_wins, dtype);
    Tensor* count = scattered(b_.cast(data_wins, dtype), winners, "add");
    Tensor* share = b_.binary("division_no_nan", g_.incoming(), count);
    if (g_.needs(0)) g_.set(0, b_.select(data_wins, share, zero()));
    if (!g_.needs(1)) return;
    Tensor* none = zero();
    g_.set(1, b_.select(update_wins, gathered(share), none));
  }

  // Mode set: the last update of an element wins. To find it, each update is numbered, starting from 1, and the numbers
  // are scattered to the same indices.
  void replacement() {
    if (g_.needs(0)) g_.set(0, scattered(g_.incoming(), b_.zeros_like(updates_), "set"));
    if (!g_.needs(1)) return;
    Tensor* shape = b_.shape_of(updates_);
    Tensor* flat = b_.reshape(updates_, Ints{-1});
    Tensor* position = g_.graph().add("coordinate_along_axis", {b_.shape_of(flat)}, {{"axis", int64_t{0}}});
    Tensor* number = b_.reshape(b_.add(position, 1), shape);
    Tensor* whole = b_.shape_of(data_);
    Tensor* unclaimed = b_.broadcast_to(b_.scalar(DType::int32, 0), whole);
    Tensor* wins = b_.binary("equal", gathered(scattered(unclaimed, number, "set")), number);
    Tensor* none = zero();
    g_.set(1, b_.select(wins, gathered(g_.incoming()), none));
  }

  GradientContext& g_;
  const Kind gather_;
  Builder b_;
  Tensor *data_, *updates_;
};

Gradient rule(Kind gather) {
  return [gather](GradientContext& g) { Rule(g, gather).apply(); };
}

}  // namespace

const Family scatter_nd_family("scatter_nd", [] {
  const AttributeSpec mode = optional("mode", std::string("add")), axis = optional("axis", int64_t{0}),
                      outside = out_of_range_of_scatter();
  define(primitive("scatter", 3, {axis, mode, outside}, infer_scatter, rule("gather")));
  define(primitive("scatter_nd", 3, {optional("batch_dimensions", int64_t{0}), mode, outside}, infer_scatter_nd,
                   rule("gather_nd")));
  OperationDefinition along =
      primitive("scatter_along_axis", 3, {axis, mode, outside}, infer_scatter_along_axis, rule("gather_along_axis"));
  along.tensor_attributes = {"axis"};
  along.infer_unvalued = infer_scatter_along_axis_unvalued;
  define(std::move(along));
});

}  // namespace mpsgraph::ops
