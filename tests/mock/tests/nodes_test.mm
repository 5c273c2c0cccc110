// Tests of neural network nodes: values against hand-computed ones, and gradients against central differences.
#include "nodes_check.h"

using namespace check;

// Weights stored as bytes, decoded with a range per output channel or with a lookup table.
@interface ByteWeights : FrozenWeights {
 @package
  MPSCNNWeightsQuantizationType kind;
  std::vector<uint8_t> bytes;
  vector_float2 ranges[2];
  float table[256];
}
@end
@implementation ByteWeights
- (MPSDataType)dataType {
  return MPSDataTypeUInt8;
}
- (MPSDataType)kernelWeightsDataType {
  return MPSDataTypeFloat16;
}
- (void*)weights {
  return bytes.data();
}
- (MPSCNNWeightsQuantizationType)weightsQuantizationType {
  return kind;
}
- (vector_float2*)rangesForUInt8Kernel {
  return ranges;
}
- (float*)lookupTableForUInt8Kernel {
  return table;
}
@end

namespace {

Make convolution_node(MPSCNNConvolutionDescriptor* descriptor, MPSNNPaddingMethod method, const Numbers& w,
                      const Numbers& b) {
  return [=](NSArray<MPSNNImageNode*>* sources) {
    MPSCNNConvolutionNode* node =
        [MPSCNNConvolutionNode nodeWithSource:sources[0]
                                      weights:[[FrozenWeights alloc] initWithDescriptor:descriptor weights:w biases:b]];
    node.paddingPolicy = [MPSNNDefaultPadding paddingWithMethod:method];
    return node;
  };
}

// --- convolution -----------------------------------------------------------------------------------------------------

TEST(convolution_is_a_cross_correlation_with_bias) {
  const Numbers x = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto valid =
      convolution_node(convolution(2, 2, 1, 1), MPSNNPaddingMethodSizeValidOnly, {1, 10, 100, 1000}, {0.5});
  CHECK(are(value_of(valid, {3, 3, 1}, x), {5421.5, 6532.5, 8754.5, 9865.5}));
  // With an even kernel, the extra padding goes before the image unless the policy puts it after.
  const auto same = convolution_node(convolution(1, 2, 1, 1), MPSNNPaddingMethodSizeSame, {1, 10}, {0});
  CHECK(are(value_of(same, {1, 3, 1}, {1, 2, 3}), {10, 21, 32}));
  const auto after = convolution_node(
      convolution(1, 2, 1, 1), MPSNNPaddingMethodSizeSame | MPSNNPaddingMethodAddRemainderToBottomRight, {1, 10}, {0});
  CHECK(are(value_of(after, {1, 3, 1}, {1, 2, 3}), {21, 32, 3}));
  const auto full = convolution_node(convolution(1, 3, 1, 1), MPSNNPaddingMethodSizeFull, {1, 10, 100}, {0});
  CHECK(are(value_of(full, {1, 2, 1}, {1, 2}), {100, 210, 21, 2}));
}

TEST(convolution_with_strides_dilation_groups_and_depth) {
  MPSCNNConvolutionDescriptor* strided = convolution(3, 3, 2, 3);
  strided.strideInPixelsX = 2;
  strided.dilationRateY = 2;
  CHECK(gradients_agree(convolution_node(strided, MPSNNPaddingMethodSizeSame, spread(54), spread(3)), {{5, 6, 2}},
                        {spread(120)}));
  MPSCNNConvolutionDescriptor* grouped = convolution(2, 2, 8, 4);
  grouped.groups = 2;
  CHECK(gradients_agree(convolution_node(grouped, MPSNNPaddingMethodSizeValidOnly, spread(64), spread(4)), {{3, 3, 8}},
                        {spread(72)}));
  MPSCNNConvolutionDescriptor* deep = [MPSCNNDepthWiseConvolutionDescriptor cnnConvolutionDescriptorWithKernelWidth:3
                                                                                                       kernelHeight:1
                                                                                               inputFeatureChannels:2
                                                                                              outputFeatureChannels:2];
  const auto each = convolution_node(deep, MPSNNPaddingMethodSizeValidOnly, {1, 10, 100, 2, 20, 200}, {0, 1});
  CHECK(are(value_of(each, {1, 3, 2}, {1, 4, 2, 5, 3, 6}), {321, 1309}));
  CHECK(gradients_agree(each, {{2, 4, 2}}, {spread(16)}, 5e-3));
}

TEST(quantized_weights_are_decoded_by_range_or_table) {
  ByteWeights* source = [[ByteWeights alloc] initWithDescriptor:convolution(1, 1, 1, 2) weights:{0, 0} biases:{0, 1}];
  source->bytes = {51, 255};
  source->ranges[0] = {0, 5};
  source->ranges[1] = {-1, 3};
  source->table[51] = 7;
  source->table[255] = 8;
  const auto value = [&](MPSCNNWeightsQuantizationType kind) {
    source->kind = kind;
    return value_of(
        [=](NSArray<MPSNNImageNode*>* sources) {
          return [MPSCNNConvolutionNode nodeWithSource:sources[0] weights:source];
        },
        {1, 1, 1}, {2});
  };
  CHECK(are(value(MPSCNNWeightsQuantizationTypeLinear), {2, 7}));
  CHECK(are(value(MPSCNNWeightsQuantizationTypeLookupTable), {14, 17}));
  CHECK_EQUAL(raised_by(^{ value(MPSCNNWeightsQuantizationTypeNone); }), "NSInvalidArgumentException");
}

TEST(fully_connected_layer_convolves_the_whole_image) {
  const Make make = [](NSArray<MPSNNImageNode*>* sources) {
    return [MPSCNNFullyConnectedNode nodeWithSource:sources[0]
                                            weights:[[FrozenWeights alloc] initWithDescriptor:convolution(1, 2, 2, 2)
                                                                                      weights:{1, 2, 3, 4, 5, 6, 7, 8}
                                                                                       biases:{0, 100}]];
  };
  CHECK(are(value_of(make, {1, 2, 2}, {1, 10, 100, 1000}), {4321, 8765 + 100}));
  CHECK(gradients_agree(make, {{1, 2, 2}}, {spread(8)}));
  CHECK_EQUAL(raised_by(^{ value_of(make, {1, 3, 2}, spread(6)); }), "NSInvalidArgumentException");
}

TEST(transposed_convolution_inserts_zeros_for_the_stride) {
  const auto transposed = [](NSUInteger stride, MPSNNPaddingMethod method) {
    return [=](NSArray<MPSNNImageNode*>* sources) {
      MPSCNNConvolutionDescriptor* descriptor = convolution(1, 3, 1, 1);
      descriptor.strideInPixelsX = stride;
      MPSCNNConvolutionTransposeNode* node =
          [MPSCNNConvolutionTransposeNode nodeWithSource:sources[0]
                                convolutionGradientState:nil
                                                 weights:[[FrozenWeights alloc] initWithDescriptor:descriptor
                                                                                           weights:{1, 10, 100}
                                                                                            biases:{0}]];
      node.paddingPolicy = [MPSNNDefaultPadding paddingWithMethod:method];
      return static_cast<MPSNNFilterNode*>(node);
    };
  };
  // The weights are not flipped: they slide over the source with a zero inserted for the stride (1 0 2) and zeros
  // around it.
  CHECK(are(value_of(transposed(2, MPSNNPaddingMethodSizeFull), {1, 2, 1}, {1, 2}), {100, 10, 201, 20, 2}));
  CHECK(are(value_of(transposed(2, MPSNNPaddingMethodSizeSame), {1, 2, 1}, {1, 2}), {10, 201, 20}));
  CHECK(gradients_agree(transposed(2, MPSNNPaddingMethodSizeFull), {{2, 3, 1}}, {spread(6)}, 5e-3));
}

TEST(transposed_convolution_restores_the_input_size) {
  MPSCNNConvolutionDescriptor* strided = convolution(1, 2, 1, 1);
  strided.strideInPixelsX = 2;
  MPSCNNConvolutionNode* forward = [MPSCNNConvolutionNode
      nodeWithSource:input(@"0")
             weights:[[FrozenWeights alloc] initWithDescriptor:strided weights:{1, 1} biases:{0}]];
  MPSCNNConvolutionTransposeNode* back = [MPSCNNConvolutionTransposeNode
                nodeWithSource:forward.resultImage
      convolutionGradientState:forward.convolutionGradientState
                       weights:[[FrozenWeights alloc] initWithDescriptor:strided weights:{1, 10} biases:{0}]];
  const Numbers result = run(graph_of(back.resultImage), {{"0", batch_of({1, 5, 1}, {1, 2, 3, 4, 5})}});
  CHECK_EQUAL(result.size(), size_t{5});
}

TEST(gradient_node_can_be_created_directly) {
  MPSNNImageNode* x = input(@"x");
  Weights* weights = [[FrozenWeights alloc] initWithDescriptor:convolution(1, 1, 1, 1) weights:{3} biases:{0}];
  MPSCNNConvolutionNode* forward = [MPSCNNConvolutionNode nodeWithSource:x weights:weights];
  MPSCNNConvolutionGradientNode* backward =
      [MPSCNNConvolutionGradientNode nodeWithSourceGradient:input(@"error")
                                                sourceImage:x
                                   convolutionGradientState:forward.convolutionGradientState
                                                    weights:weights];
  const Batches given = {{"x", batch_of({1, 1, 1}, {5})}, {"error", batch_of({1, 1, 1}, {2})}};
  CHECK(are(run(graph_of(backward.resultImage), given), {6}));
  CHECK_EQUAL(raised_by(^{
                [MPSCNNConvolutionGradientNode nodeWithSourceGradient:input(@"error")
                                                          sourceImage:input(@"y")
                                             convolutionGradientState:forward.convolutionGradientState
                                                              weights:weights];
              }),
              "NSInvalidArgumentException");
}

// --- pooling ---------------------------------------------------------------------------------------------------------

template <class Node>
Make pooling(NSUInteger size, NSUInteger stride, id<MPSNNPadding> padding) {
  return [=](NSArray<MPSNNImageNode*>* sources) {
    Node* node = [[Node alloc] initWithSource:sources[0] filterSize:size stride:stride];
    if (padding) node.paddingPolicy = padding;
    return node;
  };
}

TEST(pooling_ignores_pixels_outside_the_image) {
  const Numbers x = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  id<MPSNNPadding> valid = [MPSNNDefaultPadding paddingForTensorflowAveragePoolingValidOnly];
  id<MPSNNPadding> same = [MPSNNDefaultPadding paddingForTensorflowAveragePooling];
  CHECK(are(value_of(pooling<MPSCNNPoolingMaxNode>(2, 1, valid), {3, 3, 1}, x), {5, 6, 8, 9}));
  CHECK(are(value_of(pooling<MPSCNNPoolingMaxNode>(2, 2, same), {3, 3, 1}, x), {5, 6, 8, 9}));
  CHECK(are(value_of(pooling<MPSCNNPoolingAverageNode>(2, 2, same), {3, 3, 1}, x), {3, 4.5, 7.5, 9}));
  CHECK(are(value_of(pooling<MPSCNNPoolingL2NormNode>(2, 2, valid), {2, 2, 1}, {1, 2, 2, 4}), {5}));
  const Make dilated = [&](NSArray<MPSNNImageNode*>* sources) {
    MPSCNNDilatedPoolingMaxNode* node = [MPSCNNDilatedPoolingMaxNode nodeWithSource:sources[0]
                                                                         filterSize:2
                                                                             stride:1
                                                                       dilationRate:2];
    node.paddingPolicy = valid;
    return node;
  };
  CHECK(are(value_of(dilated, {3, 3, 1}, x), {9}));
  CHECK(gradients_agree(dilated, {{4, 4, 2}}, {spread(32)}));
  CHECK(gradients_agree(pooling<MPSCNNPoolingMaxNode>(2, 2, same), {{5, 4, 2}}, {spread(80)}));
  CHECK(gradients_agree(pooling<MPSCNNPoolingAverageNode>(3, 2, same), {{5, 4, 2}}, {spread(40)}));
  CHECK(gradients_agree(pooling<MPSCNNPoolingL2NormNode>(3, 2, valid), {{5, 5, 1}}, {spread(25)}));
}

// --- element-wise ----------------------------------------------------------------------------------------------------

TEST(neurons_match_their_formulas) {
  const auto neuron = [](MPSCNNNeuronType type, float a, float b, float c) -> Make {
    MPSNNNeuronDescriptor* descriptor = [MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:type a:a b:b c:c];
    return [=](NSArray<MPSNNImageNode*>* sources) {
      return [MPSCNNNeuronNode nodeWithSource:sources[0] descriptor:descriptor];
    };
  };
  for (int type = 0; type < MPSCNNNeuronTypeCount; ++type) {
    if (type == MPSCNNNeuronTypePReLU) continue;
    const bool positive = type == MPSCNNNeuronTypePower || type == MPSCNNNeuronTypeLogarithm;
    const auto kind = static_cast<MPSCNNNeuronType>(type);
    CHECK(gradients_agree(neuron(kind, 0.5f, positive ? 2 : 0.7f, 2), {{2, 3, 2}}, {spread(12)}));
  }
  const Make prelu = [](NSArray<MPSNNImageNode*>* sources) {
    const float slopes[] = {0.5f, 0.25f};
    return [MPSCNNNeuronPReLUNode nodeWithSource:sources[0] aData:[NSData dataWithBytes:slopes length:sizeof slopes]];
  };
  CHECK(are(value_of(prelu, {1, 2, 2}, {-4, -4, 4, 4}), {-2, -1, 4, 4}));
  const Make relu = [](NSArray<MPSNNImageNode*>* sources) {
    return [MPSCNNNeuronReLUNode nodeWithSource:sources[0] a:0.25f];
  };
  CHECK(are(value_of(relu, {1, 3, 1}, {-4, 0, 4}), {-1, 0, 4}));
  CHECK_EQUAL(raised_by(^{ [MPSCNNNeuronReLUNode nodeWithSource:input(@"0")]; }), "NSInvalidArgumentException");
}

TEST(softmax_normalizes_the_channels_of_each_pixel) {
  const Make softmax = [](NSArray<MPSNNImageNode*>* sources) { return [MPSCNNSoftMaxNode nodeWithSource:sources[0]]; };
  const Make logarithm = [](NSArray<MPSNNImageNode*>* sources) {
    return [MPSCNNLogSoftMaxNode nodeWithSource:sources[0]];
  };
  const auto third = static_cast<float>(std::log(2));
  CHECK(are(value_of(softmax, {1, 2, 2}, {0, third, 5, 5}), {1 / 3.f, 2 / 3.f, 0.5, 0.5}));
  CHECK(are(value_of(logarithm, {1, 1, 2}, {1000, 1000}), {-third, -third}));
  CHECK(gradients_agree(softmax, {{2, 1, 5}}, {spread(20)}));
  CHECK(gradients_agree(logarithm, {{2, 1, 5}}, {spread(20)}));
}

TEST(dropout_gradient_uses_the_forward_mask) {
  const auto dropout = [](MTLSize stride) {
    return [MPSCNNDropoutNode nodeWithSource:input(@"0") keepProbability:0.25f seed:7 maskStrideInPixels:stride];
  };
  MPSCNNDropoutNode* node = dropout({1, 1, 1});
  MPSNNImageNode* forward = node.resultImage;
  MPSNNImageNode* backward = [node gradientFilterWithSource:input(@"error")].resultImage;
  MPSNNGraph* graph =
      [MPSNNGraph graphWithDevice:device()
                     resultImages:@[ backward, [MPSCNNNeuronLinearNode nodeWithSource:forward a:1 b:0].resultImage ]
                 resultsAreNeeded:nil];
  graph.format = MPSImageFeatureChannelFormatFloat32;
  const Batches given = {{"0", batch_of({20, 20, 1}, Numbers(400, 3))},
                         {"error", batch_of({20, 20, 1}, Numbers(400, 1))}};
  NSMutableArray<MPSImageBatch*>* others = [NSMutableArray array];
  __block MPSImageBatch* result = nil;
  const std::string error = run(^(id<MTLCommandBuffer> buffer) {
    result = [graph encodeBatchToCommandBuffer:buffer
                                  sourceImages:in_order(graph, given)
                                  sourceStates:nil
                            intermediateImages:others
                             destinationStates:nil];
    MPSImageBatchSynchronize(result, buffer);
    MPSImageBatchSynchronize(others[0], buffer);
  });
  CHECK_EQUAL(error, "");
  const Numbers kept = numbers(others[0][0]), passed = numbers(result[0]);
  int count = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    CHECK(kept[i] == 0 || kept[i] == 12);
    CHECK_EQUAL(passed[i] * 3, kept[i]);
    count += kept[i] != 0;
  }
  CHECK(count > 60 && count < 140);
  MPSNNGraph* rows = graph_of(dropout({0, 1, 1}).resultImage);  // The mask has one value per row.
  const Numbers again = run(rows, {{"0", given.at("0")}});
  for (size_t i = 0; i < 400; ++i) CHECK_EQUAL(again[i], again[i / 20 * 20]);
  CHECK(run(rows, {{"0", given.at("0")}}) != again);
}

