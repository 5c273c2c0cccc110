// Tests of MPSNNGraph: handles, formats, exports, pruning, read counts, data sources and updates, and training graphs.
#include "nodes_check.h"

using namespace check;

// Padding policy that shifts the window and requests one more column than "same" padding.
@interface ShiftedPadding : NSObject <MPSNNPadding> {
 @package
  NSInteger shift;
}
@end
@implementation ShiftedPadding
+ (BOOL)supportsSecureCoding {
  return YES;
}
- (MPSNNPaddingMethod)paddingMethod {
  return MPSNNPaddingMethodCustom | MPSNNPaddingMethodSizeSame;
}
- (MPSImageDescriptor*)destinationImageDescriptorForSourceImages:(NSArray<MPSImage*>*)images
                                                    sourceStates:(NSArray<MPSState*>*)states
                                                       forKernel:(MPSKernel*)kernel
                                             suggestedDescriptor:(MPSImageDescriptor*)descriptor {
  auto* filter = (MPSCNNKernel*)kernel;
  filter.offset = {filter.offset.x + shift, filter.offset.y, 0};
  descriptor.width += 1;
  return descriptor;
}
- (void)encodeWithCoder:(NSCoder*)coder {
}
- (instancetype)initWithCoder:(NSCoder*)coder {
  return [super init];
}
@end

// Weights that the CPU sets to 10 in their update.
@interface HostWeights : FrozenWeights
@end
@implementation HostWeights
- (BOOL)updateWithGradientState:(MPSCNNConvolutionGradientState*)gradient
                    sourceState:(MPSCNNConvolutionWeightsAndBiasesState*)source {
  seen = check::numbers(gradient.gradientForWeights);
  weights = {10};
  return YES;
}
@end

namespace {

constexpr auto half = MPSImageFeatureChannelFormatFloat16;
constexpr auto single = MPSImageFeatureChannelFormatFloat32;

MPSNNFilterNode* linear(MPSNNImageNode* source, float a) {
  return [MPSCNNNeuronLinearNode nodeWithSource:source a:a b:0];
}

MPSCNNLossLabels* labels_of(Size size, const Numbers& numbers) {
  NSData* data = [NSData dataWithBytes:numbers.data() length:numbers.size() * sizeof(float)];
  MPSCNNLossDataDescriptor* descriptor =
      [MPSCNNLossDataDescriptor cnnLossDataDescriptorWithData:data
                                                       layout:MPSDataLayoutHeightxWidthxFeatureChannels
                                                         size:{size.width, size.height, size.channels}];
  return [[MPSCNNLossLabels alloc] initWithDevice:device() labelsDescriptor:descriptor];
}

MPSCNNLossDescriptor* squares(MPSCNNReductionType reduction = MPSCNNReductionTypeSum) {
  return [MPSCNNLossDescriptor cnnLossDescriptorWithType:MPSCNNLossTypeMeanSquaredError reductionType:reduction];
}

// The model y = w x + b with one channel, trained with squared error.
struct Line {
  Weights* weights;
  MPSNNGraph* graph;

