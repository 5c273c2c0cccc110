// Bucket sort for long rows: elements are distributed into buckets by their leading bits, and each bucket, which is
// usually small enough for the cache, is then sorted with vector instructions.
//
// Quicksort alone reads a long row from memory once per partition, until its parts fit in cache. Bucket sort reads the
// row three times. Elements are counted in more bins than there are buckets, and adjacent bins are merged until a
// bucket is large enough. Buckets therefore have similar sizes even if elements are clustered.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/cpu/parallel.h"
#include "backends/cpu/sort/sort_keys.h"
#include "backends/cpu/sort/sort_row.h"

namespace mpsgraph::cpu {

// Sorts elements that are plain keys (uint32_t or uint64_t), or keys with their index (Indexed) of at most 64 bits.
template <class Element>
class BucketSorter {
 public:
  using Key = decltype(key_of(std::declval<Element>()));
  using Packed = std::conditional_t<sizeof(Element) == 4, uint32_t, uint64_t>;  // the type sorted with vectors
  static constexpr bool with_index = !std::is_same_v<Element, Key>;
  // Return whether bucket sort is faster than quicksort for a row of n elements.
  static bool takes(int64_t n) {
    return sizeof(Element) == 4 ? n >= 1 << 18 && sorts_words_by_buckets() : n >= 1 << 15;
  }

  static size_t scratch_bytes(int64_t n, int64_t parts) {
    return 2 * padded(n) + static_cast<size_t>(parts) * sizeof(Counts) + sizeof(Buckets);
  }

  BucketSorter(std::byte* scratch, int64_t n, int64_t parts)
      : n_(n),
        parts_(parts),
        elements_(reinterpret_cast<Element*>(scratch)),
        spare_(scratch + padded(n)),
        counts_(reinterpret_cast<Counts*>(scratch + 2 * padded(n))),
        bucket_of_(reinterpret_cast<Buckets*>(counts_ + parts)) {}

  // Sort a row: load(i) returns element i; store(position, element) is called once for each element of the result, in
  // any order.
  template <class Load, class Store>
  void run(const Load& load, const Store& store) {
    if (!find_keys(load))
      return in_pieces([&](int64_t, int64_t begin, int64_t end) {  // all keys are equal, so elements keep their order
        for (int64_t i = begin; i < end; ++i) store(i, element(keys()[i], i));
      });
    count();
    make_buckets();
    in_pieces([&](int64_t part, int64_t begin, int64_t end) {
      uint32_t* next = counts_[part].of;
      for (int64_t i = begin; i < end; ++i) elements_[next[bucket_of_->of[bin(keys()[i])]]++] = element(keys()[i], i);
    });
    const uint32_t* ends = counts_[parts_ - 1].of;  // the counts of the last part now hold the ends of the buckets
    const auto each = [&](int64_t first, int64_t last, const auto& f) {
      for (int64_t b = first; b < last; ++b) f(b == 0 ? 0 : int64_t{ends[b - 1]}, int64_t{ends[b]});
    };
    // Sort large buckets first, each with all threads, and then the other buckets, each on one thread.
    const int64_t large = parts_ == 1 ? n_ : n_ / (8 * parts_);
    each(0, buckets_, [&](int64_t begin, int64_t end) {
      if (end - begin > large) sort_large(begin, end, store);
    });
    const int64_t pieces = parts_ == 1 ? 1 : std::min(buckets_, pieces_of_part * parts_);
    parallel_items(pieces, [&](int64_t piece, int64_t) {
      each(buckets_ * piece / pieces, buckets_ * (piece + 1) / pieces, [&](int64_t begin, int64_t end) {
        if (end - begin <= large) sort_bucket(begin, end, store);
      });
    });
  }

