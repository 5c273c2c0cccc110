// NSString: UTF-8 in an instance variable, and two classes whose instances the compiler emits for @"literals".
//
// Every method except constructors reads the text through UTF8String and utf8Length, which the literals' classes
// override.
#import <Foundation/Foundation.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "format.h"
#include "support.h"

namespace {

std::string described(void* object) { return mock::text([(__bridge id)object description]); }

// Return the number of UTF-16 units of a UTF-8 text: one per character, two for characters of four bytes.
NSUInteger units(std::string_view utf8) {
  NSUInteger count = 0;
  for (const unsigned char byte : utf8) count += (byte & 0xC0) == 0x80 ? 0 : byte >= 0xF0 ? 2 : 1;
  return count;
}

// Return the byte at which the character with this UTF-16 unit starts; the end of the text for its length.
size_t byte_of(std::string_view utf8, NSUInteger unit) {
  NSUInteger seen = 0;
  for (size_t at = 0; at < utf8.size();) {
    const unsigned char byte = static_cast<unsigned char>(utf8[at]);
    seen += byte >= 0xF0 ? 2 : 1;
    if (seen > unit) return at;
    at += byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
  }
  if (seen < unit) {
    [NSException raise:NSRangeException format:@"index %lu is out of range for a string of length %lu", unit, seen];
  }
  return utf8.size();
}

void append_utf8(std::string& out, uint32_t character) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((character >> shift) & 0x3F)); };
  if (character < 0x80) {
    out += static_cast<char>(character);
  } else if (character < 0x800) {
    out += static_cast<char>(0xC0 | character >> 6), tail(0);
  } else if (character < 0x10000) {
    out += static_cast<char>(0xE0 | character >> 12), tail(6), tail(0);
  } else {
    out += static_cast<char>(0xF0 | character >> 18), tail(12), tail(6), tail(0);
  }
}

std::string utf8_from_utf16(const uint16_t* text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    uint32_t character = text[i];
    if (character >= 0xD800 && character < 0xDC00 && i + 1 < count) {
      character = 0x10000 + ((character - 0xD800) << 10) + (text[++i] - 0xDC00u);
    }
    append_utf8(out, character);
  }
  return out;
}

// UTF-8 copies of literals that are stored in another encoding. They are created once and never freed, because
// UTF8String must stay valid as long as the literal.
const std::string& literal_text(const void* literal, std::string (*make)(const void* literal)) {
  static std::mutex* const lock = new std::mutex;
  static auto* const texts = new std::unordered_map<const void*, std::string>;
  const std::lock_guard guard(*lock);
  const auto [entry, is_new] = texts->try_emplace(literal);
  if (is_new) entry->second = make(literal);
  return entry->second;
}

bool valid_utf8(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const unsigned char first = static_cast<unsigned char>(bytes[at]);
    const size_t length = first < 0x80   ? 1
                          : first < 0xC2 ? 0
                          : first < 0xE0 ? 2
                          : first < 0xF0 ? 3
                          : first < 0xF5 ? 4
                                         : 0;
    if (length == 0 || at + length > bytes.size()) return false;
    for (size_t i = 1; i < length; ++i) {
      if ((static_cast<unsigned char>(bytes[at + i]) & 0xC0) != 0x80) return false;
    }
    at += length;
  }
  return true;
}

}  // namespace

namespace mock {

std::string formatted(const char* text, va_list arguments) { return format(text, arguments, described); }

NSString* string(const std::string& utf8) { return [[NSString alloc] initWithUTF8String:utf8.c_str()]; }

}  // namespace mock

@interface NSString () {
 @protected
  std::string _text;
}
- (NSUInteger)utf8Length;
@end

static std::string_view view(NSString* string) { return {string.UTF8String, [string utf8Length]}; }

static NSString* made(std::string_view text) {
  return [[NSString alloc] initWithBytes:text.data() length:text.size() encoding:NSUTF8StringEncoding];
}

