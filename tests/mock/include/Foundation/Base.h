// Macros and plain types that every Foundation header uses. On Linux this header also defines the macros of
// <os/availability.h>.
#pragma once
#include <objc/objc.h>
#include <objc/runtime.h>
#include <stdarg.h>
#include <stdint.h>

#if defined(__APPLE__)
#include <objc/NSObjCRuntime.h>
#include <os/availability.h>
#else
#define API_AVAILABLE(...)
#define API_UNAVAILABLE(...)
#define API_DEPRECATED(...)
#define API_DEPRECATED_WITH_REPLACEMENT(...)
#define NSIntegerMax INTPTR_MAX
#define NSIntegerMin INTPTR_MIN
#define NSUIntegerMax UINTPTR_MAX
#define NS_DESIGNATED_INITIALIZER __attribute__((objc_designated_initializer))
#define OBJC_ROOT_CLASS __attribute__((objc_root_class))
#endif

#ifdef __cplusplus
#define FOUNDATION_EXPORT extern "C"
#else
#define FOUNDATION_EXPORT extern
#endif
#define FOUNDATION_EXTERN FOUNDATION_EXPORT

#define NS_ASSUME_NONNULL_BEGIN _Pragma("clang assume_nonnull begin")
#define NS_ASSUME_NONNULL_END _Pragma("clang assume_nonnull end")
#define NS_ENUM(type, name) \
  enum name : type name;    \
  enum name : type
#define NS_CLOSED_ENUM(type, name) NS_ENUM(type, name)
#ifdef __cplusplus
#define NS_OPTIONS(type, name) \
  type name;                   \
  enum : type  // makes flags | flags a value of the enum again
#else
#define NS_OPTIONS(type, name) \
  enum name : type name;       \
  enum name : type
#endif
#define NS_TYPED_ENUM
#define NS_UNAVAILABLE __attribute__((unavailable))
#define NS_RETURNS_RETAINED __attribute__((ns_returns_retained))
#define NS_RETURNS_INNER_POINTER __attribute__((objc_returns_inner_pointer))
#define NS_REQUIRES_NIL_TERMINATION __attribute__((sentinel))
#define NS_REQUIRES_SUPER __attribute__((objc_requires_super))
#define NS_FORMAT_FUNCTION(string, first) __attribute__((format(__NSString__, string, first)))
#define NS_NOESCAPE __attribute__((noescape))
#define NS_SWIFT_NAME(...)
#define NS_REFINED_FOR_SWIFT

typedef double NSTimeInterval;
typedef double CFTimeInterval;
typedef double CGFloat;
typedef uint16_t unichar;
typedef const void* CFTypeRef;

typedef struct _NSRange {
  NSUInteger location, length;
} NSRange;
static inline NSRange NSMakeRange(NSUInteger location, NSUInteger length) {
  NSRange range = {location, length};
  return range;
}
enum : NSInteger { NSNotFound = NSIntegerMax };

typedef NS_ENUM(NSInteger, NSComparisonResult) { NSOrderedAscending = -1, NSOrderedSame = 0, NSOrderedDescending = 1 };
typedef NSComparisonResult (^NSComparator)(id _Nonnull a, id _Nonnull b);
