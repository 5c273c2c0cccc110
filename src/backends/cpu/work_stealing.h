// Work sharing with stealing: items of a loop, given to the threads of a team while it runs.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace mpsgraph::cpu {

// A member takes the items of its own part one after the other, and then steals what others have left, from the end. So
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

// Chains of items, each of which needs the one before it. Whoever is free takes the next item of a chain that nobody
// works on: of its own part of the chains, then of all, the one that is furthest behind. So a thread whose core is
// slower leaves others one item of a chain to wait for, not the chain.
class Chains {
 public:
  Chains(int64_t chains, int64_t length, int64_t members) : length_(length), members_(members), states_(chains) {}

  struct Item {
    int64_t chain = -1, place = 0;
  };
  // For a member; chain -1: others work on all that is left.
  Item take(int64_t member) {
    const auto chains = static_cast<int64_t>(states_.size());
    const Item own = take(chains * member / members_, chains * (member + 1) / members_);
    return own.chain >= 0 ? own : take(0, chains);
  }
  void done(int64_t chain) { states_[chain].fetch_add(1, std::memory_order_release); }

 private:
  struct alignas(64) State : std::atomic<int64_t> {};  // twice the items that are done, and one while one is taken

  Item take(int64_t first, int64_t end) {
    for (;;) {
      Item item{-1, length_};
      for (int64_t chain = first; chain < end; ++chain)
        if (const int64_t state = states_[chain].load(std::memory_order_relaxed);
            state % 2 == 0 && state / 2 < item.place)
          item = {chain, state / 2};
      if (item.chain < 0) return item;
      int64_t seen = 2 * item.place;
      if (states_[item.chain].compare_exchange_strong(seen, seen + 1, std::memory_order_acquire)) return item;
    }
  }

  int64_t length_, members_;
  std::vector<State> states_;
};

}  // namespace mpsgraph::cpu
