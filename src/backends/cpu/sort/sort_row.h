// Sorting of a single row: conversion of elements to unsigned keys, a radix sort of these keys, and selection of the
// best k.
//
// Keys are ordered like the elements, with NaN above every number. Descending order inverts the bits of the keys, which
// keeps the sort stable. If indices are needed, each key is packed with its index, so that equal elements stay in order
// with any sorting algorithm.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/sort/sort_keys.h"
#include "backends/cpu/sort/sort_polled.h"

namespace mpsgraph::cpu {

template <size_t bytes>
using KeyOfSize =
    std::conditional_t<bytes == 1, uint8_t,
                       std::conditional_t<bytes == 2, uint16_t, std::conditional_t<bytes == 4, uint32_t, uint64_t>>>;

// Converts elements of T to keys and back; signed integers are passed as unsigned ones (dispatch_ordered_bits).
// Positive and negative zero compare equal. If `one_zero` is set, both have the same key, as required to sort indices.
// Otherwise, their keys differ, so that sorted values keep their sign.
template <class T>
struct Keys {
  using Key = KeyOfSize<sizeof(T)>;
  static constexpr Key sign = Key(Key(1) << (8 * sizeof(T) - 1));
  Key turned;  // bits to invert: all bits if descending, and also the sign bit of signed integers

  Keys(DType dtype, bool descending)
      : turned(Key((descending ? Key(~Key(0)) : Key(0)) ^ (is_integer(dtype) && is_signed(dtype) ? sign : Key(0)))) {}

  Key of(T x, bool one_zero) const {
    Key key = std::bit_cast<Key>(x);
    if constexpr (is_float_type<T>) {
      const auto value = static_cast<Value<T>>(x);
      if (one_zero && value == 0) key = 0;
      key = value != value ? Key(~Key(0)) : key & sign ? Key(~key) : Key(key | sign);
    }
    return Key(key ^ turned);
  }
  T back(Key key) const {
    key ^= turned;
    if constexpr (is_float_type<T>) key = key & sign ? Key(key ^ sign) : Key(~key);
    return std::bit_cast<T>(key);
  }
};

// Dispatch on all types that have an order, bool included. Integers and bools are passed as unsigned integers of the
// same size.
template <class F>
decltype(auto) dispatch_ordered_bits(const Lowering& lowering, DType dtype, const F& f) {
  return dispatch_order(lowering, dtype == DType::boolean ? DType::uint8 : dtype, f);
}

// A key with the index of its element, ordered by key and then by index.
template <class Key>
struct Indexed {
  uint64_t packed;
  Indexed() = default;
  Indexed(Key key, int64_t index) : packed(uint64_t{key} << 32 | static_cast<uint64_t>(index)) {}
  Key key() const { return static_cast<Key>(packed >> 32); }
  int32_t index() const { return static_cast<int32_t>(packed); }
  bool operator<(const Indexed& other) const { return packed < other.packed; }
};
template <>
struct Indexed<uint64_t> {
  uint64_t key_;
  int64_t index_;
  Indexed() = default;
  Indexed(uint64_t key, int64_t index) : key_(key), index_(index) {}
  uint64_t key() const { return key_; }
  int32_t index() const { return static_cast<int32_t>(index_); }
  bool operator<(const Indexed& other) const {
    return key_ < other.key_ || (key_ == other.key_ && index_ < other.index_);
  }
};

template <class Key>
Key key_of(Key element) {
  return element;
}
template <class Key>
Key key_of(const Indexed<Key>& element) {
  return element.key();
}

// Sort a few elements without unpredictable branches: each element is stored at the position given by the number of
// elements below it. Elements with equal keys stay in order.
constexpr int64_t few_elements = 16;
template <class Element, class Load, class Store>
void sort_few(int64_t n, const Load& load, const Store& store) {
  Element all[few_elements];
  for (int64_t i = 0; i < n; ++i) all[i] = load(i);
  const auto is_less = [&](int64_t i, int64_t j) {
    if constexpr (std::is_same_v<Element, Indexed<uint64_t>>)
      return all[i].key() < all[j].key();  // elements are loaded in index order, so comparing keys suffices
    else
      return all[i] < all[j];
  };
  for (int64_t i = 0; i < n; ++i) {
    int64_t below = 0;
    for (int64_t j = 0; j < i; ++j) below += !is_less(i, j);
    for (int64_t j = i + 1; j < n; ++j) below += is_less(j, i);
    store(below, all[i]);
  }
}

// Radix sort from the least significant digit, in as few passes as is possible with buckets that fit in L1.
template <class Element>
class RowSorter {
 public:
  using Key = decltype(key_of(std::declval<Element>()));
  static constexpr int key_bits = 8 * sizeof(Key), digit_bits = key_bits > 16 ? 11 : 8;
  static constexpr int passes = (key_bits + digit_bits - 1) / digit_bits;
  static constexpr int64_t buckets = int64_t{1} << digit_bits;
  using Counts = std::array<uint32_t, buckets>;

