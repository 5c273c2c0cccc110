// Environment variables that ask for one of several ways to compute the same, so that each can be tested and measured.
#pragma once

#include <initializer_list>
#include <string_view>

namespace mpsgraph::cpu {

// The variable's value; empty where it is not set, or empty. Throws DeviceError for what is not among the choices.
// The caller keeps the value: it is read before the first computation, and later changes do nothing.
std::string_view asked_for(const char* variable, std::initializer_list<std::string_view> choices);

}  // namespace mpsgraph::cpu
