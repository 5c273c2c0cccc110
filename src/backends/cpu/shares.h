// Items of a loop, shared out to the threads of a team while it runs.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace mpsgraph::cpu {

// A member takes the items of its own part one after the other, and then what others have left, from the end. So
// threads come back to the same data from kernel to kernel, and one whose core is slower leaves others one item to wait
// for. A team still ends when all its members have come. Which member takes an item must not change what it computes.
class Shares {
 public:
  Shares(int64_t count, int64_t members) : parts_(std::clamp<int64_t>(members, 1, most_parts)) { share(count); }
  // Of [0, count), fewer than 2^32; while nobody takes any.
  void share(int64_t count) {
    for (int64_t p = 0; p < parts_; ++p)
      left_[p].store(pair(count * p / parts_, count * (p + 1) / parts_), std::memory_order_relaxed);
  }
  // The next item for a member; -1: all are taken.
  int64_t take(int64_t member) {
    for (int64_t i = 0; i < parts_; ++i)
      if (const int64_t item = take(left_[(member + i) % parts_], i == 0); item >= 0) return item;
    return -1;
  }

 private:
  static constexpr int64_t most_parts = 64;  // members beyond share parts
  struct alignas(64) Left : std::atomic<uint64_t> {};  // first << 32 | end, alone in its cache line

  static uint64_t pair(int64_t first, int64_t end) {
    return static_cast<uint64_t>(first) << 32 | static_cast<uint64_t>(end);
  }
  static int64_t take(Left& left, bool from_the_front) {
    uint64_t seen = left.load(std::memory_order_relaxed);
    for (;;) {
      const auto first = static_cast<int64_t>(seen >> 32), end = static_cast<int64_t>(seen & 0xffffffff);
      if (first >= end) return -1;
      if (left.compare_exchange_weak(seen, from_the_front ? pair(first + 1, end) : pair(first, end - 1),
                                     std::memory_order_relaxed))
        return from_the_front ? first : end - 1;
    }
  }

  int64_t parts_;
  Left left_[most_parts];
};

}  // namespace mpsgraph::cpu
