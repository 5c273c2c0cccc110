// Softmax cross-entropy: -Σ labels log(softmax(source)) along an axis, and its gradient operation.
//
// Reduction "none" keeps the axis with size 1; "sum" and "mean" return a scalar, where the mean divides by the number
// of losses. Labels need not sum to one: with S = Σ labels the gradient is softmax(source) S - labels.
#include "core/definition.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

using Inputs = std::vector<Tensor*>;

// Infers the type of the loss. `source` is the index of the source among the operands, and the labels follow it. The
// index is 0 for the loss, and 1 for its gradient, whose operand 0 is the incoming gradient.
TensorType infer_loss(const InferContext& c, size_t source) {
  c.require_float(source);
  c.require_same_dtype();
  const std::string& reduction = c.attributes.string("reduction");
  if (reduction != "none" && reduction != "sum" && reduction != "mean") {
    c.graph_error(cat("reduction must be \"none\", \"sum\" or \"mean\", got \"", reduction, "\""));
  }
  const Shape &x = c.shape(source), &labels = c.shape(source + 1);
  if (!compatible(x, labels)) {
    c.shape_error(cat("labels must have the shape ", x, " of source, got ", labels,
                      ": convert class indices with one_hot first"));
  }
  Shape shape = merge(x, labels);
  int axis = shape.ranked() ? c.axis(c.attributes.integer("axis"), shape.rank()) : 0;
  if (reduction != "none") return {c.dtype(source), Shape(Dims{})};
  if (!shape.ranked()) return {c.dtype(source), shape};
  Dims dims = shape.dims();
  dims[axis] = 1;
  return {c.dtype(source), Shape(dims)};
}

std::vector<TensorType> infer_cross_entropy(const InferContext& c) { return {infer_loss(c, 0)}; }

std::vector<TensorType> infer_cross_entropy_gradient(const InferContext& c) {
  TensorType loss = infer_loss(c, 1);
  if (!compatible(c.shape(0), loss.shape)) {
    c.shape_error(cat("incoming gradient must have the shape ", loss.shape, " of the loss, got ", c.shape(0)));
  }
  return {{c.dtype(1), merge(c.shape(1), c.shape(2))}};
}

struct Loss {
  Builder& b;
  const Attributes& attributes;
  Tensor* source;

  int64_t axis() const { return attributes.integer("axis"); }
  bool is(std::string_view reduction) const { return attributes.string("reduction") == reduction; }

  // Returns x, divided by the number of losses if the reduction is "mean".
  Tensor* scaled(Tensor* x) const {
    if (!is("mean")) return x;
    if (!source->shape().ranked()) {
      Tensor* classes = b.reduced_count(source, {axis()});
      return b.div(x, b.div(b.reduced_count(source, {}), classes));
    }
    int rank = source->shape().rank();
    Ints others;
    for (int i = 0; i < rank; ++i) {
      if (i != (axis() + rank) % rank) others.push_back(i);
    }
    return others.empty() ? x : b.div(x, b.reduced_count(source, others));
  }
  Tensor* log_softmax() const { return b.graph().add("log_softmax", {source}, {{"axis", axis()}}); }
  Tensor* softmax() const { return b.graph().add("softmax", {source}, {{"axis", axis()}}); }
  Tensor* sum(Tensor* x) const { return b.sum(x, {axis()}); }
  Tensor* gradient(Tensor* incoming, Tensor* labels) const {
    return b.graph().add("softmax_cross_entropy_gradient", {incoming, source, labels}, attributes);
  }
};

Inputs cross_entropy_parts(Builder& b, const Inputs& in, const Attributes& a) {
  Loss loss{b, a, in[0]};
  // A class with label 0 contributes nothing, even if its log-probability is -infinity because its logit is -infinity.
  Tensor* nothing = b.scalar_like(in[1], 0);
  Tensor* products = b.mul(in[1], loss.log_softmax());
  Tensor* parts = b.select(b.binary("equal", in[1], nothing), nothing, products);
  Tensor* losses = b.neg(loss.sum(parts));
  return {loss.is("none") ? losses : loss.scaled(b.reshape(b.sum(losses), Ints{}))};
}

Inputs cross_entropy_gradient_parts(Builder& b, const Inputs& in, const Attributes& a) {
  Loss loss{b, a, in[1]};
  Tensor* total = loss.sum(in[2]);
  Tensor* slope = b.sub(b.mul(loss.softmax(), total), in[2]);
  return {b.mul(slope, loss.scaled(in[0]))};
}

