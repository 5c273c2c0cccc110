// Helpers for the tests of nodes and graphs: handles, data sources that record calls, single-node graphs, and gradient
// checks by central differences.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "mps_check.h"

@interface Handle : NSObject <MPSHandle> {
 @package
  NSString* name;
}
+ (instancetype)named:(NSString*)name;
@end

// Weights whose pointers are valid only between load and purge, and which an SGD optimizer updates.
@interface Weights : NSObject <MPSCNNConvolutionDataSource> {
 @package
  MPSCNNConvolutionDescriptor* descriptor;
  check::Numbers weights, biases;
  check::Numbers loaded, loaded_biases;  // The storage of the returned pointers.
  std::string calls;  // One letter per call: l load, d descriptor, w weights, p purge, u update.
  MPSNNOptimizerStochasticGradientDescent* optimizer;
  MPSCNNConvolutionWeightsAndBiasesState* own;
  bool refuses, keeps_counts, returns_source, raises;
  check::Numbers seen;  // The gradients of the last update, valid once its command buffer has run.
}
- (instancetype)initWithDescriptor:(MPSCNNConvolutionDescriptor*)given
                           weights:(const check::Numbers&)w
                            biases:(const check::Numbers&)b;
@end

// Weights without an update method.
@interface FrozenWeights : Weights
@end

