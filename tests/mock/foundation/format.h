// The text that a format and its arguments make; %@ asks describe for the object's description.
#pragma once
#include <cstdarg>
#include <string>

namespace mock {

std::string format(const char* text, std::va_list arguments, std::string (*describe)(void* object));

}  // namespace mock
