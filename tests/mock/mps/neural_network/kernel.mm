// MPSCNNKernel: the view of a filter that custom padding policies receive, and the base class of kernels that encode
// their own work.
#include "mps/neural_network/layer.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"

using namespace mock;

@implementation MPSCNNKernel {
  Windows _windows;
}
@synthesize offset = _offset, edgeMode = _edgeMode;

- (instancetype)initForWindows:(const Windows&)windows device:(id<MTLDevice>)device {
  if (!(self = [super initWithDevice:device])) return nil;
  _windows = windows;
  _offset = {static_cast<NSInteger>(windows.x.first + windows.x.reach() / 2),
             static_cast<NSInteger>(windows.y.first + windows.y.reach() / 2), 0};
  _edgeMode = windows.edge;
  return self;
}
- (NSUInteger)kernelWidth {
  return static_cast<NSUInteger>(_windows.x.kernel);
}
- (NSUInteger)kernelHeight {
  return static_cast<NSUInteger>(_windows.y.kernel);
}
- (NSUInteger)strideInPixelsX {
  return static_cast<NSUInteger>(_windows.x.stride);
}
- (NSUInteger)strideInPixelsY {
  return static_cast<NSUInteger>(_windows.y.stride);
}
- (NSUInteger)dilationRateX {
  return static_cast<NSUInteger>(_windows.x.dilation);
}
- (NSUInteger)dilationRateY {
  return static_cast<NSUInteger>(_windows.y.dilation);
}
@end