  explicit Line(MPSNNTrainingStyle style = MPSNNTrainingStyleUpdateDeviceGPU, BOOL isNeeded = NO) {
    weights = [[Weights alloc] initWithDescriptor:convolution(1, 1, 1, 1) weights:{1} biases:{0}];
    MPSCNNConvolutionNode* node = [MPSCNNConvolutionNode nodeWithSource:input(@"x") weights:weights];
    node.trainingStyle = style;
    MPSCNNLossNode* loss = [MPSCNNLossNode nodeWithSource:node.resultImage lossDescriptor:squares()];
    NSArray<MPSNNFilterNode*>* last = [loss trainingGraphWithSourceGradient:nil nodeHandler:nil];
    graph = [MPSNNGraph graphWithDevice:device() resultImage:last[0].resultImage resultImageIsNeeded:isNeeded];
    graph.format = single;
  }
  // Inputs 2 and 3 with labels 5 and 5 give the weight the gradient 2 (-3) 2 + 2 (-2) 3 = -24 and the bias the gradient
  // -10.
  MPSImageBatch* encode(id<MTLCommandBuffer> buffer) const {
    return [graph encodeBatchToCommandBuffer:buffer
                                sourceImages:@[ batch_of({1, 1, 1}, {2, 3}) ]
                                sourceStates:@[ @[ labels_of({1, 1, 1}, {5}), labels_of({1, 1, 1}, {5}) ] ]];
  }
  std::string step() const {
    return run(^(id<MTLCommandBuffer> buffer) { encode(buffer); });
  }
};

// --- results and formats ---------------------------------------------------------------------------------------------

TEST(results_are_float16_by_default) {
  MPSNNGraph* graph = [MPSNNGraph graphWithDevice:device()
                                      resultImage:linear(input(@"x"), 1.0f / 3).resultImage
                              resultImageIsNeeded:YES];
  CHECK_EQUAL(graph.format, half);
  const Batches given = {{"x", batch_of({1, 1, 1}, {1})}};
  __block MPSImageBatch* result = nil;
  run(^(id<MTLCommandBuffer> buffer) {
    result = [graph encodeBatchToCommandBuffer:buffer sourceImages:in_order(graph, given) sourceStates:nil];
    MPSImageBatchSynchronize(result, buffer);
  });
  CHECK_EQUAL(result[0].featureChannelFormat, half);
  uint16_t number = 0;
  [result[0] readBytes:&number dataLayout:MPSDataLayoutHeightxWidthxFeatureChannels imageIndex:0];
  CHECK_EQUAL(number, 0x3555);  // 0.333251953125
  // Intermediate images are rounded too, and a format set on a node is kept.
  MPSNNFilterNode* first = linear(input(@"x"), 1.0f / 3);
  MPSNNFilterNode* second = linear(first.resultImage, 3);
  second.resultImage.format = single;
  MPSNNGraph* chain = [MPSNNGraph graphWithDevice:device() resultImage:second.resultImage resultImageIsNeeded:YES];
  CHECK(are(run(chain, given), {0.999755859375f}));
}

TEST(results_need_synchronization_before_reading) {
  MPSNNGraph* graph = graph_of(linear(input(@"x"), 2).resultImage);
  __block MPSImage* result = nil;
  run(^(id<MTLCommandBuffer> buffer) {
    result = [graph encodeToCommandBuffer:buffer sourceImages:@[ image(1, 1, 1, {21}) ]];
  });
  CHECK(numbers(result)[0] != 42);
}

TEST(graph_without_needed_results_is_nil) {
  Weights* weights = [[Weights alloc] initWithDescriptor:convolution(1, 1, 1, 1) weights:{1} biases:{0}];
  MPSNNImageNode* result = [MPSCNNConvolutionNode nodeWithSource:input(@"x") weights:weights].resultImage;
  CHECK(![MPSNNGraph graphWithDevice:device() resultImage:result resultImageIsNeeded:NO]);
  CHECK_EQUAL(weights->calls, "");
}

TEST(multiple_results_and_exported_images) {
  MPSNNFilterNode* first = linear(input(@"x"), 2);
  first.resultImage.exportFromGraph = YES;
  first.resultImage.handle = [Handle named:@"twice"];
  first.resultImage.imageAllocator = [MPSImage defaultAllocator];
  first.resultImage.synchronizeResource = YES;
  MPSNNImageNode* a = linear(first.resultImage, 3).resultImage;
  MPSNNImageNode* b = linear(first.resultImage, 5).resultImage;
  b.handle = [Handle named:@"b"];
  MPSNNGraph* graph = [MPSNNGraph graphWithDevice:device() resultImages:@[ a, b ] resultsAreNeeded:nil];
  graph.format = single;
  NSMutableArray<MPSImageBatch*>* others = [NSMutableArray array];
  __block MPSImageBatch* result = nil;
  run(^(id<MTLCommandBuffer> buffer) {
    result = [graph encodeBatchToCommandBuffer:buffer
                                  sourceImages:@[ batch_of({1, 1, 1}, {1, 10}) ]
                                  sourceStates:nil
                            intermediateImages:others
                             destinationStates:nil];
    MPSImageBatchSynchronize(result, buffer);
    MPSImageBatchSynchronize(others[1], buffer);
  });
  CHECK(are(numbers(result[1]), {60}));
  CHECK_EQUAL(others.count, 2u);
  CHECK_EQUAL(graph.intermediateImageHandles.count, 2u);
  for (NSUInteger i = 0; i < 2; ++i) {
    const bool is_b = text(graph.intermediateImageHandles[i].label) == "b";
    CHECK(are(numbers(others[i][1]), {is_b ? 100.f : 20.f}));
  }
}

TEST(handles_distinguish_inputs) {
  MPSNNImageNode* result = [MPSNNSubtractionNode nodeWithLeftSource:input(@"a") rightSource:input(@"b")].resultImage;
  MPSNNGraph* graph = graph_of(result);
  CHECK_EQUAL(graph.sourceImageHandles.count, 2u);
  CHECK(are(run(graph, {{"a", batch_of({1, 1, 1}, {5})}, {"b", batch_of({1, 1, 1}, {3})}}), {2}));
  CHECK_EQUAL(raised_by(^{
                graph_of([MPSNNAdditionNode nodeWithLeftSource:[MPSNNImageNode nodeWithHandle:nil]
                                                   rightSource:input(@"b")]
                             .resultImage);
              }),
              "NSInvalidArgumentException");
}

TEST(wrong_arguments_raise) {
  MPSNNGraph* graph = graph_of([MPSNNAdditionNode nodeWithLeftSource:input(@"a") rightSource:input(@"b")].resultImage);
  const auto refused = [&](NSArray<MPSImageBatch*>* images, NSArray<MPSStateBatch*>* states) {
    return raised_by(^{
             id<MTLCommandBuffer> buffer = [queue() commandBuffer];
             [graph encodeBatchToCommandBuffer:buffer sourceImages:images sourceStates:states];
           }) == "NSInvalidArgumentException";
  };
  MPSImageBatch* one = batch_of({1, 1, 1}, {1});
  CHECK(refused(@[ one ], nil));
  CHECK(refused(@[ one, batch_of({1, 1, 1}, {1, 2}) ], nil));
  CHECK(refused(@[ one, batch_of({1, 2, 1}, {1, 2}) ], nil));
  CHECK(refused(@[ one, @[] ], nil));
  CHECK(refused(@[ one, one ], @[ @[ labels_of({1, 1, 1}, {1}) ] ]));
  CHECK(!refused(@[ one, one ], nil));
  CHECK_EQUAL(raised_by(^{ graph_of(input(@"x")); }), "NSInvalidArgumentException");
}

TEST(temporary_sources_are_read_once) {
  MPSNNGraph* graph = graph_of(linear(input(@"x"), 2).resultImage);
  CHECK_EQUAL([graph readCountForSourceImageAtIndex:0], 1u);
  __block MPSImage* last = nil;
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                MPSNNGraph* before = graph_of(linear(input(@"x"), 3).resultImage);
                before.destinationImageAllocator = [MPSTemporaryImage defaultAllocator];
                auto* middle = (MPSTemporaryImage*)[before encodeToCommandBuffer:buffer
                                                                    sourceImages:@[ image(1, 1, 1, {7}) ]];
                CHECK_EQUAL(middle.readCount, 1u);
                last = [graph encodeToCommandBuffer:buffer sourceImages:@[ middle ]];
                CHECK_EQUAL(middle.readCount, 0u);
                CHECK_EQUAL(raised_by(^{ [graph encodeToCommandBuffer:buffer sourceImages:@[ middle ]]; }),
                            "NSInvalidArgumentException");
                [last synchronizeOnCommandBuffer:buffer];
              }),
              "");
  CHECK(are(numbers(last), {42}));
}

