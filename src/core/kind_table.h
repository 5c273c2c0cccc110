// Sets and tables of kinds, for code that treats some kinds of operations differently. A lookup is one indexed access.
#pragma once

#include <array>
#include <initializer_list>
#include <utility>
#include <vector>

#include "mpsgraph/core/kind.h"

namespace mpsgraph {

class KindSet {
 public:
  constexpr KindSet() = default;
  constexpr KindSet(Kinds kinds) {
    for (Kind kind : kinds) insert(kind);
  }
  constexpr void insert(Kind kind) { bits_[kind.index() / 64] |= bit(kind); }
  constexpr bool contains(Kind kind) const { return bits_[kind.index() / 64] & bit(kind); }

 private:
  static constexpr uint64_t bit(Kind kind) { return uint64_t{1} << kind.index() % 64; }
  std::array<uint64_t, Kind::count / 64 + 1> bits_ = {};
};

// Maps some kinds to values.
template <class Value>
class KindTable {
 public:
  struct Entry {
    Kind kind;
    Value value;
  };

  KindTable() = default;
  KindTable(std::initializer_list<Entry> entries) {
    for (const Entry& entry : entries) (*this)[entry.kind] = entry.value;
  }

  // The value of a kind, which is created if there is none.
  Value& operator[](Kind kind) {
    uint16_t& place = places_.at(kind.index());
    if (place == 0) {
      values_.emplace_back();
      place = static_cast<uint16_t>(values_.size());
    }
    return values_[place - 1u];
  }
  const Value* find(Kind kind) const {  // null if the kind has no value
    const uint16_t place = places_[kind.index()];
    return place == 0 ? nullptr : &values_[place - 1u];
  }
  bool contains(Kind kind) const { return find(kind); }
  const std::vector<Value>& values() const { return values_; }

 private:
  std::array<uint16_t, Kind::count + 1> places_ = {};  // position in values_, plus 1; 0 for kinds without a value
  std::vector<Value> values_;
};

}  // namespace mpsgraph