@implementation NSString

+ (instancetype)string {
  return [[self alloc] init];
}
+ (instancetype)stringWithString:(NSString*)string {
  return [[self alloc] initWithString:string];
}
+ (instancetype)stringWithUTF8String:(const char*)bytes {
  return [[self alloc] initWithUTF8String:bytes];
}
+ (instancetype)stringWithCString:(const char*)bytes encoding:(NSStringEncoding)encoding {
  return [[self alloc] initWithBytes:bytes length:std::strlen(bytes) encoding:encoding];
}
+ (instancetype)stringWithFormat:(NSString*)format, ... {
  va_list arguments;
  va_start(arguments, format);
  NSString* const made = [[self alloc] initWithFormat:format arguments:arguments];
  va_end(arguments);
  return made;
}

- (instancetype)initWithString:(NSString*)string {
  if (!string) [NSException raise:NSInvalidArgumentException format:@"initWithString: argument must not be nil"];
  if ((self = [self init])) _text = view(string);
  return self;
}
- (instancetype)initWithUTF8String:(const char*)bytes {
  if (!bytes) [NSException raise:NSInvalidArgumentException format:@"initWithUTF8String: argument must not be NULL"];
  return [self initWithBytes:bytes length:std::strlen(bytes) encoding:NSUTF8StringEncoding];
}
- (instancetype)initWithBytes:(const void*)bytes length:(NSUInteger)length encoding:(NSStringEncoding)encoding {
  const std::string_view text(static_cast<const char*>(bytes), length);
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (encoding == NSUTF8StringEncoding ? !valid_utf8(text) : !std::all_of(text.begin(), text.end(), is_ascii))
    return nil;
  if ((self = [self init])) _text = text;
  return self;
}
- (instancetype)initWithData:(NSData*)data encoding:(NSStringEncoding)encoding {
  return [self initWithBytes:data.bytes length:data.length encoding:encoding];
}
- (instancetype)initWithFormat:(NSString*)format, ... {
  va_list arguments;
  va_start(arguments, format);
  self = [self initWithFormat:format arguments:arguments];
  va_end(arguments);
  return self;
}
- (instancetype)initWithFormat:(NSString*)format arguments:(va_list)arguments {
  if (!format) [NSException raise:NSInvalidArgumentException format:@"initWithFormat: format must not be nil"];
  if ((self = [self init])) _text = mock::formatted(format.UTF8String, arguments);
  return self;
}

- (const char*)UTF8String {
  return _text.c_str();
}
- (NSUInteger)utf8Length {
  return _text.size();
}
- (const char*)fileSystemRepresentation {
  return self.UTF8String;
}
- (const char*)cStringUsingEncoding:(NSStringEncoding)encoding {
  const bool fits = encoding == NSUTF8StringEncoding || units(view(self)) == [self utf8Length];
  return fits ? self.UTF8String : nullptr;
}
- (NSUInteger)lengthOfBytesUsingEncoding:(NSStringEncoding)encoding {
  return [self cStringUsingEncoding:encoding] ? [self utf8Length] : 0;
}
- (NSData*)dataUsingEncoding:(NSStringEncoding)encoding {
  const char* const bytes = [self cStringUsingEncoding:encoding];
  return bytes ? [NSData dataWithBytes:bytes length:[self utf8Length]] : nil;
}
- (NSUInteger)length {
  return units(view(self));
}
- (unichar)characterAtIndex:(NSUInteger)index {
  const std::string_view text = view(self);
  const size_t begin = byte_of(text, index);
  if (begin == text.size()) {
    [NSException raise:NSRangeException
                format:@"index %lu is out of range for a string of length %lu", index, self.length];
  }
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[begin + i]) & 0x3Fu; };
  const unsigned char first = static_cast<unsigned char>(text[begin]);
  if (first < 0x80) return first;
  if (first < 0xE0) return static_cast<unichar>((first & 0x1Fu) << 6 | byte(1));
  if (first < 0xF0) return static_cast<unichar>((first & 0x0Fu) << 12 | byte(1) << 6 | byte(2));
  const uint32_t character = ((first & 7u) << 18 | byte(1) << 12 | byte(2) << 6 | byte(3)) - 0x10000;
  const bool is_first = units(text.substr(0, begin)) == index;
  return static_cast<unichar>(is_first ? 0xD800 + (character >> 10) : 0xDC00 + (character & 0x3FF));
}

