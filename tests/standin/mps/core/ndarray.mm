// MPSNDArray: packed rows in a buffer, from an offset on.
#include "mps/core/ndarray.h"

#include <cstring>

#include "graph/value.h"
#include "metal/standin_metal.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"

using namespace standin;

@implementation MPSNDArrayDescriptor {
  Dims _dims;
}
@synthesize dataType = _dataType, preferPackedRows = _preferPackedRows;

+ (instancetype)descriptorWithDataType:(MPSDataType)type shape:(NSArray<NSNumber*>*)shape {
  if (shape.count == 0 || shape.count > 16) misuse(@"an array of %lu dimensions", shape.count);
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
  if (!descriptor.preferPackedRows) misuse(@"rows in a user's buffer are aligned unless preferPackedRows is set");
  buffer = given;
  start = offset;
  shape = [descriptor getShape];
  type = descriptor.dataType;
  if (offset % element_bytes(type) != 0) misuse(@"offset %lu is no multiple of the element's size", offset);
  if (offset + self.resourceSize > given.length)
    misuse(@"%lu bytes from %lu on do not lie in a buffer of %lu", self.resourceSize, offset, given.length);
  return self;
}
- (instancetype)initWithDevice:(id<MTLDevice>)device descriptor:(MPSNDArrayDescriptor*)descriptor {
  const size_t bytes =
      static_cast<size_t>(count_of(dims_of([descriptor getShape]))) * element_bytes(descriptor.dataType);
  id<MTLBuffer> fresh = [device newBufferWithLength:bytes options:MTLResourceStorageModeShared];
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
  if (strides) misuse(@"the stand-in reads packed arrays only");
  std::memcpy(bytes, static_cast<char*>(buffer.contents) + start, self.resourceSize);
}
- (void)writeBytes:(void*)bytes strideBytes:(NSInteger*)strides {
  if (strides) misuse(@"the stand-in writes packed arrays only");
  std::memcpy(static_cast<char*>(buffer.contents) + start, bytes, self.resourceSize);
}
@end
