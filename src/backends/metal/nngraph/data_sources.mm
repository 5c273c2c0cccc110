// Classes that adopt Apple's data source protocols. Each kind of source has a class for constant parameters and a
// subclass for trained parameters, because Apple's layers treat every object that responds to the update selector as
// one that updates itself.
//
// An update decrements the read counts of the states that it receives, because these states are temporary and each is
// read only once.
#include "backends/metal/nngraph/data_sources.h"

#include "backends/metal/guarded.h"
#include "backends/metal/nngraph/images.h"
#include "backends/metal/nngraph/neurons.h"
#include "backends/metal/nngraph/optimizers.h"

#pragma clang diagnostic ignored "-Wobjc-protocol-property-synthesis"

using namespace mpsgraph;
using namespace mpsgraph::metal;

namespace {

void lower_count(MPSState* state) {
  if (state.isTemporary) state.readCount = state.readCount - 1;
}

MPSCNNConvolutionDescriptor* descriptor_of(const nngraph::ConvolutionDescriptor& d, bool fuses) {
  const auto size = [](int64_t n) { return static_cast<NSUInteger>(n); };
  const Class kind = d.depthwise ? [MPSCNNDepthWiseConvolutionDescriptor class] : [MPSCNNConvolutionDescriptor class];
  MPSCNNConvolutionDescriptor* descriptor =
      [kind cnnConvolutionDescriptorWithKernelWidth:size(d.kernel_width)
                                       kernelHeight:size(d.kernel_height)
                               inputFeatureChannels:size(d.input_feature_channels)
                              outputFeatureChannels:size(d.output_feature_channels)];
  descriptor.strideInPixelsX = size(d.stride_in_pixels_x);
  descriptor.strideInPixelsY = size(d.stride_in_pixels_y);
  descriptor.dilationRateX = size(d.dilation_rate_x);
  descriptor.dilationRateY = size(d.dilation_rate_y);
  if (!d.depthwise) descriptor.groups = size(d.groups);
  if (fuses && d.neuron.type != "none")
    descriptor.fusedNeuronDescriptor = neuron_descriptor(d.neuron.type, d.neuron.a, d.neuron.b, d.neuron.c, nullptr);
  return descriptor;
}

}  // namespace

// Common base class of all data sources.
@interface MpsgraphDataSource : NSObject <NSCopying> {
 @package
  std::shared_ptr<LayerParameters> parameters;
}
- (instancetype)initWithParameters:(const std::shared_ptr<LayerParameters>&)given;
- (BOOL)load;
- (void)purge;
- (NSString*)label;
- (float*)gamma;
- (float*)beta;
- (NSUInteger)numberOfFeatureChannels;
- (float)epsilon;
@end

@implementation MpsgraphDataSource
- (instancetype)initWithParameters:(const std::shared_ptr<LayerParameters>&)given {
  if ((self = [super init])) parameters = given;
  return self;
}
- (id)copyWithZone:(NSZone*)zone {
  return self;
}
- (BOOL)load {
  return parameters->load();
}
- (void)purge {
  parameters->purge();
}
- (NSString*)label {
  return nil;  // labels are set on the nodes, so the source has none
}
- (float*)gamma {
  return parameters->array("gamma");
}
- (float*)beta {
  return parameters->array("beta");
}
- (NSUInteger)numberOfFeatureChannels {
  return static_cast<NSUInteger>(parameters->layer.normalization.number_of_feature_channels);
}
- (float)epsilon {
  return static_cast<float>(parameters->layer.normalization.epsilon);
}
// Return the new gamma and beta of a normalization, or nil if this update leaves them unchanged.
- (MPSCNNNormalizationGammaAndBetaState*)updatedWith:(const std::vector<Derived>&)derived in:(BatchEncoding&)batch {
  MPSCNNNormalizationGammaAndBetaState* state = nil;
  parameters->failures.run([&] {
    if (parameters->update(batch, derived))
      state = [[MPSCNNNormalizationGammaAndBetaState alloc] initWithGamma:parameters->updated(batch, "gamma", 1)
                                                                     beta:parameters->updated(batch, "beta", 0)];
  });
  return state;
}
@end

// --- convolution -----------------------------------------------------------------------------------------------------

@interface MpsgraphConvolutionSource : MpsgraphDataSource <MPSCNNConvolutionDataSource> {
 @package
  ConvolutionOptions options;
}
@end

