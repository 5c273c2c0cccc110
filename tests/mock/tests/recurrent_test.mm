// Tests of recurrent layers: hand-computed sequences with linear neurons, gradients against central differences,
// states, and weights.
#include <map>

#include "mps_check.h"

using namespace check;

// Data source of a 1x1 convolution with the given weights.
@interface Given : NSObject <MPSCNNConvolutionDataSource> {
 @package
  NSUInteger inputs, outputs;
  Numbers weights, biases;
  MPSNNNeuronDescriptor* neuron;
  BOOL isLoaded, refuses;
}
@end

@implementation Given
- (MPSDataType)dataType {
  return MPSDataTypeFloat32;
}
- (MPSCNNConvolutionDescriptor*)descriptor {
  CHECK(isLoaded);
  MPSCNNConvolutionDescriptor* descriptor =
      [MPSCNNConvolutionDescriptor cnnConvolutionDescriptorWithKernelWidth:1
                                                              kernelHeight:1
                                                      inputFeatureChannels:inputs
                                                     outputFeatureChannels:outputs];
  descriptor.fusedNeuronDescriptor = neuron;
  return descriptor;
}
- (void*)weights {
  CHECK(isLoaded);
  return weights.data();
}
- (float*)biasTerms {
  return biases.empty() ? nullptr : biases.data();
}
- (BOOL)load {
  isLoaded = !refuses;
  return isLoaded;
}
- (void)purge {
  isLoaded = NO;
}
- (NSString*)label {
  return nil;
}
- (id)copyWithZone:(NSZone*)zone {
  return self;
}
@end

namespace {

const std::string misused = "NSInvalidArgumentException";
using Layer = MPSRNNMatrixTrainingLayer;
using Matrices = NSMutableArray<MPSMatrix*>;
using States = NSMutableArray<MPSRNNMatrixTrainingState*>;

MPSNNNeuronDescriptor* neuron(MPSCNNNeuronType type) {
  return [MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:type a:1 b:type == MPSCNNNeuronTypeTanH ? 1 : 0];
}

Given* given(NSUInteger inputs, NSUInteger outputs, Numbers weights, Numbers biases = {},
             MPSCNNNeuronType type = MPSCNNNeuronTypeNone) {
  Given* source = [[Given alloc] init];
  source->inputs = inputs;
  source->outputs = outputs;
  source->weights = std::move(weights);
  source->biases = std::move(biases);
  source->neuron = neuron(type);
  return source;
}
// Return a data source with one input and one output channel.
Given* given(float weight, Numbers biases = {}) { return given(1, 1, {weight}, std::move(biases)); }

MPSRNNSingleGateDescriptor* single(NSUInteger inputs, NSUInteger outputs, Given* input, Given* recurrent) {
  MPSRNNSingleGateDescriptor* descriptor =
      [MPSRNNSingleGateDescriptor createRNNSingleGateDescriptorWithInputFeatureChannels:inputs
                                                                  outputFeatureChannels:outputs];
  descriptor.inputWeights = input;
  descriptor.recurrentWeights = recurrent;
  descriptor.useFloat32Weights = YES;
  return descriptor;
}

NSArray<MPSMatrix*>* sequence(NSUInteger rows, NSUInteger columns, const std::vector<Numbers>& steps) {
  NSMutableArray<MPSMatrix*>* result = [NSMutableArray array];
  for (const Numbers& step : steps) [result addObject:matrix(rows, columns, step)];
  return result;
}

struct Trained {
  Layer* layer;
  Matrices* weights;
};

Trained trained(MPSRNNDescriptor* descriptor) {
  Matrices* weights = [NSMutableArray array];
  Layer* layer = [[Layer alloc] initWithDevice:device() rnnDescriptor:descriptor trainableWeights:weights];
  return {layer, weights};
}

// Return the layer's results over the sequence, concatenated step by step.
Numbers outputs(const Trained& it, NSArray<MPSMatrix*>* sources) {
  NSMutableArray<MPSMatrix*>* results = [NSMutableArray array];
  for (MPSMatrix* source in sources) [results addObject:matrix(source.rows, it.layer.outputFeatureChannels)];
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                [it.layer encodeForwardSequenceToCommandBuffer:buffer
                                                sourceMatrices:sources
                                           destinationMatrices:results
                                                trainingStates:[NSMutableArray array]
                                                       weights:it.weights];
              }),
              std::string());
  Numbers all;
  for (MPSMatrix* result in results)
    for (float number : numbers(result)) all.push_back(number);
  return all;
}

