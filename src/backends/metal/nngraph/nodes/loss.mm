// MPSNNGraph nodes of families loss and yolo_loss.
#include <vector>

#include "backends/metal/nngraph/make_node.h"
#include "nngraph/loss.h"

namespace mpsgraph::metal {
namespace {

MPSCNNLossType loss_type(const Making& m, std::string_view type) {
  constexpr std::pair<std::string_view, MPSCNNLossType> types[] = {
      {"mean_absolute_error", MPSCNNLossTypeMeanAbsoluteError},
      {"mean_squared_error", MPSCNNLossTypeMeanSquaredError},
      {"softmax_cross_entropy", MPSCNNLossTypeSoftMaxCrossEntropy},
      {"sigmoid_cross_entropy", MPSCNNLossTypeSigmoidCrossEntropy},
      {"categorical_cross_entropy", MPSCNNLossTypeCategoricalCrossEntropy},
      {"hinge", MPSCNNLossTypeHinge},
      {"huber", MPSCNNLossTypeHuber},
      {"cosine_distance", MPSCNNLossTypeCosineDistance},
      {"log", MPSCNNLossTypeLog}};
  for (const auto& [name, value] : types)
    if (name == type) return value;
  m.unsupported(cat("for loss type ", type,
                    ", Apple documents a gradient that is not the loss's derivative, and it is "
                    "unknown what a Mac computes; use device=\"cpu\""));
}

MPSCNNReductionType reduction_type(std::string_view reduction) {
  if (reduction == "sum") return MPSCNNReductionTypeSum;
  if (reduction == "mean") return MPSCNNReductionTypeMean;
  if (reduction == "sum_by_nonzero_weights") return MPSCNNReductionTypeSumByNonZeroWeights;
  return MPSCNNReductionTypeNone;
}

MPSCNNLossDescriptor* descriptor_of(const Making& m) {
  const nngraph::LossTerms terms = nngraph::loss_terms(m.attributes());
  MPSCNNLossDescriptor* d = [MPSCNNLossDescriptor cnnLossDescriptorWithType:loss_type(m, terms.type)
                                                              reductionType:reduction_type(terms.reduction)];
  // Apple's flag has no effect without a reduction.
  d.reduceAcrossBatch = terms.reduce_across_batch && terms.reduction != "none";
  d.weight = static_cast<float>(terms.weight);
  d.labelSmoothing = static_cast<float>(terms.label_smoothing);
  d.numberOfClasses = static_cast<NSUInteger>(terms.number_of_classes);
  d.epsilon = static_cast<float>(terms.epsilon);
  d.delta = static_cast<float>(terms.delta);
  return d;
}

void make_loss(Making& m) {
  MPSCNNLossNode* node = [MPSCNNLossNode nodeWithSource:m.source() lossDescriptor:descriptor_of(m)];
  m.made.node = node;
  m.made.labels = node.inputLabels;
}

void make_forward_loss(Making& m) {
  if (m.attributes().boolean("reduce_across_batch") && m.attributes().string("reduction_type") != "none")
    m.unsupported("reduce_across_batch must be False, because Apple does not document which images then hold the "
                  "loss; reduce each image, or use device=\"cpu\"");
  MPSCNNLossDescriptor* descriptor = descriptor_of(m);
  m.made.node = [MPSNNForwardLossNode nodeWithSources:m.sources lossDescriptor:descriptor];
  m.use_loss_gradient(descriptor);
}

void fits_forward_loss(const nngraph::FilterNode& filter, std::span<const Dims> sources) {
  for (size_t i = 1; i < sources.size(); ++i)
    if (sources[i] != sources[0])
      unsupported(filter, cat(i == 1 ? "labels" : "weights", " must have the shape of the images ",
                              mpsgraph::to_string(sources[0]), ", got ", mpsgraph::to_string(sources[i])));
}

void make_yolo(Making& m) {
  const Attributes& a = m.attributes();
  const ConstantPtr& boxes = a.data("anchor_boxes");
  std::vector<float> values(static_cast<size_t>(boxes->elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(boxes->scalar(static_cast<int64_t>(i)));
  const auto type = [&](std::string_view part) { return loss_type(m, a.string(cat(part, "_loss_type"))); };
  MPSCNNYOLOLossDescriptor* d = [MPSCNNYOLOLossDescriptor
      cnnLossDescriptorWithXYLossType:type("xy")
                           WHLossType:type("wh")
                   confidenceLossType:type("confidence")
                      classesLossType:type("classes")
                        reductionType:MPSCNNReductionTypeSum
                          anchorBoxes:[NSData dataWithBytes:values.data() length:values.size() * sizeof(float)]
                  numberOfAnchorBoxes:m.size("number_of_anchor_boxes")];
  d.rescore = a.boolean("rescore");
  const float weight = m.number("weight");  // the weight is multiplied into the scale of each part
  d.scaleXY = weight * m.number("scale_xy");
  d.scaleWH = weight * m.number("scale_wh");
  d.scaleNoObject = weight * m.number("scale_no_object");
  d.scaleObject = weight * m.number("scale_object");
  d.scaleClass = weight * m.number("scale_class");
  d.minIOUForObjectPresence = m.number("min_iou_for_object_presence");
  d.maxIOUForObjectAbsence = m.number("max_iou_for_object_absence");
  d.XYLossDescriptor.delta = d.WHLossDescriptor.delta = m.number("delta");
  MPSCNNYOLOLossNode* node = [MPSCNNYOLOLossNode nodeWithSource:m.source() lossDescriptor:d];
  m.made.node = node;
  m.made.labels = node.inputLabels;
}

void fits_yolo(const nngraph::FilterNode& filter, std::span<const Dims> sources) {
  const int64_t anchors = filter.attributes().integer("number_of_anchor_boxes");
  if (sources[0][3] / anchors == 5)
    unsupported(filter, "boxes must have at least one class, got none; add a class, or use device=\"cpu\"");
}

}  // namespace

const NodeMakers loss_makers("loss", [] {
  define_maker("loss", make_loss);
  define_maker("forward_loss", make_forward_loss, fits_forward_loss);
  define_maker("initial_gradient",
               [](Making& m) { m.made.node = [MPSNNInitialGradientNode nodeWithSource:m.source()]; });
  define_maker("yolo_loss", make_yolo, fits_yolo);
});

}  // namespace mpsgraph::metal