TEST(graph_executes_asynchronously_without_a_command_buffer) {
  MPSNNGraph* graph = graph_of(linear(input(@"x"), 2).resultImage);
  dispatch_semaphore_t done = dispatch_semaphore_create(0);
  __block Numbers got;
  [graph executeAsyncWithSourceImages:@[ image(1, 2, 1, {1, 2}) ]
                    completionHandler:^(MPSImage* result, NSError*) {
                      got = numbers(result);
                      dispatch_semaphore_signal(done);
                    }];
  dispatch_semaphore_wait(done, DISPATCH_TIME_FOREVER);
  CHECK(are(got, {2, 4}));
}

// --- data sources ----------------------------------------------------------------------------------------------------

TEST(loads_and_purges_are_balanced) {
  Line line;
  const std::string& calls = line.weights->calls;
  CHECK_EQUAL(std::count(calls.begin(), calls.end(), 'l'), std::count(calls.begin(), calls.end(), 'p'));
  CHECK_EQUAL(calls.substr(0, 3), "ldp");
  CHECK(calls.find('w') != std::string::npos);
  const size_t before = calls.size();
  CHECK_EQUAL(line.step(), "");
  CHECK_EQUAL(calls.substr(before), "u");  // An update does not request the weights.
  Weights* refusing = [[Weights alloc] initWithDescriptor:convolution(1, 1, 1, 1) weights:{1} biases:{0}];
  refusing->refuses = true;
  CHECK(![MPSNNGraph graphWithDevice:device()
                         resultImage:[MPSCNNConvolutionNode nodeWithSource:input(@"x") weights:refusing].resultImage
                 resultImageIsNeeded:YES]);
}

