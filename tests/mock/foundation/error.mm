// NSError and NSException. An uncaught exception prints its name and reason before the process aborts.
#import <Foundation/Foundation.h>

#include <cstdio>
#include <exception>

#include "support.h"

NSErrorDomain const NSCocoaErrorDomain = @"NSCocoaErrorDomain";
NSErrorDomain const NSPOSIXErrorDomain = @"NSPOSIXErrorDomain";
NSErrorUserInfoKey const NSLocalizedDescriptionKey = @"NSLocalizedDescription";
NSErrorUserInfoKey const NSLocalizedFailureReasonErrorKey = @"NSLocalizedFailureReason";
NSErrorUserInfoKey const NSUnderlyingErrorKey = @"NSUnderlyingError";

NSExceptionName const NSGenericException = @"NSGenericException";
NSExceptionName const NSRangeException = @"NSRangeException";
NSExceptionName const NSInvalidArgumentException = @"NSInvalidArgumentException";
NSExceptionName const NSInternalInconsistencyException = @"NSInternalInconsistencyException";

@implementation NSError
+ (instancetype)errorWithDomain:(NSErrorDomain)domain code:(NSInteger)code userInfo:(NSDictionary*)userInfo {
  return [[self alloc] initWithDomain:domain code:code userInfo:userInfo];
}
- (instancetype)initWithDomain:(NSErrorDomain)domain code:(NSInteger)code userInfo:(NSDictionary*)userInfo {
  if (!domain) [NSException raise:NSInvalidArgumentException format:@"an NSError needs a domain"];
  if ((self = [super init])) {
    _domain = [domain copy];
    _code = code;
    _userInfo = userInfo ? [userInfo copy] : @{};
  }
  return self;
}
- (NSString*)localizedDescription {
  NSString* const given = _userInfo[NSLocalizedDescriptionKey];
  if (given) return given;
  NSString* const reason = self.localizedFailureReason;
  if (reason) return [NSString stringWithFormat:@"The operation couldn’t be completed. %@", reason];
  return [NSString stringWithFormat:@"The operation couldn’t be completed. (%@ error %ld.)", _domain, _code];
}
- (NSString*)localizedFailureReason {
  return _userInfo[NSLocalizedFailureReasonErrorKey];
}
- (NSString*)description {
  return [NSString stringWithFormat:@"Error Domain=%@ Code=%ld \"%@\"", _domain, _code, self.localizedDescription];
}
- (BOOL)isEqual:(id)object {
  if (![object isKindOfClass:[NSError class]]) return NO;
  NSError* const other = object;
  return _code == other.code && [_domain isEqual:other.domain] && [_userInfo isEqual:other.userInfo];
}
- (NSUInteger)hash {
  return _domain.hash ^ static_cast<NSUInteger>(_code);
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return self;
}
@end

static std::terminate_handler previous_handler;

[[noreturn]] static void say_what_was_raised() {
  if (const std::exception_ptr current = std::current_exception()) {
    try {  // C++ exceptions are left to the C++ library's handler
      @try {
        std::rethrow_exception(current);
      } @catch (NSException* raised) {
        std::fprintf(stderr, "uncaught exception %s: %s\n", raised.name.UTF8String, raised.reason.UTF8String);
      }
    } catch (...) {}
  }
  previous_handler();
  std::abort();
}

@implementation NSException
+ (void)load {
  previous_handler = std::set_terminate(say_what_was_raised);
}
+ (NSException*)exceptionWithName:(NSExceptionName)name reason:(NSString*)reason userInfo:(NSDictionary*)userInfo {
  return [[self alloc] initWithName:name reason:reason userInfo:userInfo];
}
- (instancetype)initWithName:(NSExceptionName)name reason:(NSString*)reason userInfo:(NSDictionary*)userInfo {
  if ((self = [super init])) {
    _name = [name copy];
    _reason = [reason copy];
    _userInfo = [userInfo copy];
  }
  return self;
}
+ (void)raise:(NSExceptionName)name format:(NSString*)format, ... {
  va_list arguments;
  va_start(arguments, format);
  NSString* const reason = [[NSString alloc] initWithFormat:format arguments:arguments];
  va_end(arguments);
  [[self exceptionWithName:name reason:reason userInfo:nil] raise];
}
- (void)raise {
  @throw self;
}
- (NSString*)description {
  return _reason ? _reason : _name;
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return self;
}
@end
