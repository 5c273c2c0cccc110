// States of convolutions and normalizations: buffers of floats that kernels fill and optimizers read.
//
// Weights and their gradients are ordered by output channel, row, column, and input channel.
#pragma once

#include "mps/core/state.h"

namespace mock {

bool is_depthwise(MPSCNNConvolutionDescriptor* descriptor);
// Return the number of weights. A depthwise convolution has one per output channel and filter tap, because each output
// channel has one input channel.
NSUInteger weight_count(MPSCNNConvolutionDescriptor* descriptor);

}  // namespace mock

// State that a convolution makes for a batch, with one buffer for the weights and one for the biases.
@interface MPSCNNConvolutionGradientState () {
 @package
  NSUInteger width, height;  // size of the source
}
- (instancetype)initForDescriptor:(MPSCNNConvolutionDescriptor*)descriptor
                           source:(MPSImage*)source
                           device:(id<MTLDevice>)device;
- (instancetype)initForDescriptor:(MPSCNNConvolutionDescriptor*)descriptor
                           source:(MPSImage*)source
                    commandBuffer:(id<MTLCommandBuffer>)buffer;  // creates a temporary state
@end

// State that a batch normalization makes.
@interface MPSCNNBatchNormalizationState () {
 @package
  NSUInteger channels;
}
- (instancetype)initForChannels:(NSUInteger)count device:(id<MTLDevice>)device;
// creates a temporary state
- (instancetype)initForChannels:(NSUInteger)count commandBuffer:(id<MTLCommandBuffer>)buffer;
@end
