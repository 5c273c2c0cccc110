// The states of convolutions and normalizations: buffers of floats that kernels fill and optimizers read.
//
// Weights and their gradients lie output channel by output channel, within that by row, column and input channel.
#pragma once

#include "mps/core/state.h"

namespace mock {

bool is_depthwise(MPSCNNConvolutionDescriptor* descriptor);
// Of a depthwise convolution: one number an output channel and place, as every output channel has one input channel.
NSUInteger weight_count(MPSCNNConvolutionDescriptor* descriptor);

}  // namespace mock

// Made by a convolution for a batch; its buffers are for the weights and the biases.
@interface MPSCNNConvolutionGradientState () {
 @package
  NSUInteger width, height;  // of the source
}
- (instancetype)initForDescriptor:(MPSCNNConvolutionDescriptor*)descriptor
                           source:(MPSImage*)source
                           device:(id<MTLDevice>)device;
- (instancetype)initForDescriptor:(MPSCNNConvolutionDescriptor*)descriptor
                           source:(MPSImage*)source
                    commandBuffer:(id<MTLCommandBuffer>)buffer;  // temporary
@end

// Made by a batch normalization.
@interface MPSCNNBatchNormalizationState () {
 @package
  NSUInteger channels;
}
- (instancetype)initForChannels:(NSUInteger)count device:(id<MTLDevice>)device;
- (instancetype)initForChannels:(NSUInteger)count commandBuffer:(id<MTLCommandBuffer>)buffer;  // temporary
@end
