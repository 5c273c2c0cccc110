// Format the arguments as text; `describe` returns the description of an object for %@.
#pragma once
#include <cstdarg>
#include <string>

namespace mock {

std::string format(const char* text, std::va_list arguments, std::string (*describe)(void* object));

}  // namespace mock
