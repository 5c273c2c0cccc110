// Parallel loops: the only place where kernels meet OpenMP, with parallel.cpp.
//
// A loop is cut into items, by sizes alone, so that the same run gives the same bits; threads take the items as they
// come (shares.h). Without OpenMP (sanitizer builds) the loops are serial.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/flush_to_zero.h"
#include "backends/cpu/shares.h"

namespace mpsgraph::cpu {

// How many threads a kernel may use: OpenMP's number at the first query, the same for the whole process. Kernels
// size their scratch memory by it, so a later omp_set_num_threads, on whatever thread, changes nothing here.
int thread_count();
int thread_number();  // of this thread in its team

// Each thread that forks has a team, whose threads wait for its next fork. OpenMP counts the threads of all teams, and
// lets them sleep at once, so that each fork has to wake them, where they are more than processors. A team's threads
// flush to zero, whoever forks.
void note_team();     // this thread forks, or calls what may
void release_team();  // ends this thread's team; its next fork starts another one
void make_way();      // does so if another thread has a team as well

// Where kernels run. While it lives, OpenMP on this thread (and so oneDNN) uses thread_count() threads, whatever was
// set there, and this thread flushes to zero.
class ThreadScope {
 public:
  ThreadScope();
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  FlushToZero flush_;
  [[maybe_unused]] int before_;  // without OpenMP
};

// The loops below compile a loop's body once, as a function that they hand to these, which stand in parallel.cpp: as
// templates they would compile it in each place where it may run, alone and in a team.
using TeamBody = void (*)(const void* f, int64_t member, int64_t members, void (*wait)());
using ItemBody = void (*)(const void* f, int64_t item, int64_t member);
using ChainBody = void (*)(const void* f, int64_t chain, int64_t place, int64_t member);
using RangeBody = void (*)(const void* f, int64_t begin, int64_t end);
void run_team(int threads, const void* f, TeamBody body);
void run_items(int64_t items, const void* f, ItemBody body);
void run_chains(int64_t chains, int64_t length, const void* f, ChainBody body);
void run_ranges(int64_t n, int64_t grain, const void* f, RangeBody body);

// f(member, members, wait) on a team of at most `threads`, each once; wait() returns when all have called it.
template <class F>
void parallel_team(int threads, const F& f) {
  run_team(threads, &f, [](const void* f, int64_t member, int64_t members, void (*wait)()) {
    (*static_cast<const F*>(f))(member, members, wait);
  });
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
