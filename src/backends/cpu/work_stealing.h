// Work sharing with stealing: distributes the items of a loop over threads while it runs.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace mpsgraph::cpu {

// The items of a loop, divided into one part per member of the thread team. Each member first takes the items of its
// own part in order, and then steals from the end of other parts. Threads thus process the same data from kernel to
// kernel, and a thread on a slow core delays the others by at most one item. The result must not depend on which member
// takes an item.
class Shares {
 public:
  Shares(int64_t count, int64_t members) : parts_(std::clamp<int64_t>(members, 1, most_parts)) { share(count); }
  // Distribute the items [0, count); count must be below 2^32. Must not be called while a member takes items.
  void share(int64_t count) {
    for (int64_t p = 0; p < parts_; ++p)
      left_[p].store(pair(count * p / parts_, count * (p + 1) / parts_), std::memory_order_relaxed);
  }
  // Return the next item for a member, or -1 if none are left.
  int64_t take(int64_t member) {
    for (int64_t i = 0; i < parts_; ++i)
      if (const int64_t item = take(left_[(member + i) % parts_], i == 0); item >= 0) return item;
    return -1;
  }

 private:
  static constexpr int64_t most_parts = 64;  // if there are more members, several share a part
  struct alignas(64) Left : std::atomic<uint64_t> {};  // first << 32 | end, each in a separate cache line

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

// Chains of items, in which each item depends on the previous one. A free member of the thread team picks the idle
// chain with the fewest finished items, first among its own share of the chains and then among all of them, and takes
// the next item of that chain. A thread on a slow core thus delays the others by one item, not by a whole chain.
class Chains {
 public:
  Chains(int64_t chains, int64_t length, int64_t members) : length_(length), members_(members), states_(chains) {}

  struct Item {
    int64_t chain = -1, place = 0;
  };
  // Return the next item for a member. If the chain of the returned item is -1, no item is available, because other
  // members are processing all remaining ones.
  Item take(int64_t member) {
    const auto chains = static_cast<int64_t>(states_.size());
    const Item own = take(chains * member / members_, chains * (member + 1) / members_);
    return own.chain >= 0 ? own : take(0, chains);
  }
  void done(int64_t chain) { states_[chain].fetch_add(1, std::memory_order_release); }

 private:
  // twice the number of finished items, plus 1 while one is in progress
  struct alignas(64) State : std::atomic<int64_t> {};

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