TEST(training_step_updates_weights_once_for_the_next_step) {
  Line line(MPSNNTrainingStyleUpdateDeviceGPU, YES);
  __block MPSImageBatch* first = nil;
  __block MPSImageBatch* second = nil;
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                first = line.encode(buffer);
                second = line.encode(buffer);
                MPSImageBatchSynchronize(first, buffer);
                MPSImageBatchSynchronize(second, buffer);
                CHECK(are(numbers(line.weights->own.weights), {1}));  // Nothing has run yet.
              }),
              "");
  CHECK(are(numbers(first[0]), {-6}));  // 2 (1 * 2 - 5) * 1
  // With w = 1 + 0.5 * 24 = 13 and b = 5, the gradient of the input is 2 (13 * 2 + 5 - 5) 13 = 676.
  CHECK(are(numbers(second[0]), {676}));
  // At w = 13 and b = 5, the gradients are 2 * 26 * 2 + 2 * 39 * 3 = 338 for w and 2 * 26 + 2 * 39 = 130 for b.
  CHECK(are(numbers(line.weights->own.weights), {13 - 169}));
  CHECK(are(numbers(line.weights->own.biases), {5 - 65}));
  CHECK_EQUAL(std::count(line.weights->calls.begin(), line.weights->calls.end(), 'u'), 2);
}

TEST(kernel_weights_use_the_type_the_data_source_requests) {
  const auto value = [](bool keeps) {
    const Make make = [=](NSArray<MPSNNImageNode*>* sources) {
      Class kind = keeps ? [FrozenWeights class] : NSClassFromString(@"HalfWeights");
      return [MPSCNNConvolutionNode nodeWithSource:sources[0]
                                           weights:[[kind alloc] initWithDescriptor:convolution(1, 1, 1, 1)
                                                                            weights:{1 + 0x1p-12f}
                                                                             biases:{0x1p-12f}]];
    };
    return value_of(make, {1, 1, 1}, {1})[0];
  };
  CHECK_EQUAL(value(true), 1 + 0x1p-11f);
  CHECK_EQUAL(value(false), 1 + 0x1p-12f);
}

TEST(update_that_keeps_read_counts_raises) {
  Line line;
  line.weights->keeps_counts = true;
  CHECK_EQUAL(raised_by(^{ line.encode([queue() commandBuffer]); }), "NSInvalidArgumentException");
  Line other;
  other.weights->returns_source = true;
  CHECK_EQUAL(raised_by(^{ other.encode([queue() commandBuffer]); }), "NSInvalidArgumentException");
}

TEST(data_source_exception_propagates_to_encode) {
  Line line;
  line.weights->raises = true;
  CHECK_EQUAL(raised_by(^{ line.encode([queue() commandBuffer]); }), "Update");
  line.weights->raises = false;
  CHECK_EQUAL(line.step(), "");
  CHECK(are(numbers(line.weights->own.weights), {13}));
}

