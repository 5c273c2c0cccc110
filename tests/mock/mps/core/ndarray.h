// MPSNDArray in the mock: a range of a buffer.
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