TEST(arithmetic_of_two_images) {
  const auto of = [](Class kind) -> Make {
    return [kind](NSArray<MPSNNImageNode*>* sources) { return [kind nodeWithSources:sources]; };
  };
  const auto value = [&](const Make& make, const Numbers& a, const Numbers& b) {
    return run(graph_of(make(@[ input(@"0"), input(@"1") ]).resultImage),
               {{"0", batch_of({1, 2, 1}, a)}, {"1", batch_of({1, 2, 1}, b)}});
  };
  CHECK(are(value(of([MPSNNAdditionNode class]), {1, 2}, {3, 5}), {4, 7}));
  CHECK(are(value(of([MPSNNSubtractionNode class]), {1, 2}, {3, 5}), {-2, -3}));
  CHECK(are(value(of([MPSNNMultiplicationNode class]), {1, 2}, {3, 5}), {3, 10}));
  CHECK(are(value(of([MPSNNDivisionNode class]), {1, 2}, {4, 5}), {0.25, 0.4f}));
  const Make less = [](NSArray<MPSNNImageNode*>* sources) {
    MPSNNComparisonNode* node = [MPSNNComparisonNode nodeWithSources:sources];
    node.comparisonType = MPSNNComparisonTypeLess;
    return node;
  };
  CHECK(are(value(less, {1, 5}, {3, 5}), {1, 0}));
  const Make scaled = [](NSArray<MPSNNImageNode*>* sources) {
    MPSNNAdditionNode* node = [MPSNNAdditionNode nodeWithSources:sources];
    node.primaryScale = 2;
    return node;
  };
  CHECK(are(value(scaled, {1, 2}, {3, 5}), {4, 7}));  // A graph ignores primaryScale, as measured on a Mac.
  const Make repeated = [](NSArray<MPSNNImageNode*>* sources) {
    MPSNNMultiplicationNode* node = [MPSNNMultiplicationNode nodeWithSources:sources];
    node.secondaryStrideInPixelsX = node.secondaryStrideInPixelsY = 0;
    return node;
  };
  CHECK(gradients_agree(repeated, {{2, 3, 2}, {1, 1, 2}}, {spread(12), spread(2, 3)}));
  for (Class kind in @[ [MPSNNAdditionNode class], [MPSNNSubtractionNode class], [MPSNNMultiplicationNode class] ])
    CHECK(gradients_agree(of(kind), {{2, 3, 2}, {2, 3, 2}}, {spread(12), spread(12, 3)}));
  CHECK_EQUAL(raised_by(^{
                [[MPSNNDivisionNode nodeWithSources:@[ input(@"0"), input(@"1") ]]
                    gradientFiltersWithSource:input(@"e")];
              }),
              "NSInvalidArgumentException");
}