void d_cross_entropy(GradientContext& c) {
  Builder b(c.graph());
  Loss loss{b, c.attributes(), c.input(0)};
  if (c.needs(0)) c.set(0, loss.gradient(c.incoming(), c.input(1)));
  if (c.needs(1)) {
    Tensor* incoming = loss.scaled(c.incoming());
    c.set(1, b.neg(b.mul(loss.log_softmax(), incoming)));
  }
}

// Derivative of the cross-entropy gradient r = u (s S - l), where l are the labels, u is the incoming gradient (divided
// by the number of losses for a mean), s = softmax(x), and S = Σ l. For an incoming gradient v of r:
//
//   du = Σ v (s S - l),  dx = softmax_gradient(u S v, x),  dl = u (Σ v s - v).
void d_cross_entropy_gradient(GradientContext& c) {
  Builder b(c.graph());
  Tensor *u = c.input(0), *x = c.input(1), *labels = c.input(2), *v = c.incoming();
  Loss loss{b, c.attributes(), x};
  if (c.needs(0)) c.set(0, b.sum_to_like(b.mul(v, loss.gradient(b.ones_like(u), labels)), u));
  if (c.needs(1)) {
    Tensor* total = loss.sum(labels);
    Tensor* ds = b.mul(v, b.mul(loss.scaled(u), total));
    c.set(1, b.graph().add("softmax_gradient", {ds, x}, {{"axis", loss.axis()}}));
  }
  if (c.needs(2)) {
    Tensor* incoming = loss.scaled(u);
    c.set(2, b.mul(b.sub(loss.sum(b.mul(v, loss.softmax())), v), incoming));
  }
}

void loss(Kind name, int operands, Infer infer, Gradient gradient, Decompose decompose) {
  OperationDefinition d;
  d.name = name;
  d.min_inputs = d.max_inputs = operands;
  d.attributes = {optional("axis", int64_t{-1}), optional("reduction", std::string("none"))};
  d.infer = std::move(infer);
  d.gradient = std::move(gradient);
  d.decompose = std::move(decompose);
  define(std::move(d));
}

}  // namespace

const Family loss_family("loss", [] {
  loss("softmax_cross_entropy", 2, infer_cross_entropy, d_cross_entropy, cross_entropy_parts);
  loss("softmax_cross_entropy_gradient", 3, infer_cross_entropy_gradient, d_cross_entropy_gradient,
       cross_entropy_gradient_parts);

  describe("softmax_cross_entropy", "source, labels, axis, reduction = sum", DTypeClass::floats, R"(
Compute the cross-entropy between labels and the softmax of source, in nats.

loss = -sum along `axis` of labels * log_softmax(source). The result is the losses, their sum, or their mean.

Args:
    source: Floating-point logits.
    labels: Probabilities or one-hot vectors, with the shape and dtype of source.
    axis: Axis of the classes; negative values count from the end.
    reduction: "none" (one loss for each vector of logits, keeping the axis with size 1), "sum" (the default),
        or "mean".
Returns: A tensor with the dtype of source, of rank 0 unless reduction is "none".
Raises:
    ShapeError: If the shapes differ or axis is out of range.
    DTypeError: If the dtypes differ or are not floating-point.
    GraphError: If reduction has an unknown value.
Gradient: computed by softmax_cross_entropy_gradient for source; -incoming gradient * log_softmax(source) for
labels.
Source: MPSGraph softMaxCrossEntropyWithSourceTensor:labelsTensor:axis:reductionType:name:.
>>> logits, labels = g.constant([[100.0, 0.0]]), g.constant([[0.0, 1.0]])
>>> g.run({}, g.softmax_cross_entropy(logits, labels, reduction="mean")).item()
100.0)");
  describe("softmax_cross_entropy_gradient", "incoming, source, labels, axis, reduction = sum", DTypeClass::floats, R"(
Compute the gradient of softmax_cross_entropy with respect to its source.

result = incoming * (softmax(source) * sum(labels) - labels), divided by the number of losses if reduction is
"mean".

Args:
    incoming: Gradient with respect to the loss, with the shape of the loss.
    source: The logits given to softmax_cross_entropy.
    axis: Axis of the classes; negative values count from the end.
Raises:
    ShapeError: If the shapes do not match or axis is out of range.
    DTypeError: If the dtypes differ or are not floating-point.
    GraphError: If reduction has an unknown value.
Gradient: to all operands.
Source: MPSGraph
softMaxCrossEntropyGradientWithIncomingGradientTensor:sourceTensor:labelsTensor:axis:reductionType:name:.
>>> logits, labels = g.constant([[3.0, 3.0]]), g.constant([[0.0, 1.0]])
>>> g.run({}, g.softmax_cross_entropy_gradient(g.constant(1.0), logits, labels)).tolist()
[[0.5, -0.5]])");
});

}  // namespace mpsgraph::ops