@implementation MpsgraphConvolutionSource
- (MPSDataType)dataType {
  return MPSDataTypeFloat32;
}
- (MPSDataType)kernelWeightsDataType {
  const bool rounds = parameters->layer.convolution.kernel_weights == DType::float16;
  return options.half || rounds ? MPSDataTypeFloat16 : MPSDataTypeFloat32;
}
- (MPSCNNConvolutionDescriptor*)descriptor {
  return descriptor_of(parameters->layer.convolution, options.fuses);
}
- (void*)weights {
  return parameters->array("weights");
}
- (float*)biasTerms {
  return parameters->array("biases");
}
@end

@interface MpsgraphTrainedConvolutionSource : MpsgraphConvolutionSource
@end

@implementation MpsgraphTrainedConvolutionSource
- (MPSCNNConvolutionWeightsAndBiasesState*)updateWithCommandBuffer:(id<MTLCommandBuffer>)commands
                                                     gradientState:(MPSCNNConvolutionGradientState*)gradients
                                                       sourceState:(MPSCNNConvolutionWeightsAndBiasesState*)source {
  MPSCNNConvolutionWeightsAndBiasesState* state = nil;
  BatchEncoding& batch = BatchEncoding::called_with(commands);
  parameters->failures.run([&] {
    if (!parameters->update(batch,
                            {{"weights", gradients.gradientForWeights}, {"biases", gradients.gradientForBiases}}))
      return;
    id<MTLBuffer> const biases = parameters->layer.find("biases") ? parameters->updated(batch, "biases", 0) : nil;
    state = [[MPSCNNConvolutionWeightsAndBiasesState alloc] initWithWeights:parameters->updated(batch, "weights", 0)
                                                              weightsOffset:0
                                                                     biases:biases
                                                               biasesOffset:0
                                                   cnnConvolutionDescriptor:[self descriptor]];
  });
  lower_count(gradients);
  lower_count(source);
  return state;
}
@end

// --- batch normalization ---------------------------------------------------------------------------------------------

@interface MpsgraphBatchNormalizationSource : MpsgraphDataSource <MPSCNNBatchNormalizationDataSource>
@end

@implementation MpsgraphBatchNormalizationSource
- (float*)mean {
  return parameters->array("mean");
}
- (float*)variance {
  return parameters->array("variance");
}
@end

@interface MpsgraphTrainedBatchNormalizationSource : MpsgraphBatchNormalizationSource
@end

@implementation MpsgraphTrainedBatchNormalizationSource
- (std::vector<Derived>)derivedIn:(MPSCNNBatchNormalizationState*)state {
  return {{"gamma", state.gradientForGamma},
          {"beta", state.gradientForBeta},
          {"mean", state.mean},
          {"variance", state.variance}};
}
- (MPSCNNNormalizationGammaAndBetaState*)updateGammaAndBetaWithCommandBuffer:(id<MTLCommandBuffer>)commands
                                                     batchNormalizationState:(MPSCNNBatchNormalizationState*)state {
  MPSCNNNormalizationGammaAndBetaState* updated = [self updatedWith:[self derivedIn:state]
                                                                 in:BatchEncoding::called_with(commands)];
  lower_count(state);
  return updated;
}
- (MPSCNNNormalizationMeanAndVarianceState*)updateMeanAndVarianceWithCommandBuffer:(id<MTLCommandBuffer>)commands
                                                           batchNormalizationState:
                                                               (MPSCNNBatchNormalizationState*)state {
  MPSCNNNormalizationMeanAndVarianceState* updated = nil;
  BatchEncoding& batch = BatchEncoding::called_with(commands);
  parameters->failures.run([&] {
    const bool there = parameters->layer.find("mean") && parameters->layer.find("variance");
    if (parameters->update_statistics(batch, [self derivedIn:state]) && there)
      updated =
          [[MPSCNNNormalizationMeanAndVarianceState alloc] initWithMean:parameters->updated(batch, "mean", 0)
                                                               variance:parameters->updated(batch, "variance", 1)];
  });
  lower_count(state);
  return updated;
}
@end

// --- instance and group normalization --------------------------------------------------------------------------------

namespace {

// Each image has a state with the gradients of this image. The gradient of a parameter is the sum over the states of
// all images.
template <class State>
std::vector<Derived> summed(BatchEncoding& batch, NSArray<State*>* states, int64_t channels) {
  const auto sum = [&](id<MTLBuffer> (*gradient)(State*)) -> id<MTLBuffer> {
    const runtime::NDArray array = batch.device.allocate(DType::float32, {channels});
    const BufferView view = batch.uses.view(array, Access::both);
    id<MTLBlitCommandEncoder> blit = [batch.commands blitCommandEncoder];
    [blit fillBuffer:view.buffer range:NSMakeRange(0, array.bytes()) value:0];
    [blit endEncoding];
    for (State* state in states) {
      BufferView of_image;
      of_image.buffer = gradient(state);
      encode_sum(batch.device.device, batch.commands, vector_of(of_image, channels), vector_of(view, channels));
    }
    return view.buffer;
  };
  return {{"gamma", sum([](State* state) -> id<MTLBuffer> { return state.gradientForGamma; })},
          {"beta", sum([](State* state) -> id<MTLBuffer> { return state.gradientForBeta; })}};
}

}  // namespace