TEST(concatenation_pads_sources_to_multiples_of_four_channels) {
  const Make join = [](NSArray<MPSNNImageNode*>* sources) { return [MPSNNConcatenationNode nodeWithSources:sources]; };
  const auto value = [&](Size a, const Numbers& x, Size b, const Numbers& y) {
    return run(graph_of(join(@[ input(@"0"), input(@"1") ]).resultImage),
               {{"0", batch_of(a, x)}, {"1", batch_of(b, y)}});
  };
  CHECK(are(value({1, 1, 1}, {1}, {1, 1, 1}, {5}), {1, 0, 0, 1, 5, 0, 0, 1}));
  CHECK(are(value({1, 1, 2}, {1, 2}, {1, 1, 3}, {5, 6, 7}), {1, 2, 0, 1, 5, 6, 7, 0}));
  CHECK_EQUAL(value({1, 1, 7}, spread(7), {1, 1, 11}, spread(11)).size(), size_t{20});
  CHECK(gradients_agree(join, {{2, 1, 3}, {2, 1, 5}}, {spread(12), spread(20)}));
}

// --- shapes ----------------------------------------------------------------------------------------------------------

TEST(reductions_over_rows_columns_and_channels) {
  const auto of = [](Class kind) -> Make {
    return [kind](NSArray<MPSNNImageNode*>* sources) { return [kind nodeWithSource:sources[0]]; };
  };
  const Numbers x = {1, -2, 3, 4, -5, 6, 7, 8};  // 2 x 2 pixels with two channels
  const auto value = [&](Class kind) { return value_of(of(kind), {2, 2, 2}, x); };
  CHECK(are(value([MPSNNReductionRowMinNode class]), {1, -2, -5, 6}));
  CHECK(are(value([MPSNNReductionRowMaxNode class]), {3, 4, 7, 8}));
  CHECK(are(value([MPSNNReductionRowSumNode class]), {4, 2, 2, 14}));
  CHECK(are(value([MPSNNReductionRowMeanNode class]), {2, 1, 1, 7}));
  CHECK(are(value([MPSNNReductionColumnMinNode class]), {-5, -2, 3, 4}));
  CHECK(are(value([MPSNNReductionColumnMaxNode class]), {1, 6, 7, 8}));
  CHECK(are(value([MPSNNReductionColumnSumNode class]), {-4, 4, 10, 12}));
  CHECK(are(value([MPSNNReductionColumnMeanNode class]), {-2, 2, 5, 6}));
  CHECK(are(value([MPSNNReductionFeatureChannelsMinNode class]), {-2, 3, -5, 7}));
  CHECK(are(value([MPSNNReductionFeatureChannelsMaxNode class]), {1, 4, 6, 8}));
  CHECK(are(value([MPSNNReductionFeatureChannelsMeanNode class]), {-0.5, 3.5, 0.5, 7.5}));
  CHECK(are(value([MPSNNReductionFeatureChannelsArgumentMinNode class]), {1, 0, 0, 0}));
  CHECK(are(value([MPSNNReductionFeatureChannelsArgumentMaxNode class]), {0, 1, 1, 1}));
  const Make weighted = [](NSArray<MPSNNImageNode*>* sources) {
    MPSNNReductionFeatureChannelsSumNode* node = [MPSNNReductionFeatureChannelsSumNode nodeWithSource:sources[0]];
    node.weight = 2;
    return node;
  };
  CHECK(are(value_of(weighted, {2, 2, 2}, x), {-2, 14, 2, 30}));
  CHECK(are(value([MPSNNReductionSpatialMeanNode class]), {1.5, 4}));
  CHECK(gradients_agree(of([MPSNNReductionSpatialMeanNode class]), {{2, 3, 2}}, {spread(12)}));
}

