// Converts padding policies. Centered policies use Apple's own class. All others use a custom class, because Apple does
// not fully document where other policies place the windows.
#include "backends/metal/nngraph/padding.h"

using mpsgraph::nngraph::PaddingAlignment;
using mpsgraph::nngraph::PaddingPolicy;
using mpsgraph::nngraph::PaddingSize;
using mpsgraph::nngraph::Remainder;
using mpsgraph::nngraph::WindowAxis;

@interface MpsgraphPadding : NSObject <MPSNNPadding>
- (instancetype)initWithPolicy:(const PaddingPolicy&)policy;
@end

@implementation MpsgraphPadding {
  PaddingPolicy _policy;
}
- (instancetype)initWithPolicy:(const PaddingPolicy&)policy {
  if ((self = [super init])) _policy = policy;
  return self;
}
- (MPSNNPaddingMethod)paddingMethod {
  return MPSNNPaddingMethodCustom | MPSNNPaddingMethodSizeSame;
}
// In MPS, the window of the result's first pixel starts at offset - reach / 2, where reach is the dilated kernel size.
- (MPSImageDescriptor*)destinationImageDescriptorForSourceImages:(NSArray<MPSImage*>*)images
                                                    sourceStates:(NSArray<MPSState*>*)states
                                                       forKernel:(MPSKernel*)kernel
                                             suggestedDescriptor:(MPSImageDescriptor*)descriptor {
  MPSCNNKernel* windows = (MPSCNNKernel*)kernel;
  const auto reach = [](NSUInteger size, NSUInteger dilation) {
    return static_cast<int64_t>((size - 1) * dilation + 1);
  };
  const int64_t height = reach(windows.kernelHeight, windows.dilationRateY);
  const int64_t width = reach(windows.kernelWidth, windows.dilationRateX);
  const WindowAxis y =
      _policy.forward(0, static_cast<int64_t>(images[0].height), height, static_cast<int64_t>(windows.strideInPixelsY));
  const WindowAxis x =
      _policy.forward(1, static_cast<int64_t>(images[0].width), width, static_cast<int64_t>(windows.strideInPixelsX));
  windows.offset = {.x = width / 2 - x.before, .y = height / 2 - y.before, .z = 0};
  descriptor.height = static_cast<NSUInteger>(y.size);
  descriptor.width = static_cast<NSUInteger>(x.size);
  return descriptor;
}
+ (BOOL)supportsSecureCoding {
  return YES;
}
// This method is empty because policies are not archived.
- (void)encodeWithCoder:(NSCoder*)coder {
}
- (instancetype)initWithCoder:(NSCoder*)coder {
  return nil;
}
@end

namespace mpsgraph::metal {

id<MPSNNPadding> padding_of(const PaddingPolicy& policy) {
  if (policy.custom || policy.alignment != PaddingAlignment::centered)
    return [[MpsgraphPadding alloc] initWithPolicy:policy];
  const auto sizes = {MPSNNPaddingMethodSizeValidOnly, MPSNNPaddingMethodSizeSame, MPSNNPaddingMethodSizeFull};
  const auto remainders = {MPSNNPaddingMethodAddRemainderToTopLeft, MPSNNPaddingMethodAddRemainderToTopRight,
                           MPSNNPaddingMethodAddRemainderToBottomLeft, MPSNNPaddingMethodAddRemainderToBottomRight};
  const MPSNNPaddingMethod method = sizes.begin()[static_cast<int>(policy.size)] | MPSNNPaddingMethodAlignCentered |
                                    remainders.begin()[static_cast<int>(policy.remainder)];
  return [MPSNNDefaultPadding paddingWithMethod:method];
}

}  // namespace mpsgraph::metal
