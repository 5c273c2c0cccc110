// The memory plan: a linear scan over slots in order of first use, in which each slot takes the best-fitting free
// range.
#include "backends/cpu/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <set>

namespace mpsgraph::cpu {
namespace {

constexpr size_t alignment = 64;  // bytes of a cache line, and of the widest vector

// Free ranges, indexed by offset to merge neighbors and by size to find the best fit.
class FreeRanges {
 public:
  size_t take(size_t bytes) {
    const auto fit = by_size_.lower_bound({bytes, 0});
    if (fit != by_size_.end()) {
      const auto [size, offset] = *fit;
      remove(offset, size);
      if (size > bytes) add(offset + bytes, size - bytes);
      return offset;
    }
    // If no free range is large enough, grow the arena. A free range at the end of the arena becomes part of the new
    // range.
    size_t offset = end_;
    if (!by_offset_.empty()) {
      const auto last = std::prev(by_offset_.end());
      if (last->first + last->second == end_) {
        offset = last->first;
        remove(last->first, last->second);
      }
    }
    end_ = offset + bytes;
    return offset;
  }

  void give(size_t offset, size_t bytes) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.begin()) {
      const auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        bytes += previous->second;
        remove(previous->first, previous->second);
      }
    }
    next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && offset + bytes == next->first) {
      const size_t more = next->second;
      remove(next->first, more);
      bytes += more;
    }
    add(offset, bytes);
  }

  size_t end() const { return end_; }

 private:
  void add(size_t offset, size_t bytes) {
    by_offset_[offset] = bytes;
    by_size_.insert({bytes, offset});
  }
  void remove(size_t offset, size_t bytes) {
    by_offset_.erase(offset);
    by_size_.erase({bytes, offset});
  }

  std::map<size_t, size_t> by_offset_;
  std::set<std::pair<size_t, size_t>> by_size_;
  size_t end_ = 0;
};

}  // namespace

size_t plan_arena(std::vector<SlotInfo>& slots) {
  std::vector<Slot> order;
  for (Slot slot = 0; slot < static_cast<Slot>(slots.size()); slot++)
    if (slots[slot].home == Home::arena && slots[slot].memory == slot && slots[slot].bytes > 0) order.push_back(slot);
  std::stable_sort(order.begin(), order.end(), [&](Slot a, Slot b) { return slots[a].first < slots[b].first; });

  FreeRanges free;
  using Ending = std::pair<int, Slot>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> alive;
  const auto rounded = [&](Slot slot) { return (slots[slot].bytes + alignment - 1) / alignment * alignment; };
  for (const Slot slot : order) {
    while (!alive.empty() && alive.top().first < slots[slot].first) {
      const Slot ended = alive.top().second;
      alive.pop();
      free.give(slots[ended].offset, rounded(ended));
    }
    slots[slot].offset = free.take(rounded(slot));
    alive.push({slots[slot].last, slot});
  }
  return free.end();
}

}  // namespace mpsgraph::cpu
