// The operations of a graph by name.
//
// A hash table with linear probing. An entry holds the hash and the address of an operation, so that a search compares
// names only if their hashes are equal, and the table neither copies names nor allocates for each operation: a graph of
// 200,000 operations used to spend a quarter of its compile time in a map of strings.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "mpsgraph/core/graph.h"

namespace mpsgraph {

class Graph::NameTable {
 public:
  Operation* find(std::string_view name) const { return entries_[place(name, hash_of(name))].operation; }

  // Add an operation, and return true. If its name is taken, return false and add nothing.
  bool add(Operation* operation) {
    const size_t hash = hash_of(operation->name);
    size_t at = place(operation->name, hash);
    if (entries_[at].operation) return false;
    if (2 * (count_ + 1) > entries_.size()) {
      grow();
      at = place(operation->name, hash);
    }
    entries_[at] = {hash, operation};
    ++count_;
    return true;
  }

  // Remove an operation, if the table has this operation and not merely one of the same name.
  void remove(const Operation* operation) noexcept {
    size_t gap = place(operation->name, hash_of(operation->name));
    if (entries_[gap].operation != operation) return;
    // Move entries back into the gap, because a search ends at the first empty entry. An entry must not move in front
    // of the entry at which its own search begins.
    for (size_t at = next(gap); entries_[at].operation; at = next(at)) {
      if (distance(entries_[at].hash, at) < distance(gap, at)) continue;
      entries_[gap] = entries_[at];
      gap = at;
    }
    entries_[gap] = {};
    --count_;
  }

 private:
  struct Entry {
    size_t hash = 0;
    Operation* operation = nullptr;
  };

  static size_t hash_of(std::string_view name) { return std::hash<std::string_view>()(name); }
  size_t mask() const { return entries_.size() - 1; }
  size_t next(size_t at) const { return (at + 1) & mask(); }
  // The number of steps from the entry at which a search for this hash begins to the entry `at`.
  size_t distance(size_t hash, size_t at) const { return (at - hash) & mask(); }

  // The index of the operation with this name, or of the empty entry where it belongs.
  size_t place(std::string_view name, size_t hash) const {
    size_t at = hash & mask();
    while (entries_[at].operation && (entries_[at].hash != hash || entries_[at].operation->name != name)) at = next(at);
    return at;
  }

  void grow() {
    std::vector<Entry> old(2 * entries_.size());
    old.swap(entries_);
    for (const Entry& entry : old) {
      if (!entry.operation) continue;
      size_t at = entry.hash & mask();
      while (entries_[at].operation) at = next(at);
      entries_[at] = entry;
    }
  }

  std::vector<Entry> entries_ = std::vector<Entry>(16);  // a power of two, at most half of them used
  size_t count_ = 0;
};

}  // namespace mpsgraph
