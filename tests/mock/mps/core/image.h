// MPSImage in the mock: slices of four channels in a texture.
#pragma once

#include "mps/core/kernel.h"

namespace mock {

// Pixels of images in a texture, for commands while they run. Values are those that a shader reads, so the unorm8 value
// 255 reads as 1.
struct Pixels {
  MockTexture* texture = nil;
  MPSImageFeatureChannelFormat format = MPSImageFeatureChannelFormatNone;
  int64_t images = 0, height = 0, width = 0, channels = 0;

  MPSDataType type() const;  // element type of load() and store(): float32, except for float16 images
  Value load(int64_t image = 0) const;  // in the shape [height, width, channels]
  void store(const Value& value, int64_t image = 0) const;  // rounds to the image's format
  Value blank() const { return Value(type(), {height, width, channels}); }
};

Pixels pixels_of(MPSImage* image);  // allocates the image's texture if needed

// Raise unless every object of the batch holds one image and all have the same format and size.
void require_alike(NSString* who, MPSImageBatch* batch);

}  // namespace mock

@interface MPSImage () {
 @package
  MPSImageDescriptor* descriptor;
  id<MTLDevice> owner;
  MockTexture* storage;  // nil until first use
  BOOL isWrapped;
  mock::Reads reads;
}
@end
