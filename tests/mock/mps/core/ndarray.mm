// MPSNDArray: packed rows in a buffer, starting at an offset, and copies between arrays and images.
#include "mps/core/ndarray.h"

#include <cstring>

#include "mock.h"
#include "mps/core/image.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"

using namespace mock;

@implementation MPSNDArrayDescriptor {
  Dims _dims;
}
@synthesize dataType = _dataType, preferPackedRows = _preferPackedRows;

+ (instancetype)descriptorWithDataType:(MPSDataType)type shape:(NSArray<NSNumber*>*)shape {
  if (shape.count == 0 || shape.count > 16) misuse(@"an array must have 1 to 16 dimensions, got %lu", shape.count);
  MPSNDArrayDescriptor* descriptor = [[self alloc] init];
  descriptor.dataType = type;
  descriptor->_dims = dims_of(shape);
  return descriptor;
}
- (NSArray<NSNumber*>*)getShape {
  return shape_of(_dims);
}
- (NSUInteger)numberOfDimensions {
  return _dims.size();
}
- (NSUInteger)lengthOfDimension:(NSUInteger)index {
  return static_cast<NSUInteger>(_dims[_dims.size() - 1 - index]);
}
@end

@implementation MPSNDArray
- (instancetype)initWithBuffer:(id<MTLBuffer>)given
                        offset:(NSUInteger)offset
                    descriptor:(MPSNDArrayDescriptor*)descriptor {
  if (!(self = [super init])) return nil;
  if (!descriptor.preferPackedRows)
    misuse(@"preferPackedRows must be set for a user's buffer, because rows are aligned otherwise");
  buffer = given;
  start = offset;
  shape = [descriptor getShape];
  type = descriptor.dataType;
  if (offset % element_bytes(type) != 0) misuse(@"byte offset %lu must be a multiple of the element size", offset);
  if (offset + self.resourceSize > given.length)
    misuse(@"%lu bytes at offset %lu do not fit into a buffer of %lu bytes", self.resourceSize, offset, given.length);
  const NSUInteger least = (self.resourceSize + 63) / 64 * 64;
  if (mock_macos_version() >= 27 && offset + least > given.length)
    misuse(@"[MPSNDArray, initWithBuffer:offset:descriptor:] Error: buffer is not large enough. Must be %lu bytes",
           least);
  return self;
}
- (instancetype)initWithDevice:(id<MTLDevice>)device descriptor:(MPSNDArrayDescriptor*)descriptor {
  const size_t bytes =
      static_cast<size_t>(count_of(dims_of([descriptor getShape]))) * element_bytes(descriptor.dataType);
  id<MTLBuffer> fresh = [device newBufferWithLength:(bytes + 63) / 64 * 64 options:MTLResourceStorageModeShared];
  descriptor.preferPackedRows = YES;
  return [self initWithBuffer:fresh offset:0 descriptor:descriptor];
}
- (id<MTLDevice>)device {
  return buffer.device;
}
- (id<MTLBuffer>)userBuffer {
  return buffer;
}
- (MPSDataType)dataType {
  return type;
}
- (size_t)dataTypeSize {
  return element_bytes(type);
}
- (NSUInteger)numberOfDimensions {
  return shape.count;
}
- (NSUInteger)lengthOfDimension:(NSUInteger)index {
  return shape[shape.count - 1 - index].unsignedIntegerValue;
}
- (NSUInteger)resourceSize {
  return static_cast<NSUInteger>(count_of(dims_of(shape))) * element_bytes(type);
}
- (void)readBytes:(void*)bytes strideBytes:(NSInteger*)strides {
  if (strides) misuse(@"readBytes: the mock only supports packed arrays");
  std::memcpy(bytes, static_cast<char*>(buffer.contents) + start, self.resourceSize);
}
- (void)writeBytes:(void*)bytes strideBytes:(NSInteger*)strides {
  if (strides) misuse(@"writeBytes: the mock only supports packed arrays");
  std::memcpy(static_cast<char*>(buffer.contents) + start, bytes, self.resourceSize);
}
@end