Numbers copied(const Trained& it, NSArray<MPSMatrix*>* weights, MPSRNNMatrixId number, NSUInteger rows,
               NSUInteger columns) {
  MPSMatrix* const to = matrix(rows, columns);
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                [it.layer encodeCopyWeightsToCommandBuffer:buffer
                                                   weights:weights
                                                  matrixId:number
                                                    matrix:to
                                   copyFromWeightsToMatrix:YES
                                              matrixOffset:{0, 0, 0}];
              }),
              std::string());
  return numbers(to);
}

void set(const Trained& it, MPSRNNMatrixId number, NSUInteger rows, NSUInteger columns, const Numbers& values) {
  MPSMatrix* const from = matrix(rows, columns, values);
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                [it.layer encodeCopyWeightsToCommandBuffer:buffer
                                                   weights:it.weights
                                                  matrixId:number
                                                    matrix:from
                                   copyFromWeightsToMatrix:NO
                                              matrixOffset:{0, 0, 0}];
              }),
              std::string());
}

// Return pseudorandom numbers between -0.5 and 0.5.
Numbers scattered(size_t count, unsigned seed) {
  Numbers result;
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    result.push_back(static_cast<float>(seed >> 8) / 16777216.0f - 0.5f);
  }
  return result;
}

struct Sized {
  NSUInteger rows, columns;
};

// Check the gradients of a weighted sum of the results against central differences, for every weight and source.
void check_gradients(MPSRNNDescriptor* descriptor, const std::map<MPSRNNMatrixId, Sized>& sizes) {
  const NSUInteger batch = 2, inputs = descriptor.inputFeatureChannels, outs = descriptor.outputFeatureChannels;
  const Trained it = trained(descriptor);
  std::vector<Numbers> x, g;
  for (unsigned t = 0; t < 3; ++t) {
    x.push_back(scattered(batch * inputs, 7 + t));
    g.push_back(scattered(batch * outs, 70 + t));
  }
  NSArray<MPSMatrix*>*const sources = sequence(batch, inputs, x), *const gradients = sequence(batch, outs, g);
  NSArray<MPSMatrix*>* const results = sequence(batch, outs, std::vector<Numbers>(3, Numbers(batch * outs)));
  NSArray<MPSMatrix*>* const of_sources = sequence(batch, inputs, std::vector<Numbers>(3, Numbers(batch * inputs)));
  Matrices* const of_weights = [NSMutableArray array];
  [it.layer createWeightGradientMatrices:of_weights dataType:MPSDataTypeFloat32];
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                States* states = [NSMutableArray array];
                [it.layer encodeForwardSequenceToCommandBuffer:buffer
                                                sourceMatrices:sources
                                           destinationMatrices:results
                                                trainingStates:states
                                                       weights:it.weights];
                [it.layer encodeGradientSequenceToCommandBuffer:buffer
                                                 forwardSources:sources
                                                sourceGradients:gradients
                                           destinationGradients:of_sources
                                                weightGradients:of_weights
                                                 trainingStates:states
                                                        weights:it.weights];
              }),
              std::string());
  const auto loss = [&] {
    const Numbers all = outputs(it, sources);
    double sum = 0;
    for (size_t i = 0; i < all.size(); ++i)
      sum += static_cast<double>(all[i]) * g[i / (batch * outs)][i % (batch * outs)];
    return sum;
  };
  const float delta = 0.01f;
  for (const auto& [number, size] : sizes) {
    const Numbers before = copied(it, it.weights, number, size.rows, size.columns);
    const Numbers gradient = copied(it, of_weights, number, size.rows, size.columns);
    Numbers differences;
    for (size_t i = 0; i < before.size(); ++i) {
      Numbers changed = before;
      changed[i] = before[i] + delta;
      set(it, number, size.rows, size.columns, changed);
      const double above = loss();
      changed[i] = before[i] - delta;
      set(it, number, size.rows, size.columns, changed);
      differences.push_back(static_cast<float>((above - loss()) / (2 * delta)));
    }
    set(it, number, size.rows, size.columns, before);
    CHECK(are(gradient, differences, 3e-4));
  }
  for (NSUInteger t = 0; t < 3; ++t) {
    Numbers differences;
    float* const source = static_cast<float*>(sources[t].data.contents);
    for (size_t i = 0; i < batch * inputs; ++i) {
      source[i] = x[t][i] + delta;
      const double above = loss();
      source[i] = x[t][i] - delta;
      differences.push_back(static_cast<float>((above - loss()) / (2 * delta)));
      source[i] = x[t][i];
    }
    CHECK(are(numbers(of_sources[t]), differences, 3e-4));
  }
}

}  // namespace