TEST(padding_follows_the_edge_mode) {
  const auto pad = [](MPSImageEdgeMode mode, NSUInteger before, NSUInteger after) -> Make {
    return [=](NSArray<MPSNNImageNode*>* sources) {
      MPSNNPadNode* node = [MPSNNPadNode nodeWithSource:sources[0]
                                      paddingSizeBefore:{before, 0, 0}
                                       paddingSizeAfter:{after, 0, 0}
                                               edgeMode:mode];
      node.fillValue = 9;
      return node;
    };
  };
  const auto value = [&](MPSImageEdgeMode mode) { return value_of(pad(mode, 2, 1), {1, 3, 1}, {1, 2, 3}); };
  CHECK(are(value(MPSImageEdgeModeZero), {0, 0, 1, 2, 3, 0}));
  CHECK(are(value(MPSImageEdgeModeConstant), {9, 9, 1, 2, 3, 9}));
  CHECK(are(value(MPSImageEdgeModeClamp), {1, 1, 1, 2, 3, 3}));
  CHECK(are(value(MPSImageEdgeModeMirror), {3, 2, 1, 2, 3, 2}));
  CHECK(are(value(MPSImageEdgeModeMirrorWithEdge), {2, 1, 1, 2, 3, 3}));
  for (MPSImageEdgeMode mode : {MPSImageEdgeModeZero, MPSImageEdgeModeClamp, MPSImageEdgeModeMirror,
                                MPSImageEdgeModeMirrorWithEdge, MPSImageEdgeModeConstant})
    CHECK(gradients_agree(pad(mode, 2, 1), {{2, 3, 2}}, {spread(12)}));
}

