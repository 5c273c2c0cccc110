// MPSKernel, and encoding of work that reads temporary objects.
#include "mps/core/kernel.h"

#include <cstring>

#include "metal/counts.h"
#include "mps/core/image.h"
#include "mps/core/matrix.h"
#include "mps/core/state.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"

@implementation MPSKernel {
  id<MTLDevice> _device;
}
@synthesize label = _label, options = _options;

+ (BOOL)supportsSecureCoding {
  return YES;
}
- (instancetype)initWithDevice:(id<MTLDevice>)device {
  if (!device) mock::misuse(@"%@: the device must not be nil", [self class]);
  if ((self = [super init])) _device = device;
  return self;
}
- (id<MTLDevice>)device {
  return _device;
}
@end

namespace mock {

MockCommandBuffer* commands_of(id<MTLCommandBuffer> buffer) {
  if ([(id)buffer isKindOfClass:[MPSCommandBuffer class]]) buffer = ((MPSCommandBuffer*)buffer).commandBuffer;
  if (!buffer) misuse(@"a kernel must be encoded to a command buffer, got nil");
  return static_cast<MockCommandBuffer*>(buffer);
}

Reads temporary_in(id<MTLCommandBuffer> buffer, Class what) {
  auto temporary = std::make_shared<Temporary>();
  temporary->what = NSStringFromClass(what);
  [commands_of(buffer) addTemporary:temporary];
  return temporary;
}

Reads reads_of(id object) {
  if ([object isKindOfClass:[MPSImage class]]) return ((MPSImage*)object)->reads;
  if ([object isKindOfClass:[MPSMatrix class]]) return ((MPSMatrix*)object)->reads;
  if ([object isKindOfClass:[MPSVector class]]) return ((MPSVector*)object)->reads;
  if ([object isKindOfClass:[MPSState class]]) return ((MPSState*)object)->reads;
  misuse(@"expected an image, matrix, vector, or state, got %@", object);
}

void set_reads(const Reads& reads, NSUInteger count) {
  if (reads->reads == 0) misuse(@"setReadCount: the %@ has no reads left", reads->what);
  if (!reads->buffer || reads->buffer.status != MTLCommandBufferStatusNotEnqueued)
    misuse(@"setReadCount: the command buffer of the %@ was already committed", reads->what);
  if (count > NSUInteger{1} << 32)
    misuse(@"setReadCount: the count must not be negative, got %ld", static_cast<long>(count));  // a negative value
  reads->reads = count;
  if (count == 0 && reads->spoil) [reads->buffer encodeWork:reads->spoil];
}

void encode(id<MTLCommandBuffer> buffer, NSString* who, NSArray* reads, NSArray* writes, std::function<void()> work) {
  ++counters().encodes;
  MockCommandBuffer* commands = commands_of(buffer);
  NSMutableSet<NSValue*>* seen = [NSMutableSet set];
  std::vector<Reads> counted;
  const auto require = [&](id object, NSString* use) -> Reads {
    const Reads left = reads_of(object);
    if (left && left->reads == 0) misuse(@"%@ %@ a %@ that has no reads left", who, use, left->what);
    if (left && left->buffer != commands)
      misuse(@"%@ %@ a %@ of another command buffer, or of one that was committed", who, use, left->what);
    return left;
  };
  for (id object in reads) {
    NSValue* key = [NSValue valueWithPointer:(__bridge void*)object];
    if ([seen containsObject:key]) continue;
    [seen addObject:key];
    if (Reads left = require(object, @"reads")) counted.push_back(std::move(left));
  }
  for (id object in writes) require(object, @"writes");
  [commands encodeWork:std::move(work)];
  for (const Reads& left : counted) set_reads(left, left->reads - 1);
}

void spoil(MockResource* resource) { std::memset([resource deviceBytes], 0xA5, resource.allocatedSize); }

Value Rows::load() const {
  Value result(type, {rows, columns});
  for (int64_t row = 0; row < rows; ++row) {
    const Value line = Value::of(type, {columns}, [buffer deviceBytes] + start + row * row_bytes);
    for (int64_t i = 0; i < columns; ++i) result.copy(row * columns + i, line, i);
  }
  return result;
}

void Rows::store(const Value& value) const {
  if (value.count() != rows * columns || value.type != type)
    misuse(@"values of shape %@ and type %s do not match %ld rows of %ld elements", text_of(value.dims),
           type_name(value.type), rows, columns);
  for (int64_t row = 0; row < rows; ++row) {
    Value line(type, {columns});
    for (int64_t i = 0; i < columns; ++i) line.copy(i, value, row * columns + i);
    const size_t at = start + row * row_bytes;
    line.store([buffer deviceBytes] + at);
    [buffer deviceChanged:NSMakeRange(at, static_cast<size_t>(columns) * element_bytes(type))];
  }
}

Rows floats_of(id<MTLBuffer> buffer, NSUInteger offset, NSUInteger count) {
  if (!buffer || offset > buffer.length || count * sizeof(float) > buffer.length - offset)
    misuse(@"%lu floats at byte offset %lu do not fit into a buffer of %lu bytes", count, offset, buffer.length);
  return {static_cast<MockBuffer*>(buffer),
          offset,
          count * sizeof(float),
          1,
          static_cast<int64_t>(count),
          MPSDataTypeFloat32};
}

}  // namespace mock
