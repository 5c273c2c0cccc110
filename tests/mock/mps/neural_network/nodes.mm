// Image, state, and filter nodes.
#include "mps/neural_network/layer.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"
#pragma clang diagnostic ignored "-Wobjc-protocol-property-synthesis"

using namespace mock;

@implementation MPSNNImageNode
@synthesize handle = _handle, format = _format, imageAllocator = _imageAllocator;
@synthesize exportFromGraph = _exportFromGraph, synchronizeResource = _synchronizeResource;
@synthesize stopGradient = _stopGradient;

- (instancetype)initWithHandle:(NSObject<MPSHandle>*)handle {
  if (!(self = [super init])) return nil;
  _handle = handle;
  _imageAllocator = [MPSTemporaryImage defaultAllocator];
  return self;
}
- (instancetype)init {
  misuse(@"init is not available for an MPSNNImageNode; use initWithHandle:, whose handle may be nil");
}
+ (instancetype)nodeWithHandle:(NSObject<MPSHandle>*)handle {
  return [[self alloc] initWithHandle:handle];
}
+ (instancetype)exportedNodeWithHandle:(NSObject<MPSHandle>*)handle {
  MPSNNImageNode* node = [self nodeWithHandle:handle];
  node.exportFromGraph = YES;
  return node;
}
@end

@implementation MPSNNStateNode
@synthesize handle = _handle, exportFromGraph = _exportFromGraph, synchronizeResource = _synchronizeResource;
@end
@implementation MPSNNLabelsNode
@end
@implementation MPSNNGradientStateNode
@end
@implementation MPSCNNConvolutionGradientStateNode
@end
@implementation MPSCNNConvolutionTransposeGradientStateNode
@end
@implementation MPSNNBinaryGradientStateNode
@end
@implementation MPSNNArithmeticGradientStateNode
@end
@implementation MPSNNMultiaryGradientStateNode
@end

@implementation MockFilter
- (NSString*)name {
  return label ? [NSString stringWithFormat:@"%@ \"%@\"", kind, label] : NSStringFromClass(kind);
}
@end

@implementation MPSNNFilterNode

- (instancetype)init {
  misuse(@"init is not available for %@; a filter node is created with its sources", [self class]);
}

- (instancetype)initWithFilter:(MockFilter*)given image:(MPSNNImageNode*)result {
  if (!(self = [super init])) return nil;
  filter = given;
  filter->node = self;
  image = result;
  return self;
}

- (void)makeFilterOf:(NSArray<MPSNNImageNode*>*)sources stateClass:(Class)stateClass {
  filter = [[MockFilter alloc] init];
  filter->kind = [self class];
  filter->sources = [sources copy];
  filter->node = self;
  // Kernels use this padding by default; see padding.mm.
  filter->padding = [MPSNNDefaultPadding paddingWithMethod:MPSNNPaddingMethodSizeSame];
  image = [MPSNNImageNode nodeWithHandle:nil];
  image.format = sources.count ? sources[0].format : MPSImageFeatureChannelFormatNone;
  image->producer = filter;
  filter->image = image;
  if (!stateClass) return;
  MPSNNStateNode* state = [[stateClass alloc] init];
  state->producer = filter;
  filter->state = state;
  made_states = @[ state ];
}

- (instancetype)initWithLayer:(std::shared_ptr<Layer>)layer
                      sources:(NSArray<MPSNNImageNode*>*)sources
                   stateClass:(Class)stateClass {
  for (MPSNNImageNode* source in sources)
    if (![source isKindOfClass:[MPSNNImageNode class]])
      misuse(@"%@: each source must be an MPSNNImageNode, got %@", [self class], [source class]);
  if (sources.count == 0) misuse(@"%@ requires at least one source", [self class]);
  if (!(self = [super init])) return nil;
  [self makeFilterOf:sources stateClass:stateClass];
  filter->layer = std::move(layer);
  return self;
}

