// The boundary between Objective-C and C++: exceptions of Apple's frameworks become errors of this library, and
// autorelease pools are drained.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "backends/metal/frameworks.h"
#include "mpsgraph/core/errors.h"

namespace mpsgraph::metal {

inline std::string text_of(NSString* string) { return string && string.UTF8String ? string.UTF8String : ""; }

// Apple's frameworks report misuse with NSException, but only this library's error types may leave this folder. An
// exception that leaves @autoreleasepool does not drain the pool, so everything is caught inside the pool and rethrown
// outside.
template <class Function>
auto guarded(Function&& function) {
  using Result = std::invoke_result_t<Function>;
  std::exception_ptr error;
  const auto within_pool = [&](auto&& body) {
    @autoreleasepool {
      try {
        @try {
          body();
        } @catch (NSException* exception) {
          error = std::make_exception_ptr(
              DeviceError(cat("[metal] ", text_of(exception.name), ": ", text_of(exception.reason))));
        }
      } catch (...) {
        error = std::current_exception();
      }
    }
    if (error) std::rethrow_exception(error);
  };
  if constexpr (std::is_void_v<Result>) {
    within_pool(function);
  } else {
    std::optional<Result> result;
    within_pool([&] { result.emplace(function()); });
    return std::move(*result);
  }
}

}  // namespace mpsgraph::metal