// --- images ----------------------------------------------------------------------------------------------------------

namespace {

// Call move(element of the array, image, element of the image) for each element of an array with the dimensions batch,
// height, width, and channels. `corner` is the position in the images where the array begins.
void for_each_element(const Dims& dims, const std::vector<Pixels>& images, MPSImageCoordinate corner,
                      const std::function<void(int64_t, size_t, int64_t)>& move) {
  int64_t next = 0;
  for_each_position(dims, [&](const Dims& at) {
    const Pixels& p = images[static_cast<size_t>(at[0])];
    const int64_t y = at[1] + static_cast<int64_t>(corner.y), x = at[2] + static_cast<int64_t>(corner.x);
    move(next++, static_cast<size_t>(at[0]), (y * p.width + x) * p.channels + at[3] + corner.channel);
  });
}

std::vector<Pixels> fitting(NSString* who, MPSNDArray* array, MPSImageBatch* images, MPSImageCoordinate corner) {
  require_alike(who, images);
  const Dims dims = dims_of(array->shape);
  std::vector<Pixels> result;
  for (MPSImage* image in images) result.push_back(pixels_of(image));
  const Pixels& p = result[0];
  if (dims.size() != 4 || dims[0] != static_cast<int64_t>(images.count))
    misuse(@"%@: expected an array [%lu, height, width, channels], got shape %@", who, images.count, array->shape);
  if (corner.channel % 4 != 0 || dims[1] + static_cast<int64_t>(corner.y) > p.height ||
      dims[2] + static_cast<int64_t>(corner.x) > p.width || dims[3] + static_cast<int64_t>(corner.channel) > p.channels)
    misuse(@"%@: an array of shape %@ does not fit into images of %ld x %ld x %ld at the given offset", who,
           array->shape, p.height, p.width, p.channels);
  if (p.type() != array->type)
    misuse(@"%@: the array must have the image's type %s, got %s", who, type_name(p.type()), type_name(array->type));
  return result;
}

}  // namespace

@implementation MPSNDArray (MockImages)

- (void)importDataWithCommandBuffer:(id<MTLCommandBuffer>)commands
                         fromImages:(MPSImageBatch*)images
                             offset:(MPSImageCoordinate)corner {
  const auto pixels = fitting(@"importDataWithCommandBuffer:fromImages:offset:", self, images, corner);
  const Rows rows = {static_cast<MockBuffer*>(buffer), start, self.resourceSize, 1, count_of(dims_of(shape)), type};
  const Dims dims = dims_of(shape);
  encode(commands, @"importDataWithCommandBuffer:fromImages:offset:", images, @[], [=] {
    Values loaded;
    for (const Pixels& each : pixels) loaded.push_back(each.load());
    Value result(rows.type, dims);
    for_each_element(dims, pixels, corner,
                     [&](int64_t to, size_t image, int64_t from) { result.copy(to, loaded[image], from); });
    rows.store(result);
  });
}

- (void)exportDataWithCommandBuffer:(id<MTLCommandBuffer>)commands
                           toImages:(MPSImageBatch*)images
                             offset:(MPSImageCoordinate)corner {
  const auto pixels = fitting(@"exportDataWithCommandBuffer:toImages:offset:", self, images, corner);
  const Rows rows = {static_cast<MockBuffer*>(buffer), start, self.resourceSize, 1, count_of(dims_of(shape)), type};
  const Dims dims = dims_of(shape);
  encode(commands, @"exportDataWithCommandBuffer:toImages:offset:", @[], images, [=] {
    Values results;
    for (const Pixels& each : pixels) results.push_back(each.load());
    const Value given = rows.load();
    for_each_element(dims, pixels, corner,
                     [&](int64_t from, size_t image, int64_t to) { results[image].copy(to, given, from); });
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i].store(results[i]);
  });
}
@end
