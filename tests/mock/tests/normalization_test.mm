// Tests of batch, instance, and group normalization: statistics, parameter gradients, CPU and GPU updates, and read
// counts.
#include "nodes_check.h"

#pragma clang diagnostic ignored "-Wobjc-protocol-property-synthesis"

using namespace check;

// Base class of the three data sources, with parameters, a log of calls, and the states passed to the last update.
@interface NormalizationSource : NSObject <NSCopying> {
 @package
  Numbers gamma, beta, mean, variance;
  // One letter per call: l load, p purge, g update of gamma and beta, m update of mean and variance.
  std::string calls;
  NSArray<MPSState*>* seen;
  bool keeps_counts;
}
+ (instancetype)sourceWithGamma:(const Numbers&)gamma beta:(const Numbers&)beta;
@property(nonatomic, readonly) NSUInteger numberOfFeatureChannels;
- (float*)gamma;
- (float*)beta;
- (float*)mean;
- (float*)variance;
- (BOOL)load;
- (void)purge;
- (NSString*)label;
- (void)lower:(NSArray<MPSState*>*)states;
@end

@implementation NormalizationSource
+ (instancetype)sourceWithGamma:(const Numbers&)gamma beta:(const Numbers&)beta {
  NormalizationSource* made = [[self alloc] init];
  made->gamma = gamma;
  made->beta = beta;
  return made;
}
- (id)copyWithZone:(NSZone*)zone {
  return self;
}
- (NSUInteger)numberOfFeatureChannels {
  return gamma.size();
}
- (float*)gamma {
  return gamma.data();
}
- (float*)beta {
  return beta.data();
}
- (float*)mean {
  return mean.empty() ? nullptr : mean.data();
}
- (float*)variance {
  return variance.empty() ? nullptr : variance.data();
}
- (float)epsilon {
  return 0.25f;
}
- (BOOL)load {
  calls += "l";
  return YES;
}
- (void)purge {
  calls += "p";
}
- (NSString*)label {
  return @"normalization";
}
- (void)lower:(NSArray<MPSState*>*)states {
  if (!keeps_counts)
    for (MPSState* state in states) state.readCount = state.readCount - 1;
}
@end

@interface PlainBatchSource : NormalizationSource <MPSCNNBatchNormalizationDataSource>
@end
@implementation PlainBatchSource
@end

@interface BatchSource : PlainBatchSource
@end
@implementation BatchSource
- (MPSCNNNormalizationGammaAndBetaState*)updateGammaAndBetaWithCommandBuffer:(id<MTLCommandBuffer>)buffer
                                                     batchNormalizationState:(MPSCNNBatchNormalizationState*)state {
  calls += "g";
  [self lower:@[ state ]];
  return [[MPSCNNNormalizationGammaAndBetaState alloc] initWithGamma:check::buffer({10, 10})
                                                                beta:check::buffer({1, 2})];
}
- (MPSCNNNormalizationMeanAndVarianceState*)updateMeanAndVarianceWithCommandBuffer:(id<MTLCommandBuffer>)buffer
                                                           batchNormalizationState:
                                                               (MPSCNNBatchNormalizationState*)state {
  calls += "m";
  [self lower:@[ state ]];
  return nil;
}
@end

@interface HostBatchSource : PlainBatchSource
@end
@implementation HostBatchSource
- (BOOL)updateGammaAndBetaWithBatchNormalizationState:(MPSCNNBatchNormalizationState*)state {
  calls += "g";
  seen = @[ state ];
  gamma = {7, 7};
  return YES;
}
@end

@interface InstanceSource : NormalizationSource <MPSCNNInstanceNormalizationDataSource>
@end
@implementation InstanceSource
- (BOOL)updateGammaAndBetaWithInstanceNormalizationStateBatch:(MPSCNNInstanceNormalizationGradientStateBatch*)states {
  calls += "g";
  seen = states;
  return NO;
}
@end

@interface GroupSource : NormalizationSource <MPSCNNGroupNormalizationDataSource>
@end
@implementation GroupSource {
  NSUInteger _groups;
}
- (NSUInteger)numberOfGroups {
  return _groups;
}
- (void)setNumberOfGroups:(NSUInteger)groups {
  _groups = groups;
}
- (MPSCNNNormalizationGammaAndBetaState*)updateGammaAndBetaWithCommandBuffer:(id<MTLCommandBuffer>)buffer
                                                groupNormalizationStateBatch:
                                                    (MPSCNNGroupNormalizationGradientStateBatch*)states {
  calls += "g";
  [self lower:states];
  return nil;
}
@end

