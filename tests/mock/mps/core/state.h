// What an MPSState of the mock is: buffers and textures, made when they are needed.
#pragma once

#include "mps/core/kernel.h"

@interface MPSState () {
 @package
  NSMutableArray* recipes;  // an NSNumber of bytes, a texture's descriptor, or the resource
  id<MTLDevice> owner;
  mock::Reads reads;
}
- (instancetype)initForBuffer:(id<MTLCommandBuffer>)buffer recipes:(NSArray*)given;  // temporary
- (instancetype)initForDevice:(id<MTLDevice>)device recipes:(NSArray*)given;
- (MockBuffer*)bufferAtIndex:(NSUInteger)index;
@end