- (NSString*)description {
  return self;
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return self;
}
- (id)mutableCopyWithZone:(NSZone*)zone {
  (void)zone;
  return [[NSMutableString alloc] initWithString:self];
}
- (NSUInteger)hash {
  return std::hash<std::string_view>()(view(self));
}
- (BOOL)isEqual:(id)object {
  return self == object || ([object isKindOfClass:[NSString class]] && [self isEqualToString:object]);
}
- (BOOL)isEqualToString:(NSString*)string {
  return string && view(self) == view(string);
}
- (NSComparisonResult)compare:(NSString*)string {
  const int order = view(self).compare(view(string));
  return order < 0 ? NSOrderedAscending : order > 0 ? NSOrderedDescending : NSOrderedSame;
}
- (BOOL)hasPrefix:(NSString*)prefix {
  return view(self).starts_with(view(prefix));
}
- (BOOL)hasSuffix:(NSString*)suffix {
  return view(self).ends_with(view(suffix));
}
- (BOOL)containsString:(NSString*)string {
  return [self rangeOfString:string].location != NSNotFound;
}
- (NSRange)rangeOfString:(NSString*)string {
  const std::string_view text = view(self);
  const size_t at = text.find(view(string));
  if (at == std::string_view::npos || [string utf8Length] == 0) return NSMakeRange(NSNotFound, 0);
  return NSMakeRange(units(text.substr(0, at)), string.length);
}
- (NSString*)substringFromIndex:(NSUInteger)from {
  const std::string_view text = view(self);
  return made(text.substr(byte_of(text, from)));
}
- (NSString*)substringToIndex:(NSUInteger)to {
  const std::string_view text = view(self);
  return made(text.substr(0, byte_of(text, to)));
}
- (NSString*)substringWithRange:(NSRange)range {
  return [[self substringToIndex:range.location + range.length] substringFromIndex:range.location];
}
- (NSString*)stringByAppendingString:(NSString*)string {
  return made(std::string(view(self)) + std::string(view(string)));
}
- (NSString*)stringByAppendingFormat:(NSString*)format, ... {
  va_list arguments;
  va_start(arguments, format);
  const std::string tail = mock::formatted(format.UTF8String, arguments);
  va_end(arguments);
  return made(std::string(view(self)) + tail);
}
- (NSArray<NSString*>*)componentsSeparatedByString:(NSString*)separator {
  NSMutableArray<NSString*>* const parts = [NSMutableArray array];
  const std::string_view text = view(self), mark = view(separator);
  size_t begin = 0;
  for (size_t end; !mark.empty() && (end = text.find(mark, begin)) != std::string_view::npos;
       begin = end + mark.size()) {
    [parts addObject:made(text.substr(begin, end - begin))];
  }
  [parts addObject:made(text.substr(begin))];
  return parts;
}

- (NSString*)stringByAppendingPathComponent:(NSString*)component {
  std::string path(view(self));
  if (!path.empty() && path.back() != '/') path += '/';
  std::string_view tail = view(component);
  while (!path.empty() && tail.starts_with('/')) tail.remove_prefix(1);
  return made(path.append(tail));
}
// Remove trailing slashes, except from the root.
static std::string_view trimmed(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}
- (NSString*)lastPathComponent {
  const std::string_view path = trimmed(view(self));
  return made(path.size() > 1 ? path.substr(path.rfind('/') + 1) : path);
}
- (NSString*)pathExtension {
  NSString* const last = self.lastPathComponent;
  const std::string_view name = view(last);
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos || dot == 0 ? @"" : made(name.substr(dot + 1));
}
- (NSString*)stringByDeletingLastPathComponent {
  const std::string_view path = trimmed(view(self));
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return @"";
  return made(path.substr(0, slash == 0 ? 1 : slash));
}

