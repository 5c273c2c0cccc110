// Node family loss: MPSCNNLossNode, whose result is already the gradient; MPSNNForwardLossNode, which takes labels as
// images, and its gradient filter; and MPSNNInitialGradientNode.
//
// With prediction y, label t, and weight w:
//   result of a loss node = w * dloss/dy, loss image = reduction of w * loss
// As in Apple's implementation, the reduction does not scale the gradient; for a mean over n elements, set the weight
// to 1/n.
#include "nngraph/loss.h"

#include <algorithm>

#include "mpsgraph/core/gradients.h"

namespace mpsgraph::nngraph {
namespace {

constexpr std::string_view loss_types[] = {"mean_absolute_error",
                                           "mean_squared_error",
                                           "softmax_cross_entropy",
                                           "sigmoid_cross_entropy",
                                           "categorical_cross_entropy",
                                           "hinge",
                                           "huber",
                                           "cosine_distance",
                                           "log",
                                           "kullback_leibler_divergence"};

Tensor* abs(Builder& b, Tensor* x) { return b.binary("maximum", x, b.neg(x)); }

// Return log(1 + e^-|y|).
Tensor* tail(Builder& b, Tensor* y) { return b.unary("logarithm", b.add(b.unary("exponent", b.neg(abs(b, y))), 1)); }

// A label of 0 has no loss, even where the prediction's logarithm is infinite.
Tensor* times_log(Builder& b, Tensor* t, Tensor* y) {
  Tensor* zero = b.scalar_like(t, 0);
  Tensor* none = b.binary("equal", t, zero);
  Tensor* safe = b.select(none, b.scalar_like(y, 1), y);
  return b.select(none, zero, b.mul(t, b.unary("logarithm", safe)));
}

}  // namespace

Losses losses_of(const LossTerms& terms, Builder& b, Tensor* y, Tensor* t) {
  const std::string& type = terms.type;
  const double s = terms.label_smoothing;
  const auto smoothed = [&](double to) { return s > 0 ? b.add(b.mul(t, 1 - s), s * to) : t; };
  if (type == "mean_absolute_error") {
    Tensor* d = b.sub(y, t);
    return {abs(b, d), b.unary("sign", d)};
  }
  if (type == "mean_squared_error") {
    Tensor* d = b.sub(y, t);
    return {b.unary("square", d), b.mul(d, 2)};
  }
  if (type == "softmax_cross_entropy") {
    t = smoothed(1 / static_cast<double>(terms.number_of_classes));
    const Attributes axis{{"axis", int64_t{-1}}};
    Tensor* log_share = b.graph().add("log_softmax", {y}, axis);
    return {b.neg(b.mul(t, log_share)), b.sub(b.graph().add("softmax", {y}, axis), t)};
  }
  if (type == "sigmoid_cross_entropy") {
    t = smoothed(0.5);
    Tensor *rest = tail(b, y), *product = b.mul(y, t);
    Tensor* loss = b.add(b.sub(b.unary("relu", y), product), rest);
    return {loss, b.sub(b.unary("sigmoid", y), t)};
  }
  if (type == "categorical_cross_entropy") {
    Tensor* loss = b.neg(times_log(b, t, y));
    Tensor *quotient = b.div(t, y), *zero = b.scalar_like(t, 0);
    return {loss, b.neg(b.select(b.binary("equal", t, b.scalar_like(t, 0)), zero, quotient))};
  }
  if (type == "hinge") {  // labels are 0 or 1; `side` is -1 for label 1 and 1 for label 0
    Tensor* side = b.sub(1, b.mul(t, 2));
    Tensor* margin = b.add(b.mul(side, y), 1);
    Tensor* zero = b.scalar_like(y, 0);
    return {b.binary("maximum", margin, zero), b.select(b.binary("greater_than", margin, zero), side, zero)};
  }
  if (type == "huber") {
    Tensor *d = b.sub(y, t), *size = abs(b, d);
    Tensor* near = b.mul(b.unary("square", d), 0.5);
    Tensor* far = b.mul(b.sub(size, 0.5 * terms.delta), terms.delta);
    Tensor* slope = b.graph().add("clamp", {d, b.scalar_like(d, -terms.delta), b.scalar_like(d, terms.delta)});
    return {b.select(b.binary("less_than_or_equal_to", size, b.scalar_like(size, terms.delta)), near, far), slope};
  }
  if (type == "cosine_distance")  // the loss is 1 - sum(y t); reduced_loss adds the 1 after the sum
    return {b.neg(b.mul(y, t)), b.neg(t)};
  if (type == "log") {
    Tensor *p = b.add(y, terms.epsilon), *q = b.add(b.sub(1, y), terms.epsilon), *u = b.sub(1, t);
    Tensor* of_q = b.mul(u, b.unary("logarithm", q));
    Tensor* loss = b.neg(b.add(b.mul(t, b.unary("logarithm", p)), of_q));
    Tensor* slope_of_p = b.div(t, p);
    return {loss, b.sub(b.div(u, q), slope_of_p)};
  }
  if (type == "kullback_leibler_divergence") {  // The prediction y is a log-probability.
    Tensor* product = b.mul(t, y);
    return {b.sub(times_log(b, t, t), product), b.neg(t)};
  }
  throw GraphError(cat("unknown loss type '", type, "'"));
}

Tensor* reduced_loss(const LossTerms& terms, Builder& b, Tensor* loss, Tensor* weights) {
  Tensor* sum = nullptr;
  const Shape& shape = loss->shape();
  const auto images = static_cast<double>(shape[0]);
  double count = static_cast<double>(shape[1]) * static_cast<double>(shape[2]);
  if (terms.type != "softmax_cross_entropy") count *= static_cast<double>(shape[3]);
  if (terms.reduction == "none") return loss;
  sum = b.sum(loss, terms.reduce_across_batch ? Ints{0, 1, 2, 3} : Ints{1, 2, 3});
  if (terms.type == "cosine_distance") sum = b.add(sum, terms.reduce_across_batch ? images : 1.0);
  if (terms.reduction == "mean") sum = b.mul(sum, 1 / (terms.reduce_across_batch ? count * images : count));
  if (terms.reduction == "sum_by_nonzero_weights") {
    Tensor* counted = weights ? weights : b.filled(loss->type, terms.weight);
    Tensor* nonzero = b.cast(b.binary("not_equal", counted, b.scalar_like(counted, 0)), DType::float32);
    nonzero = b.broadcast_like(nonzero, loss);
    Tensor* number = b.sum(nonzero, terms.reduce_across_batch ? Ints{0, 1, 2, 3} : Ints{1, 2, 3});
    sum = b.binary("division_no_nan", sum, number);
  }
  if (!terms.reduce_across_batch || shape[0] == 1) return sum;
  // With reduce_across_batch, the first image holds the loss of the whole batch and all other images hold 0.
  return b.graph().add("pad", {sum}, {{"left", Ints{0, 0, 0, 0}}, {"right", Ints{shape[0] - 1, 0, 0, 0}}});
}

LossTerms loss_terms(const Attributes& a) {
  return {a.string("loss_type"),
          a.string("reduction_type"),
          a.boolean("reduce_across_batch"),
          a.real("weight"),
          a.real("label_smoothing"),
          a.integer("number_of_classes"),
          a.real("epsilon"),
          a.real("delta")};
}

std::vector<AttributeSpec> loss_attributes() {
  return {required("loss_type", AttributeKind::string),
          optional("reduction_type", std::string("none")),
          optional("reduce_across_batch", false),
          optional("weight", 1.0),
          optional("label_smoothing", 0.0),
          optional("number_of_classes", int64_t{1}),
          optional("epsilon", 1e-7),
          optional("delta", 1.0)};
}

void check_loss(const FilterNode& node) {
  const LossTerms terms = loss_terms(node.attributes());
  const auto refuse = [&](const std::string& message) {
    throw GraphError(cat("[", node.title(), "] ", message, node.where()));
  };
  if (std::find(std::begin(loss_types), std::end(loss_types), terms.type) == std::end(loss_types)) {
    std::string names;
    for (std::string_view type : loss_types) names += cat(names.empty() ? "" : ", ", type);
    refuse(cat("unknown loss type '", terms.type, "'; must be one of ", names));
  }
  constexpr std::string_view reductions[] = {"none", "sum", "mean", "sum_by_nonzero_weights"};
  if (std::find(std::begin(reductions), std::end(reductions), terms.reduction) == std::end(reductions))
    refuse(
        cat("unknown reduction type '", terms.reduction, "'; must be one of none, sum, mean, sum_by_nonzero_weights"));
  if (terms.type == "cosine_distance" && terms.reduction != "sum")
    refuse("reduction_type must be \"sum\" for a cosine distance, which is a sum over the image");
  if (!(terms.label_smoothing >= 0 && terms.label_smoothing < 1))
    refuse(cat("label_smoothing must be in [0, 1), got ", terms.label_smoothing));
  if (terms.number_of_classes < 1) refuse(cat("number_of_classes must be at least 1, got ", terms.number_of_classes));
}

namespace {

// Labels may be padded to a multiple of four channels. Remove the padding so that they have as many channels as the
// predictions.
Tensor* matched(const Lowering& l, Tensor* labels, std::string_view what) {
  const Dims& y = l.sources[0]->shape().dims();
  Dims t = labels->shape().dims();
  const bool filled = t.size() == 4 && t[3] > y[3] && t[3] == (y[3] + 3) / 4 * 4;
  if (filled) {
    labels =
        l.add("slice", {labels},
              {{"starts", Ints{0, 0, 0, 0}}, {"ends", Ints{t[0], t[1], t[2], y[3]}}, {"strides", Ints{1, 1, 1, 1}}});
    t[3] = y[3];
  }
  const bool one = what == "weights" && t == Dims{y[0], 1, 1, 1};
  if (t != y && !one)
    l.shape_error(cat(std::string(what), " must have the shape of the images ", l.sources[0]->shape(), ", got ",
                      labels->shape()));
  return labels;
}

Tensor* lower_loss(Lowering& l) {
  const LossTerms terms = loss_terms(l.attributes());
  Tensor *t = l.fed("labels"), *w = l.fed("weights");
  t = matched(l, t, "labels");
  if (w) w = matched(l, w, "weights");
  Losses losses = losses_of(terms, l.b, l.sources[0], t);
  const auto weighted = [&](Tensor* x) {
    if (w) return l.b.mul(x, w);
    return terms.weight == 1 ? x : l.b.mul(x, terms.weight);
  };
  l.state["loss"] = reduced_loss(terms, l.b, weighted(losses.loss), w);
  return weighted(losses.gradient);
}

// Sources: logits, labels, and optionally weights.
Tensor* lower_forward_loss(Lowering& l) {
  const LossTerms terms = loss_terms(l.attributes());
  Tensor *y = l.sources[0], *t = matched(l, l.sources[1], "labels");
  Tensor* w = l.sources.size() > 2 ? matched(l, l.sources[2], "weights") : nullptr;
  Losses losses = losses_of(terms, l.b, y, t);
  Tensor* loss = w ? l.b.mul(losses.loss, w) : l.b.mul(losses.loss, terms.weight);
  l.state["weighted"] = loss;
  l.state["slope"] = w ? l.b.mul(losses.gradient, w) : l.b.mul(losses.gradient, terms.weight);
  return reduced_loss(terms, l.b, loss, w);
}

// Gradient of a forward loss. The gradient of the logits uses the loss's own formula; the gradients of labels and
// weights are derivatives of the element-wise loss. The reduction does not scale any of them.
Tensor* d_forward_loss(Lowering& l, Tensor* incoming, size_t i) {
  const LossTerms terms = loss_terms(l.attributes());
  Tensor* g = incoming;
  // The loss of the whole batch is stored in the first image, so the incoming gradient of the loss is taken from the
  // first image.
  if (terms.reduction != "none" && terms.reduce_across_batch)
    g = l.add("slice", {g}, {{"starts", Ints{0, 0, 0, 0}}, {"ends", Ints{1, 1, 1, 1}}, {"strides", Ints{1, 1, 1, 1}}});
  if (i == 0) return l.b.mul(l.state["slope"], g);
  Tensor* loss = l.state["weighted"];
  return gradients(loss, {l.sources[i]}, l.b.broadcast_like(g, loss))[0];
}

}  // namespace

const NodeFamily loss_family("loss", [] {
  NodeDefinition loss;
  loss.name = "loss";
  loss.apple = "MPSCNNLossNode";
  loss.first_macos = "10.13.4";
  loss.without = "its result is already the gradient";
  loss.attributes = loss_attributes();
  loss.states = {"labels", "weights"};
  loss.result_is_gradient = true;
  loss.lower = lower_loss;
  loss.check = check_loss;
  define_node(std::move(loss));

  NodeDefinition forward;
  forward.name = "forward_loss";
  forward.apple = "MPSNNForwardLossNode";
  forward.first_macos = "10.15";
  forward.apple_gradient = "MPSNNLossGradientNode";
  forward.min_sources = 2;
  forward.max_sources = 3;
  forward.attributes = loss_attributes();
  forward.lower = lower_forward_loss;
  forward.gradient = d_forward_loss;
  forward.check = check_loss;
  define_node(std::move(forward));

  NodeDefinition initial;
  initial.name = "initial_gradient";
  initial.apple = "MPSNNInitialGradientNode";
  initial.first_macos = "10.15";
  initial.without = "gradients start at this node";
  initial.lower = [](Lowering& l) { return l.b.filled(l.sources[0]->type, 1.0); };
  define_node(std::move(initial));
});

}  // namespace mpsgraph::nngraph
