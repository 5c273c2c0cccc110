// Padding policies: sizes of results and places of windows.
//
// Sizes, a dimension at a time, with K the reach of the dilated kernel and style -1, 0 or 1 for valid, same or full:
// forward ceil((source + style (K - 1)) / stride), reverse (source - 1) stride + 1 + style (K - 1). The padding that a
// size asks for lies around the image, its odd pixel where the method says. What alignment other than centered means
// is not documented to the pixel, so it is refused.
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
  if (method & MPSNNPaddingMethodCustom) misuse(@"paddingWithMethod: a custom method has a class of its own");
  if ((method & MPSNNPaddingMethodAlignMask) == MPSNNPaddingMethodAlign_reserved)
    misuse(@"paddingWithMethod: %lu is reserved", static_cast<NSUInteger>(method));
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
  if (size == MPSNNPaddingMethodSize_reserved) misuse(@"a padding method of reserved size");
  return size == MPSNNPaddingMethodSizeValidOnly ? -1 : size == MPSNNPaddingMethodSizeSame ? 0 : 1;
}

int64_t floor_half(int64_t n) { return n >= 0 ? n / 2 : -((1 - n) / 2); }

// Whether the remainder goes after the image: at the bottom, or at the right.
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
    misuse(@"%@: only centered padding is documented to the pixel", call.filter.name);
  Axis &y = call.windows.y, &x = call.windows.x;
  Shape result = {forward_size(source.height, y, method), forward_size(source.width, x, method), channels};
  const auto check = [&] {
    if (result.count() <= 0)
      misuse(@"%@: windows of %ld x %ld do not fit into %@", call.filter.name, y.reach(), x.reach(), text_of(source));
  };
  check();
  y.first = first_pixel(source.height, result.height, y, after_y(method));
  x.first = first_pixel(source.width, result.width, x, after_x(method));
  if (!(method & MPSNNPaddingMethodCustom)) return result;
  // The window's centre lies on pixel `offset`: what a custom policy changes.
  MPSCNNKernel* kernel = [[MPSCNNKernel alloc] initForWindows:call.windows device:call.device];
  MPSImage* image = [[MPSImage alloc] initWithDevice:call.device imageDescriptor:descriptor_of(source)];
  MPSImageDescriptor* wanted = [policy destinationImageDescriptorForSourceImages:@[ image ]
                                                                    sourceStates:nil
                                                                       forKernel:kernel
                                                             suggestedDescriptor:descriptor_of(result)];
  if (!wanted) misuse(@"%@: its custom padding gave no descriptor", call.filter.name);
  result = {static_cast<int64_t>(wanted.height), static_cast<int64_t>(wanted.width), channels};
  if (static_cast<int64_t>(wanted.featureChannels) != channels)
    misuse(@"%@: its custom padding changed the number of channels", call.filter.name);
  check();
  y.first = kernel.offset.y - y.reach() / 2;
  x.first = kernel.offset.x - x.reach() / 2;
  call.windows.edge = kernel.edgeMode;
  return result;
}

}  // namespace mock