namespace check {

inline MPSCNNConvolutionDescriptor* convolution(NSUInteger height, NSUInteger width, NSUInteger inputs,
                                                NSUInteger outputs) {
  return [MPSCNNConvolutionDescriptor cnnConvolutionDescriptorWithKernelWidth:width
                                                                 kernelHeight:height
                                                         inputFeatureChannels:inputs
                                                        outputFeatureChannels:outputs];
}

inline MPSNNImageNode* input(NSString* name) { return [MPSNNImageNode nodeWithHandle:[Handle named:name]]; }

inline MPSNNGraph* graph_of(MPSNNImageNode* result) {
  MPSNNGraph* graph = [MPSNNGraph graphWithDevice:device() resultImage:result resultImageIsNeeded:YES];
  graph.format = MPSImageFeatureChannelFormatFloat32;
  return graph;
}

using Batches = std::map<std::string, MPSImageBatch*>;

inline NSArray<MPSImageBatch*>* in_order(MPSNNGraph* graph, const Batches& batches) {
  NSMutableArray<MPSImageBatch*>* result = [NSMutableArray array];
  for (id<MPSHandle> handle in graph.sourceImageHandles) [result addObject:batches.at(text(handle.label))];
  return result;
}

// Run the graph and return the values of its float32 results, image after image.
inline Numbers run(MPSNNGraph* graph, const Batches& batches, NSArray<MPSStateBatch*>* states = nil) {
  __block MPSImageBatch* result = nil;
  const std::string error = run(^(id<MTLCommandBuffer> buffer) {
    result = [graph encodeBatchToCommandBuffer:buffer sourceImages:in_order(graph, batches) sourceStates:states];
    MPSImageBatchSynchronize(result, buffer);
  });
  if (!error.empty()) std::cerr << error << "\n";
  Numbers all;
  for (MPSImage* each in result) {
    const Numbers one = numbers(each);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

struct Size {
  NSUInteger height, width, channels;
};

// Return a batch of images that hold these values.
inline MPSImageBatch* batch_of(Size size, const Numbers& all) {
  const size_t each = size.height * size.width * size.channels;
  NSMutableArray<MPSImage*>* result = [NSMutableArray array];
  for (size_t at = 0; at < all.size(); at += each)
    [result addObject:image(size.height, size.width, size.channels,
                            Numbers(all.begin() + static_cast<ptrdiff_t>(at),
                                    all.begin() + static_cast<ptrdiff_t>(at + each)))];
  return result;
}

// Return numbers of both signs that are well separated from each other and from 0.
inline Numbers spread(size_t count, int seed = 1) {
  Numbers result(count);
  for (size_t i = 0; i < count; ++i) {
    const auto turn = static_cast<double>((i * 37 + static_cast<size_t>(seed) * 11) % 97) / 97 - 0.5;
    result[i] = static_cast<float>(2 * turn + (turn < 0 ? -0.05 : 0.05));
  }
  return result;
}

using Make = std::function<MPSNNFilterNode*(NSArray<MPSNNImageNode*>*)>;

// Return the result of one node for one source.
inline Numbers value_of(const Make& make, Size size, const Numbers& x) {
  return run(graph_of(make(@[ input(@"0") ]).resultImage), {{"0", batch_of(size, x)}});
}

// Return whether the gradient of each source agrees with central differences of sum(error * result).
inline bool gradients_agree(const Make& make, const std::vector<Size>& sizes, const std::vector<Numbers>& values,
                            double tolerance = 2e-3) {
  NSMutableArray<MPSNNImageNode*>* sources = [NSMutableArray array];
  for (size_t i = 0; i < sizes.size(); ++i) [sources addObject:input([NSString stringWithFormat:@"%lu", i])];
  MPSNNFilterNode* forward = make(sources);
  MPSNNGraph* plain = graph_of(forward.resultImage);
  const auto batches = [&](const std::vector<Numbers>& of) {
    Batches result;
    for (size_t i = 0; i < sizes.size(); ++i) result[std::to_string(i)] = batch_of(sizes[i], of[i]);
    return result;
  };
  __block MPSImageBatch* result = nil;
  run(^(id<MTLCommandBuffer> buffer) {
    result = [plain encodeBatchToCommandBuffer:buffer sourceImages:in_order(plain, batches(values)) sourceStates:nil];
  });
  const Size size = {result[0].height, result[0].width, result[0].featureChannels};
  const Numbers error = spread(result.count * size.height * size.width * size.channels, 5);
  NSArray<MPSNNGradientFilterNode*>* filters = [forward gradientFiltersWithSource:input(@"error")];
  bool agree = filters.count == sizes.size();
  for (size_t source = 0; agree && source < sizes.size(); ++source) {
    Batches given = batches(values);
    given["error"] = batch_of(size, error);
    MPSNNGraph* backward = graph_of(filters[source].resultImage);
    Batches used;
    for (id<MPSHandle> handle in backward.sourceImageHandles) used[text(handle.label)] = given[text(handle.label)];
    const Numbers got = run(backward, used);
    const auto total = [&](size_t i, double step) {
      std::vector<Numbers> moved = values;
      moved[source][i] += static_cast<float>(step);
      const Numbers y = run(plain, batches(moved));
      double sum = 0;
      for (size_t k = 0; k < y.size(); ++k) sum += static_cast<double>(y[k]) * error[k];
      return sum;
    };
    agree = got.size() == values[source].size();
    for (size_t i = 0; agree && i < got.size(); i += 1 + got.size() / 12) {
      constexpr double step = 0x1p-8;
      const double wanted = (total(i, step) - total(i, -step)) / (2 * step);
      if (std::fabs(got[i] - wanted) <= tolerance * (1 + std::fabs(wanted))) continue;
      std::cerr << "source " << source << ", element " << i << ": " << got[i] << ", difference " << wanted << "\n";
      agree = false;
    }
  }
  return agree;
}

}  // namespace check

@implementation Handle
+ (BOOL)supportsSecureCoding {
  return YES;
}
+ (instancetype)named:(NSString*)name {
  Handle* made = [[self alloc] init];
  made->name = name;
  return made;
}
- (NSString*)label {
  return name;
}
- (void)encodeWithCoder:(NSCoder*)coder {
}
- (instancetype)initWithCoder:(NSCoder*)coder {
  return [super init];
}
@end

@implementation FrozenWeights
- (instancetype)initWithDescriptor:(MPSCNNConvolutionDescriptor*)given
                           weights:(const check::Numbers&)w
                            biases:(const check::Numbers&)b {
  return [super initWithDescriptor:given weights:w biases:b];
}
- (BOOL)respondsToSelector:(SEL)selector {
  return selector != @selector(updateWithCommandBuffer:gradientState:sourceState:) &&
         [super respondsToSelector:selector];
}
@end

@implementation Weights
- (instancetype)initWithDescriptor:(MPSCNNConvolutionDescriptor*)given
                           weights:(const check::Numbers&)w
                            biases:(const check::Numbers&)b {
  if (!(self = [super init])) return nil;
  descriptor = given;
  weights = w;
  biases = b;
  own = [[MPSCNNConvolutionWeightsAndBiasesState alloc] initWithWeights:check::buffer(w) biases:check::buffer(b)];
  optimizer = [[MPSNNOptimizerStochasticGradientDescent alloc] initWithDevice:check::device() learningRate:0.5f];
  return self;
}
- (id)copyWithZone:(NSZone*)zone {
  return self;
}
- (MPSDataType)dataType {
  return MPSDataTypeFloat32;
}
- (MPSDataType)kernelWeightsDataType {
  return MPSDataTypeFloat32;
}
- (MPSCNNConvolutionDescriptor*)descriptor {
  calls += "d";
  return descriptor;
}
- (void*)weights {
  calls += "w";
  return loaded.data();
}
- (float*)biasTerms {
  return loaded_biases.data();
}
- (BOOL)load {
  calls += "l";
  loaded = weights;
  loaded_biases = biases;
  return !refuses;
}
- (void)purge {
  calls += "p";
  for (float& weight : loaded) weight = NAN;
  loaded = loaded_biases = {};
}
- (NSString*)label {
  return @"weights";
}
- (MPSCNNConvolutionWeightsAndBiasesState*)updateWithCommandBuffer:(id<MTLCommandBuffer>)buffer
                                                     gradientState:(MPSCNNConvolutionGradientState*)gradient
                                                       sourceState:(MPSCNNConvolutionWeightsAndBiasesState*)source {
  calls += "u";
  if (raises) [NSException raise:@"Update" format:@"no update today"];
  if (keeps_counts) return own;
  [optimizer encodeToCommandBuffer:buffer
          convolutionGradientState:gradient
            convolutionSourceState:source
              inputMomentumVectors:nil
                       resultState:own];
  return returns_source ? source : own;
}
@end
