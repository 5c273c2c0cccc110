// Descriptors of convolutions, and states that hold weights, biases, statistics, and their gradients.
#include "mps/neural_network/states.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"

using namespace mock;

// --- descriptors -----------------------------------------------------------------------------------------------------

@implementation MPSCNNConvolutionDescriptor
@synthesize kernelWidth = _kernelWidth, kernelHeight = _kernelHeight, groups = _groups;
@synthesize inputFeatureChannels = _inputFeatureChannels, outputFeatureChannels = _outputFeatureChannels;
@synthesize strideInPixelsX = _strideInPixelsX, strideInPixelsY = _strideInPixelsY;
@synthesize dilationRateX = _dilationRateX, dilationRateY = _dilationRateY;
@synthesize fusedNeuronDescriptor = _fusedNeuronDescriptor;

+ (BOOL)supportsSecureCoding {
  return YES;
}
+ (instancetype)cnnConvolutionDescriptorWithKernelWidth:(NSUInteger)width
                                           kernelHeight:(NSUInteger)height
                                   inputFeatureChannels:(NSUInteger)inputs
                                  outputFeatureChannels:(NSUInteger)outputs {
  if (width < 1 || height < 1 || inputs < 1 || outputs < 1)
    misuse(@"convolution sizes must be at least 1, got %lu x %lu with %lu input and %lu output channels", height, width,
           inputs, outputs);
  MPSCNNConvolutionDescriptor* descriptor = [[self alloc] init];
  descriptor.kernelWidth = width;
  descriptor.kernelHeight = height;
  descriptor.inputFeatureChannels = inputs;
  descriptor.outputFeatureChannels = outputs;
  return descriptor;
}
- (instancetype)init {
  if (!(self = [super init])) return nil;
  _kernelWidth = _kernelHeight = 3;
  _groups = _strideInPixelsX = _strideInPixelsY = _dilationRateX = _dilationRateY = 1;
  _fusedNeuronDescriptor = [MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:MPSCNNNeuronTypeNone];
  return self;
}
- (id)copyWithZone:(NSZone*)zone {
  MPSCNNConvolutionDescriptor* copy = [[[self class] alloc] init];
  copy.kernelWidth = _kernelWidth;
  copy.kernelHeight = _kernelHeight;
  copy.inputFeatureChannels = _inputFeatureChannels;
  copy.outputFeatureChannels = _outputFeatureChannels;
  copy.groups = _groups;
  copy.strideInPixelsX = _strideInPixelsX;
  copy.strideInPixelsY = _strideInPixelsY;
  copy.dilationRateX = _dilationRateX;
  copy.dilationRateY = _dilationRateY;
  copy.fusedNeuronDescriptor = [_fusedNeuronDescriptor copy];
  return copy;
}
@end

@implementation MPSCNNDepthWiseConvolutionDescriptor
- (NSUInteger)channelMultiplier {
  return self.outputFeatureChannels / self.inputFeatureChannels;
}
@end

namespace mock {

bool is_depthwise(MPSCNNConvolutionDescriptor* descriptor) {
  return [descriptor isKindOfClass:[MPSCNNDepthWiseConvolutionDescriptor class]];
}

NSUInteger weight_count(MPSCNNConvolutionDescriptor* d) {
  const NSUInteger inputs = is_depthwise(d) ? 1 : d.inputFeatureChannels / d.groups;
  return d.outputFeatureChannels * d.kernelHeight * d.kernelWidth * inputs;
}

namespace {

NSArray* weight_recipes(MPSCNNConvolutionDescriptor* descriptor) {
  return @[ @(weight_count(descriptor) * sizeof(float)), @(descriptor.outputFeatureChannels * sizeof(float)) ];
}

NSArray* channel_recipes(NSUInteger channels, size_t buffers) {
  if (channels < 1) misuse(@"a normalization requires at least one channel");
  NSMutableArray* sizes = [NSMutableArray array];
  for (size_t i = 0; i < buffers; ++i) [sizes addObject:@(channels * sizeof(float))];
  return sizes;
}

NSArray* both(id<MTLBuffer> first, id<MTLBuffer> second) {
  if (!first || !second || first.length != second.length)
    misuse(@"expected two buffers of the same length, got %lu and %lu bytes", first.length, second.length);
  return @[ first, second ];
}

}  // namespace
}  // namespace mock

// --- convolution -----------------------------------------------------------------------------------------------------

@implementation MPSNNGradientState
@end

@implementation MPSCNNConvolutionGradientState
- (instancetype)initForDescriptor:(MPSCNNConvolutionDescriptor*)descriptor
                           source:(MPSImage*)source
                           device:(id<MTLDevice>)device {
  if (!(self = [self initForDevice:device recipes:weight_recipes(descriptor)])) return nil;
  width = source.width;
  height = source.height;
  return self;
}
- (instancetype)initForDescriptor:(MPSCNNConvolutionDescriptor*)descriptor
                           source:(MPSImage*)source
                    commandBuffer:(id<MTLCommandBuffer>)buffer {
  if (!(self = [self initForBuffer:buffer recipes:weight_recipes(descriptor)])) return nil;
  width = source.width;
  height = source.height;
  return self;
}
- (id<MTLBuffer>)gradientForWeights {
  return [self bufferAtIndex:0];
}
- (id<MTLBuffer>)gradientForBiases {
  return [self bufferAtIndex:1];
}
- (MPSCNNConvolutionWeightsLayout)gradientForWeightsLayout {
  return MPSCNNConvolutionWeightsLayoutOHWI;
}
- (NSUInteger)sourceWidth {
  return width;
}
- (NSUInteger)sourceHeight {
  return height;
}
@end

