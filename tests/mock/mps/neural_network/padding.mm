// Padding policies: sizes of results and positions of windows.
//
// Along each dimension, with the extent K of the dilated kernel and style -1, 0, or 1 for valid, same, or full, the
// size is ceil((source + style (K - 1)) / stride) for forward filters and (source - 1) stride + 1 + style (K - 1) for
// reverse filters. The padding that such a size requires surrounds the image, and the method selects the side of an odd
// pixel. The mock refuses alignments other than centered, because their documentation does not specify pixel positions.
#include <algorithm>

#include "mps/neural_network/layer.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"

using namespace mock;

@implementation MPSNNDefaultPadding {
  MPSNNPaddingMethod _method;
  NSString* _label;
}
+ (BOOL)supportsSecureCoding {
  return YES;
}
+ (instancetype)paddingWithMethod:(MPSNNPaddingMethod)method {
  if (method & MPSNNPaddingMethodCustom)
    misuse(@"paddingWithMethod: a custom method requires a class that implements MPSNNPadding");
  if ((method & MPSNNPaddingMethodAlignMask) == MPSNNPaddingMethodAlign_reserved)
    misuse(@"paddingWithMethod: method %lu has a reserved alignment", static_cast<NSUInteger>(method));
  MPSNNDefaultPadding* made = [[self alloc] init];
  made->_method = method;
  made->_label = @"MPSNNDefaultPadding";
  return made;
}
+ (instancetype)paddingForTensorflowAveragePooling {
  return [self paddingWithMethod:MPSNNPaddingMethodSizeSame | MPSNNPaddingMethodAlignCentered |
                                 MPSNNPaddingMethodAddRemainderToBottomRight];
}
+ (instancetype)paddingForTensorflowAveragePoolingValidOnly {
  return [self paddingWithMethod:MPSNNPaddingMethodSizeValidOnly | MPSNNPaddingMethodAlignCentered |
                                 MPSNNPaddingMethodAddRemainderToBottomRight];
}
- (MPSNNPaddingMethod)paddingMethod {
  return _method;
}
- (NSString*)label {
  return _label;
}
@end

namespace mock {

namespace {

int64_t style(MPSNNPaddingMethod method) {
  const auto size = method & (MPSNNPaddingMethodSizeSame | MPSNNPaddingMethodSizeFull);
  if (size == MPSNNPaddingMethodSize_reserved) misuse(@"the padding method has a reserved size");
  return size == MPSNNPaddingMethodSizeValidOnly ? -1 : size == MPSNNPaddingMethodSizeSame ? 0 : 1;
}

int64_t floor_half(int64_t n) { return n >= 0 ? n / 2 : -((1 - n) / 2); }

// Return whether the odd pixel of padding follows the image, at the bottom or at the right.
bool after_y(MPSNNPaddingMethod method) { return method & MPSNNPaddingMethodAddRemainderToBottomLeft; }
bool after_x(MPSNNPaddingMethod method) { return method & MPSNNPaddingMethodAddRemainderToTopRight; }

MPSImageDescriptor* descriptor_of(const Shape& shape) {
  return [MPSImageDescriptor imageDescriptorWithChannelFormat:MPSImageFeatureChannelFormatFloat16
                                                        width:static_cast<NSUInteger>(shape.width)
                                                       height:static_cast<NSUInteger>(shape.height)
                                              featureChannels:static_cast<NSUInteger>(shape.channels)];
}

}  // namespace

int64_t forward_size(int64_t source, const Axis& axis, MPSNNPaddingMethod method) {
  const int64_t covered = source + style(method) * (axis.reach() - 1);
  return covered <= 0 ? 0 : (covered + axis.stride - 1) / axis.stride;
}

int64_t reverse_size(int64_t source, const Axis& axis, MPSNNPaddingMethod method) {
  return (source - 1) * axis.stride + 1 + style(method) * (axis.reach() - 1);
}

int64_t first_pixel(int64_t source, int64_t result, const Axis& axis, bool after) {
  const int64_t extra = (result - 1) * axis.stride + axis.reach() - source;
  return -floor_half(extra + (after ? 0 : 1));
}

Shape apply_padding(Call& call, Shape source, int64_t channels) {
  id<MPSNNPadding> policy = call.filter->padding;
  const MPSNNPaddingMethod method = [policy paddingMethod];
  if ((method & MPSNNPaddingMethodAlignMask) != MPSNNPaddingMethodAlignCentered)
    misuse(@"%@: only centered alignment has documented pixel positions", call.filter.name);
  Axis &y = call.windows.y, &x = call.windows.x;
  Shape result = {forward_size(source.height, y, method), forward_size(source.width, x, method), channels};
  const auto check = [&] {
    if (result.count() <= 0)
      misuse(@"%@: windows of %ld x %ld do not fit into a source of %@", call.filter.name, y.reach(), x.reach(),
             text_of(source));
  };
  check();
  y.first = first_pixel(source.height, result.height, y, after_y(method));
  x.first = first_pixel(source.width, result.width, x, after_x(method));
  if (!(method & MPSNNPaddingMethodCustom)) return result;
  // Custom policies set the kernel's `offset`, which is the pixel under the center of the first window.
  MPSCNNKernel* kernel = [[MPSCNNKernel alloc] initForWindows:call.windows device:call.device];
  MPSImage* image = [[MPSImage alloc] initWithDevice:call.device imageDescriptor:descriptor_of(source)];
  MPSImageDescriptor* wanted = [policy destinationImageDescriptorForSourceImages:@[ image ]
                                                                    sourceStates:nil
                                                                       forKernel:kernel
                                                             suggestedDescriptor:descriptor_of(result)];
  if (!wanted) misuse(@"%@: the custom padding policy returned no descriptor", call.filter.name);
  result = {static_cast<int64_t>(wanted.height), static_cast<int64_t>(wanted.width), channels};
  if (static_cast<int64_t>(wanted.featureChannels) != channels)
    misuse(@"%@: the custom padding policy must not change the number of channels from %ld to %lu", call.filter.name,
           channels, wanted.featureChannels);
  check();
  y.first = kernel.offset.y - y.reach() / 2;
  x.first = kernel.offset.x - x.reach() / 2;
  call.windows.edge = kernel.edgeMode;
  return result;
}

}  // namespace mock
