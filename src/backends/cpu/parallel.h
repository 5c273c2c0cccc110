// Parallel loops, which run on the pool of threads (thread_pool.h).
//
// A loop is cut into items, by sizes and thread_count() alone, so that the same run gives the same bits whoever comes;
// threads take the items as they come (work_stealing.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/thread_pool.h"
#include "backends/cpu/work_stealing.h"
#include "runtime/thread_count.h"

namespace mpsgraph::cpu {

// How many threads kernels are cut for: parts, and their scratch memory. Fewer may come.
inline int thread_count() { return runtime::most_threads(); }
inline int64_t thread_number() { return ThreadPool::member(); }  // of this thread, below thread_count()

// The items of one phase for one member: `for (int64_t item : items)` takes one after the other while there are any.
class Items {
 public:
  Items(Shares& shares, int64_t member) : shares_(shares), member_(member) {}
  int64_t member() const { return member_; }
  int64_t next() {  // -1: all are taken
    const int64_t item = shares_.take(member_);
    taken_ += item >= 0;
    return item;
  }
  int64_t taken() const { return taken_; }

  struct End {};
  struct Iterator {
    Items& items;
    int64_t item;
    int64_t operator*() const { return item; }
    void operator++() { item = items.next(); }
    bool operator!=(End) const { return item >= 0; }
  };
  Iterator begin() { return {*this, next()}; }
  End end() const { return {}; }

 private:
  Shares& shares_;
  int64_t member_, taken_ = 0;
};

// The loops below compile a loop's body once, as a function that they hand to these, which stand in parallel.cpp: as
// templates they would compile it in each place where it may run, alone and with helpers.
using PhaseCount = int64_t (*)(const void* count, int64_t phase);
using PhaseBody = void (*)(const void* f, int64_t phase, Items& items);
using ItemBody = void (*)(const void* f, int64_t item, int64_t member);
using ChainBody = void (*)(const void* f, int64_t chain, int64_t place, int64_t member);
using RangeBody = void (*)(const void* f, int64_t begin, int64_t end);
void run_phases(int threads, int64_t phases, const void* count, PhaseCount count_of, const void* f, PhaseBody body);
void run_items(int64_t items, const void* f, ItemBody body);
void run_chains(int64_t chains, int64_t length, const void* f, ChainBody body);
void run_ranges(int64_t n, int64_t grain, const void* f, RangeBody body);

// f(phase, items) for each phase in [0, phases) on at most `threads` members, one of whom may take all; a phase, of
// count(phase) items, begins when all of the one before are done.
template <class Count, class F>
void parallel_phases(int threads, int64_t phases, const Count& count, const F& f) {
  run_phases(
      threads, phases, &count,
      [](const void* count, int64_t phase) -> int64_t { return (*static_cast<const Count*>(count))(phase); }, &f,
      [](const void* f, int64_t phase, Items& items) { (*static_cast<const F*>(f))(phase, items); });
}
// The same with the phases' counts.
template <size_t n, class F>
void parallel_phases(int threads, const int64_t (&counts)[n], const F& f) {
  parallel_phases(threads, static_cast<int64_t>(n), [&](int64_t phase) { return counts[phase]; }, f);
}

// f(item, member) for each item in [0, items); a member, below thread_count(), takes one after the other.
template <class F>
void parallel_items(int64_t items, const F& f) {
  run_items(items, &f, [](const void* f, int64_t item, int64_t member) { (*static_cast<const F*>(f))(item, member); });
}

// f(chain, place, member) for each place in [0, length) of each chain, one place of a chain after the other.
template <class F>
void parallel_chains(int64_t chains, int64_t length, const F& f) {
  run_chains(chains, length, &f, [](const void* f, int64_t chain, int64_t place, int64_t member) {
    (*static_cast<const F*>(f))(chain, place, member);
  });
}

// f(part) for each part in [0, parts), one thread each as far as there are threads.
template <class F>
void parallel_parts(int64_t parts, const F& f) {
  run_items(parts, &f, [](const void* f, int64_t part, int64_t) { (*static_cast<const F*>(f))(part); });
}

constexpr int64_t items_per_thread = 8;  // enough that a late thread costs little

// f(begin, end) over [0, n), in some parts for each thread, of at least `grain` elements.
template <class F>
void parallel_for(int64_t n, int64_t grain, const F& f) {
  run_ranges(n, grain, &f, [](const void* f, int64_t begin, int64_t end) { (*static_cast<const F*>(f))(begin, end); });
}

// Elements per part that make a fork worth its microseconds, when one costs about `bytes` of traffic
// (or as many elementary operations).
inline int64_t grain_for(int64_t bytes) { return std::max<int64_t>(1, 32768 / std::max<int64_t>(bytes, 1)); }

}  // namespace mpsgraph::cpu