  // Return the size of the scratch memory: two buffers of n elements, and counts for each part. If a single thread
  // sorts the row, there is one part.
  static size_t scratch_bytes(int64_t n, int64_t parts) {
    return 2 * padded(n) + static_cast<size_t>(parts) * passes * sizeof(Counts);
  }

  RowSorter(std::byte* scratch, int64_t n, int64_t parts)
      : n_(n),
        parts_(parts),
        a_(reinterpret_cast<Element*>(scratch)),
        b_(reinterpret_cast<Element*>(scratch + padded(n))),
        counts_(reinterpret_cast<Counts*>(scratch + 2 * padded(n))) {}

  // Sort a row: load(i) returns element i; store(position, element) is called once for each element of the result, in
  // any order.
  template <class Load, class Store>
  void run(const Load& load, const Store& store) {
    if (n_ <= small) return sort_small(load, store);
    count(load, 0, passes);
    std::array<int, passes> active;
    int remaining = 0;
    for (int pass = 0; pass < passes; ++pass)
      if (spread(pass)) active[remaining++] = pass;
    if (remaining == 0) {
      for_polled_pieces(0, n_, elements_per_poll, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) store(i, load(i));
      });
      return;
    }
    const Element* from = nullptr;
    for (int k = 0; k < remaining; ++k) {
      const int pass = active[k];
      const bool last = k + 1 == remaining;
      Element* to = from == a_ ? b_ : a_;
      const auto read = [from](int64_t i) { return from[i]; };
      const auto write = [to](int64_t at, const Element& e) { to[at] = e; };
      if (from && parts_ > 1) count(read, pass, pass + 1);
      begin_buckets(pass);
      if (!from && last)
        move(load, store, pass);
      else if (!from)
        move(load, write, pass);
      else if (last)
        move(read, store, pass);
      else
        move(read, write, pass);
      from = to;
    }
  }

 private:
  static constexpr int64_t small = 96;
  static size_t padded(int64_t n) { return (static_cast<size_t>(n) * sizeof(Element) + 63) / 64 * 64; }
  static int64_t digit(const Element& e, int pass) {
    return static_cast<int64_t>(key_of(e) >> (pass * digit_bits)) & (buckets - 1);
  }
  Counts& counts(int64_t part, int pass) { return counts_[part * passes + pass]; }

  template <class Load, class Store>
  void sort_small(const Load& load, const Store& store) {
    for (int64_t i = 0; i < n_; ++i) a_[i] = load(i);
    std::sort(a_, a_ + n_);
    for (int64_t i = 0; i < n_; ++i) store(i, a_[i]);
  }

  template <class F>
  void in_parts(const F& f) {
    parallel_parts(parts_, [&](int64_t part) { f(part, n_ * part / parts_, n_ * (part + 1) / parts_); });
  }

  template <class Load>
  void count(const Load& load, int first, int end) {
    in_parts([&](int64_t part, int64_t begin, int64_t stop) {
      for (int pass = first; pass < end; ++pass) counts(part, pass).fill(0);
      for_polled_pieces(begin, stop, elements_per_poll, [&](int64_t from, int64_t to) {
        for (int64_t i = from; i < to; ++i) {
          const Element e = load(i);
          for (int pass = first; pass < end; ++pass) ++counts(part, pass)[digit(e, pass)];
        }
      });
    });
  }

  // Return whether the elements differ in the digit by which this pass sorts.
  bool spread(int pass) {
    for (int64_t bucket = 0; bucket < buckets; ++bucket) {
      int64_t total = 0;
      for (int64_t part = 0; part < parts_; ++part) total += counts(part, pass)[bucket];
      if (total > 0) return total != n_;
    }
    return false;
  }

  // Convert counts to positions: where the elements of each bucket begin, separately for each part of the row.
  void begin_buckets(int pass) {
    uint32_t begin = 0;
    for (int64_t bucket = 0; bucket < buckets; ++bucket)
      for (int64_t part = 0; part < parts_; ++part) {
        uint32_t& count = counts(part, pass)[bucket];
        begin += std::exchange(count, begin);
      }
  }

  template <class Load, class Store>
  void move(const Load& load, const Store& store, int pass) {
    in_parts([&](int64_t part, int64_t begin, int64_t stop) {
      Counts& next = counts(part, pass);
      for_polled_pieces(begin, stop, elements_per_poll, [&](int64_t from, int64_t to) {
        for (int64_t i = from; i < to; ++i) {
          const Element e = load(i);
          store(next[digit(e, pass)]++, e);
        }
      });
    });
  }

  const int64_t n_, parts_;
  Element *a_, *b_;
  Counts* counts_;
};

