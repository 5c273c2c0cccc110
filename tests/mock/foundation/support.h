// Shared by the files of this Foundation; programs that use Foundation must not include this header.
#pragma once
#import <Foundation/Foundation.h>

#include <string>

#include "mock.h"

extern "C" {
id class_createInstance(Class cls, size_t extra_bytes);
void object_dispose(id object);
void objc_exception_throw(id object) __attribute__((noreturn));
NSUInteger mock_retain_count(id object);
void mock_install_block_class(Class base);
void mock_install_tiny_string_class(Class cls);
void mock_make_instances_immortal(Class cls);  // includes instances of subclasses, which the compiler emits
}

namespace mock {

[[noreturn]] void fatal(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Format text as NSString's format methods and os_log do: printf's conversions, %@, and os_log's %{public}d.
std::string formatted(const char* format, va_list arguments);

inline std::string text(NSString* string) {
  const char* const bytes = string.UTF8String;
  return bytes ? bytes : "";
}
NSString* string(const std::string& utf8);

}  // namespace mock
