// NSValue holds a pointer; NSNumber holds one of four kinds of numbers. Numbers are equal if their values are, whatever
// their kind.
#import <Foundation/Foundation.h>

#include <cmath>
#include <functional>

#include "support.h"

@implementation NSValue {
  const void* _pointer;
}
+ (NSValue*)valueWithPointer:(const void*)pointer {
  NSValue* const value = [[NSValue alloc] init];
  value->_pointer = pointer;
  return value;
}
+ (NSValue*)valueWithNonretainedObject:(id)object {
  return [self valueWithPointer:(__bridge const void*)object];
}
- (void*)pointerValue {
  return const_cast<void*>(_pointer);
}
- (id)nonretainedObjectValue {
  return (__bridge id)_pointer;
}
- (const char*)objCType {
  return "^v";
}
- (BOOL)isEqualToValue:(NSValue*)value {
  return [self isEqual:value];
}
- (BOOL)isEqual:(id)object {
  return [object isKindOfClass:[NSValue class]] && ![object isKindOfClass:[NSNumber class]] &&
         static_cast<NSValue*>(object)->_pointer == _pointer;
}
- (NSUInteger)hash {
  return std::hash<const void*>()(_pointer);
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return self;
}
@end

@implementation NSNumber {
  enum { kSigned, kUnsigned, kReal, kBool } _kind;
  union {
    long long integer;
    unsigned long long natural;
    double real;
  } _value;
  const char* _type;
}

// One constructor and one getter per C type.
#define NUMBER(Name, name, type, kind, member)                       \
  +(NSNumber*)numberWith##Name : (type)value {                       \
    NSNumber* const number = [[NSNumber alloc] init];                \
    number->_kind = kind;                                            \
    number->_value.member = value;                                   \
    number->_type = @encode(type);                                   \
    return number;                                                   \
  }                                                                  \
  -(type)name##Value {                                               \
    return _kind == kReal       ? static_cast<type>(_value.real)     \
           : _kind == kUnsigned ? static_cast<type>(_value.natural)  \
                                : static_cast<type>(_value.integer); \
  }
NUMBER(Char, char, char, kSigned, integer)
NUMBER(UnsignedChar, unsignedChar, unsigned char, kUnsigned, natural)
NUMBER(Short, short, short, kSigned, integer)
NUMBER(UnsignedShort, unsignedShort, unsigned short, kUnsigned, natural)
NUMBER(Int, int, int, kSigned, integer)
NUMBER(UnsignedInt, unsignedInt, unsigned int, kUnsigned, natural)
NUMBER(Long, long, long, kSigned, integer)
NUMBER(UnsignedLong, unsignedLong, unsigned long, kUnsigned, natural)
NUMBER(LongLong, longLong, long long, kSigned, integer)
NUMBER(UnsignedLongLong, unsignedLongLong, unsigned long long, kUnsigned, natural)
NUMBER(Integer, integer, NSInteger, kSigned, integer)
NUMBER(UnsignedInteger, unsignedInteger, NSUInteger, kUnsigned, natural)
NUMBER(Float, float, float, kReal, real)
NUMBER(Double, double, double, kReal, real)
NUMBER(Bool, bool, BOOL, kBool, integer)
#undef NUMBER

- (const char*)objCType {
  return _type;
}

- (NSComparisonResult)compare:(NSNumber*)number {
  const auto order = [](auto a, auto b) {
    return a < b ? NSOrderedAscending : b < a ? NSOrderedDescending : NSOrderedSame;
  };
  if (_kind == kReal || number->_kind == kReal) return order(self.doubleValue, number.doubleValue);
  const bool negative = _kind != kUnsigned && _value.integer < 0,
             other_negative = number->_kind != kUnsigned && number->_value.integer < 0;
  if (negative || other_negative) {
    return negative && other_negative ? order(_value.integer, number->_value.integer) : order(other_negative, negative);
  }
  return order(_value.natural, number->_value.natural);
}
- (BOOL)isEqualToNumber:(NSNumber*)number {
  if (!number) return NO;
  if (std::isnan(self.doubleValue) || std::isnan(number.doubleValue)) return self == number;
  return [self compare:number] == NSOrderedSame;
}
- (BOOL)isEqual:(id)object {
  return [object isKindOfClass:[NSNumber class]] && [self isEqualToNumber:object];
}
- (NSUInteger)hash {
  return std::hash<double>()(self.doubleValue);
}

- (NSString*)description {
  return self.stringValue;
}
- (NSString*)stringValue {
  if (_kind == kUnsigned) return [NSString stringWithFormat:@"%llu", _value.natural];
  if (_kind == kReal) return [NSString stringWithFormat:_type[0] == 'f' ? @"%.7g" : @"%.16g", _value.real];
  return [NSString stringWithFormat:@"%lld", _value.integer];
}
@end