TEST(single_gate_matches_hand_computed_values) {
  const Trained it = trained(single(1, 1, given(2, {1}), given(0.5f)));
  NSArray<MPSMatrix*>*const x = sequence(1, 1, {{1}, {2}}), *const h = sequence(1, 1, {{0}, {0}}),
                            *const dh = sequence(1, 1, {{1}, {1}}), *const dx = sequence(1, 1, {{0}, {0}});
  Matrices* const gradients = [NSMutableArray array];
  [it.layer createWeightGradientMatrices:gradients dataType:MPSDataTypeFloat16];
  for (const BOOL accumulates : {NO, NO, YES}) {
    it.layer.accumulateWeightGradients = accumulates;
    it.layer.trainingStateIsTemporary = accumulates;
    CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                  States* states = [NSMutableArray array];
                  [it.layer encodeForwardSequenceToCommandBuffer:buffer
                                                  sourceMatrices:x
                                             destinationMatrices:h
                                                  trainingStates:states
                                                         weights:it.weights];
                  [it.layer encodeGradientSequenceToCommandBuffer:buffer
                                                   forwardSources:x
                                                  sourceGradients:dh
                                             destinationGradients:dx
                                                  weightGradients:gradients
                                                   trainingStates:states
                                                          weights:it.weights];
                  CHECK(states[0].isTemporary == accumulates);
                  CHECK(states[0].readCount == (accumulates ? 0ul : 1ul));
                }),
                std::string());
    const float factor = accumulates ? 2 : 1;
    CHECK(are(copied(it, gradients, MPSRNNMatrixIdSingleGateInputWeights, 1, 1), {3.5f * factor}));
    CHECK(are(copied(it, gradients, MPSRNNMatrixIdSingleGateRecurrentWeights, 1, 1), {3 * factor}));
    CHECK(are(copied(it, gradients, MPSRNNMatrixIdSingleGateBiasTerms, 1, 1), {2.5f * factor}));
  }
  CHECK(are(numbers(h[0]), {3}) && are(numbers(h[1]), {6.5f}));
  CHECK(are(numbers(dx[0]), {3}) && are(numbers(dx[1]), {2}));
}

TEST(lstm_matches_hand_computed_values) {
  MPSLSTMDescriptor* descriptor = [MPSLSTMDescriptor createLSTMDescriptorWithInputFeatureChannels:1
                                                                            outputFeatureChannels:1];
  CHECK(descriptor.cellToOutputNeuronType == MPSCNNNeuronTypeTanH && descriptor.cellToOutputNeuronParamB == 1);
  descriptor.inputGateInputWeights = given(1);
  descriptor.forgetGateInputWeights = given(2);
  descriptor.cellGateInputWeights = given(3);
  descriptor.outputGateInputWeights = given(4);
  descriptor.inputGateMemoryWeights = given(1);
  descriptor.outputGateMemoryWeights = given(1);
  descriptor.cellToOutputNeuronType = MPSCNNNeuronTypeNone;
  // Step 1: I = 1, F = 2, C = 3, so c = 3, O = 4 + 3 = 7, and h = 21.
  // Step 2: I = 1 + 3 = 4, F = 2, C = 3, so c = 6 + 12 = 18, O = 4 + 18 = 22, and h = 396.
  CHECK(are(outputs(trained(descriptor), sequence(1, 1, {{1}, {1}})), {21, 396}));
  descriptor.cellToOutputNeuronType = MPSCNNNeuronTypeTanH;
  CHECK(are(outputs(trained(descriptor), sequence(1, 1, {{1}})), {7 * std::tanh(3.0f)}));
}

