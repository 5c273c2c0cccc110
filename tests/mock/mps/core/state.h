// MPSState in the mock: buffers and textures, which are created on first use.
#pragma once

#include "mps/core/kernel.h"

@interface MPSState () {
 @package
  NSMutableArray* recipes;  // each an NSNumber of bytes, a texture descriptor, or the resource itself
  id<MTLDevice> owner;
  mock::Reads reads;
}
- (instancetype)initForBuffer:(id<MTLCommandBuffer>)buffer recipes:(NSArray*)given;  // creates a temporary state
- (instancetype)initForDevice:(id<MTLDevice>)device recipes:(NSArray*)given;
- (MockBuffer*)bufferAtIndex:(NSUInteger)index;
@end
