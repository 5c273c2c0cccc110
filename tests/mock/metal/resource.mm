// Buffers, textures, and blit encoders.
#include "metal/resource.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#pragma clang diagnostic ignored "-Wprotocol"
#pragma clang diagnostic ignored "-Wobjc-protocol-property-synthesis"

using mock::misuse;

namespace {

std::atomic<size_t> live_bytes{0};
constexpr size_t memory_page = 4096;
constexpr int poison = 0xA5;  // neither a small integer nor an ordinary float

char* new_memory(size_t length) {
  void* bytes = std::aligned_alloc(memory_page, (length + memory_page - 1) / memory_page * memory_page);
  std::memset(bytes, poison, length);
  live_bytes += length;
  return static_cast<char*>(bytes);
}

void require_within(NSString* what, NSUInteger start, NSUInteger size, NSUInteger length) {
  if (start > length || size > length - start)
    misuse(@"%@: bytes %lu to %lu are out of range for a resource of %lu bytes", what, start, start + size, length);
}

}  // namespace

extern "C" size_t mock_live_buffer_bytes(void) { return live_bytes; }

// --- resources -------------------------------------------------------------------------------------------------------

@implementation MockResource {
 @package
  MockDevice* _device;
  char *_deviceBytes, *_hostBytes;  // equal pointers for shared storage; private storage has no host copy
  NSUInteger _length;
  MTLStorageMode _storage;
  bool _isOwned;
}
@synthesize label = _label;

- (instancetype)initWithDevice:(MockDevice*)device length:(NSUInteger)length storage:(MTLStorageMode)storage {
  if (!(self = [super init])) return nil;
  _device = device;
  _length = length;
  _storage = storage;
  _isOwned = true;
  _deviceBytes = new_memory(length);
  if (storage == MTLStorageModeShared) _hostBytes = _deviceBytes;
  if (storage == MTLStorageModeManaged) _hostBytes = new_memory(length);
  return self;
}

- (void)dealloc {
  if (!_isOwned) return;
  live_bytes -= _storage == MTLStorageModeManaged ? 2 * _length : _length;
  std::free(_deviceBytes);
  if (_storage == MTLStorageModeManaged) std::free(_hostBytes);
}

- (void)fillWithBytes:(const void*)bytes {
  std::memcpy(_deviceBytes, bytes, _length);
  if (_storage == MTLStorageModeManaged) std::memcpy(_hostBytes, bytes, _length);
}
- (void)synchronize {
  if (_storage == MTLStorageModeManaged) std::memcpy(_hostBytes, _deviceBytes, _length);
}
- (char*)deviceBytes {
  return _deviceBytes;
}
- (void)deviceChanged:(NSRange)range {
  require_within(@"a command's result", range.location, range.length, _length);
  if (_storage == MTLStorageModeManaged) std::memset(_hostBytes + range.location, poison, range.length);
}

- (id<MTLDevice>)device {
  return _device;
}
- (NSUInteger)allocatedSize {
  return _length;
}
- (MTLStorageMode)storageMode {
  return _storage;
}
@end

// --- buffers ---------------------------------------------------------------------------------------------------------

@implementation MockBuffer {
  void (^_deallocator)(void*, NSUInteger);
}

- (instancetype)initWithDevice:(MockDevice*)device
                         bytes:(void*)bytes
                        length:(NSUInteger)length
                   deallocator:(void (^)(void*, NSUInteger))deallocator {
  if (!(self = [super init])) return nil;
  _device = device;
  _deviceBytes = _hostBytes = static_cast<char*>(bytes);
  _length = length;
  _storage = MTLStorageModeShared;
  _deallocator = deallocator;
  return self;
}
- (void)dealloc {
  if (_deallocator) _deallocator(_hostBytes, _length);
}

- (NSUInteger)length {
  return _length;
}
- (void*)contents {
  if (!_hostBytes) misuse(@"contents: a private buffer has no contents on the CPU");
  return _hostBytes;
}
- (void)didModifyRange:(NSRange)range {
  if (_storage != MTLStorageModeManaged) misuse(@"didModifyRange: the buffer must have managed storage");
  require_within(@"didModifyRange:", range.location, range.length, _length);
  std::memcpy(_deviceBytes + range.location, _hostBytes + range.location, range.length);
}
@end

// --- textures --------------------------------------------------------------------------------------------------------

