// Losses whose labels are images: the forward loss node, its gradient, and the image of ones at which a gradient
// starts.
#include "mps/neural_network/loss.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"

using namespace mock;

namespace {

struct ForwardLoss : LayerOf<ForwardLoss> {
  Loss loss;
  MPSCNNLossDescriptor* descriptor = nil;
  id<MPSNNLossCallback> callback = nil;

  Shape prepare(Call& call) override {
    for (const Shape& shape : call.shapes)
      if (!(shape == call.shapes[0]))
        misuse(@"%@: logits, labels, and weights must have the same size, got %@ and %@", call.filter.name,
               text_of(call.shapes[0]), text_of(shape));
    if (loss.across_batch)
      misuse(@"%@: the mock does not support a reduction across the batch, whose result images are not documented",
             call.filter.name);
    if (callback) call.kept = std::make_shared<double>(weight(call));
    return loss.reduction == MPSCNNReductionTypeNone ? call.shapes[0] : Shape{};
  }

  // The callback runs while work is encoded. Its images have the right sizes, but no contents.
  double weight(const Call& call) const {
    const auto image = [&](const Shape& shape) {
      return [[MPSImage alloc]
           initWithDevice:call.device
          imageDescriptor:[MPSImageDescriptor
                              imageDescriptorWithChannelFormat:MPSImageFeatureChannelFormatFloat16
                                                         width:static_cast<NSUInteger>(shape.width)
                                                        height:static_cast<NSUInteger>(shape.height)
                                               featureChannels:static_cast<NSUInteger>(shape.channels)]];
    };
    const Shape to = loss.reduction == MPSCNNReductionTypeNone ? call.shapes[0] : Shape{};
    return [callback scalarWeightForSourceImage:image(call.shapes[0]) destinationImage:image(to)];
  }
  Loss weighted(const Call& call) const {
    Loss result = loss;
    if (call.kept) result.weight = *static_cast<double*>(call.kept.get());
    return result;
  }
  static const Images* weights(const Call& call) { return call.sources.size() > 2 ? call.sources[2].get() : nullptr; }

  Images run(Call& call) override {
    const Loss now = weighted(call);
    const auto reduced = now.reduced(now.values(*call.sources[0], *call.sources[1], weights(call)), weights(call));
    Images result(call.batch, call.shape);
    size_t at = 0;
    for (const Images& image : reduced)
      for (double value : image.v) result.v[at++] = value;
    return result;
  }
  // The loss gradient is multiplied by the gradient of the loss image, which has one value per element or per image.
  Images gradient(Call& call, const Images& of_result, size_t source) override {
    if (source == 2) misuse(@"%@: a gradient with respect to the weights is not available", call.filter.name);
    const Loss now = weighted(call);
    const Images &y = *call.sources[0], &labels = *call.sources[1];
    Images result =
        source == 0 ? now.gradients(y, labels, weights(call)) : now.label_gradients(y, labels, weights(call));
    const auto size = static_cast<size_t>(result.shape.count());
    const bool is_element = loss.reduction == MPSCNNReductionTypeNone;
    for (size_t i = 0; i < result.v.size(); ++i) result.v[i] *= of_result.v[is_element ? i : i / size];
    return result;
  }
};

// Layer that returns ones in the size of its source, whose values it ignores.
struct InitialGradient : SameSize<InitialGradient> {
  Images run(Call& call) override { return Images(call.batch, call.shape, 1); }
};

}  // namespace

#define OF_DESCRIPTOR                                              \
  -(MPSCNNLossType)lossType {                                      \
    return layer_of<ForwardLoss>(self).loss.type;                  \
  }                                                                \
  -(MPSCNNReductionType)reductionType {                            \
    return layer_of<ForwardLoss>(self).loss.reduction;             \
  }                                                                \
  -(NSUInteger)numberOfClasses {                                   \
    return layer_of<ForwardLoss>(self).descriptor.numberOfClasses; \
  }                                                                \
  -(BOOL)reduceAcrossBatch {                                       \
    return layer_of<ForwardLoss>(self).loss.across_batch;          \
  }                                                                \
  -(float)weight {                                                 \
    return layer_of<ForwardLoss>(self).descriptor.weight;          \
  }                                                                \
  -(float)labelSmoothing {                                         \
    return layer_of<ForwardLoss>(self).descriptor.labelSmoothing;  \
  }                                                                \
  -(float)epsilon {                                                \
    return layer_of<ForwardLoss>(self).descriptor.epsilon;         \
  }                                                                \
  -(float)delta {                                                  \
    return layer_of<ForwardLoss>(self).descriptor.delta;           \
  }                                                                \
  -(id<MPSNNLossCallback>)propertyCallBack {                       \
    return layer_of<ForwardLoss>(self).callback;                   \
  }                                                                \
  -(void)setPropertyCallBack : (id<MPSNNLossCallback>)callback {   \
    layer_of<ForwardLoss>(self).callback = callback;               \
  }

