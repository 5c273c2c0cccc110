// Copies of a few bytes without a function call, as two words that may overlap in the middle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mpsgraph::cpu {

struct Bytes16 {
  uint64_t words[2];
};

// Copy exactly `bytes` bytes, where sizeof(Word) <= bytes <= 2 sizeof(Word).
template <class Word>
inline void copy_two_words(std::byte* to, const std::byte* from, int64_t bytes) {
  Word first, last;
  std::memcpy(&first, from, sizeof first);
  std::memcpy(&last, from + bytes - static_cast<int64_t>(sizeof last), sizeof last);
  std::memcpy(to, &first, sizeof first);
  std::memcpy(to + bytes - static_cast<int64_t>(sizeof last), &last, sizeof last);
}

inline void copy_few_bytes(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 32) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  } else if (bytes >= 16) {
    copy_two_words<Bytes16>(to, from, bytes);
  } else if (bytes >= 8) {
    copy_two_words<uint64_t>(to, from, bytes);
  } else if (bytes >= 4) {
    copy_two_words<uint32_t>(to, from, bytes);
  } else if (bytes >= 2) {
    copy_two_words<uint16_t>(to, from, bytes);
  } else if (bytes == 1) {
    *to = *from;
  }
}

}  // namespace mpsgraph::cpu