namespace mock {

NSUInteger pixel_components(MTLPixelFormat format) {
  switch (format) {
    case MTLPixelFormatR8Unorm:
    case MTLPixelFormatR16Unorm:
    case MTLPixelFormatR16Float:
    case MTLPixelFormatR32Float: return 1;
    case MTLPixelFormatRG8Unorm:
    case MTLPixelFormatRG16Unorm:
    case MTLPixelFormatRG16Float:
    case MTLPixelFormatRG32Float: return 2;
    case MTLPixelFormatRGBA8Unorm:
    case MTLPixelFormatRGBA16Unorm:
    case MTLPixelFormatRGBA16Float:
    case MTLPixelFormatRGBA32Float: return 4;
    default: misuse(@"pixel format %lu is not supported by the mock", static_cast<NSUInteger>(format));
  }
}

size_t pixel_bytes(MTLPixelFormat format) {
  switch (format) {
    case MTLPixelFormatR8Unorm:
    case MTLPixelFormatRG8Unorm:
    case MTLPixelFormatRGBA8Unorm: return pixel_components(format);
    case MTLPixelFormatR32Float:
    case MTLPixelFormatRG32Float:
    case MTLPixelFormatRGBA32Float: return 4 * pixel_components(format);
    default: return 2 * pixel_components(format);
  }
}

size_t texture_bytes(MTLTextureDescriptor* descriptor) {
  return descriptor.width * descriptor.height * descriptor.arrayLength * pixel_bytes(descriptor.pixelFormat);
}

}  // namespace mock

@implementation MTLTextureDescriptor
@synthesize textureType = _textureType, pixelFormat = _pixelFormat, width = _width, height = _height, depth = _depth;
@synthesize mipmapLevelCount = _mipmapLevelCount, sampleCount = _sampleCount, arrayLength = _arrayLength;
@synthesize storageMode = _storageMode, usage = _usage, cpuCacheMode = _cpuCacheMode;

- (instancetype)init {
  if (!(self = [super init])) return nil;
  _textureType = MTLTextureType2D;
  _pixelFormat = MTLPixelFormatRGBA8Unorm;
  _width = _height = _depth = _mipmapLevelCount = _sampleCount = _arrayLength = 1;
  _storageMode = MTLStorageModeManaged;
  _usage = MTLTextureUsageShaderRead;
  return self;
}
+ (MTLTextureDescriptor*)texture2DDescriptorWithPixelFormat:(MTLPixelFormat)format
                                                      width:(NSUInteger)width
                                                     height:(NSUInteger)height
                                                  mipmapped:(BOOL)mipmapped {
  if (mipmapped) misuse(@"the mock does not support mipmaps");
  MTLTextureDescriptor* descriptor = [[self alloc] init];
  descriptor.pixelFormat = format;
  descriptor.width = width;
  descriptor.height = height;
  return descriptor;
}
- (id)copyWithZone:(NSZone*)zone {
  MTLTextureDescriptor* copy = [[MTLTextureDescriptor alloc] init];
  copy.textureType = _textureType;
  copy.pixelFormat = _pixelFormat;
  copy.width = _width;
  copy.height = _height;
  copy.arrayLength = _arrayLength;
  copy.storageMode = _storageMode;
  copy.usage = _usage;
  return copy;
}
@end

@implementation MockTexture {
  MTLTextureDescriptor* _descriptor;
}

- (instancetype)initWithDevice:(MockDevice*)device descriptor:(MTLTextureDescriptor*)descriptor {
  const bool is_array = descriptor.textureType == MTLTextureType2DArray;
  if (descriptor.width < 1 || descriptor.width > 16384 || descriptor.height < 1 || descriptor.height > 16384)
    misuse(@"texture width and height must be in [1, 16384], got %lu x %lu", descriptor.width, descriptor.height);
  if (descriptor.arrayLength < 1 || descriptor.arrayLength > (is_array ? 2048 : 1))
    misuse(@"the number of texture slices must be in [1, %d], got %lu", is_array ? 2048 : 1, descriptor.arrayLength);
  if (descriptor.depth != 1 || descriptor.mipmapLevelCount != 1 || descriptor.sampleCount != 1)
    misuse(@"the mock only supports plain 2-D textures and arrays of them");
  self = [super initWithDevice:device length:mock::texture_bytes(descriptor) storage:descriptor.storageMode];
  if (self) _descriptor = [descriptor copy];
  return self;
}

- (MTLTextureType)textureType {
  return _descriptor.textureType;
}
- (MTLPixelFormat)pixelFormat {
  return _descriptor.pixelFormat;
}
- (NSUInteger)width {
  return _descriptor.width;
}
- (NSUInteger)height {
  return _descriptor.height;
}
- (NSUInteger)depth {
  return 1;
}
- (NSUInteger)arrayLength {
  return _descriptor.arrayLength;
}
- (MTLTextureUsage)usage {
  return _descriptor.usage;
}