TEST(gru_gates_the_output_before_the_recurrent_weights) {
  MPSGRUDescriptor* descriptor = [MPSGRUDescriptor createGRUDescriptorWithInputFeatureChannels:1
                                                                         outputFeatureChannels:1];
  CHECK(descriptor.gatePnormValue == 1 && !descriptor.flipOutputGates && !descriptor.useFloat32Weights);
  descriptor.inputGateInputWeights = given(0.25f);
  descriptor.recurrentGateInputWeights = given(0.5f);
  descriptor.outputGateInputWeights = given(1);
  descriptor.outputGateRecurrentWeights = given(2);
  NSArray<MPSMatrix*>* const x = sequence(1, 1, {{1}, {1}});
  CHECK(are(outputs(trained(descriptor), x), {0.75f, 1.5f}));
  descriptor.flipOutputGates = YES;
  CHECK(are(outputs(trained(descriptor), x), {0.25f, 0.5f}));
  descriptor.flipOutputGates = NO;
  descriptor.outputGateRecurrentWeights = nil;
  descriptor.outputGateInputGateWeights = given(2);
  CHECK(are(outputs(trained(descriptor), x), {0.75f, 1.21875f}));
  descriptor.gatePnormValue = 2;
  CHECK(are(outputs(trained(descriptor), sequence(1, 1, {{1}})), {std::sqrt(1 - 0.0625f)}));
}

TEST(gradients_match_central_differences) {
  const NSUInteger in = 3, out = 2;
  const auto gate = [&](unsigned seed, MPSCNNNeuronType type) {
    return given(in, out, scattered(in * out, seed), scattered(out, seed + 1), type);
  };
  const auto square = [&](unsigned seed) { return given(out, out, scattered(out * out, seed)); };
  check_gradients(single(in, out, gate(1, MPSCNNNeuronTypeTanH), square(2)),
                  {{MPSRNNMatrixIdSingleGateInputWeights, {out, in}},
                   {MPSRNNMatrixIdSingleGateRecurrentWeights, {out, out}},
                   {MPSRNNMatrixIdSingleGateBiasTerms, {1, out}}});

  for (const BOOL diagonal : {NO, YES}) {
    MPSLSTMDescriptor* lstm = [MPSLSTMDescriptor createLSTMDescriptorWithInputFeatureChannels:in
                                                                        outputFeatureChannels:out];
    lstm.useFloat32Weights = YES;
    lstm.memoryWeightsAreDiagonal = diagonal;
    const auto peephole = [&](unsigned seed) {
      return diagonal ? given(out, out, scattered(out, seed)) : square(seed);
    };
    lstm.inputGateInputWeights = gate(1, MPSCNNNeuronTypeSigmoid), lstm.inputGateRecurrentWeights = square(2);
    lstm.forgetGateInputWeights = gate(3, MPSCNNNeuronTypeSigmoid), lstm.forgetGateRecurrentWeights = square(4);
    lstm.cellGateInputWeights = gate(5, MPSCNNNeuronTypeTanH), lstm.cellGateRecurrentWeights = square(6);
    lstm.outputGateInputWeights = gate(7, MPSCNNNeuronTypeSigmoid), lstm.outputGateRecurrentWeights = square(8);
    lstm.inputGateMemoryWeights = peephole(9), lstm.forgetGateMemoryWeights = peephole(10);
    lstm.cellGateMemoryWeights = peephole(11), lstm.outputGateMemoryWeights = peephole(12);
    std::map<MPSRNNMatrixId, Sized> sizes;
    for (NSUInteger first = MPSRNNMatrixIdLSTMInputGateInputWeights; first < 19; first += 4) {
      sizes[MPSRNNMatrixId(first)] = {out, in};
      sizes[MPSRNNMatrixId(first + 1)] = {out, out};
      sizes[MPSRNNMatrixId(first + 2)] = {diagonal ? 1 : out, out};
      sizes[MPSRNNMatrixId(first + 3)] = {1, out};
    }
    check_gradients(lstm, sizes);
  }

  for (const float p : {1.0f, 2.0f})
    for (const BOOL flipped : {NO, YES}) {
      MPSGRUDescriptor* gru = [MPSGRUDescriptor createGRUDescriptorWithInputFeatureChannels:in
                                                                      outputFeatureChannels:out];
      gru.useFloat32Weights = YES;
      gru.gatePnormValue = p;
      gru.flipOutputGates = flipped;
      gru.inputGateInputWeights = gate(1, MPSCNNNeuronTypeSigmoid), gru.inputGateRecurrentWeights = square(2);
      gru.recurrentGateInputWeights = gate(3, MPSCNNNeuronTypeSigmoid), gru.recurrentGateRecurrentWeights = square(4);
      gru.outputGateInputWeights = gate(5, MPSCNNNeuronTypeTanH), gru.outputGateRecurrentWeights = square(6);
      gru.outputGateInputGateWeights = square(7);
      check_gradients(gru, {{MPSRNNMatrixIdGRUInputGateInputWeights, {out, in}},
                            {MPSRNNMatrixIdGRUInputGateRecurrentWeights, {out, out}},
                            {MPSRNNMatrixIdGRUInputGateBiasTerms, {1, out}},
                            {MPSRNNMatrixIdGRURecurrentGateInputWeights, {out, in}},
                            {MPSRNNMatrixIdGRURecurrentGateRecurrentWeights, {out, out}},
                            {MPSRNNMatrixIdGRURecurrentGateBiasTerms, {1, out}},
                            {MPSRNNMatrixIdGRUOutputGateInputWeights, {out, in}},
                            {MPSRNNMatrixIdGRUOutputGateRecurrentWeights, {out, out}},
                            {MPSRNNMatrixIdGRUOutputGateInputGateWeights, {out, out}},
                            {MPSRNNMatrixIdGRUOutputGateBiasTerms, {1, out}}});
    }
}