TEST(training_style_none_never_updates) {
  Line line(MPSNNTrainingStyleUpdateDeviceNone, YES);
  CHECK_EQUAL(line.step(), "");
  CHECK(line.weights->calls.find('u') == std::string::npos);
}

TEST(reloading_during_a_pending_command_buffer_raises) {
  Weights* weights = [[Weights alloc] initWithDescriptor:convolution(1, 1, 1, 1) weights:{2} biases:{0}];
  MPSNNGraph* graph = graph_of([MPSCNNConvolutionNode nodeWithSource:input(@"x") weights:weights].resultImage);
  const Batches given = {{"x", batch_of({1, 1, 1}, {10})}};
  weights->weights = {3};
  CHECK(are(run(graph, given), {20}));
  [graph reloadFromDataSources];
  CHECK(are(run(graph, given), {30}));
  id<MTLCommandBuffer> buffer = [queue() commandBuffer];
  [graph encodeBatchToCommandBuffer:buffer sourceImages:in_order(graph, given) sourceStates:nil];
  CHECK_EQUAL(raised_by(^{ [graph reloadFromDataSources]; }), "NSInvalidArgumentException");
  [buffer commit];
  [buffer waitUntilCompleted];
  [graph reloadFromDataSources];
}

// --- training graphs -------------------------------------------------------------------------------------------------

TEST(gradients_of_branches_are_added) {
  // y = 2x * 3x, so the gradient with respect to x is 12x.
  MPSNNImageNode* x = linear(input(@"x"), 1).resultImage;
  MPSNNFilterNode* last = [MPSNNMultiplicationNode nodeWithLeftSource:linear(x, 2).resultImage
                                                          rightSource:linear(x, 3).resultImage];
  __block int additions = 0, gradients = 0;
  NSArray<MPSNNFilterNode*>* ends =
      [last trainingGraphWithSourceGradient:[MPSNNInitialGradientNode nodeWithSource:last.resultImage].resultImage
                                nodeHandler:^(MPSNNFilterNode* gradient, MPSNNFilterNode* inference, MPSNNImageNode*,
                                              MPSNNImageNode*) {
                                  if (inference)
                                    ++gradients;
                                  else
                                    ++additions;
                                  gradient.resultImage.format = single;
                                }];
  CHECK_EQUAL(additions, 1);
  CHECK_EQUAL(gradients, 5);
  CHECK_EQUAL(ends.count, 1u);
  CHECK(are(run(graph_of(ends[0].resultImage), {{"x", batch_of({1, 2, 1}, {1, 2})}}), {12, 24}));
}

TEST(stop_gradient_ends_the_training_graph) {
  MPSNNFilterNode* first = linear(input(@"x"), 2);
  first.resultImage.stopGradient = YES;
  MPSNNFilterNode* last = linear(first.resultImage, 3);
  NSArray<MPSNNFilterNode*>* ends = [last trainingGraphWithSourceGradient:input(@"e") nodeHandler:nil];
  CHECK_EQUAL(ends.count, 1u);
  CHECK(
      are(run(graph_of(ends[0].resultImage), {{"x", batch_of({1, 1, 1}, {1})}, {"e", batch_of({1, 1, 1}, {1})}}), {3}));
}

TEST(loss_node_returns_value_and_gradient) {
  MPSCNNLossNode* loss = [MPSCNNLossNode nodeWithSource:input(@"x") lossDescriptor:squares()];
  MPSNNGraph* graph = graph_of(loss.resultImage);
  MPSCNNLossLabels* labels = labels_of({1, 2, 1}, {1, 5});
  __block MPSImageBatch* result = nil;
  run(^(id<MTLCommandBuffer> buffer) {
    result = [graph encodeBatchToCommandBuffer:buffer
                                  sourceImages:@[ batch_of({1, 2, 1}, {3, 4}) ]
                                  sourceStates:@[ @[ labels ] ]];
    MPSImageBatchSynchronize(result, buffer);
    [labels synchronizeOnCommandBuffer:buffer];
  });
  CHECK(are(numbers(result[0]), {4, -2}));
  CHECK(are(numbers(labels.lossImage), {5}));
  CHECK_EQUAL(graph.sourceStateHandles.count, 1u);
  CHECK_EQUAL(raised_by(^{ [loss gradientFilterWithSource:input(@"e")]; }), "NSInvalidArgumentException");
}

