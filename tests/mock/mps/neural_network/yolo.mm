// The YOLO loss node, for anchor boxes in the cells of a grid.
//
// The channels of an anchor are x, y, width, height, confidence, and a score for each class. x and y pass through a
// sigmoid; width and height are compared unchanged with the logarithm of label size over anchor size. The documentation
// does not specify which anchors are responsible for a label. Here, it is the anchor with the largest overlap and every
// anchor with an overlap of at least minIOUForObjectPresence. The confidence of an anchor with an overlap below
// maxIOUForObjectAbsence is trained toward 0, and anchors in between are not trained. In the gradient, a confidence
// label that was rescored by the overlap counts as a constant.
#include <algorithm>
#include <cmath>

#include "mps/neural_network/loss.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"

using namespace mock;

@implementation MPSCNNYOLOLossDescriptor
@synthesize XYLossDescriptor = _XYLossDescriptor, WHLossDescriptor = _WHLossDescriptor;
@synthesize confidenceLossDescriptor = _confidenceLossDescriptor, classesLossDescriptor = _classesLossDescriptor;
@synthesize reductionType = _reductionType, reduceAcrossBatch = _reduceAcrossBatch, rescore = _rescore;
@synthesize scaleXY = _scaleXY, scaleWH = _scaleWH, scaleNoObject = _scaleNoObject, scaleObject = _scaleObject;
@synthesize scaleClass = _scaleClass, minIOUForObjectPresence = _minIOUForObjectPresence;
@synthesize maxIOUForObjectAbsence = _maxIOUForObjectAbsence, numberOfAnchorBoxes = _numberOfAnchorBoxes;
@synthesize anchorBoxes = _anchorBoxes;

+ (MPSCNNYOLOLossDescriptor*)cnnLossDescriptorWithXYLossType:(MPSCNNLossType)xy
                                                  WHLossType:(MPSCNNLossType)wh
                                          confidenceLossType:(MPSCNNLossType)confidence
                                             classesLossType:(MPSCNNLossType)classes
                                               reductionType:(MPSCNNReductionType)reduction
                                                 anchorBoxes:(NSData*)boxes
                                         numberOfAnchorBoxes:(NSUInteger)count {
  if (count < 1 || boxes.length < count * 2 * sizeof(float))
    misuse(@"%lu anchor boxes require two floats each and at least one box, got %lu bytes", count, boxes.length);
  MPSCNNYOLOLossDescriptor* made = [[self alloc] init];
  made.XYLossDescriptor = [MPSCNNLossDescriptor cnnLossDescriptorWithType:xy reductionType:reduction];
  made.WHLossDescriptor = [MPSCNNLossDescriptor cnnLossDescriptorWithType:wh reductionType:reduction];
  made.confidenceLossDescriptor = [MPSCNNLossDescriptor cnnLossDescriptorWithType:confidence reductionType:reduction];
  made.classesLossDescriptor = [MPSCNNLossDescriptor cnnLossDescriptorWithType:classes reductionType:reduction];
  made.reductionType = reduction;
  made.rescore = YES;
  made.scaleXY = made.scaleWH = 10;
  made.scaleNoObject = 5;
  made.scaleObject = 100;
  made.scaleClass = 2;
  made.minIOUForObjectPresence = 0.7f;
  made.maxIOUForObjectAbsence = 0.3f;
  made.numberOfAnchorBoxes = count;
  made.anchorBoxes = [boxes copy];
  return made;
}
- (id)copyWithZone:(NSZone*)zone {
  MPSCNNYOLOLossDescriptor* copy =
      [MPSCNNYOLOLossDescriptor cnnLossDescriptorWithXYLossType:MPSCNNLossTypeMeanSquaredError
                                                     WHLossType:MPSCNNLossTypeMeanSquaredError
                                             confidenceLossType:MPSCNNLossTypeMeanSquaredError
                                                classesLossType:MPSCNNLossTypeMeanSquaredError
                                                  reductionType:_reductionType
                                                    anchorBoxes:_anchorBoxes
                                            numberOfAnchorBoxes:_numberOfAnchorBoxes];
  copy.XYLossDescriptor = [_XYLossDescriptor copy];
  copy.WHLossDescriptor = [_WHLossDescriptor copy];
  copy.confidenceLossDescriptor = [_confidenceLossDescriptor copy];
  copy.classesLossDescriptor = [_classesLossDescriptor copy];
  copy.reduceAcrossBatch = _reduceAcrossBatch;
  copy.rescore = _rescore;
  copy.scaleXY = _scaleXY;
  copy.scaleWH = _scaleWH;
  copy.scaleNoObject = _scaleNoObject;
  copy.scaleObject = _scaleObject;
  copy.scaleClass = _scaleClass;
  copy.minIOUForObjectPresence = _minIOUForObjectPresence;
  copy.maxIOUForObjectAbsence = _maxIOUForObjectAbsence;
  return copy;
}
@end

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Box {
  double x, y, width, height;
};

double overlap(const Box& a, const Box& b) {
  const auto shared = [](double p, double size_p, double q, double size_q) {
    return std::fmax(0, std::fmin(p + size_p / 2, q + size_q / 2) - std::fmax(p - size_p / 2, q - size_q / 2));
  };
  const double both = shared(a.x, a.width, b.x, b.width) * shared(a.y, a.height, b.y, b.height);
  const double either = a.width * a.height + b.width * b.height - both;
  return either > 0 ? both / either : 0;
}