// Selects the k smallest of n elements, in order. Elements below the worst of the current best k are collected in a
// buffer. When the buffer is full, it is reduced to the best k.
template <class Element>
class BestOfRow {
 public:
  static int64_t capacity(int64_t n, int64_t k) { return std::min(n, k + std::max<int64_t>(k, 48)); }

  BestOfRow(Element* best, int64_t n, int64_t k) : best_(best), k_(k), room_(capacity(n, k)) {}

  // Whether the buffer has been reduced before. If so, elements that are not below worst() are rejected.
  bool has_worst() const { return has_worst_; }
  const Element& worst() const { return worst_; }

  void add(const Element& e) {
    if (has_worst_ && !(e < worst_)) return;
    if (count_ == room_) {
      std::nth_element(best_, best_ + k_ - 1, best_ + count_);
      worst_ = best_[k_ - 1];
      count_ = k_, has_worst_ = true;
      if (!(e < worst_)) return;
    }
    best_[count_++] = e;
  }

  // Sort the best k elements in place.
  void finish() {
    if (count_ <= few) return finish_few();
#if defined(__x86_64__)
    if constexpr (sizeof(Element) == sizeof(uint64_t))
      if (count_ <= smallest_sort && sorts_keys_in_vectors())
        return avx512::sort_keys(reinterpret_cast<uint64_t*>(best_), static_cast<uint64_t*>(nullptr), count_, 1);
#endif
    if (count_ > k_) std::nth_element(best_, best_ + k_ - 1, best_ + count_);
    sort_polled(best_, best_ + k_);
  }

 private:
  static constexpr int64_t few = 16, smallest_sort = 128;

  // Sort without unpredictable branches: each element goes to the position given by the number of elements below it.
  void finish_few() {
    Element in_order[few];
    for (int64_t i = 0; i < count_; ++i) {
      int64_t below = 0;
      for (int64_t j = 0; j < count_; ++j) below += best_[j] < best_[i];
      in_order[below] = best_[i];
    }
    std::copy_n(in_order, k_, best_);
  }

  Element* best_;
  int64_t k_, room_, count_ = 0;
  Element worst_{};
  bool has_worst_ = false;
};

}  // namespace mpsgraph::cpu
