// Formats of NSString and os_log: printf's conversions one at a time, %@, and os_log's annotations in braces.
//
// Plain C++ that accesses objects only through a function that describes them.
#include "format.h"

#include <cstdio>
#include <cstring>

namespace mock {

namespace {

template <class T>
void append(std::string& out, const std::string& conversion, T value) {
  const int length = std::snprintf(nullptr, 0, conversion.c_str(), value);
  if (length <= 0) return;
  const size_t before = out.size();
  out.resize(before + static_cast<size_t>(length) + 1);
  std::snprintf(out.data() + before, static_cast<size_t>(length) + 1, conversion.c_str(), value);
  out.pop_back();
}

}  // namespace

std::string format(const char* text, std::va_list arguments, std::string (*describe)(void* object)) {
  std::string out;
  std::va_list rest;
  va_copy(rest, arguments);
  while (*text) {
    if (*text != '%') {
      out += *text++;
      continue;
    }
    ++text;
    if (*text == '{') {  // %{public}s
      while (*text && *text++ != '}') {}
    }
    std::string conversion = "%";
    int longs = 0;
    for (; *text && std::strchr("-+ #0123456789.*hlqztjL", *text); ++text) {
      if (*text == '*')
        conversion += std::to_string(va_arg(rest, int));
      else if (*text == 'q')
        conversion += "ll", longs = 2;
      else
        conversion += *text;
      if (*text == 'l' || *text == 'z' || *text == 't' || *text == 'j') ++longs;
    }
    const char kind = *text;
    if (kind == '\0') break;
    ++text;
    conversion += kind;
    switch (kind) {
      case '%': out += '%'; break;
      case '@': {
        void* const object = va_arg(rest, void*);
        out += object ? describe(object) : "(null)";
        break;
      }
      case 's': {
        const char* const bytes = va_arg(rest, const char*);
        append(out, conversion, bytes ? bytes : "(null)");
        break;
      }
      case 'p': append(out, conversion, va_arg(rest, void*)); break;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
      case 'a':
      case 'A':
        if (conversion.find('L') != std::string::npos)
          append(out, conversion, va_arg(rest, long double));
        else
          append(out, conversion, va_arg(rest, double));
        break;
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
      case 'c':
        if (longs >= 2)
          append(out, conversion, va_arg(rest, long long));
        else if (longs == 1)
          append(out, conversion, va_arg(rest, long));
        else
          append(out, conversion, va_arg(rest, int));
        break;
      default: out += conversion;
    }
  }
  va_end(rest);
  return out;
}

}  // namespace mock
