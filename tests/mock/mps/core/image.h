// What an MPSImage of the mock is: slices of four channels in a texture.
#pragma once

#include "mps/core/kernel.h"

namespace mock {

// Images in a texture, for commands while they run. Numbers are as a shader reads them: unorm8 of 255 is 1.
struct Pixels {
  MockTexture* texture = nil;
  MPSImageFeatureChannelFormat format = MPSImageFeatureChannelFormatNone;
  int64_t images = 0, height = 0, width = 0, channels = 0;

  MPSDataType type() const;  // of what is loaded and stored: float32 but for float16
  Value load(int64_t image = 0) const;  // [height, width, channels]
  void store(const Value& value, int64_t image = 0) const;  // rounds to the format
  Value blank() const { return Value(type(), {height, width, channels}); }
};

Pixels pixels_of(MPSImage* image);  // allocates its texture

// Raises if the images are not of one format and size, one image each.
void require_alike(NSString* who, MPSImageBatch* batch);

}  // namespace mock

@interface MPSImage () {
 @package
  MPSImageDescriptor* descriptor;
  id<MTLDevice> owner;
  MockTexture* storage;  // nil until it is needed
  BOOL isWrapped;
  mock::Reads reads;
}
@end