TEST(reshape_preserves_element_order) {
  const Make reshape = [](NSArray<MPSNNImageNode*>* sources) {
    return [MPSNNReshapeNode nodeWithSource:sources[0] resultWidth:1 resultHeight:1 resultFeatureChannels:12];
  };
  CHECK(are(value_of(reshape, {2, 3, 2}, spread(12)), spread(12)));
  CHECK(gradients_agree(reshape, {{2, 3, 2}}, {spread(12)}));
}

TEST(upsampling_and_scaling) {
  const Make nearest = [](NSArray<MPSNNImageNode*>* sources) {
    return [MPSCNNUpsamplingNearestNode nodeWithSource:sources[0] integerScaleFactorX:2 integerScaleFactorY:1];
  };
  const auto bilinear = [](BOOL align) -> Make {
    return [=](NSArray<MPSNNImageNode*>* sources) {
      return [MPSCNNUpsamplingBilinearNode nodeWithSource:sources[0]
                                      integerScaleFactorX:2
                                      integerScaleFactorY:1
                                             alignCorners:align];
    };
  };
  CHECK(are(value_of(nearest, {1, 2, 1}, {1, 5}), {1, 1, 5, 5}));
  CHECK(are(value_of(bilinear(NO), {1, 2, 1}, {1, 5}), {1, 3, 5, 5}));
  CHECK(are(value_of(bilinear(YES), {1, 2, 1}, {0, 3}), {0, 1, 2, 3}));
  CHECK(gradients_agree(nearest, {{2, 3, 2}}, {spread(12)}));
  CHECK(gradients_agree(bilinear(NO), {{2, 3, 2}}, {spread(12)}));
  CHECK(gradients_agree(bilinear(YES), {{2, 3, 2}}, {spread(12)}));
  const auto scale = [](Class kind) -> Make {
    return [=](NSArray<MPSNNImageNode*>* sources) { return [kind nodeWithSource:sources[0] outputSize:{2, 1, 1}]; };
  };
  CHECK(are(value_of(scale([MPSNNBilinearScaleNode class]), {1, 4, 1}, {1, 3, 5, 7}), {2, 6}));
  CHECK(are(value_of(scale([MPSNNLanczosScaleNode class]), {1, 2, 1}, {1, 3}), {1, 3}));
}

