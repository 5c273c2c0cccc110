// Node family yolo_loss: YOLOLossNode. The loss of bounding boxes predicted on a grid of cells with several anchors
// each.
//
// The channels of each anchor are x, y, w, h, confidence, and a score per class. Labels have the same layout: x and y
// are the center of the box within its cell, from 0 to 1; w and h are in cells; confidence is 1 if there is an object;
// exactly one class is 1. Every anchor of a cell has the label of the cell. The prediction is:
//   center sigmoid(x), sigmoid(y); size anchor * e^w, anchor * e^h; confidence sigmoid(c); classes softmax
//
// The overlap of an anchor is the intersection over union of its predicted box and the true box. In a cell with an
// object, the anchors responsible for the object are those with the largest overlap or with an overlap above
// min_iou_for_object_presence; they are trained on its box, confidence, and class. Anchors in cells without an object,
// and anchors whose overlap is below max_iou_for_object_absence, are trained toward confidence 0. With rescore, the
// target confidence is the overlap itself. The overlap is treated as a constant, without a gradient.
//
// Apple documents the scales and thresholds, but not which anchor is responsible. That rule follows Redmon and Farhadi,
// arXiv:1612.08242.
#include <algorithm>

#include "nngraph/loss.h"

namespace mpsgraph::nngraph {
namespace {

// The weighted loss of one group of channels (such as positions, sizes, confidences, or classes), and its gradient with
// respect to these channels.
struct Part {
  Tensor *loss, *gradient;
};

class Yolo {
 public:
  explicit Yolo(Lowering& l)
      : l_(l),
        b_(l.b),
        a_(l.attributes()),
        anchors_(a_.integer("number_of_anchor_boxes")),
        classes_(l.channels() / anchors_ - 5) {
    if (l.channels() % anchors_ != 0 || classes_ < 0)
      l.shape_error(cat("images must have ", anchors_, " * (5 + number of classes) channels for ", anchors_,
                        " anchor(s), got ", l.channels()));
    shape_ = {l.batch(), l.height(), l.width(), anchors_, 5 + classes_};
    predicted_ = b_.reshape(l.sources[0], shape_);
    Tensor* labels = l.fed("labels");
    if (labels->shape() != l.sources[0]->shape())
      l.shape_error(cat("labels must have the shape of the images ", l.sources[0]->shape(), ", got ", labels->shape()));
    labels_ = b_.reshape(labels, shape_);
  }

  Tensor* lower() {
    find_overlaps();
    std::vector<Part> parts{centre(), size(), confidence()};
    if (classes_ > 0) parts.push_back(classes());
    std::vector<Tensor*> gradients;
    Tensor* loss = nullptr;
    for (const Part& part : parts) {
      Tensor* sum = b_.sum(part.loss, {1, 2, 3, 4});
      loss = loss ? b_.add(loss, sum) : sum;
      gradients.push_back(part.gradient);
    }
    const double weight = a_.real("weight");
    l_.state["loss"] = b_.mul(b_.reshape(loss, Ints{l_.batch(), 1, 1, 1}), weight);
    Tensor* gradient = b_.mul(l_.add("concat", gradients, {{"axis", int64_t{4}}}), weight);
    return b_.reshape_like(gradient, l_.sources[0]);
  }

 private:
  Tensor* channels(Tensor* x, int64_t first, int64_t count) const {
    Ints ends(x->shape().dims().begin(), x->shape().dims().end());
    ends[4] = first + count;
    return l_.add("slice", {x},
                  {{"starts", Ints{0, 0, 0, 0, first}}, {"ends", ends}, {"strides", Ints{1, 1, 1, 1, 1}}});
  }

  // Width and height of the anchors, as a tensor [1, 1, 1, anchors, 2].
  Tensor* anchors() const {
    return b_.reshape(l_.add("constant", {}, {{"value", a_.data("anchor_boxes")}}), Ints{1, 1, 1, anchors_, 2});
  }

  Tensor* product(Tensor* size) const {
    Tensor* height = channels(size, 1, 1);
    return b_.mul(channels(size, 0, 1), height);
  }

  void find_overlaps() {
    centre_ = b_.unary("sigmoid", channels(predicted_, 0, 2));
    Tensor* unit = anchors();
    Tensor* size = b_.mul(b_.unary("exponent", channels(predicted_, 2, 2)), unit);
    Tensor *true_centre = channels(labels_, 0, 2), *true_size = channels(labels_, 2, 2);
    present_ = channels(labels_, 4, 1);
    const auto edge = [&](Tensor* at, Tensor* extent, double side) { return b_.add(at, b_.mul(extent, side)); };
    Tensor* true_right = edge(true_centre, true_size, 0.5);
    Tensor* right = b_.binary("minimum", edge(centre_, size, 0.5), true_right);
    Tensor* true_left = edge(true_centre, true_size, -0.5);
    Tensor* left = b_.binary("maximum", edge(centre_, size, -0.5), true_left);
    Tensor* common = product(b_.unary("relu", b_.sub(right, left)));
    Tensor* true_area = product(true_size);
    Tensor* all = b_.sub(b_.add(product(size), true_area), common);
    overlap_ = b_.mul(b_.binary("division_no_nan", common, all), present_);
    Tensor* best = b_.max(overlap_, {3});
    Tensor* near = b_.binary("greater_than", overlap_, threshold("min_iou_for_object_presence"));
    Tensor* answers = b_.binary("logical_or", b_.binary("equal", overlap_, best), near);
    object_ = b_.mul(b_.cast(answers, DType::float32), present_);
    Tensor* apart = b_.cast(b_.binary("less_than", overlap_, threshold("max_iou_for_object_absence")), DType::float32);
    nothing_ = b_.mul(apart, b_.sub(1, object_));
  }