- (int)intValue {
  return static_cast<int>(std::strtol(self.UTF8String, nullptr, 10));
}
- (NSInteger)integerValue {
  return std::strtol(self.UTF8String, nullptr, 10);
}
- (long long)longLongValue {
  return std::strtoll(self.UTF8String, nullptr, 10);
}
- (float)floatValue {
  return std::strtof(self.UTF8String, nullptr);
}
- (double)doubleValue {
  return std::strtod(self.UTF8String, nullptr);
}
- (BOOL)boolValue {
  const char first = self.UTF8String[std::strspn(self.UTF8String, " +-0")];
  return std::strchr("YyTt123456789", first) != nullptr && first != '\0';
}

@end

@implementation NSMutableString
+ (instancetype)stringWithCapacity:(NSUInteger)capacity {
  (void)capacity;
  return [self string];
}
- (void)appendString:(NSString*)string {
  _text += std::string(view(string));
}
- (void)appendFormat:(NSString*)format, ... {
  va_list arguments;
  va_start(arguments, format);
  _text += mock::formatted(format.UTF8String, arguments);
  va_end(arguments);
}
- (void)setString:(NSString*)string {
  _text = std::string(view(string));
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return [[NSString alloc] initWithString:self];
}
@end

// The layout of literals that the compiler emits. The low bits of `flags` are the encoding of the text.
struct ConstantString {
  Class isa;
  uint32_t flags, length, size, hash;
  const void* data;
};
enum : uint32_t { kEncodingMask = 3, kUtf16 = 2 };

@implementation NSConstantString
+ (void)load {
  mock_make_instances_immortal(self);
}
static std::string utf16_literal(const void* literal) {
  const auto* const constant = static_cast<const ConstantString*>(literal);
  return utf8_from_utf16(static_cast<const uint16_t*>(constant->data), constant->length);
}
- (const char*)UTF8String {
  const auto* const constant = (__bridge const ConstantString*)self;
  if ((constant->flags & kEncodingMask) != kUtf16) return static_cast<const char*>(constant->data);
  return literal_text(constant, utf16_literal).c_str();
}
- (NSUInteger)utf8Length {
  const auto* const constant = (__bridge const ConstantString*)self;
  if ((constant->flags & kEncodingMask) != kUtf16) return constant->size;
  return literal_text(constant, utf16_literal).size();
}
@end

// A literal of up to eight ASCII characters is encoded in the pointer itself: seven bits per character from the top,
// and the length above the tag.
@interface NSTinyString : NSString
@end
@implementation NSTinyString
+ (void)load {
  mock_make_instances_immortal(self);
  mock_install_tiny_string_class(self);
}
static std::string tiny_literal(const void* literal) {
  const auto bits = reinterpret_cast<uintptr_t>(literal);
  std::string text;
  for (unsigned i = 0; i < ((bits >> 3) & 31); ++i) text += static_cast<char>((bits >> (57 - 7 * i)) & 127);
  return text;
}
- (const char*)UTF8String {
  return literal_text((__bridge const void*)self, tiny_literal).c_str();
}
- (NSUInteger)utf8Length {
  return (reinterpret_cast<uintptr_t>((__bridge const void*)self) >> 3) & 31;
}
@end

void NSLogv(NSString* format, va_list arguments) {
  std::fprintf(stderr, "%s\n", mock::formatted(format.UTF8String, arguments).c_str());
}

void NSLog(NSString* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  NSLogv(format, arguments);
  va_end(arguments);
}