TEST(local_response_and_contrast_normalization) {
  const auto of = [](Class kind) -> Make {
    return [kind](NSArray<MPSNNImageNode*>* sources) {
      MPSCNNNormalizationNode* node = [[kind alloc] initWithSource:sources[0] kernelSize:3];
      node.alpha = 1.5f;
      node.beta = 0.75f;
      node.delta = 0.5f;
      return static_cast<MPSNNFilterNode*>(node);
    };
  };
  const Make plain = [](NSArray<MPSNNImageNode*>* sources) {
    MPSCNNCrossChannelNormalizationNode* node = [MPSCNNCrossChannelNormalizationNode nodeWithSource:sources[0]
                                                                                         kernelSize:3];
    node.beta = 1;
    return node;
  };
  CHECK(are(value_of(plain, {1, 1, 3}, {1, 2, 3}), {1 / (1 + 5 / 3.f), 2 / (1 + 14 / 3.f), 3 / (1 + 13 / 3.f)}));
  for (Class kind in @[
         [MPSCNNSpatialNormalizationNode class], [MPSCNNCrossChannelNormalizationNode class],
         [MPSCNNLocalContrastNormalizationNode class]
       ])
    CHECK(gradients_agree(of(kind), {{3, 4, 4}}, {spread(48)}));
}

TEST(gram_matrices) {
  const Make gram = [](NSArray<MPSNNImageNode*>* sources) {
    return [MPSNNGramMatrixCalculationNode nodeWithSource:sources[0] alpha:0.5f];
  };
  CHECK(are(value_of(gram, {1, 2, 2}, {1, 2, 3, 4}), {5, 7, 7, 10}));
  CHECK(gradients_agree(gram, {{2, 2, 3}}, {spread(12)}));
}

}  // namespace

int main() { return run_all(); }
