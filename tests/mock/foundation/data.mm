// NSData: bytes that are owned, or borrowed until a deallocator block is called.
#import <Foundation/Foundation.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "support.h"

@interface NSData () {
 @protected
  void* _bytes;
  NSUInteger _length;
  void (^_deallocator)(void* bytes, NSUInteger length);  // nil if the bytes are borrowed
}
@end

static void (^const kFrees)(void*, NSUInteger) = ^(void* bytes, NSUInteger) { std::free(bytes); };

static void* allocate(NSUInteger length) {
  void* const memory = std::calloc(std::max<NSUInteger>(length, 1), 1);
  if (!memory) [NSException raise:NSInvalidArgumentException format:@"cannot allocate %lu bytes", length];
  return memory;
}

static void check_range(NSRange range, NSUInteger length) {
  if (range.location <= length && range.length <= length - range.location) return;
  [NSException raise:NSRangeException
              format:@"range of %lu bytes from %lu is out of range for data of %lu bytes", range.length, range.location,
                     length];
}

static NSError* posix_error(NSString* path) {
  NSString* const what = [NSString stringWithFormat:@"%@: %s", path, std::strerror(errno)];
  return [NSError errorWithDomain:NSPOSIXErrorDomain code:errno userInfo:@{NSLocalizedDescriptionKey : what}];
}

@implementation NSData

+ (instancetype)data {
  return [[self alloc] init];
}
+ (instancetype)dataWithBytes:(const void*)bytes length:(NSUInteger)length {
  return [[self alloc] initWithBytes:bytes length:length];
}
+ (instancetype)dataWithBytesNoCopy:(void*)bytes length:(NSUInteger)length {
  return [[self alloc] initWithBytesNoCopy:bytes length:length freeWhenDone:YES];
}
+ (instancetype)dataWithBytesNoCopy:(void*)bytes length:(NSUInteger)length freeWhenDone:(BOOL)frees {
  return [[self alloc] initWithBytesNoCopy:bytes length:length freeWhenDone:frees];
}
+ (instancetype)dataWithData:(NSData*)data {
  return [[self alloc] initWithBytes:data.bytes length:data.length];
}
+ (instancetype)dataWithContentsOfFile:(NSString*)path options:(NSDataReadingOptions)options error:(NSError**)error {
  (void)options;
  std::FILE* const file = std::fopen(path.fileSystemRepresentation, "rb");
  if (!file) {
    if (error) *error = posix_error(path);
    return nil;
  }
  NSMutableData* const data = [NSMutableData data];
  char buffer[1 << 16];
  for (size_t got; (got = std::fread(buffer, 1, sizeof buffer, file)) > 0;) [data appendBytes:buffer length:got];
  const bool failed = std::ferror(file) != 0;
  if (failed && error) *error = posix_error(path);
  std::fclose(file);
  return failed ? nil : [[self alloc] initWithBytes:data.bytes length:data.length];
}

- (instancetype)initWithBytes:(const void*)bytes length:(NSUInteger)length {
  if ((self = [self initWithBytesNoCopy:allocate(length) length:length deallocator:kFrees]) && length > 0) {
    std::memcpy(_bytes, bytes, length);
  }
  return self;
}
- (instancetype)initWithBytesNoCopy:(void*)bytes length:(NSUInteger)length freeWhenDone:(BOOL)frees {
  if (frees) return [self initWithBytesNoCopy:bytes length:length deallocator:kFrees];
  return [self initWithBytesNoCopy:bytes length:length deallocator:nil];
}
- (instancetype)initWithBytesNoCopy:(void*)bytes
                             length:(NSUInteger)length
                        deallocator:(void (^)(void*, NSUInteger))deallocator {
  if ((self = [self init])) {
    _bytes = bytes;
    _length = length;
    _deallocator = [deallocator copy];
  }
  return self;
}
- (void)dealloc {
  if (_deallocator) _deallocator(_bytes, _length);
}

- (NSUInteger)length {
  return _length;
}
- (const void*)bytes {
  return _bytes;
}
- (void)getBytes:(void*)buffer length:(NSUInteger)length {
  const NSUInteger count = std::min(length, _length);
  if (count > 0) std::memcpy(buffer, _bytes, count);
}
- (void)getBytes:(void*)buffer range:(NSRange)range {
  check_range(range, _length);
  if (range.length > 0) std::memcpy(buffer, static_cast<const char*>(_bytes) + range.location, range.length);
}
- (NSData*)subdataWithRange:(NSRange)range {
  check_range(range, _length);
  return [NSData dataWithBytes:static_cast<const char*>(_bytes) + range.location length:range.length];
}
- (BOOL)writeToFile:(NSString*)path options:(NSDataWritingOptions)options error:(NSError**)error {
  (void)options;
  std::FILE* const file = std::fopen(path.fileSystemRepresentation, "wb");
  bool done = file && std::fwrite(_bytes, 1, _length, file) == _length;
  if (file) done = std::fclose(file) == 0 && done;
  if (!done && error) *error = posix_error(path);
  return done;
}

static std::string_view contents(NSData* data) { return {static_cast<const char*>(data.bytes), data.length}; }

- (BOOL)isEqualToData:(NSData*)data {
  return data && contents(self) == contents(data);
}
- (BOOL)isEqual:(id)object {
  return [object isKindOfClass:[NSData class]] && [self isEqualToData:object];
}
- (NSUInteger)hash {
  return std::hash<std::string_view>()(contents(self));
}
- (NSString*)description {
  return [NSString stringWithFormat:@"{length = %lu}", _length];
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return self;
}
- (id)mutableCopyWithZone:(NSZone*)zone {
  (void)zone;
  return [NSMutableData dataWithData:self];
}
@end

@implementation NSMutableData
@dynamic length;
+ (instancetype)dataWithLength:(NSUInteger)length {
  return [[self alloc] initWithLength:length];
}
+ (instancetype)dataWithCapacity:(NSUInteger)capacity {
  (void)capacity;
  return [self data];
}
- (instancetype)initWithLength:(NSUInteger)length {
  return [self initWithBytesNoCopy:allocate(length) length:length deallocator:kFrees];
}
// A mutable object owns its bytes from the start, because borrowed bytes would have to move when they grow.
- (instancetype)initWithBytesNoCopy:(void*)bytes
                             length:(NSUInteger)length
                        deallocator:(void (^)(void*, NSUInteger))deallocator {
  if (deallocator == kFrees) return [super initWithBytesNoCopy:bytes length:length deallocator:deallocator];
  self = [self initWithBytes:bytes length:length];
  if (deallocator) deallocator(bytes, length);
  return self;
}
- (void*)mutableBytes {
  return _bytes;
}
- (void)setLength:(NSUInteger)length {
  void* const moved = std::realloc(_bytes, std::max<NSUInteger>(length, 1));
  if (!moved) [NSException raise:NSInvalidArgumentException format:@"cannot allocate %lu bytes", length];
  if (length > _length) std::memset(static_cast<char*>(moved) + _length, 0, length - _length);
  _bytes = moved;
  _length = length;
  _deallocator = kFrees;
}
- (void)appendBytes:(const void*)bytes length:(NSUInteger)length {
  const NSUInteger before = _length;
  self.length = before + length;
  if (length > 0) std::memcpy(static_cast<char*>(_bytes) + before, bytes, length);
}
- (void)appendData:(NSData*)data {
  [self appendBytes:data.bytes length:data.length];
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return [NSData dataWithData:self];
}
@end