 private:
  static constexpr int most_bits = 14;  // maximum number of bits of a bin index
  // more buckets would write to more cache lines at once than fit in cache
  static constexpr int64_t most_buckets = 1 << 13;
  // Bins are merged until a bucket has at least this many elements. Most buckets are then still small enough for a
  // single sorting network.
  static constexpr int64_t of_bucket = 192;
  static constexpr int64_t pieces_of_part = 32;
  struct Range {
    Key low, high;
  };
  struct Counts {
    uint32_t of[1 << most_bits];  // counts, indexed by bin; later, the next position of each bucket
    Range keys;  // lowest and highest key of the part
  };
  struct Buckets {
    uint16_t of[1 << most_bits];  // bucket indices, indexed by bin
  };

  static size_t padded(int64_t n) { return (static_cast<size_t>(n) * sizeof(Element) + 63) / 64 * 64; }
  // the keys are valid until elements are in their buckets
  Key* keys() const { return reinterpret_cast<Key*>(spare_); }
  size_t bin(Key key) const { return static_cast<size_t>(Key(key - low_) >> rest_); }
  static Element element(Key key, int64_t index) {
    if constexpr (with_index)
      return Element(key, index);
    else
      return key;
  }

  // Call f(part, begin, end) in parallel for the parts of [0, n).
  template <class F>
  void in_parts(int64_t n, const F& f) const {
    parallel_parts(parts_, [&](int64_t part) { f(part, n * part / parts_, n * (part + 1) / parts_); });
  }
  template <class F>
  void in_parts(const F& f) const {
    in_parts(n_, f);
  }
  // Like in_parts, but each part is processed in several calls, between which the run can be cancelled.
  template <class F>
  void in_pieces(const F& f) const {
    in_parts([&](int64_t part, int64_t begin, int64_t end) {
      for_polled_pieces(begin, end, elements_per_poll, [&](int64_t from, int64_t to) { f(part, from, to); });
    });
  }

  // Choose which leading bits of a key's distance from the lowest key are its bin index. Return false if all keys are
  // equal.
  template <class Load>
  bool find_keys(const Load& load) {
    in_parts(
        [&](int64_t part, int64_t begin, int64_t) { counts_[part].keys = {key_of(load(begin)), key_of(load(begin))}; });
    in_pieces([&](int64_t part, int64_t begin, int64_t end) {
      // This copy of `load` stays in registers. If `load` were accessed by reference, the compiler would reload it
      // after every key stored.
      const Load at = load;
      auto [low, high] = counts_[part].keys;
      for (int64_t i = begin; i < end; ++i) {
        const Key key = key_of(at(i));
        keys()[i] = key;
        low = std::min(low, key);
        high = std::max(high, key);
      }
      counts_[part].keys = {low, high};
    });
    const auto [lowest, highest] = range_of_parts();
    low_ = lowest;
    const Key range = Key(highest - lowest);
    const auto bits = static_cast<int>(std::bit_width(range)),
               wanted = static_cast<int>(std::bit_width(static_cast<uint64_t>(n_ / 16)));
    rest_ = std::max(0, bits - std::min(wanted, most_bits));
    bins_ = static_cast<int64_t>(range >> rest_) + 1;
    return range > 0;
  }

  Range range_of_parts() const {
    Range range = counts_[0].keys;
    for (int64_t part = 1; part < parts_; ++part) {
      range.low = std::min(range.low, counts_[part].keys.low);
      range.high = std::max(range.high, counts_[part].keys.high);
    }
    return range;
  }

  void count() {
    in_parts([&](int64_t part, int64_t, int64_t) { std::fill_n(counts_[part].of, bins_, 0u); });
    in_pieces([&](int64_t part, int64_t begin, int64_t end) {
      uint32_t* counts = counts_[part].of;
      for (int64_t i = begin; i < end; ++i) ++counts[bin(keys()[i])];
    });
  }