namespace {

// Two images of two pixels. The first channel holds 1 3 and 2 2, the second 0 0 and 0 4.
const Numbers x = {1, 0, 3, 0, 2, 0, 2, 4};
const Size size = {1, 2, 2};

Make batch(PlainBatchSource* source, MPSCNNBatchNormalizationFlags flags = MPSCNNBatchNormalizationFlagsDefault) {
  return [=](NSArray<MPSNNImageNode*>* sources) {
    MPSCNNBatchNormalizationNode* node = [MPSCNNBatchNormalizationNode nodeWithSource:sources[0] dataSource:source];
    node.flags = flags;
    return node;
  };
}

float root(double n) { return static_cast<float>(1 / std::sqrt(n)); }

TEST(batch_normalization_uses_stored_statistics_for_inference) {
  PlainBatchSource* source = [PlainBatchSource sourceWithGamma:{2, 1} beta:{0.5, 0}];
  source->mean = {1, 1};
  source->variance = {3.75, 0.75};
  CHECK(are(value_of(batch(source), size, x), {0.5, -1, 2.5, -1, 1.5, -1, 1.5, 3}));
  // The channels have means 2 and 1 and variances 1/2 and 3.
  const float a = 2 * root(0.75), b = root(3.25);
  CHECK(are(value_of(batch(source, MPSCNNBatchNormalizationFlagsCalculateStatisticsAlways), size, x),
            {0.5f - a, -b, 0.5f + a, -b, 0.5, -b, 0.5, 3 * b}));
  CHECK(source->calls.size() % 2 == 0 && source->calls.substr(0, 2) == "lp");
  CHECK(gradients_agree(batch(source, MPSCNNBatchNormalizationFlagsCalculateStatisticsAlways), {{2, 2, 2}},
                        {spread(16)}));
  CHECK(
      gradients_agree(batch(source, MPSCNNBatchNormalizationFlagsCalculateStatisticsNever), {{2, 2, 2}}, {spread(16)}));
}

MPSNNGraph* backward(MPSNNFilterNode* node) {
  return graph_of([node gradientFiltersWithSource:input(@"error")][0].resultImage);
}

const Numbers error = {1, 2, 3, 4, 5, 6, 7, 8};

TEST(batch_normalization_calls_both_update_methods) {
  BatchSource* source = [BatchSource sourceWithGamma:{2, 1} beta:{0.5, 0}];
  MPSCNNBatchNormalizationNode* node = (MPSCNNBatchNormalizationNode*)batch(source)(@[ input(@"x") ]);
  MPSNNGraph* graph = [MPSNNGraph graphWithDevice:device()
                                     resultImages:@[
                                       [node gradientFilterWithSource:input(@"error")].resultImage,
                                       [MPSCNNNeuronLinearNode nodeWithSource:node.resultImage a:1 b:0].resultImage
                                     ]
                                 resultsAreNeeded:nil];
  graph.format = MPSImageFeatureChannelFormatFloat32;
  const Batches given = {{"x", batch_of(size, x)}, {"error", batch_of(size, error)}};
  NSMutableArray<MPSImageBatch*>* others = [NSMutableArray array];
  const auto step = [&] {
    return run(^(id<MTLCommandBuffer> buffer) {
      [others removeAllObjects];
      [graph encodeBatchToCommandBuffer:buffer
                           sourceImages:in_order(graph, given)
                           sourceStates:nil
                     intermediateImages:others
                      destinationStates:nil];
      MPSImageBatchSynchronize(others[0], buffer);
    });
  };
  source->calls = "";
  CHECK_EQUAL(step(), "");
  CHECK(source->calls == "gm" || source->calls == "mg");
  CHECK_EQUAL(step(), "");
  const float a = 10 * root(0.75), b = 10 * root(3.25);  // This uses the gamma and beta that the update returned.
  CHECK(are(numbers(others[0][0]), {1 - a, 2 - b, 1 + a, 2 - b}));
  source->keeps_counts = true;
  CHECK_EQUAL(raised_by(^{
                [graph encodeBatchToCommandBuffer:[queue() commandBuffer]
                                     sourceImages:in_order(graph, given)
                                     sourceStates:nil];
              }),
              "NSInvalidArgumentException");
}

// Run a graph whose filter is updated on the CPU, wait for the update, and return the states passed to it.
NSArray<MPSState*>* states_of(MPSNNGraph* graph, NormalizationSource* source) {
  const Batches given = {{"x", batch_of(size, x)}, {"error", batch_of(size, error)}};
  source->calls = "";
  run(graph, given);
  mock_wait_until_idle(60);
  return source->seen;
}

TEST(cpu_update_receives_gradients_and_reloads_parameters) {
  HostBatchSource* source = [HostBatchSource sourceWithGamma:{2, 1} beta:{0.5, 0}];
  MPSCNNBatchNormalizationNode* node = (MPSCNNBatchNormalizationNode*)batch(source)(@[ input(@"x") ]);
  node.trainingStyle = MPSNNTrainingStyleUpdateDeviceCPU;
  auto* state = (MPSCNNBatchNormalizationState*)states_of(backward(node), source)[0];
  CHECK_EQUAL(source->calls, "glp");
  CHECK(are(numbers(state.gradientForBeta), {16, 20}));
  // Sums of (x - mean) * error: -1 + 3 = 2 in the first channel and -2 - 4 - 6 + 24 = 12 in the second.
  CHECK(are(numbers(state.gradientForGamma), {2 * root(0.75), 12 * root(3.25)}));
  CHECK(are(numbers(state.mean), {2, 1}));
  CHECK(are(numbers(state.variance), {0.5, 3}));
}

TEST(instance_normalization_has_one_state_per_image) {
  InstanceSource* source = [InstanceSource sourceWithGamma:{2, 1} beta:{0.5, 0}];
  const Make make = [=](NSArray<MPSNNImageNode*>* sources) {
    return [MPSCNNInstanceNormalizationNode nodeWithSource:sources[0] dataSource:source];
  };
  // In the first image, channel 0 has mean 2 and variance 1, and channel 1 is zero. In the second, channel 0 is
  // constant, and channel 1 has mean 2 and variance 4.
  const float a = 2 * root(1.25), b = 2 * root(4.25);
  CHECK(are(value_of(make, size, x), {0.5f - a, 0, 0.5f + a, 0, 0.5, -b, 0.5, b}));
  CHECK(gradients_agree(make, {{2, 3, 2}}, {spread(24)}));
  MPSCNNInstanceNormalizationNode* node = (MPSCNNInstanceNormalizationNode*)make(@[ input(@"x") ]);
  node.trainingStyle = MPSNNTrainingStyleUpdateDeviceCPU;
  NSArray* states = states_of(backward(node), source);
  CHECK_EQUAL(states.count, 2u);
  CHECK_EQUAL(source->calls, "g");
  CHECK(are(numbers(((MPSCNNInstanceNormalizationGradientState*)states[0]).gradientForBeta), {4, 6}));
  CHECK(are(numbers(((MPSCNNInstanceNormalizationGradientState*)states[1]).gradientForGamma), {0, 4 * root(4.25)}));
}

TEST(group_normalization_normalizes_groups_of_channels) {
  GroupSource* source = [GroupSource sourceWithGamma:{2, 1} beta:{0.5, 0}];
  source.numberOfGroups = 1;
  const Make make = [=](NSArray<MPSNNImageNode*>* sources) {
    return [MPSCNNGroupNormalizationNode nodeWithSource:sources[0] dataSource:source];
  };
  // The first image has mean 1 and variance 3/2, the second mean 2 and variance 2.
  const float a = root(1.75), b = root(2.25);
  CHECK(are(value_of(make, size, x), {0.5, -a, 0.5f + 4 * a, -a, 0.5, -2 * b, 0.5, 2 * b}));
  GroupSource* four = [GroupSource sourceWithGamma:spread(4) beta:spread(4, 2)];
  four.numberOfGroups = 2;
  const Make groups = [=](NSArray<MPSNNImageNode*>* sources) {
    return [MPSCNNGroupNormalizationNode nodeWithSource:sources[0] dataSource:four];
  };
  CHECK(gradients_agree(groups, {{2, 3, 4}}, {spread(48)}));
  CHECK(four->calls.find('g') != std::string::npos);
  four->keeps_counts = true;
  CHECK_EQUAL(raised_by(^{ gradients_agree(groups, {{2, 3, 4}}, {spread(48)}); }), "NSInvalidArgumentException");
  four.numberOfGroups = 3;
  CHECK_EQUAL(raised_by(^{ value_of(groups, {2, 3, 4}, spread(48)); }), "NSInvalidArgumentException");
}

}  // namespace

int main() { return run_all(); }