TEST(weights_are_float16_by_default) {
  const float fine = 1 + 1.0f / 4096;
  MPSRNNSingleGateDescriptor* const descriptor = single(1, 1, given(fine), given(fine));
  CHECK(are(outputs(trained(descriptor), sequence(1, 1, {{1}})), {fine}, 1e-7));
  descriptor.useFloat32Weights = NO;
  const Trained half = trained(descriptor);
  CHECK(half.weights[0].dataType == MPSDataTypeFloat16);
  CHECK(are(outputs(half, sequence(1, 1, {{1}})), {1}, 1e-7));
}

TEST(weight_matrices_are_zeroed_and_share_one_layout) {
  const Trained it = trained(single(2, 1, given(2, 1, {1, 2}, {3}), given(4)));
  Matrices *const other = [NSMutableArray array], *const gradients = [NSMutableArray array];
  [it.layer createWeightMatrices:other];
  CHECK(other.count == it.weights.count && other[0].rows == it.weights[0].rows);
  for (float number : numbers(other[0].data)) CHECK(number == 0);  // The padding is zero, too.
  CHECK(are(copied(it, it.weights, MPSRNNMatrixIdSingleGateInputWeights, 1, 2), {1, 2}));
  CHECK(are(copied(it, it.weights, MPSRNNMatrixIdSingleGateBiasTerms, 1, 1), {3}));
  CHECK_EQUAL(raised_by(^{ copied(it, it.weights, MPSRNNMatrixIdGRUInputGateBiasTerms, 1, 1); }), misused);
  CHECK_EQUAL(raised_by(^{ [it.layer createWeightMatrices:other]; }), misused);
  CHECK_EQUAL(raised_by(^{ [it.layer createWeightGradientMatrices:gradients dataType:MPSDataTypeInt32]; }), misused);
  // Temporary gradients belong to one command buffer and must be read before it is committed.
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                Matrices* temporary = [NSMutableArray array];
                [it.layer createTemporaryWeightGradientMatrices:temporary
                                                       dataType:MPSDataTypeFloat32
                                                  commandBuffer:buffer];
              }),
              std::string("commit: the readCount of MPSTemporaryMatrix must be 0, got 1"));
}

TEST(failing_data_source_gives_nil_layer) {
  Given* const refusing = given(1);
  refusing->refuses = YES;
  CHECK(trained(single(1, 1, given(1), refusing)).layer == nil);
  // The weights have one input channel, but the layer has two.
  CHECK_EQUAL(raised_by(^{ trained(single(2, 1, given(1), nil)); }), misused);
}