// Call copy(offset in the texture's memory, offset in the caller's bytes, length) for each row of a region.
- (void)rowsOfRegion:(MTLRegion)region
               slice:(NSUInteger)slice
         bytesPerRow:(NSUInteger)bytesPerRow
                copy:(const std::function<void(size_t, size_t, size_t)>&)copy {
  const size_t pixel = mock::pixel_bytes(self.pixelFormat), row = region.size.width * pixel;
  if (!_hostBytes) misuse(@"the CPU cannot read or write a texture in private storage");
  if (region.origin.x + region.size.width > self.width || region.origin.y + region.size.height > self.height ||
      region.origin.z != 0 || region.size.depth != 1 || slice >= self.arrayLength)
    misuse(@"the region is not inside the texture");
  if (bytesPerRow < row) misuse(@"bytesPerRow must be at least %lu, got %lu", row, bytesPerRow);
  for (NSUInteger y = 0; y < region.size.height; ++y) {
    const size_t line = (slice * self.height + region.origin.y + y) * self.width + region.origin.x;
    copy(line * pixel, y * bytesPerRow, row);
  }
}
- (void)getBytes:(void*)bytes
      bytesPerRow:(NSUInteger)bytesPerRow
    bytesPerImage:(NSUInteger)bytesPerImage
       fromRegion:(MTLRegion)region
      mipmapLevel:(NSUInteger)level
            slice:(NSUInteger)slice {
  [self rowsOfRegion:region
               slice:slice
         bytesPerRow:bytesPerRow
                copy:[&](size_t at, size_t to, size_t length) {
                  std::memcpy(static_cast<char*>(bytes) + to, _hostBytes + at, length);
                }];
}
// The CPU's writes to a managed texture, unlike those to a buffer, reach the device without didModifyRange:.
- (void)replaceRegion:(MTLRegion)region
          mipmapLevel:(NSUInteger)level
                slice:(NSUInteger)slice
            withBytes:(const void*)bytes
          bytesPerRow:(NSUInteger)bytesPerRow
        bytesPerImage:(NSUInteger)bytesPerImage {
  [self rowsOfRegion:region
               slice:slice
         bytesPerRow:bytesPerRow
                copy:[&](size_t at, size_t from, size_t length) {
                  std::memcpy(_deviceBytes + at, static_cast<const char*>(bytes) + from, length);
                  std::memcpy(_hostBytes + at, static_cast<const char*>(bytes) + from, length);
                }];
}
- (void)getBytes:(void*)bytes
     bytesPerRow:(NSUInteger)bytesPerRow
      fromRegion:(MTLRegion)region
     mipmapLevel:(NSUInteger)level {
  [self getBytes:bytes bytesPerRow:bytesPerRow bytesPerImage:0 fromRegion:region mipmapLevel:level slice:0];
}
- (void)replaceRegion:(MTLRegion)region
          mipmapLevel:(NSUInteger)level
            withBytes:(const void*)bytes
          bytesPerRow:(NSUInteger)bytesPerRow {
  [self replaceRegion:region mipmapLevel:level slice:0 withBytes:bytes bytesPerRow:bytesPerRow bytesPerImage:0];
}
@end

// --- blits -----------------------------------------------------------------------------------------------------------

@implementation MockBlitEncoder {
  MockCommandBuffer* _buffer;
  std::vector<std::function<void()>>* _commands;  // the command buffer's commands; null after endEncoding
}
@synthesize label = _label;

- (instancetype)initWithCommandBuffer:(MockCommandBuffer*)buffer
                             commands:(std::vector<std::function<void()>>*)commands {
  if (!(self = [super init])) return nil;
  _buffer = buffer;
  _commands = commands;
  return self;
}
- (void)encode:(std::function<void()>)work {
  if (!_commands) misuse(@"a blit command was encoded after endEncoding");
  _commands->push_back(std::move(work));
}
- (id<MTLDevice>)device {
  return _buffer.device;
}

- (void)copyFromBuffer:(id<MTLBuffer>)source
          sourceOffset:(NSUInteger)sourceOffset
              toBuffer:(id<MTLBuffer>)destination
     destinationOffset:(NSUInteger)destinationOffset
                  size:(NSUInteger)size {
  require_within(@"copyFromBuffer:", sourceOffset, size, source.length);
  require_within(@"toBuffer:", destinationOffset, size, destination.length);
  MockBuffer *from = static_cast<MockBuffer*>(source), *to = static_cast<MockBuffer*>(destination);
  [self encode:[=] {
    std::memmove([to deviceBytes] + destinationOffset, [from deviceBytes] + sourceOffset, size);
    [to deviceChanged:NSMakeRange(destinationOffset, size)];
  }];
}
- (void)fillBuffer:(id<MTLBuffer>)buffer range:(NSRange)range value:(uint8_t)value {
  require_within(@"fillBuffer:", range.location, range.length, buffer.length);
  MockBuffer* filled = static_cast<MockBuffer*>(buffer);
  [self encode:[=] {
    std::memset([filled deviceBytes] + range.location, value, range.length);
    [filled deviceChanged:range];
  }];
}
- (void)synchronizeResource:(id<MTLResource>)resource {
  if (resource.storageMode != MTLStorageModeManaged)
    misuse(@"synchronizeResource: the resource must have managed storage");
  MockResource* synchronized = static_cast<MockResource*>(resource);
  [self encode:[=] { [synchronized synchronize]; }];
}
- (void)endEncoding {
  if (!_commands) misuse(@"endEncoding was called twice");
  _commands = nullptr;
  [_buffer encoderEnded];
}
@end