struct Yolo : SameSize<Yolo> {
  MPSCNNYOLOLossDescriptor* descriptor = nil;
  Loss xy, wh, confidence, classes, total;
  std::vector<float> anchors;  // width and height of each anchor

  bool reports() const override { return true; }
  Shape prepare(Call& call) override {
    const auto count = static_cast<int64_t>(descriptor.numberOfAnchorBoxes);
    if (call.shapes[0].channels % count != 0 || call.shapes[0].channels / count < 6)
      misuse(@"%@: each of %ld anchors requires 5 channels and one per class, got %ld channels in total",
             call.filter.name, count, call.shapes[0].channels);
    call.kept = std::make_shared<LabelMemory>(LabelMemory::of(call, total.reduction == MPSCNNReductionTypeNone));
    if (!static_cast<LabelMemory*>(call.kept.get())->weights.empty())
      misuse(@"%@: label weights of a YOLO loss are not documented", call.filter.name);
    return call.shapes[0];
  }

  // Add the values and gradients of the channels that one of the four partial losses covers.
  static void add(const Loss& loss, double scale, size_t first, std::vector<double> y, std::vector<double> t,
                  Images& values, Images& gradients) {
    Images source(1, {1, 1, static_cast<int64_t>(y.size())}), label = source;
    source.v = std::move(y);
    label.v = std::move(t);
    const Images value = loss.values(source, label, nullptr), gradient = loss.gradients(source, label, nullptr);
    for (size_t i = 0; i < value.v.size(); ++i) {
      values.v[first + i] += scale * value.v[i];
      gradients.v[first + i] += scale * gradient.v[i];
    }
  }

  void add_cell(size_t first, size_t size, const Images& y, const Images& labels, Images& values, Images& gradients) {
    const size_t count = anchors.size() / 2;
    std::vector<double> met(count);
    for (size_t a = 0; a < count; ++a) {
      const double *r = &y.v[first + a * size], *t = &labels.v[first + a * size];
      met[a] =
          overlap({sigmoid(r[0]), sigmoid(r[1]), std::exp(r[2]) * anchors[2 * a], std::exp(r[3]) * anchors[2 * a + 1]},
                  {t[0], t[1], t[2], t[3]});
    }
    const double best = *std::max_element(met.begin(), met.end());
    for (size_t a = 0; a < count; ++a) {
      const size_t at = first + a * size;
      const double *r = &y.v[at], *t = &labels.v[at];
      const bool answers = t[4] > 0 && (met[a] == best || met[a] >= descriptor.minIOUForObjectPresence);
      if (!answers) {
        if (met[a] < descriptor.maxIOUForObjectAbsence)
          add(confidence, descriptor.scaleNoObject, at + 4, {r[4]}, {0}, values, gradients);
        continue;
      }
      add(xy, descriptor.scaleXY, at, {sigmoid(r[0]), sigmoid(r[1])}, {t[0], t[1]}, values, gradients);
      for (size_t i = 0; i < 2; ++i) gradients.v[at + i] *= sigmoid(r[i]) * (1 - sigmoid(r[i]));
      add(wh, descriptor.scaleWH, at + 2, {r[2], r[3]},
          {std::log(t[2] / anchors[2 * a]), std::log(t[3] / anchors[2 * a + 1])}, values, gradients);
      add(confidence, descriptor.scaleObject, at + 4, {r[4]}, {t[4] * (descriptor.rescore ? met[a] : 1)}, values,
          gradients);
      add(classes, descriptor.scaleClass, at + 5, std::vector<double>(r + 5, r + size),
          std::vector<double>(t + 5, t + size), values, gradients);
    }
  }

  Images run(Call& call) override {
    const auto& memory = *static_cast<LabelMemory*>(call.kept.get());
    const Images &y = *call.sources[0], labels = memory.load_labels(call);
    Images values(call.batch, call.shape), gradients = values;
    const auto channels = static_cast<size_t>(call.shape.channels);
    for (size_t first = 0; first < y.v.size(); first += channels)
      add_cell(first, channels / (anchors.size() / 2), y, labels, values, gradients);
    memory.store_losses(total.reduced(values, nullptr));
    return gradients;
  }
};

}  // namespace

@implementation MPSCNNYOLOLossNode
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source lossDescriptor:(MPSCNNYOLOLossDescriptor*)descriptor {
  return [[self alloc] initWithSource:source lossDescriptor:descriptor];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source lossDescriptor:(MPSCNNYOLOLossDescriptor*)descriptor {
  if (!descriptor) misuse(@"initWithSource:lossDescriptor: the descriptor must not be nil");
  auto layer = std::make_shared<Yolo>();
  layer->descriptor = [descriptor copy];
  layer->xy = Loss::of(descriptor.XYLossDescriptor);
  layer->wh = Loss::of(descriptor.WHLossDescriptor);
  layer->confidence = Loss::of(descriptor.confidenceLossDescriptor);
  layer->classes = Loss::of(descriptor.classesLossDescriptor);
  layer->total.reduction = descriptor.reductionType;
  layer->total.across_batch = descriptor.reduceAcrossBatch;
  const auto* boxes = static_cast<const float*>(descriptor.anchorBoxes.bytes);
  layer->anchors.assign(boxes, boxes + 2 * descriptor.numberOfAnchorBoxes);
  if ((self = [super initWithLayer:layer sources:@[ source ] stateClass:Nil]))
    filter->labels = @[ [[MPSNNLabelsNode alloc] init] ];
  return self;
}
- (MPSNNLabelsNode*)inputLabels {
  return (MPSNNLabelsNode*)filter->labels[0];
}
@end