TEST(training_with_an_mps_command_buffer) {
  Line line;
  MPSCommandBuffer* buffer = [MPSCommandBuffer commandBufferFromCommandQueue:queue()];
  for (int i = 0; i < 20; ++i) line.encode(buffer);
  line.weights->optimizer.learningRate = 0;
  id<MTLCommandBuffer> last = buffer.rootCommandBuffer;
  [buffer commit];
  [last waitUntilCompleted];
  CHECK(!last.error);
}

// --- whole networks --------------------------------------------------------------------------------------------------

Weights* source_of(MPSCNNConvolutionDescriptor* descriptor, size_t weights, int seed) {
  Numbers start = spread(weights, seed);
  for (float& number : start) number *= 0.5f;
  Weights* made = [[Weights alloc] initWithDescriptor:descriptor
                                              weights:start
                                               biases:Numbers(descriptor.outputFeatureChannels, 0)];
  made->optimizer.learningRate = 0.02f;
  return made;
}

TEST(training_halves_the_loss_of_a_small_network) {
  Weights* first = source_of(convolution(3, 3, 1, 4), 36, 1);
  Weights* second = source_of(convolution(2, 2, 4, 3), 48, 2);
  MPSNNImageNode* x = [MPSCNNConvolutionNode nodeWithSource:input(@"x") weights:first].resultImage;
  x = [MPSCNNNeuronReLUNode nodeWithSource:x a:0].resultImage;
  x = [MPSCNNPoolingMaxNode nodeWithSource:x filterSize:2].resultImage;
  x = [MPSCNNDropoutNode nodeWithSource:x keepProbability:0.9f seed:3 maskStrideInPixels:{1, 1, 1}].resultImage;
  x = [MPSCNNFullyConnectedNode nodeWithSource:x weights:second].resultImage;
  MPSCNNLossNode* loss =
      [MPSCNNLossNode nodeWithSource:x
                      lossDescriptor:[MPSCNNLossDescriptor cnnLossDescriptorWithType:MPSCNNLossTypeSoftMaxCrossEntropy
                                                                       reductionType:MPSCNNReductionTypeSum]];
  NSArray<MPSNNFilterNode*>* last =
      [loss trainingGraphWithSourceGradient:nil
                                nodeHandler:^(MPSNNFilterNode* gradient, MPSNNFilterNode*, MPSNNImageNode*,
                                              MPSNNImageNode*) { gradient.resultImage.format = single; }];
  MPSNNGraph* graph = [MPSNNGraph graphWithDevice:device() resultImage:last[0].resultImage resultImageIsNeeded:NO];
  NSMutableArray<MPSCNNLossLabels*>* labels = [NSMutableArray array];
  for (int n = 0; n < 6; ++n)
    [labels addObject:labels_of({1, 1, 3}, {n % 3 == 0 ? 1.f : 0.f, n % 3 == 1 ? 1.f : 0.f, n % 3 == 2 ? 1.f : 0.f})];
  MPSImageBatch* images = batch_of({4, 4, 1}, spread(96));
  const auto step = [&] {
    const std::string error = run(^(id<MTLCommandBuffer> buffer) {
      CHECK(![graph encodeBatchToCommandBuffer:buffer sourceImages:@[ images ] sourceStates:@[ labels ]]);
      MPSStateBatchSynchronize(labels, buffer);
    });
    CHECK_EQUAL(error, "");
    float sum = 0;
    for (MPSCNNLossLabels* each in labels) sum += numbers(each.lossImage)[0];
    return sum;
  };
  const float before = step();
  float after = before;
  for (int i = 0; i < 80; ++i) after = step();
  CHECK(before > 4);
  CHECK(after < 0.5f * before);
}