- (instancetype)initGradientOf:(MockFilter*)forward gradient:(MPSNNImageNode*)gradient source:(NSUInteger)source {
  if (!(self = [super init])) return nil;
  if (!gradient) misuse(@"%@: the gradient must not be nil", [self class]);
  [self makeFilterOf:[@[ gradient ] arrayByAddingObjectsFromArray:forward->sources] stateClass:Nil];
  filter->forward = forward;
  filter->forward_source = source;
  filter->padding = forward->padding;
  if (forward->label) filter->label = [forward->label stringByAppendingString:@" gradient"];
  return self;
}

+ (Class)gradientNodeClass {
  return Nil;
}

- (MPSNNImageNode*)resultImage {
  return image;
}
- (NSArray<MPSNNStateNode*>*)resultStates {
  return made_states;
}
- (MPSNNStateNode*)resultState {
  return made_states.firstObject;
}
- (id<MPSNNPadding>)paddingPolicy {
  return filter->padding;
}
- (void)setPaddingPolicy:(id<MPSNNPadding>)padding {
  filter->padding = padding;
}
- (NSString*)label {
  return filter->label;
}
- (void)setLabel:(NSString*)label {
  filter->label = [label copy];
}

- (MPSNNGradientFilterNode*)gradientOfSource:(NSUInteger)source from:(MPSNNImageNode*)gradient {
  const Class made = [[self class] gradientNodeClass];
  if (!made) misuse(@"gradientFilterWithSource: %@ has no gradient", filter.name);
  return [[made alloc] initGradientOf:filter gradient:gradient source:source];
}
- (MPSNNGradientFilterNode*)gradientFilterWithSource:(MPSNNImageNode*)gradient {
  if (filter->sources.count != 1)
    misuse(@"gradientFilterWithSource: %@ has %lu sources; call gradientFiltersWithSource: instead", filter.name,
           filter->sources.count);
  return [self gradientOfSource:0 from:gradient];
}
- (MPSNNGradientFilterNode*)gradientFilterWithSources:(NSArray<MPSNNImageNode*>*)gradients {
  if (gradients.count != 1) misuse(@"gradientFilterWithSources: expected one gradient, got %lu", gradients.count);
  return [self gradientFilterWithSource:gradients[0]];
}
- (NSArray<MPSNNGradientFilterNode*>*)gradientFiltersWithSource:(MPSNNImageNode*)gradient {
  NSMutableArray<MPSNNGradientFilterNode*>* made = [NSMutableArray array];
  for (NSUInteger i = 0; i < filter->sources.count; ++i) [made addObject:[self gradientOfSource:i from:gradient]];
  return made;
}
- (NSArray<MPSNNGradientFilterNode*>*)gradientFiltersWithSources:(NSArray<MPSNNImageNode*>*)gradients {
  if (gradients.count != 1) misuse(@"gradientFiltersWithSources: expected one gradient, got %lu", gradients.count);
  return [self gradientFiltersWithSource:gradients[0]];
}

@end

@implementation MPSNNGradientFilterNode
- (instancetype)initWithGradient:(MPSNNImageNode*)gradient
                     sourceImage:(MPSNNImageNode*)source
                           state:(MPSNNStateNode*)state {
  MockFilter* const forward = state ? state->producer : nil;
  if (!forward) misuse(@"%@ requires the state that its forward filter made", [self class]);
  const NSUInteger index = [forward->sources indexOfObjectIdenticalTo:source];
  if (index == NSNotFound) misuse(@"%@: the state belongs to a filter with another source", [self class]);
  return [self initGradientOf:forward gradient:gradient source:index];
}
- (MPSNNGradientFilterNode*)gradientFilterWithSource:(MPSNNImageNode*)gradient {
  misuse(@"gradientFilterWithSource: %@ is a gradient node, which has no gradient", filter.name);
}
- (NSArray<MPSNNGradientFilterNode*>*)gradientFiltersWithSource:(MPSNNImageNode*)gradient {
  misuse(@"gradientFiltersWithSource: %@ is a gradient node, which has no gradient", filter.name);
}
@end

namespace mock {

NSString* text_of(const Shape& shape) {
  return [NSString stringWithFormat:@"%ld x %ld x %ld", shape.height, shape.width, shape.channels];
}

Images Layer::gradient(Call& call, const Images&, size_t) {
  misuse(@"%@ does not support a gradient", call.filter.name);
}

}  // namespace mock