TEST(sequences_may_share_a_buffer_and_end_early) {
  // The buffer holds two rows with one column per step. The second step has only one row.
  id<MTLBuffer> const data = buffer({1, 2, 3, 4});
  MPSMatrix* (^const view)(NSUInteger) = ^(NSUInteger rows) {
    return [[MPSMatrix alloc] initWithBuffer:data
                                  descriptor:[MPSMatrixDescriptor matrixDescriptorWithRows:rows
                                                                                   columns:1
                                                                                  rowBytes:8
                                                                                  dataType:MPSDataTypeFloat32]];
  };
  const Trained it = trained(single(1, 1, given(1), given(10)));
  MPSMatrix *const first = matrix(2, 1), *const second = matrix(1, 1);
  NSMutableArray<MPSRNNRecurrentMatrixState*>* const states = [NSMutableArray array];
  it.layer.storeAllIntermediateStates = YES;
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> commands) {
                NSUInteger offsets[] = {0, 4};
                [it.layer encodeForwardSequenceToCommandBuffer:commands
                                                sourceMatrices:@[ view(2), view(1) ]
                                                 sourceOffsets:offsets
                                           destinationMatrices:@[ first, second ]
                                            destinationOffsets:nullptr
                                                trainingStates:[NSMutableArray array]
                                           recurrentInputState:nil
                                         recurrentOutputStates:states
                                                       weights:it.weights];
                CHECK_EQUAL(raised_by(^{
                              [it.layer encodeForwardSequenceToCommandBuffer:commands
                                                              sourceMatrices:@[ view(1), view(2) ]
                                                         destinationMatrices:@[ second, first ]
                                                              trainingStates:[NSMutableArray array]
                                                                     weights:it.weights];
                            }),
                            misused);
                CHECK_EQUAL(raised_by(^{
                              [it.layer encodeForwardSequenceToCommandBuffer:commands
                                                              sourceMatrices:@[ first ]
                                                         destinationMatrices:@[ first ]
                                                              trainingStates:[NSMutableArray array]
                                                                     weights:it.weights];
                            }),
                            misused);
                for (MPSRNNRecurrentMatrixState* state in states) [state synchronizeOnCommandBuffer:commands];
              }),
              std::string());
  CHECK(are(numbers(first), {1, 3}) && are(numbers(second), {12}));
  CHECK(states.count == 2 && are(numbers((MPSMatrix*)[states[0] getRecurrentOutputMatrixForLayerIndex:0]), {1, 3}));
  CHECK([states[0] getMemoryCellMatrixForLayerIndex:0] == nil);
  // The next call continues from the stored state.
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> commands) {
                [it.layer encodeForwardSequenceToCommandBuffer:commands
                                                sourceMatrices:@[ matrix(1, 1, {5}) ]
                                                 sourceOffsets:nullptr
                                           destinationMatrices:@[ second ]
                                            destinationOffsets:nullptr
                                                trainingStates:[NSMutableArray array]
                                           recurrentInputState:states[1]
                                         recurrentOutputStates:nil
                                                       weights:it.weights];
              }),
              std::string());
  CHECK(are(numbers(second), {125}));
}

TEST(stacked_inference_layers_keep_states) {
  MPSRNNMatrixInferenceLayer* const stack = [[MPSRNNMatrixInferenceLayer alloc]
      initWithDevice:device()
      rnnDescriptors:@[ single(1, 2, given(1, 2, {1, 2}), nil), single(2, 1, given(2, 1, {1, 1}), given(1)) ]];
  CHECK(stack.numberOfLayers == 2 && stack.inputFeatureChannels == 1 && stack.outputFeatureChannels == 1);
  NSArray<MPSMatrix*>*const x = sequence(1, 1, {{1}, {2}}), *const h = sequence(1, 1, {{0}, {0}});
  NSMutableArray<MPSRNNRecurrentMatrixState*>* const states = [NSMutableArray array];
  stack.recurrentOutputIsTemporary = YES;
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                [stack encodeSequenceToCommandBuffer:buffer
                                      sourceMatrices:@[ x[0] ]
                                 destinationMatrices:@[ h[0] ]
                                 recurrentInputState:nil
                               recurrentOutputStates:states];
                [stack encodeSequenceToCommandBuffer:buffer
                                      sourceMatrices:@[ x[1] ]
                                 destinationMatrices:@[ h[1] ]
                                 recurrentInputState:states[0]
                               recurrentOutputStates:nil];
                CHECK(states[0].readCount == 0);
              }),
              std::string());
  CHECK(are(numbers(h[0]), {3}) && are(numbers(h[1]), {9}));
}

