// Tests of the loss nodes: values and gradients of each type, reductions, labels as states and as images, and YOLO.
#include "nodes_check.h"

using namespace check;

namespace {

MPSCNNLossDataDescriptor* data_of(Size size, const Numbers& numbers) {
  NSData* data = [NSData dataWithBytes:numbers.data() length:numbers.size() * sizeof(float)];
  return [MPSCNNLossDataDescriptor cnnLossDataDescriptorWithData:data
                                                          layout:MPSDataLayoutHeightxWidthxFeatureChannels
                                                            size:{size.width, size.height, size.channels}];
}

struct Result {
  Numbers loss, gradient;
};

// Run one loss node over a batch of images.
//
// If whole is true, the loss images have the source's size, as they must when nothing is reduced.
Result of(MPSNNFilterNode* node, Size size, const Numbers& y, Size label_size, const Numbers& t, bool whole,
          const Numbers& weights = {}) {
  MPSNNGraph* graph = graph_of(node.resultImage);
  MPSImageBatch* images = batch_of(size, y);
  NSMutableArray<MPSCNNLossLabels*>* labels = [NSMutableArray array];
  const size_t each = label_size.height * label_size.width * label_size.channels;
  for (size_t n = 0; n < images.count; ++n) {
    const auto part = [&](const Numbers& all) {
      const auto first = all.begin() + static_cast<ptrdiff_t>(n * each);
      return Numbers(first, first + static_cast<ptrdiff_t>(each));
    };
    const MTLSize loss_size = whole ? MTLSize{size.width, size.height, size.channels} : MTLSize{1, 1, 1};
    [labels
        addObject:[[MPSCNNLossLabels alloc] initWithDevice:device()
                                             lossImageSize:loss_size
                                          labelsDescriptor:data_of(label_size, part(t))
                                         weightsDescriptor:weights.empty() ? nil : data_of(label_size, part(weights))]];
  }
  Result result;
  __block MPSImageBatch* gradients = nil;
  const std::string error = run(^(id<MTLCommandBuffer> buffer) {
    gradients = [graph encodeBatchToCommandBuffer:buffer sourceImages:@[ images ] sourceStates:@[ labels ]];
    MPSImageBatchSynchronize(gradients, buffer);
    MPSStateBatchSynchronize(labels, buffer);
  });
  if (!error.empty()) std::cerr << error << "\n";
  const auto append = [](Numbers& to, const Numbers& more) { to.insert(to.end(), more.begin(), more.end()); };
  for (NSUInteger n = 0; n < images.count; ++n) {
    append(result.loss, numbers(labels[n].lossImage));
    append(result.gradient, numbers(gradients[n]));
  }
  return result;
}

MPSCNNLossDescriptor* descriptor_of(MPSCNNLossType type, MPSCNNReductionType reduction = MPSCNNReductionTypeSum) {
  return [MPSCNNLossDescriptor cnnLossDescriptorWithType:type reductionType:reduction];
}

Result of(MPSCNNLossDescriptor* descriptor, Size size, const Numbers& y, const Numbers& t,
          const Numbers& weights = {}) {
  return of([MPSCNNLossNode nodeWithSource:input(@"y") lossDescriptor:descriptor], size, y, size, t,
            descriptor.reductionType == MPSCNNReductionTypeNone, weights);
}

TEST(loss_gradients_match_central_differences) {
  const Numbers any = spread(6), probabilities = {0.2f, 0.7f, 0.4f, 0.9f, 0.1f, 0.6f};
  const Numbers some = {0.3f, 0.5f, 0.2f, 0.1f, 0.4f, 0.5f}, truths = {0, 1, 1, 0, 1, 0};
  const struct {
    MPSCNNLossType type;
    Numbers y, t;
  } cases[] = {
      {MPSCNNLossTypeMeanAbsoluteError, any, some},
      {MPSCNNLossTypeMeanSquaredError, any, some},
      {MPSCNNLossTypeSoftMaxCrossEntropy, any, some},  // The labels of each pixel sum to 1.
      {MPSCNNLossTypeSigmoidCrossEntropy, any, some},
      {MPSCNNLossTypeCategoricalCrossEntropy, probabilities, some},
      {MPSCNNLossTypeHinge, any, truths},
      {MPSCNNLossTypeHuber, {2, 0.1f, -3, 0.4f, 1, -1}, some},
      {MPSCNNLossTypeCosineDistance, any, some},
      {MPSCNNLossTypeLog, probabilities, some},
  };
  for (const auto& each : cases) {
    MPSCNNLossDescriptor* descriptor = descriptor_of(each.type);
    descriptor.delta = 0.75f;
    descriptor.weight = 1.5f;
    const Numbers got = of(descriptor, {1, 2, 3}, each.y, each.t).gradient;
    for (size_t i = 0; i < 6; ++i) {
      constexpr double step = 0x1p-8;
      const auto value = [&](double by) {
        Numbers moved = each.y;
        moved[i] += static_cast<float>(by);
        return static_cast<double>(of(descriptor, {1, 2, 3}, moved, each.t).loss[0]);
      };
      const double wanted = (value(step) - value(-step)) / (2 * step);
      const bool agree = std::fabs(got[i] - wanted) <= 5e-3 * (1 + std::fabs(wanted));
      if (!agree) std::cerr << "loss type " << each.type << ": " << got[i] << ", difference " << wanted << "\n";
      CHECK(agree);
    }
  }
}

TEST(undocumented_gradients_are_nan) {
  CHECK(std::isnan(of(descriptor_of(MPSCNNLossTypeMeanAbsoluteError), {1, 1, 1}, {2}, {2}).gradient[0]));
  CHECK(std::isnan(of(descriptor_of(MPSCNNLossTypeKullbackLeiblerDivergence), {1, 1, 1}, {-1}, {0.5}).gradient[0]));
}

TEST(reductions_do_not_change_gradients) {
  const Numbers y = {1, 2, 3, 4, 5, 6, 7, 8}, zeros(8, 0);
  const auto values = [&](MPSCNNReductionType reduction, const Numbers& weights = {}) {
    const Result result = of(descriptor_of(MPSCNNLossTypeMeanSquaredError, reduction), {1, 2, 2}, y, zeros, weights);
    if (weights.empty()) CHECK(are(result.gradient, {2, 4, 6, 8, 10, 12, 14, 16}));
    return result.loss;
  };
  CHECK(are(values(MPSCNNReductionTypeNone), {1, 4, 9, 16, 25, 36, 49, 64}));
  CHECK(are(values(MPSCNNReductionTypeSum), {30, 174}));
  CHECK(are(values(MPSCNNReductionTypeMean), {7.5, 43.5}));
  CHECK(are(values(MPSCNNReductionTypeSumByNonZeroWeights, {1, 0, 1, 0, 2, 0, 0, 0}), {5, 50}));
  MPSCNNLossDescriptor* across = descriptor_of(MPSCNNLossTypeMeanSquaredError, MPSCNNReductionTypeMean);
  across.reduceAcrossBatch = YES;
  CHECK(are(of(across, {1, 2, 2}, y, zeros).loss, {25.5, 0}));
}

TEST(softmax_cross_entropy_takes_logits) {
  MPSCNNLossDescriptor* descriptor = descriptor_of(MPSCNNLossTypeSoftMaxCrossEntropy);
  const auto third = static_cast<float>(std::log(2));
  const Result plain = of(descriptor, {1, 1, 2}, {0, third}, {0, 1});
  CHECK(are(plain.loss, {static_cast<float>(std::log(1.5))}));
  CHECK(are(plain.gradient, {1 / 3.f, -1 / 3.f}));
  descriptor.numberOfClasses = 2;
  descriptor.labelSmoothing = 0.5f;
  CHECK(are(of(descriptor, {1, 1, 2}, {0, third}, {0, 1}).gradient, {1 / 3.f - 0.25f, 2 / 3.f - 0.75f}));
  // Labels may have as many channels as the image has room for, with zeros in the extra channels.
  MPSCNNLossNode* node = [MPSCNNLossNode nodeWithSource:input(@"y")
                                         lossDescriptor:descriptor_of(MPSCNNLossTypeSoftMaxCrossEntropy)];
  CHECK(are(of(node, {1, 1, 2}, {0, third}, {1, 1, 4}, {0, 1, 0, 0}, false).gradient, {1 / 3.f, -1 / 3.f}));
}

TEST(labels_of_the_wrong_size_raise) {
  MPSCNNLossNode* node = [MPSCNNLossNode nodeWithSource:input(@"y")
                                         lossDescriptor:descriptor_of(MPSCNNLossTypeMeanSquaredError)];
  for (const Size& size : {Size{1, 2, 2}, Size{1, 1, 3}})
    CHECK_EQUAL(raised_by(^{ of(node, {1, 1, 2}, {0, 1}, size, Numbers(6, 0), false); }), "NSInvalidArgumentException");
  CHECK_EQUAL(raised_by(^{ of(node, {1, 1, 2}, {0, 1}, {1, 1, 2}, {0, 1}, true); }), "NSInvalidArgumentException");
}

TEST(labels_as_images) {
  const auto make = [](MPSCNNReductionType reduction) -> Make {
    return [=](NSArray<MPSNNImageNode*>* sources) {
      return [MPSNNForwardLossNode nodeWithSource:sources[0]
                                           labels:input(@"t")
                                   lossDescriptor:descriptor_of(MPSCNNLossTypeMeanSquaredError, reduction)];
    };
  };
  const Batches given = {{"0", batch_of({1, 2, 1}, {1, 2, 3, 4})}, {"t", batch_of({1, 2, 1}, {0, 0, 1, 1})}};
  CHECK(are(run(graph_of(make(MPSCNNReductionTypeSum)(@[ input(@"0") ]).resultImage), given), {5, 13}));
  CHECK(are(run(graph_of(make(MPSCNNReductionTypeNone)(@[ input(@"0") ]).resultImage), given), {1, 4, 4, 9}));
  MPSNNFilterNode* loss = make(MPSCNNReductionTypeSum)(@[ input(@"0") ]);
  MPSNNImageNode* ones = [MPSNNInitialGradientNode nodeWithSource:loss.resultImage].resultImage;
  MPSNNFilterNode* doubled = [MPSCNNNeuronLinearNode nodeWithSource:ones a:2 b:0];
  NSArray<MPSNNFilterNode*>* ends = [loss trainingGraphWithSourceGradient:doubled.resultImage nodeHandler:nil];
  CHECK(are(run(graph_of(ends[0].resultImage), given), {4, 8, 8, 12}));
  MPSNNLossGradientNode* of_labels =
      [MPSNNLossGradientNode nodeWithSources:@[ ones, input(@"0"), input(@"t") ]
                               gradientState:(MPSNNGradientStateNode*)loss.resultState
                              lossDescriptor:descriptor_of(MPSCNNLossTypeMeanSquaredError)
                      isLabelsGradientFilter:YES];
  CHECK(of_labels.isLabelsGradientFilter);
}

TEST(yolo_loss_assigns_boxes_to_the_best_matching_anchor) {
  const float anchors[] = {1, 1, 4, 4};
  MPSCNNYOLOLossDescriptor* descriptor =
      [MPSCNNYOLOLossDescriptor cnnLossDescriptorWithXYLossType:MPSCNNLossTypeMeanSquaredError
                                                     WHLossType:MPSCNNLossTypeHuber
                                             confidenceLossType:MPSCNNLossTypeSigmoidCrossEntropy
                                                classesLossType:MPSCNNLossTypeSoftMaxCrossEntropy
                                                  reductionType:MPSCNNReductionTypeSum
                                                    anchorBoxes:[NSData dataWithBytes:anchors length:sizeof anchors]
                                            numberOfAnchorBoxes:2];
  descriptor.rescore = NO;
  MPSCNNYOLOLossNode* node = [MPSCNNYOLOLossNode nodeWithSource:input(@"y") lossDescriptor:descriptor];
  // One cell and two classes. The label is a box of the first anchor's size in the middle of the cell.
  const Numbers label = {0.5, 0.5, 1, 1, 1, 1, 0, 0.5, 0.5, 1, 1, 1, 1, 0};
  const Size size = {1, 1, 14};
  const Result result = of(node, size, Numbers(14, 0), size, label, false);
  // Position and size are correct. The confidence of 1/2 contributes 100 (1/2 - 1) = -50, and the classes contribute 2
  // (1/2 - 1) = -1 and 2 / 2 = 1. The second anchor overlaps the box by only 1/16, so only its confidence has a
  // gradient: 5 / 2 = 2.5.
  CHECK(are(result.gradient, {0, 0, 0, 0, -50, -1, 1, 0, 0, 0, 0, 2.5, 0, 0}));
  CHECK(are(result.loss, {static_cast<float>(107 * std::log(2))}));
  Numbers moved(14, 0);
  moved[0] = moved[3] = 0.25f;
  const Numbers gradient = of(node, size, moved, size, label, false).gradient;
  const double s = 1 / (1 + std::exp(-0.25));
  CHECK(are({gradient[0], gradient[3]}, {static_cast<float>(20 * (s - 0.5) * s * (1 - s)), 2.5}));
}

}  // namespace

int main() { return run_all(); }