  Tensor* threshold(std::string_view key) const { return b_.scalar_like(overlap_, a_.real(key)); }

  LossTerms terms(std::string_view part) const {
    LossTerms t;
    t.type = a_.string(cat(part, "_loss_type"));
    t.delta = a_.real("delta");
    t.number_of_classes = std::max<int64_t>(1, classes_);
    return t;
  }

  Part weighted(const Losses& losses, Tensor* weights) const {
    return {b_.mul(losses.loss, weights), b_.mul(losses.gradient, weights)};
  }

  Part centre() const {
    const Losses losses = losses_of(terms("xy"), b_, centre_, channels(labels_, 0, 2));
    Part part = weighted(losses, b_.mul(object_, a_.real("scale_xy")));
    part.gradient = b_.mul(part.gradient, b_.mul(centre_, b_.sub(1, centre_)));
    return part;
  }

  Part size() const {
    Tensor* unit = anchors();
    Tensor* ratio = b_.div(channels(labels_, 2, 2), unit);
    // Where a cell has no object, the true box has size 0, whose logarithm is infinite, so the logarithm is taken of 1
    // instead.
    Tensor* there = b_.binary("greater_than", ratio, b_.scalar_like(ratio, 0));
    Tensor* target = b_.unary("logarithm", b_.select(there, ratio, b_.scalar_like(ratio, 1)));
    const Losses losses = losses_of(terms("wh"), b_, channels(predicted_, 2, 2), target);
    return weighted(losses, b_.mul(object_, a_.real("scale_wh")));
  }

  Part confidence() const {
    Tensor* score = channels(predicted_, 4, 1);
    Tensor* target = a_.boolean("rescore") ? overlap_ : present_;
    Tensor* weights = b_.mul(object_, a_.real("scale_object"));
    const Part yes = weighted(losses_of(terms("confidence"), b_, score, target), weights);
    weights = b_.mul(nothing_, a_.real("scale_no_object"));
    const Part no = weighted(losses_of(terms("confidence"), b_, score, b_.zeros_like(score)), weights);
    return {b_.add(yes.loss, no.loss), b_.add(yes.gradient, no.gradient)};
  }

  Part classes() const {
    Tensor* labels = channels(labels_, 5, classes_);
    const Losses losses = losses_of(terms("classes"), b_, channels(predicted_, 5, classes_), labels);
    return weighted(losses, b_.mul(object_, a_.real("scale_class")));
  }

  Lowering& l_;
  Builder& b_;
  const Attributes& a_;
  const int64_t anchors_, classes_;
  Ints shape_;
  Tensor *predicted_, *labels_, *centre_ = nullptr, *present_ = nullptr;
  // shape of all three: [N, height, width, anchors, 1]
  Tensor *overlap_ = nullptr, *object_ = nullptr, *nothing_ = nullptr;
};

void check_yolo(const FilterNode& node) {
  const Attributes& a = node.attributes();
  const auto refuse = [&](const std::string& message) {
    throw GraphError(cat("[", node.title(), "] ", message, node.where()));
  };
  const int64_t anchors = a.integer("number_of_anchor_boxes");
  if (anchors < 1 || a.data("anchor_boxes")->elements() != 2 * anchors)
    refuse(cat("anchor_boxes must hold a width and a height per anchor (", anchors, "), got ",
               a.data("anchor_boxes")->elements(), " number(s)"));
  constexpr std::pair<std::string_view, std::string_view> needed[] = {{"confidence", "sigmoid_cross_entropy"},
                                                                      {"classes", "softmax_cross_entropy"}};
  for (const auto& [part, type] : needed)
    if (a.string(cat(part, "_loss_type")) != type)
      refuse(cat(part, "_loss_type must be ", type, ", got ", a.string(cat(part, "_loss_type"))));
  for (std::string_view part : {"xy", "wh"}) {
    const std::string& type = a.string(cat(part, "_loss_type"));
    if (type != "mean_squared_error" && type != "mean_absolute_error" && type != "huber")
      refuse(cat(part, "_loss_type must be mean_squared_error, mean_absolute_error, or huber, got ", type));
  }
}

}  // namespace

const NodeFamily yolo_loss_family("yolo_loss", [] {
  NodeDefinition d;
  d.name = "yolo_loss";
  d.apple = "MPSCNNYOLOLossNode";
  d.first_macos = "10.14";
  d.without = "its result is already the gradient";
  d.attributes = {required("anchor_boxes", AttributeKind::data),
                  required("number_of_anchor_boxes", AttributeKind::integer),
                  optional("rescore", true),
                  optional("xy_loss_type", std::string("mean_squared_error")),
                  optional("wh_loss_type", std::string("huber")),
                  optional("confidence_loss_type", std::string("sigmoid_cross_entropy")),
                  optional("classes_loss_type", std::string("softmax_cross_entropy")),
                  optional("delta", 1.0),
                  optional("weight", 1.0),
                  optional("scale_xy", 10.0),
                  optional("scale_wh", 10.0),
                  optional("scale_no_object", 5.0),
                  optional("scale_object", 100.0),
                  optional("scale_class", 2.0),
                  optional("min_iou_for_object_presence", 0.7),
                  optional("max_iou_for_object_absence", 0.3)};
  d.states = {"labels"};
  d.result_is_gradient = true;
  d.lower = [](Lowering& l) { return Yolo(l).lower(); };
  d.check = check_yolo;
  define_node(std::move(d));
});

}  // namespace mpsgraph::nngraph
