// Probes of selectors and argument forms that no other project is known to use on Macs, as listed in
// tests/apple/witnesses.txt. Each probe states the answer of the CPU device.
#include <array>

#include "backends/metal/availability.h"
#include "backends/metal/direct.h"
#include "backends/metal/probes.h"
#include "backends/metal/quantization_packed.h"

namespace mpsgraph::metal {

using runtime::Probe;

namespace {

// Return the descriptor of a convolution without padding.
MPSGraphConvolution2DOpDescriptor* plain_convolution(NSUInteger groups) {
  return [MPSGraphConvolution2DOpDescriptor descriptorWithStrideInX:1
                                                          strideInY:1
                                                    dilationRateInX:1
                                                    dilationRateInY:1
                                                             groups:groups
                                                        paddingLeft:0
                                                       paddingRight:0
                                                         paddingTop:0
                                                      paddingBottom:0
                                                       paddingStyle:MPSGraphPaddingStyleExplicit
                                                         dataLayout:MPSGraphTensorNamedDataLayoutNCHW
                                                      weightsLayout:MPSGraphTensorNamedDataLayoutOIHW];
}

std::string adam_by_powers(MetalDevice& device) {
  Trial trial(device);
  const auto one = [&](float value) { return trial.fed(std::vector<float>{value}, {1}); };
  NSArray<MPSGraphTensor*>* results = [trial.graph adamWithLearningRateTensor:one(0.1f)
                                                                  beta1Tensor:one(0.5f)
                                                                  beta2Tensor:one(0.75f)
                                                                epsilonTensor:one(0)
                                                             beta1PowerTensor:one(0.5f)
                                                             beta2PowerTensor:one(0.75f)
                                                                 valuesTensor:trial.fed({1, 2}, {2})
                                                               momentumTensor:trial.fed({0, 0}, {2})
                                                               velocityTensor:trial.fed({0, 0}, {2})
                                                        maximumVelocityTensor:nil
                                                               gradientTensor:trial.fed({4, -4}, {2})
                                                                         name:nil];
  return cat("values ", list(trial.values(results[0], {2})), ", momentum ", list(trial.values(results[1], {2})),
             ", velocity ", list(trial.values(results[2], {2})));
}

// Pool windows of size 2 along the last axis of a tensor of shape (1, 1, 1, 4).
std::string pooling_gradients(MetalDevice& device) {
  const auto gradient = [&](MPSGraphTensor* (^of)(Trial&, MPSGraphPooling4DOpDescriptor*, MPSGraphTensor*)) {
    Trial trial(device);
    MPSGraphPooling4DOpDescriptor* how =
        [MPSGraphPooling4DOpDescriptor descriptorWithKernelSizes:@[ @1, @1, @1, @2 ]
                                                         strides:@[ @1, @1, @1, @2 ]
                                                   dilationRates:@[ @1, @1, @1, @1 ]
                                                   paddingValues:@[ @0, @0, @0, @0, @0, @0, @0, @0 ]
                                                    paddingStyle:MPSGraphPaddingStyleExplicit];
    how.returnIndicesMode = MPSGraphPoolingReturnIndicesGlobalFlatten1D;
    how.returnIndicesDataType = MPSDataTypeInt32;
    MPSGraphTensor* source = trial.fed({1, 5, 7, 3}, {1, 1, 1, 4});
    return list(trial.values(of(trial, how, source), {1, 1, 1, 4}));
  };
  const auto incoming = [](Trial& trial) { return trial.fed({10, 20}, {1, 1, 1, 2}); };
  const std::string average = gradient(^(Trial& t, MPSGraphPooling4DOpDescriptor* how, MPSGraphTensor* x) {
    return [t.graph avgPooling4DGradientWithGradientTensor:incoming(t) sourceTensor:x descriptor:how name:nil];
  });
  const std::string largest = gradient(^(Trial& t, MPSGraphPooling4DOpDescriptor* how, MPSGraphTensor* x) {
    return [t.graph maxPooling4DGradientWithGradientTensor:incoming(t) sourceTensor:x descriptor:how name:nil];
  });
  const std::string indexed = gradient(^(Trial& t, MPSGraphPooling4DOpDescriptor* how, MPSGraphTensor* x) {
    NSArray<MPSGraphTensor*>* found = [t.graph maxPooling4DReturnIndicesWithSourceTensor:x descriptor:how name:nil];
    return [t.graph maxPooling4DGradientWithGradientTensor:incoming(t)
                                             indicesTensor:found[1]
                                               outputShape:@[ @1, @1, @1, @4 ]
                                                descriptor:how
                                                      name:nil];
  });
  return cat("of [1, 5, 7, 3] for [10, 20]: average ", average, ", maximum ", largest, ", by indices ", indexed);
}

// Pool windows of size 2 over two axes, with indices local to their window.
std::string local_indices(MetalDevice& device) {
  Trial trial(device);
  MPSGraphPooling2DOpDescriptor* how =
      [MPSGraphPooling2DOpDescriptor descriptorWithKernelWidth:2
                                                  kernelHeight:1
                                                     strideInX:2
                                                     strideInY:1
                                               dilationRateInX:1
                                               dilationRateInY:1
                                                   paddingLeft:0
                                                  paddingRight:0
                                                    paddingTop:0
                                                 paddingBottom:0
                                                  paddingStyle:MPSGraphPaddingStyleExplicit
                                                    dataLayout:MPSGraphTensorNamedDataLayoutNCHW];
  how.returnIndicesMode = MPSGraphPoolingReturnIndicesLocalFlatten1D;
  how.returnIndicesDataType = MPSDataTypeInt32;
  NSArray<MPSGraphTensor*>* found =
      [trial.graph maxPooling2DReturnIndicesWithSourceTensor:trial.fed({1, 5, 7, 3}, {1, 1, 1, 4})
                                                  descriptor:how
                                                        name:nil];
  const std::string indices = list(trial.values<int32_t>(found[1], {1, 1, 1, 2}));
  MPSGraphTensor* gradient = [trial.graph maxPooling2DGradientWithGradientTensor:trial.fed({10, 20}, {1, 1, 1, 2})
                                                                   indicesTensor:found[1]
                                                                     outputShape:@[ @1, @1, @1, @4 ]
                                                                      descriptor:how
                                                                            name:nil];
  return cat("of [1, 5, 7, 3]: indices ", indices, ", gradient ", list(trial.values(gradient, {1, 1, 1, 4})));
}

std::string stencils(MetalDevice& device) {
  const auto stencil = [&](MPSGraphReductionMode mode) {
    Trial trial(device);
    MPSGraphStencilOpDescriptor* how =
        [MPSGraphStencilOpDescriptor descriptorWithReductionMode:mode
                                                         offsets:@[ @0, @0, @0, @0 ]
                                                         strides:@[ @1, @1, @1, @1 ]
                                                   dilationRates:@[ @1, @1, @1, @1 ]
                                                 explicitPadding:@[ @0, @0, @0, @0, @0, @0, @0, @0 ]
                                                    boundaryMode:MPSGraphPaddingModeZero
                                                    paddingStyle:MPSGraphPaddingStyleExplicit
                                                 paddingConstant:0];
    MPSGraphTensor* found = [trial.graph stencilWithSourceTensor:trial.fed({0, 1, 2, 3, 4, 0}, {1, 1, 1, 6})
                                                   weightsTensor:trial.fed({10, 1, -1}, {1, 1, 1, 3})
                                                      descriptor:how
                                                            name:nil];
    return list(trial.values(found, {1, 1, 1, 4}));
  };
  return cat("weights [10, 1, -1] over [1, 2, 3, 4] with zero padding: sum ", stencil(MPSGraphReductionModeSum),
             ", max ", stencil(MPSGraphReductionModeMax), ", min ", stencil(MPSGraphReductionModeMin));
}

// Run one time step of a single unit, whose state is the activation of its input.
std::string activations_of_cells(MetalDevice& device) {
  const auto cell = [&](MPSGraphRNNActivation activation) {
    std::vector<float> found;
    for (const float x : {-4.0f, -1.0f, 0.5f, 4.0f}) {
      Trial trial(device);
      MPSGraphSingleGateRNNDescriptor* how = [MPSGraphSingleGateRNNDescriptor descriptor];
      how.activation = activation;
      NSArray<MPSGraphTensor*>* results =
          [trial.graph singleGateRNNWithSourceTensor:trial.fed(std::vector<float>{x}, {1, 1, 1})
                                     recurrentWeight:trial.fed(std::vector<float>{0}, {1, 1})
                                           initState:trial.fed(std::vector<float>{0}, {1, 1})
                                          descriptor:how
                                                name:nil];
      found.push_back(trial.values(results[0], {1, 1, 1})[0]);
    }
    return list(found);
  };
  return cat("of -4, -1, 0.5, 4: none ", cell(MPSGraphRNNActivationNone), ", relu ", cell(MPSGraphRNNActivationRelu),
             ", tanh ", cell(MPSGraphRNNActivationTanh), ", sigmoid ", cell(MPSGraphRNNActivationSigmoid),
             ", hard sigmoid ", cell(MPSGraphRNNActivationHardSigmoid));
}

std::string resized_without_a_batch(MetalDevice& device) {
  const auto resized = [&](MPSGraphTensorNamedDataLayout layout, const Dims& from, const Dims& to) {
    Trial trial(device);
    const int32_t size[] = {1, 4};
    MPSGraphTensor* sizes = [trial.graph constantWithData:[NSData dataWithBytes:size length:sizeof size]
                                                    shape:@[ @2 ]
                                                 dataType:MPSDataTypeInt32];
    MPSGraphTensor* found = [trial.graph resizeBilinearWithTensor:trial.fed({1, 5}, from)
                                                       sizeTensor:sizes
                                                     centerResult:YES
                                                     alignCorners:NO
                                                           layout:layout
                                                             name:nil];
    return list(trial.values(found, to));
  };
  return cat("[1, 5] resized to four: HW ", resized(MPSGraphTensorNamedDataLayoutHW, {1, 2}, {1, 4}), ", CHW ",
             resized(MPSGraphTensorNamedDataLayoutCHW, {1, 1, 2}, {1, 1, 4}), ", HWC ",
             resized(MPSGraphTensorNamedDataLayoutHWC, {1, 2, 1}, {1, 4, 1}));
}

// Matmuls and convolutions for which MPSGraph computes wrong sums on some processors: pytorch/pytorch#195163, #96225,
// #188359.
std::string long_sums(MetalDevice& device) {
  const auto product = [&](int64_t terms) {
    Trial trial(device);
    const auto size = static_cast<size_t>(16 * terms);
    MPSGraphTensor* found =
        [trial.graph matrixMultiplicationWithPrimaryTensor:trial.fed(std::vector<float>(size, 1), {16, terms})
                                           secondaryTensor:trial.fed(std::vector<float>(size, 1), {terms, 16})
                                                      name:nil];
    return trial.values(found, {16, 16})[255];
  };
  return cat("sums of 32766, 32767, 32769 and 65536 ones: ",
             list(std::vector<float>{product(32766), product(32767), product(32769), product(65536)}));
}

std::string tall_kernels(MetalDevice& device) {
  const auto convolution = [&](int64_t images, int64_t kernel) {
    Trial trial(device);
    const auto ones = [&](int64_t count) { return std::vector<float>(static_cast<size_t>(count), 1); };
    MPSGraphTensor* found =
        [trial.graph convolution2DWithSourceTensor:trial.fed(ones(images * 8 * kernel * 4), {images, 8, kernel, 4})
                                     weightsTensor:trial.fed(ones(16 * kernel), {16, 1, kernel, 1})
                                        descriptor:plain_convolution(8)
                                              name:nil];
    int64_t wrong = 0;
    for (const float value : trial.values(found, {images, 16, 1, 4})) wrong += value != static_cast<float>(kernel);
    return wrong;
  };
  return cat("wrong values for one image, kernel size under 255: ", convolution(1, 255),
             ", under 256: ", convolution(1, 256), "; for eight images, under 128: ", convolution(8, 128),
             ", under 255: ", convolution(8, 255), ", under 256: ", convolution(8, 256));
}

// 3-D convolutions. PyTorch's list of failing operations contains them on M1 with older systems, and in float16.
std::string convolutions_of_three_axes(MetalDevice& device) {
  const auto wrong = [&](bool last, bool half) {
    Trial trial(device);
    MPSGraphConvolution3DOpDescriptor* how = [MPSGraphConvolution3DOpDescriptor
        descriptorWithStrideInX:1
                      strideInY:1
                      strideInZ:1
                dilationRateInX:1
                dilationRateInY:1
                dilationRateInZ:1
                         groups:1
                    paddingLeft:0
                   paddingRight:0
                     paddingTop:0
                  paddingBottom:0
                   paddingFront:0
                    paddingBack:0
                   paddingStyle:MPSGraphPaddingStyleExplicit
                     dataLayout:last ? MPSGraphTensorNamedDataLayoutNDHWC : MPSGraphTensorNamedDataLayoutNCDHW
                  weightsLayout:last ? MPSGraphTensorNamedDataLayoutDHWIO : MPSGraphTensorNamedDataLayoutOIDHW];
    const auto as = [&](MPSGraphTensor* x, MPSDataType type) {
      return [trial.graph castTensor:x toType:type name:nil];
    };
    const MPSDataType type = half ? MPSDataTypeFloat16 : MPSDataTypeFloat32;
    const std::vector<float> image(4 * 125, 1), weights(32 * 4 * 27, 1);
    MPSGraphTensor* found = [trial.graph
        convolution3DWithSourceTensor:as(trial.fed(image, last ? Dims{1, 5, 5, 5, 4} : Dims{1, 4, 5, 5, 5}), type)
                        weightsTensor:as(trial.fed(weights, last ? Dims{3, 3, 3, 4, 32} : Dims{32, 4, 3, 3, 3}), type)
                           descriptor:how
                                 name:nil];
    int64_t count = 0;
    for (const float value :
         trial.values(as(found, MPSDataTypeFloat32), last ? Dims{1, 3, 3, 3, 32} : Dims{1, 32, 3, 3, 3}))
      count += value != 108;
    return count;
  };
  return cat("wrong values with channels first: ", wrong(false, false), ", last: ", wrong(true, false),
             ", of float16: ", wrong(false, true), ", ", wrong(true, true));
}

// Check that a stable sort keeps equal numbers in their original order.
std::string order_of_equal_numbers(MetalDevice& device) {
  Trial trial(device);
  std::vector<int32_t> numbers(1 << 16);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int32_t>(i * 7919 % 5);
  MPSGraphTensor* order = [trial.graph argSortWithTensor:trial.fed(numbers) axis:0 name:nil];
  const std::vector<int32_t> found = trial.values<int32_t>(order, {1 << 16});
  int64_t wrong = 0;
  for (size_t i = 1; i < found.size(); ++i) {
    const int32_t a = numbers[static_cast<size_t>(found[i - 1])], b = numbers[static_cast<size_t>(found[i])];
    wrong += a > b || (a == b && found[i - 1] > found[i]);
  }
  return cat(wrong, " of ", found.size(), " positions are wrong");
}

// Average windows of four by four, or of four, of large numbers and then ones. Count the averages of ones that are not
// one: if MPSGraph subtracts running sums, their rounding errors remain.
std::string averages_after_large_numbers(MetalDevice& device) {
  const auto averaged = [&](int64_t rows, int64_t columns, int64_t kernel, size_t large) {
    Trial trial(device);
    std::vector<float> numbers(static_cast<size_t>(rows * columns), 1);
    for (size_t i = 0; i < large; ++i) numbers[i] = 3.4e6f + static_cast<float>(i % 1000) * 100.25f;
    MPSGraphPooling2DOpDescriptor* windows =
        [MPSGraphPooling2DOpDescriptor descriptorWithKernelWidth:4
                                                    kernelHeight:static_cast<NSUInteger>(kernel)
                                                       strideInX:4
                                                       strideInY:static_cast<NSUInteger>(kernel)
                                                 dilationRateInX:1
                                                 dilationRateInY:1
                                                     paddingLeft:0
                                                    paddingRight:0
                                                      paddingTop:0
                                                   paddingBottom:0
                                                    paddingStyle:MPSGraphPaddingStyleExplicit
                                                      dataLayout:MPSGraphTensorNamedDataLayoutNCHW];
    MPSGraphTensor* found = [trial.graph avgPooling2DWithSourceTensor:trial.fed(numbers, {1, 1, rows, columns})
                                                           descriptor:windows
                                                                 name:nil];
    const std::vector<float> averages = trial.values(found, {1, 1, rows / kernel, columns / 4});
    const size_t first = large / static_cast<size_t>(4 * kernel);
    size_t wrong = 0;
    for (size_t i = first; i < averages.size(); ++i) wrong += averages[i] != 1;
    return cat(wrong, " of ", averages.size() - first);
  };
  return cat("averages of ones that are not one: ", averaged(1, 20000, 1, 18000), " in a row of 20000, ",
             averaged(160, 128, 4, 140 * 128), " in an image of 160 by 128");
}

// The last of eight rows is read by no window of three rows that moves by two.
std::string depthwise_with_unread_rows(MetalDevice& device) {
  Trial trial(device);
  MPSGraphDepthwiseConvolution2DOpDescriptor* windows =
      [MPSGraphDepthwiseConvolution2DOpDescriptor descriptorWithStrideInX:1
                                                                strideInY:2
                                                          dilationRateInX:1
                                                          dilationRateInY:1
                                                              paddingLeft:0
                                                             paddingRight:0
                                                               paddingTop:0
                                                            paddingBottom:0
                                                             paddingStyle:MPSGraphPaddingStyleExplicit
                                                               dataLayout:MPSGraphTensorNamedDataLayoutNCHW
                                                            weightsLayout:MPSGraphTensorNamedDataLayoutOIHW];
  const std::vector<float> ones(6, 1);
  MPSGraphTensor* found =
      [trial.graph depthwiseConvolution2DDataGradientWithIncomingGradientTensor:trial.fed(ones, {1, 2, 3, 1})
                                                                  weightsTensor:trial.fed(ones, {1, 2, 3, 1})
                                                                    outputShape:@[ @1, @2, @8, @1 ]
                                                                     descriptor:windows
                                                                           name:nil];
  const std::vector<float> gradient = trial.values(found, {1, 2, 8, 1});
  return cat("gradient of the first of two channels: ",
             list(std::vector<float>(gradient.begin(), gradient.begin() + 8)));
}

const char* const before_15 = "not asked: dequantization by groups requires macOS 15";

// Dequantize 16 elements of 4 bits, with a scale for each half of them.
std::string four_bit_constants(MetalDevice& device) {
  if (METAL_AVAILABLE(15.0, 18.0)) {
    Trial trial(device);
    const std::array<uint32_t, 2> words{0x76543210, 0xFEDCBA98};
    MPSGraphTensor* elements = [trial.graph constantWithData:[NSData dataWithBytes:words.data() length:sizeof words]
                                                       shape:@[ @16 ]
                                                    dataType:MPSDataTypeUInt4];
    MPSGraphTensor* found = [trial.graph dequantizeTensor:elements
                                              scaleTensor:trial.fed({1, 2}, {2})
                                                 dataType:MPSDataTypeFloat32
                                                     name:nil];
    return cat("elements 0 to 15, the last eight doubled: ", list(trial.values(found, {16})));
  }
  return before_15;
}

std::string four_bit_words(MetalDevice& device) {
  if (METAL_AVAILABLE(15.0, 18.0)) {
    Trial trial(device);
    const std::array<int32_t, 2> words{0x76543210, static_cast<int32_t>(0xFEDCBA98)};
    MPSGraphTensor* fed = trial.fed(std::vector<int32_t>(words.begin(), words.end()));
    MPSGraphTensor* elements = [trial.graph reinterpretCastTensor:fed toType:MPSDataTypeUInt4 name:nil];
    MPSGraphTensor* found = [trial.graph dequantizeTensor:elements
                                              scaleTensor:trial.fed({1, 2}, {2})
                                                 dataType:MPSDataTypeFloat32
                                                     name:nil];
    const std::vector<float> numbers = trial.values(found, {16});
    return cat("elements 0 to 15, the last eight doubled: ", list(numbers), "; weights of 4 bits in variables are ",
               reads_four_bits(device) ? "read as they are" : "composed");
  }
  return before_15;
}

std::string groups_of_rows(MetalDevice& device) {
  if (METAL_AVAILABLE(15.0, 18.0)) {
    Trial trial(device);
    const std::array<int8_t, 8> ones{1, 1, 1, 1, 1, 1, 1, 1};
    MPSGraphTensor* matrix = [trial.graph constantWithData:[NSData dataWithBytes:ones.data() length:sizeof ones]
                                                     shape:@[ @4, @2 ]
                                                  dataType:MPSDataTypeInt8];
    MPSGraphTensor* found = [trial.graph dequantizeTensor:matrix
                                              scaleTensor:trial.fed({1, 2, 3, 4}, {2, 2})
                                                 dataType:MPSDataTypeFloat32
                                                     name:nil];
    return cat("ones with groups of two rows: ", list(trial.values(found, {4, 2})));
  }
  return before_15;
}

std::string many_images(MetalDevice& device) {
  const auto gradient = [&](int64_t images) {
    Trial trial(device);
    const std::vector<float> ones(static_cast<size_t>(images), 1);
    MPSGraphTensor* found =
        [trial.graph convolution2DWeightsGradientWithIncomingGradientTensor:trial.fed(ones, {images, 1, 1, 1})
                                                               sourceTensor:trial.fed(ones, {images, 1, 1, 1})
                                                                outputShape:@[ @1, @1, @1, @1 ]
                                               forwardConvolutionDescriptor:plain_convolution(1)
                                                                       name:nil];
    return trial.values(found, {1, 1, 1, 1})[0];
  };
  return cat("sums over 65535 and 65536 images of ones: ", list(std::vector<float>{gradient(65535), gradient(65536)}));
}

}  // namespace

std::vector<Probe> form_probes(MetalDevice& device) {
  return {
      probe(device, "adam_by_powers", "Does Adam with powers of beta follow its documentation?",
            "one step from zero moments",
            "values [0.9, 2.1], momentum [2, -2], velocity [4, 4]: as on the CPU. Other values: lower_adam in "
            "src/backends/metal/optimizer.mm must compose the step.",
            adam_by_powers),
      probe(device, "pooling_gradients", "Are the gradients of 4-D poolings correct?",
            "windows of two along the last axis, by the source and by indices",
            "average [5, 5, 10, 10], the others [0, 10, 20, 0]: as on the CPU. Other values: "
            "src/backends/metal/pooling.mm or pooling_indices.mm must compose these gradients of slices.",
            pooling_gradients),
      probe(device, "local_indices", "Does MPSGraph's pooling gradient accept indices local to a window?",
            "windows of two along the last axis",
            "indices [1, 0], gradient [0, 10, 20, 0]: as on the CPU. Other values: "
            "src/backends/metal/pooling_indices.mm must compose indices and gradient of slices.",
            local_indices),
      probe(device, "stencils", "Do the weights, padding and reductions of stencils follow their documentation?",
            "three weights over four numbers",
            "sum [-1, 9, 19, 34], max [1, 10, 20, 30], min [-2, -3, -4, 0]: as on the CPU. Other values: lower_windows "
            "in src/backends/metal/stencil.mm must compose stencils of slices.",
            stencils),
      probe(device, "activations_of_cells", "Which functions are the activations of recurrent cells?",
            "one step of one unit",
            "The numbers themselves for none, [0, 0.3, 0.6, 1] for hard sigmoid, the named function otherwise: as on "
            "the CPU. Other values: src/backends/metal/recurrent.mm must compose layers with that activation.",
            activations_of_cells),
      probe(device, "resized_without_a_batch", "Does resizing accept images without a batch axis?",
            "two pixels become four in three layouts",
            "[1, 2, 4, 5] each: as on the CPU. Other values, or an error: src/backends/metal/resize.mm must add a "
            "batch axis of size 1.",
            resized_without_a_batch),
      probe(device, "long_sums", "Are matmuls with more than 32766 terms correct?", "matmuls of ones",
            "[32766, 32767, 32769, 65536]: product() in src/backends/metal/matrix.mm need not split long sums. Other "
            "values: product() must split them.",
            long_sums),
      probe(device, "tall_kernels", "Are convolutions with tall kernels correct?", "grouped convolutions of ones",
            "0 everywhere: check_kernels in src/backends/metal/convolution.mm could be removed. Other values also "
            "under 255 or 128: check_kernels must refuse more filters.",
            tall_kernels),
      probe(device, "convolutions_of_three_axes", "Are 3-D convolutions correct?",
            "convolutions of ones in two layouts",
            "0 everywhere: as on the CPU. Other values: convolution3d in src/backends/metal/convolution.mm must refuse "
            "such convolutions, or use the other layout.",
            convolutions_of_three_axes),
      probe(device, "order_of_equal_numbers", "Are sorts stable?", "65536 numbers with five distinct values",
            "0 wrong positions: as on the CPU. More: sorted_order in src/backends/metal/order.mm must sort positions, "
            "too.",
            order_of_equal_numbers),
      probe(device, "four_bit_constants", "Are constants of 4 bits dequantized?", "16 elements in two words",
            "[0, 1, 2, ..., 7, 16, 18, ..., 30]: as on the CPU. Other values, or an aborted process: "
            "dequantizes_natively in src/backends/metal/quantization_packed.mm must not accept constants of 4 bits.",
            four_bit_constants),
      probe(device, "four_bit_words", "Does MPSGraph convert words to elements of 4 bits?", "16 elements in two words",
            "[0, 1, 2, ..., 7, 16, 18, ..., 30]: weights of 4 bits in variables need no composition, and "
            "reads_four_bits in src/backends/metal/quantization_packed.mm could be removed. Other values: they are "
            "composed. An aborted process: reads_four_bits must not run this program, because it aborts users' "
            "programs, too.",
            four_bit_words),
      probe(device, "groups_of_rows", "Does dequantization support groups along the first axis?",
            "a matrix of int8 with a scale for two rows",
            "[1, 2, 1, 2, 3, 4, 3, 4]: has_rows_of_groups in src/backends/metal/quantization.mm could be removed. "
            "Other values, or an aborted process: it is needed.",
            groups_of_rows),
      probe(device, "many_images", "Are weight gradients over 65536 images correct?", "gradients of ones",
            "[65535, 65536]: check_images in src/backends/metal/convolution.mm could be removed. Other values: the "
            "check is needed.",
            many_images),
      probe(
          device, "averages_after_large_numbers", "Does average pooling lose small numbers after large ones?",
          "windows of four numbers, or of four by four; ones follow large numbers",
          "0 in a row and 0 in an image: average_in_parts in src/backends/metal/pooling.mm could be removed. More in a "
          "row: it is needed. More in an image: images must be cut, too.",
          averages_after_large_numbers),
      probe(device, "depthwise_with_unread_rows",
            "Are gradients of depthwise convolutions computed if no window reads the last row?",
            "ones, with windows of three rows that move by two along eight rows",
            "[1, 1, 2, 1, 2, 1, 1, 0]: without_unread in src/backends/metal/convolution.mm could be removed. Other "
            "values, or an aborted process: it is needed.",
            depthwise_with_unread_rows),
  };
}

}  // namespace mpsgraph::metal