TEST(bidirectional_results_are_separate_added_or_concatenated) {
  MPSRNNSingleGateDescriptor *const forward = single(1, 1, given(1), given(1)), *const backward =
                                                                                    single(1, 1, given(10), given(1));
  backward.layerSequenceDirection = MPSRNNSequenceDirectionBackward;
  MPSRNNMatrixInferenceLayer* const both = [[MPSRNNMatrixInferenceLayer alloc] initWithDevice:device()
                                                                               rnnDescriptors:@[ forward, backward ]];
  NSArray<MPSMatrix*>*const x = sequence(1, 1, {{1}, {2}}), *const first = sequence(1, 1, {{0}, {0}}),
                            *const second = sequence(1, 1, {{0}, {0}}), *const sum = sequence(1, 1, {{0}, {0}}),
                            *const pair = sequence(1, 2, {{0, 0}, {0, 0}});
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                [both encodeBidirectionalSequenceToCommandBuffer:buffer
                                                  sourceSequence:x
                                      destinationForwardMatrices:first
                                     destinationBackwardMatrices:second];
                both.bidirectionalCombineMode = MPSRNNBidirectionalCombineModeAdd;
                [both encodeBidirectionalSequenceToCommandBuffer:buffer
                                                  sourceSequence:x
                                      destinationForwardMatrices:sum
                                     destinationBackwardMatrices:nil];
                both.bidirectionalCombineMode = MPSRNNBidirectionalCombineModeConcatenate;
                [both encodeBidirectionalSequenceToCommandBuffer:buffer
                                                  sourceSequence:x
                                      destinationForwardMatrices:pair
                                     destinationBackwardMatrices:nil];
              }),
              std::string());
  CHECK(are(numbers(first[0]), {1}) && are(numbers(first[1]), {3}));
  CHECK(are(numbers(second[0]), {30}) && are(numbers(second[1]), {20}));
  CHECK(are(numbers(sum[0]), {31}) && are(numbers(pair[1]), {3, 20}));
  CHECK_EQUAL(raised_by(^{ trained(backward); }), misused);
}

TEST(image_inference_layers_use_float16_weights) {
  const float fine = 1 + 1.0f / 4096;
  MPSRNNDescriptor* const descriptor = single(1, 1, given(fine), given(1));
  MPSRNNImageInferenceLayer* const layer = [[MPSRNNImageInferenceLayer alloc] initWithDevice:device()
                                                                               rnnDescriptor:descriptor];
  NSArray<MPSImage*>*const x = @[ image(1, 1, 1, {1}), image(1, 1, 1, {2}) ], *const h =
                                                                                  @[ image(1, 1, 1), image(1, 1, 1) ];
  NSMutableArray<MPSRNNRecurrentImageState*>* const states = [NSMutableArray array];
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                [layer encodeSequenceToCommandBuffer:buffer
                                        sourceImages:x
                                   destinationImages:h
                                 recurrentInputState:nil
                               recurrentOutputStates:states];
                MPSImageBatchSynchronize(h, buffer);
                CHECK_EQUAL(raised_by(^{
                              [layer encodeSequenceToCommandBuffer:buffer
                                                      sourceImages:@[ image(1, 2, 1) ]
                                                 destinationImages:@[ image(1, 2, 1) ]
                                               recurrentInputState:nil
                                             recurrentOutputStates:nil];
                            }),
                            misused);
              }),
              std::string());
  CHECK(are(numbers(h[0]), {1}, 1e-7) && are(numbers(h[1]), {3}, 1e-7));
  CHECK(states.count == 1 && [states[0] getMemoryCellImageForLayerIndex:0] == nil);
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                [layer encodeSequenceToCommandBuffer:buffer
                                        sourceImages:@[ x[0] ]
                                   destinationImages:@[ h[0] ]
                                 recurrentInputState:states[0]
                               recurrentOutputStates:nil];
                [h[0] synchronizeOnCommandBuffer:buffer];
              }),
              std::string());
  CHECK(are(numbers(h[0]), {4}, 1e-7));
}

int main() { return check::run_all(); }
