// Environment variables that select one of several equivalent implementations, so that each can be tested and measured.
#pragma once

#include <initializer_list>
#include <string_view>

namespace mpsgraph::cpu {

// Return the value of an environment variable, or an empty string if it is unset or empty. Throw DeviceError if the
// value is not one of `choices`.
//
// Callers read the variable once, before the first computation, and keep the result; later changes have no effect.
std::string_view asked_for(const char* variable, std::initializer_list<std::string_view> choices);

}  // namespace mpsgraph::cpu