@implementation MPSCNNConvolutionWeightsAndBiasesState {
  NSUInteger _weightsOffset, _biasesOffset;
}

- (instancetype)initWithWeights:(id<MTLBuffer>)weights biases:(id<MTLBuffer>)biases {
  if (!weights) misuse(@"initWithWeights:biases: the weights must not be nil");
  return [self initWithResources:biases ? @[ weights, biases ] : @[ weights ]];
}
- (instancetype)initWithWeights:(id<MTLBuffer>)weights
                  weightsOffset:(NSUInteger)weightsOffset
                         biases:(id<MTLBuffer>)biases
                   biasesOffset:(NSUInteger)biasesOffset
       cnnConvolutionDescriptor:(MPSCNNConvolutionDescriptor*)descriptor {
  floats_of(weights, weightsOffset, weight_count(descriptor));  // raises if the buffer is too short
  if (biases) floats_of(biases, biasesOffset, descriptor.outputFeatureChannels);
  if (!(self = [self initWithWeights:weights biases:biases])) return nil;
  _weightsOffset = weightsOffset;
  _biasesOffset = biasesOffset;
  return self;
}
- (instancetype)initWithDevice:(id<MTLDevice>)device cnnConvolutionDescriptor:(MPSCNNConvolutionDescriptor*)descriptor {
  return [self initForDevice:device recipes:weight_recipes(descriptor)];
}
+ (instancetype)temporaryCNNConvolutionWeightsAndBiasesStateWithCommandBuffer:(id<MTLCommandBuffer>)buffer
                                                     cnnConvolutionDescriptor:(MPSCNNConvolutionDescriptor*)given {
  return [[self alloc] initForBuffer:buffer recipes:weight_recipes(given)];
}
- (id<MTLBuffer>)weights {
  return [self bufferAtIndex:0];
}
- (id<MTLBuffer>)biases {
  return self.resourceCount > 1 ? [self bufferAtIndex:1] : nil;
}
- (NSUInteger)weightsOffset {
  return _weightsOffset;
}
- (NSUInteger)biasesOffset {
  return _biasesOffset;
}
@end

// --- normalization ---------------------------------------------------------------------------------------------------

@implementation MPSCNNNormalizationGammaAndBetaState
- (instancetype)initWithGamma:(id<MTLBuffer>)gamma beta:(id<MTLBuffer>)beta {
  return [self initWithResources:both(gamma, beta)];
}
+ (instancetype)temporaryStateWithCommandBuffer:(id<MTLCommandBuffer>)buffer
                        numberOfFeatureChannels:(NSUInteger)channels {
  return [[self alloc] initForBuffer:buffer recipes:channel_recipes(channels, 2)];
}
- (id<MTLBuffer>)gamma {
  return [self bufferAtIndex:0];
}
- (id<MTLBuffer>)beta {
  return [self bufferAtIndex:1];
}
@end

@implementation MPSCNNNormalizationMeanAndVarianceState
- (instancetype)initWithMean:(id<MTLBuffer>)mean variance:(id<MTLBuffer>)variance {
  return [self initWithResources:both(mean, variance)];
}
+ (instancetype)temporaryStateWithCommandBuffer:(id<MTLCommandBuffer>)buffer
                        numberOfFeatureChannels:(NSUInteger)channels {
  return [[self alloc] initForBuffer:buffer recipes:channel_recipes(channels, 2)];
}
- (id<MTLBuffer>)mean {
  return [self bufferAtIndex:0];
}
- (id<MTLBuffer>)variance {
  return [self bufferAtIndex:1];
}
@end

@implementation MPSCNNBatchNormalizationState
- (instancetype)initForChannels:(NSUInteger)count device:(id<MTLDevice>)device {
  if ((self = [self initForDevice:device recipes:channel_recipes(count, 6)])) channels = count;
  return self;
}
- (instancetype)initForChannels:(NSUInteger)count commandBuffer:(id<MTLCommandBuffer>)buffer {
  if ((self = [self initForBuffer:buffer recipes:channel_recipes(count, 6)])) channels = count;
  return self;
}
- (instancetype)initWithResource:(id<MTLResource>)resource {
  misuse(@"initWithResource: is not available for the state of a batch normalization");
}
- (id<MTLBuffer>)gamma {
  return [self bufferAtIndex:0];
}
- (id<MTLBuffer>)beta {
  return [self bufferAtIndex:1];
}
- (id<MTLBuffer>)mean {
  return [self bufferAtIndex:2];
}
- (id<MTLBuffer>)variance {
  return [self bufferAtIndex:3];
}
- (id<MTLBuffer>)gradientForGamma {
  return [self bufferAtIndex:4];
}
- (id<MTLBuffer>)gradientForBeta {
  return [self bufferAtIndex:5];
}
@end
