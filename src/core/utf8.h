// Checks whether text is valid UTF-8. Names and strings in graphs must be valid UTF-8, because JSON, Python, and Swift
// cannot represent other strings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mpsgraph {

// Rejects truncated and overlong sequences, surrogates, and code points above U+10FFFF.
inline bool is_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const auto first = static_cast<uint8_t>(text[at++]);
    if (first < 0x80) continue;
    const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    if (first < 0xC2 || first > 0xF4 || text.size() - at < static_cast<size_t>(more)) return false;
    uint32_t point = first & (0x3F >> more);
    for (int i = 0; i < more; ++i) {
      const auto next = static_cast<uint8_t>(text[at++]);
      if ((next & 0xC0) != 0x80) return false;
      point = point << 6 | (next & 0x3F);
    }
    if (more == 2 && (point < 0x800 || (point >= 0xD800 && point <= 0xDFFF))) return false;
    if (more == 3 && (point < 0x10000 || point > 0x10FFFF)) return false;
  }
  return true;
}

}  // namespace mpsgraph
