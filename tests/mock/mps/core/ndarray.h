// What an MPSNDArray of the mock is: a place in a buffer.
#pragma once

#import <MetalPerformanceShaders/MetalPerformanceShaders.h>

@interface MPSNDArray () {
 @package
  id<MTLBuffer> buffer;
  NSUInteger start;
  MPSShape* shape;
  MPSDataType type;
}
@end