@implementation MPSNNForwardLossNode
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source
                        labels:(MPSNNImageNode*)labels
                lossDescriptor:(MPSCNNLossDescriptor*)descriptor {
  return [[self alloc] initWithSource:source labels:labels lossDescriptor:descriptor];
}
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source
                        labels:(MPSNNImageNode*)labels
                       weights:(MPSNNImageNode*)weights
                lossDescriptor:(MPSCNNLossDescriptor*)descriptor {
  return [[self alloc] initWithSource:source labels:labels weights:weights lossDescriptor:descriptor];
}
+ (instancetype)nodeWithSources:(NSArray<MPSNNImageNode*>*)sources lossDescriptor:(MPSCNNLossDescriptor*)descriptor {
  return [[self alloc] initWithSources:sources lossDescriptor:descriptor];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source
                        labels:(MPSNNImageNode*)labels
                lossDescriptor:(MPSCNNLossDescriptor*)descriptor {
  return [self initWithSources:@[ source, labels ] lossDescriptor:descriptor];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source
                        labels:(MPSNNImageNode*)labels
                       weights:(MPSNNImageNode*)weights
                lossDescriptor:(MPSCNNLossDescriptor*)descriptor {
  return [self initWithSources:weights ? @[ source, labels, weights ] : @[ source, labels ] lossDescriptor:descriptor];
}
- (instancetype)initWithSources:(NSArray<MPSNNImageNode*>*)sources lossDescriptor:(MPSCNNLossDescriptor*)descriptor {
  if (!descriptor || sources.count < 2 || sources.count > 3)
    misuse(@"initWithSources:lossDescriptor: expected logits, labels, optional weights, and a descriptor");
  auto layer = std::make_shared<ForwardLoss>();
  layer->descriptor = [descriptor copy];
  layer->loss = Loss::of(descriptor);
  return [super initWithLayer:layer sources:sources stateClass:[MPSNNGradientStateNode class]];
}
+ (Class)gradientNodeClass {
  return [MPSNNLossGradientNode class];
}
// Only the gradient of the logits is returned. Callers request the gradient of the labels with isLabelsGradientFilter.
- (NSArray<MPSNNGradientFilterNode*>*)gradientFiltersWithSource:(MPSNNImageNode*)gradient {
  return @[ [self gradientFilterWithSource:gradient] ];
}
- (MPSNNGradientFilterNode*)gradientFilterWithSource:(MPSNNImageNode*)gradient {
  return [[MPSNNLossGradientNode alloc] initGradientOf:filter gradient:gradient source:0];
}
OF_DESCRIPTOR
@end

@implementation MPSNNLossGradientNode
+ (instancetype)nodeWithSources:(NSArray<MPSNNImageNode*>*)sources
                  gradientState:(MPSNNGradientStateNode*)state
                 lossDescriptor:(MPSCNNLossDescriptor*)descriptor
         isLabelsGradientFilter:(BOOL)isLabels {
  return [[self alloc] initWithSources:sources
                         gradientState:state
                        lossDescriptor:descriptor
                isLabelsGradientFilter:isLabels];
}
// The sources are the gradient, the logits, the labels, and the weights.
- (instancetype)initWithSources:(NSArray<MPSNNImageNode*>*)sources
                  gradientState:(MPSNNGradientStateNode*)state
                 lossDescriptor:(MPSCNNLossDescriptor*)descriptor
         isLabelsGradientFilter:(BOOL)isLabels {
  if (sources.count < 3 || sources.count > 4)
    misuse(@"initWithSources:gradientState: expected a gradient, logits, labels, and optional weights");
  MPSNNForwardLossNode* forward =
      [MPSNNForwardLossNode nodeWithSources:[sources subarrayWithRange:NSMakeRange(1, sources.count - 1)]
                             lossDescriptor:descriptor];
  MockFilter* own = state ? state->producer : forward->filter;
  return [self initGradientOf:own gradient:sources[0] source:isLabels ? 1 : 0];
}
- (BOOL)isLabelsGradientFilter {
  return filter->forward_source == 1;
}
OF_DESCRIPTOR
@end

@implementation MPSNNInitialGradientNode
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source {
  return [[self alloc] initWithSource:source];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source {
  return [super initWithLayer:std::make_shared<InitialGradient>() sources:@[ source ] stateClass:Nil];
}
@end
