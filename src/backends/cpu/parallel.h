// Parallel loops on the thread pool (thread_pool.h).
//
// The partition of a loop into items depends only on the loop's size and thread_count(), so a run produces the same
// bits no matter which threads run the items. A thread takes the next item whenever it is free (work_stealing.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "backends/cpu/thread_pool.h"
#include "backends/cpu/work_stealing.h"
#include "runtime/thread_count.h"

namespace mpsgraph::cpu {

// Number of threads for which kernels partition their work and reserve scratch memory. A loop may run on fewer threads.
inline int thread_count() { return runtime::most_threads(); }
inline int64_t thread_number() { return ThreadPool::member(); }  // number of the calling thread, below thread_count()

// The items of one phase that one thread processes: `for (int64_t item : items)` takes items one by one until none are
// left. `member` is the number of the thread, below thread_count().
class Items {
 public:
  Items(Shares& shares, int64_t member, const std::atomic<bool>* cancelled)
      : shares_(shares), member_(member), cancelled_(cancelled) {}
  int64_t member() const { return member_; }
  int64_t next() {  // returns -1 when no items are left or the run was cancelled
    if (cancelled_ && cancelled_->load(std::memory_order_relaxed)) return -1;
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
  const std::atomic<bool>* cancelled_;
};

// While an object of this class exists, parallel loops of the thread that created it end with CancelledError soon after
// the flag is set: before the next item, and at the next poll_run() in an item, on whichever thread the item runs.
class PollScope {
 public:
  explicit PollScope(const std::atomic<bool>* cancelled);  // null: loops are not cancelled
  ~PollScope();
  PollScope(const PollScope&) = delete;

 private:
  const std::atomic<bool>* before_;
};

// Throw CancelledError if the loop whose item the calling thread processes was cancelled. Kernels call this every few
// milliseconds in items that may take longer.
void poll_run();
int64_t poll_count();  // number of times that this thread has checked whether its loop was cancelled, for tests

// How many elements a serial loop may process before the next poll_run(), if an element takes some nanoseconds.
constexpr int64_t elements_per_poll = 1 << 18;

// Call f(begin, end) for consecutive pieces of [begin, end) of at most `piece` elements, and poll_run() before each.
template <class F>
void for_polled_pieces(int64_t begin, int64_t end, int64_t piece, const F& f) {
  for (; begin < end; begin += piece) {
    poll_run();
    f(begin, std::min(end, begin + piece));
  }
}

// The templates below pass the loop body as a function pointer to these functions, defined in parallel.cpp. Otherwise
// every loop body would be compiled several times, for serial and for parallel execution.
using PhaseCount = int64_t (*)(const void* count, int64_t phase);
using PhaseBody = void (*)(const void* f, int64_t phase, Items& items);
using ItemBody = void (*)(const void* f, int64_t item, int64_t member);
using ChainBody = void (*)(const void* f, int64_t chain, int64_t place, int64_t member);
using RangeBody = void (*)(const void* f, int64_t begin, int64_t end);
void run_phases(int threads, int64_t phases, const void* count, PhaseCount count_of, const void* f, PhaseBody body);
void run_items(int64_t items, const void* f, ItemBody body);
void run_chains(int64_t chains, int64_t length, const void* f, ChainBody body);
void run_ranges(int64_t n, int64_t grain, const void* f, RangeBody body);

// Call f(phase, items) for each phase in [0, phases) on at most `threads` threads. A phase has count(phase) items and
// begins when all items of the previous phase are done. A single thread may process all items of a phase.
template <class Count, class F>
void parallel_phases(int threads, int64_t phases, const Count& count, const F& f) {
  run_phases(
      threads, phases, &count,
      [](const void* count, int64_t phase) -> int64_t { return (*static_cast<const Count*>(count))(phase); }, &f,
      [](const void* f, int64_t phase, Items& items) { (*static_cast<const F*>(f))(phase, items); });
}
// Like the overload above, with the item counts of the phases in an array.
template <size_t n, class F>
void parallel_phases(int threads, const int64_t (&counts)[n], const F& f) {
  parallel_phases(threads, static_cast<int64_t>(n), [&](int64_t phase) { return counts[phase]; }, f);
}

// Call f(item, member) for each item in [0, items). `member`, below thread_count(), identifies the thread, which
// processes one item at a time.
template <class F>
void parallel_items(int64_t items, const F& f) {
  run_items(items, &f, [](const void* f, int64_t item, int64_t member) { (*static_cast<const F*>(f))(item, member); });
}

// Call f(chain, place, member) for each position `place` in [0, length) of each chain. The calls for one chain are made
// in order of `place`; `member` identifies the thread.
template <class F>
void parallel_chains(int64_t chains, int64_t length, const F& f) {
  run_chains(chains, length, &f, [](const void* f, int64_t chain, int64_t place, int64_t member) {
    (*static_cast<const F*>(f))(chain, place, member);
  });
}

// Call f(part) for each part in [0, parts), on as many threads as are available.
template <class F>
void parallel_parts(int64_t parts, const F& f) {
  run_items(parts, &f, [](const void* f, int64_t part, int64_t) { (*static_cast<const F*>(f))(part); });
}

constexpr int64_t items_per_thread = 8;  // enough items that a thread that joins late costs little time
// A cancelled loop ends after the items that have begun. Items of long loops are therefore divided further, unless they
// would be shorter than 64 grains, which take at most a few milliseconds. With a grain of 1, an element may take long.
constexpr int64_t grains_per_item = 64, most_short_items = 1024, most_single_items = 256;

// Call f(begin, end) over ranges of [0, n), several per thread, of at least `grain` elements each. Long loops have more
// ranges, so that they can be cancelled.
template <class F>
void parallel_for(int64_t n, int64_t grain, const F& f) {
  run_ranges(n, grain, &f, [](const void* f, int64_t begin, int64_t end) { (*static_cast<const F*>(f))(begin, end); });
}

// Return how many elements a part of a parallel loop should have at least to justify starting threads, if each element
// costs about `bytes` bytes of memory traffic (or as many elementary operations).
inline int64_t grain_for(int64_t bytes) { return std::max<int64_t>(1, 32768 / std::max<int64_t>(bytes, 1)); }

}  // namespace mpsgraph::cpu