TEST(cpu_update_runs_after_the_command_buffer) {
  HostWeights* weights = [[HostWeights alloc] initWithDescriptor:convolution(1, 1, 1, 1) weights:{1} biases:{0}];
  MPSCNNConvolutionNode* node = [MPSCNNConvolutionNode nodeWithSource:input(@"x") weights:weights];
  node.trainingStyle = MPSNNTrainingStyleUpdateDeviceCPU;
  MPSCNNLossNode* loss = [MPSCNNLossNode nodeWithSource:node.resultImage lossDescriptor:squares()];
  MPSNNFilterNode* last = [loss trainingGraphWithSourceGradient:nil nodeHandler:nil][0];
  MPSNNGraph* graph = graph_of(last.resultImage);
  const auto step = [&] {
    const Numbers gradient = run(graph, {{"x", batch_of({1, 1, 1}, {2, 3})}},
                                 @[ @[ labels_of({1, 1, 1}, {5}), labels_of({1, 1, 1}, {5}) ] ]);
    mock_wait_until_idle(60);
    return gradient;
  };
  CHECK(are(step(), {-6, -4}));
  CHECK(are(weights->seen, {-24}));
  CHECK(are(step(), {300, 500}));  // With w = 10, the gradients are 2 (20 - 5) 10 and 2 (30 - 5) 10.
}

TEST(gradient_state_is_exported) {
  Weights* weights = [[FrozenWeights alloc] initWithDescriptor:convolution(1, 1, 1, 1) weights:{1} biases:{0}];
  MPSCNNConvolutionNode* node = [MPSCNNConvolutionNode nodeWithSource:input(@"x") weights:weights];
  node.convolutionGradientState.exportFromGraph = YES;
  node.convolutionGradientState.handle = [Handle named:@"state"];
  MPSNNGraph* graph = graph_of([node gradientFilterWithSource:input(@"error")].resultImage);
  CHECK_EQUAL(text(graph.resultStateHandles[0].label), "state");
  const Batches given = {{"x", batch_of({1, 1, 1}, {2, 3})}, {"error", batch_of({1, 1, 1}, {5, 7})}};
  NSMutableArray<MPSStateBatch*>* states = [NSMutableArray array];
  run(^(id<MTLCommandBuffer> buffer) {
    [graph encodeBatchToCommandBuffer:buffer
                         sourceImages:in_order(graph, given)
                         sourceStates:nil
                   intermediateImages:nil
                    destinationStates:states];
    MPSStateBatchSynchronize(states[0], buffer);
  });
  auto* state = (MPSCNNConvolutionGradientState*)states[0][0];
  CHECK(are(numbers(state.gradientForWeights), {31}));
  CHECK(are(numbers(state.gradientForBiases), {12}));
  CHECK(!state.isTemporary);
}

TEST(custom_padding_policy_shifts_the_window) {
  const auto value = [](NSInteger shift) {
    return value_of(
        [=](NSArray<MPSNNImageNode*>* sources) {
          MPSCNNConvolutionNode* node =
              [MPSCNNConvolutionNode nodeWithSource:sources[0]
                                            weights:[[FrozenWeights alloc] initWithDescriptor:convolution(1, 3, 1, 1)
                                                                                      weights:{1, 10, 100}
                                                                                       biases:{0}]];
          ShiftedPadding* padding = [[ShiftedPadding alloc] init];
          padding->shift = shift;
          node.paddingPolicy = padding;
          return node;
        },
        {1, 3, 1}, {1, 2, 3});
  };
  CHECK(are(value(0), {210, 321, 32, 3}));
  CHECK(are(value(1), {321, 32, 3, 0}));
}

TEST(graphs_and_training_steps_do_not_leak) {
  const auto train = [](int steps) {
    Line line;
    for (int i = 0; i < steps; ++i) line.step();
  };
  train(2);
  CHECK_EQUAL(leaves([&] { train(20); }), 0);
}

}  // namespace

// Weights that kernels store in float16, which is the default.
@interface HalfWeights : FrozenWeights
@end
@implementation HalfWeights
- (MPSDataType)kernelWeightsDataType {
  return MPSDataTypeFloat16;
}
@end

int main() { return run_all(); }