  // Merge bins into buckets, and compute where each part's elements of a bucket begin.
  void make_buckets() {
    const int64_t enough = std::max(of_bucket, n_ / most_buckets);
    bool fresh = true;
    int64_t in_bucket = 0;
    buckets_ = 0;
    for (int64_t b = 0; b < bins_; ++b) {
      bucket_of_->of[b] = static_cast<uint16_t>(buckets_);
      for (int64_t part = 0; part < parts_; ++part) {
        uint32_t* counts = counts_[part].of;
        const uint32_t more = counts[b];
        counts[buckets_] = fresh ? more : counts[buckets_] + more;  // starts a new bucket, or extends the current one
        in_bucket += more;
      }
      fresh = in_bucket >= enough;
      if (!fresh && b + 1 < bins_) continue;
      in_bucket = 0;
      ++buckets_;
    }
    uint32_t begin = 0;
    for (int64_t b = 0; b < buckets_; ++b)
      for (int64_t part = 0; part < parts_; ++part) {
        uint32_t& count = counts_[part].of[b];
        begin += std::exchange(count, begin);
      }
  }

  Range range_of(int64_t begin, int64_t end) const {
    Range range{key_of(elements_[begin]), key_of(elements_[begin])};
    for (int64_t i = begin + 1; i < end; ++i) {
      range.low = std::min(range.low, key_of(elements_[i]));
      range.high = std::max(range.high, key_of(elements_[i]));
    }
    return range;
  }
  void sort_keys(int64_t begin, int64_t end, int64_t threads) const {
    avx512::sort_keys(reinterpret_cast<Packed*>(elements_ + begin), reinterpret_cast<Packed*>(spare_) + begin,
                      end - begin, static_cast<int>(threads));
  }

  template <class Store>
  void sort_bucket(int64_t begin, int64_t end, Store store) const {
    const auto [low, high] = range_of(begin, end);
    const auto places = static_cast<int>(std::bit_width(static_cast<uint64_t>(end - begin - 1)));
    if constexpr (with_index)
      if (low < high && static_cast<int>(std::bit_width(Key(high - low))) + places <= 32)
        return sort_halved(begin, end - begin, low, places, store);
    if (low < high) sort_keys(begin, end, 1);
    for (int64_t i = begin; i < end; ++i) store(i, elements_[i]);
  }

  // Sort a large bucket. Such a bucket often holds only a repeated value, such as the zeros of a ReLU.
  template <class Store>
  void sort_large(int64_t begin, int64_t end, const Store& store) const {
    in_parts(end - begin, [&](int64_t part, int64_t first, int64_t last) {
      counts_[part].keys = range_of(begin + first, begin + last);
    });
    const auto [low, high] = range_of_parts();
    if (low < high) sort_keys(begin, end, parts_);
    in_parts(end - begin, [&](int64_t, int64_t first, int64_t last) {
      const Store put = store;
      for (int64_t i = begin + first; i < begin + last; ++i) put(i, elements_[i]);
    });
  }

  // Sort a bucket by keys of half the size. Each consists of the distance from the bucket's lowest key, followed by the
  // position in the bucket, which preserves the index order of equal keys.
  template <class Store>
  void sort_halved(int64_t begin, int64_t n, Key low, int places, Store store) const {
    auto* keys = reinterpret_cast<uint32_t*>(reinterpret_cast<Packed*>(spare_) + begin);
    const Element* bucket = elements_ + begin;
    for (int64_t i = 0; i < n; ++i)
      keys[i] = static_cast<uint32_t>(key_of(bucket[i]) - low) << places | static_cast<uint32_t>(i);
    avx512::sort_keys(keys, keys + n, n, 1);
    const uint32_t place = (uint32_t{1} << places) - 1;
    for (int64_t i = 0; i < n; ++i) store(begin + i, bucket[keys[i] & place]);
  }

  const int64_t n_, parts_;
  Element* elements_;
  std::byte* spare_;
  Counts* counts_;
  Buckets* bucket_of_;
  Key low_ = 0;
  int rest_ = 0;
  int64_t bins_ = 1, buckets_ = 1;
};

}  // namespace mpsgraph::cpu