@interface MpsgraphInstanceNormalizationSource : MpsgraphDataSource <MPSCNNInstanceNormalizationDataSource>
@end
@implementation MpsgraphInstanceNormalizationSource
@end

@interface MpsgraphTrainedInstanceNormalizationSource : MpsgraphInstanceNormalizationSource
@end

@implementation MpsgraphTrainedInstanceNormalizationSource
- (MPSCNNNormalizationGammaAndBetaState*)updateGammaAndBetaWithCommandBuffer:(id<MTLCommandBuffer>)commands
                                             instanceNormalizationStateBatch:
                                                 (MPSCNNInstanceNormalizationGradientStateBatch*)states {
  BatchEncoding& batch = BatchEncoding::called_with(commands);
  const auto derived = summed<MPSCNNInstanceNormalizationGradientState>(
      batch, states, static_cast<int64_t>(self.numberOfFeatureChannels));
  MPSCNNNormalizationGammaAndBetaState* updated = [self updatedWith:derived in:batch];
  for (MPSState* state in states) lower_count(state);
  return updated;
}
@end

@interface MpsgraphGroupNormalizationSource : MpsgraphDataSource <MPSCNNGroupNormalizationDataSource>
@end

@implementation MpsgraphGroupNormalizationSource
- (NSUInteger)numberOfGroups {
  return static_cast<NSUInteger>(parameters->layer.normalization.number_of_groups);
}
- (void)setNumberOfGroups:(NSUInteger)groups {
  // Does nothing, because the number of groups is a property of the layer and not of the data source.
}
@end

@interface MpsgraphTrainedGroupNormalizationSource : MpsgraphGroupNormalizationSource
@end

@implementation MpsgraphTrainedGroupNormalizationSource
- (MPSCNNNormalizationGammaAndBetaState*)updateGammaAndBetaWithCommandBuffer:(id<MTLCommandBuffer>)commands
                                                groupNormalizationStateBatch:
                                                    (MPSCNNGroupNormalizationGradientStateBatch*)states {
  BatchEncoding& batch = BatchEncoding::called_with(commands);
  const auto derived =
      summed<MPSCNNGroupNormalizationGradientState>(batch, states, static_cast<int64_t>(self.numberOfFeatureChannels));
  MPSCNNNormalizationGammaAndBetaState* updated = [self updatedWith:derived in:batch];
  for (MPSState* state in states) lower_count(state);
  return updated;
}
@end

namespace mpsgraph::metal {
namespace {

bool changes(const LayerParameters& parameters) {
  return parameters.layer.updates_itself() || parameters.layer.has_optimizer();
}

}  // namespace

id<MPSCNNConvolutionDataSource> convolution_source(const std::shared_ptr<LayerParameters>& parameters,
                                                   ConvolutionOptions options) {
  const Class kind =
      changes(*parameters) ? [MpsgraphTrainedConvolutionSource class] : [MpsgraphConvolutionSource class];
  MpsgraphConvolutionSource* source = [[kind alloc] initWithParameters:parameters];
  source->options = options;
  return source;
}

id<MPSCNNBatchNormalizationDataSource> batch_source(const std::shared_ptr<LayerParameters>& parameters) {
  const Class kind =
      changes(*parameters) ? [MpsgraphTrainedBatchNormalizationSource class] : [MpsgraphBatchNormalizationSource class];
  return [[kind alloc] initWithParameters:parameters];
}

id<MPSCNNInstanceNormalizationDataSource> instance_source(const std::shared_ptr<LayerParameters>& parameters) {
  const Class kind = changes(*parameters) ? [MpsgraphTrainedInstanceNormalizationSource class]
                                          : [MpsgraphInstanceNormalizationSource class];
  return [[kind alloc] initWithParameters:parameters];
}

id<MPSCNNGroupNormalizationDataSource> group_source(const std::shared_ptr<LayerParameters>& parameters) {
  const Class kind =
      changes(*parameters) ? [MpsgraphTrainedGroupNormalizationSource class] : [MpsgraphGroupNormalizationSource class];
  return [[kind alloc] initWithParameters:parameters];
}

}  // namespace mpsgraph::metal
