// Parallel loops: the only place where kernels meet OpenMP.
//
// A loop is cut into items, by sizes alone, so that the same run gives the same bits; threads take the items as they
// come (shares.h). Without OpenMP (sanitizer builds) the loops are serial.
#pragma once

#include <algorithm>
#include <cstdint>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "backends/cpu/flush_to_zero.h"
#include "backends/cpu/shares.h"

namespace mpsgraph::cpu {

// How many threads a kernel may use: OpenMP's number at the first query, the same for the whole process. Kernels
// size their scratch memory by it, so a later omp_set_num_threads, on whatever thread, changes nothing here.
int thread_count();

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

// f(member, members, wait) on a team of at most `threads`, each once; wait() returns when all have called it.
template <class F>
void parallel_team([[maybe_unused]] int threads, const F& f) {
#ifdef _OPENMP
  if (threads > 1 && !omp_in_parallel()) {
    note_team();
#pragma omp parallel num_threads(std::min(threads, thread_count()))
    f(omp_get_thread_num(), omp_get_num_threads(), [] {
#pragma omp barrier
    });
    return;
  }
#endif
  f(0, 1, [] {});
}

// f(item, member) for each item in [0, items); a member, below thread_count(), takes one after the other.
template <class F>
void parallel_items(int64_t items, const F& f) {
  const auto threads = static_cast<int>(std::min<int64_t>(items, thread_count()));
  if (threads <= 1) {
    for (int64_t item = 0; item < items; ++item) f(item, int64_t{0});
    return;
  }
  Shares shares(items, threads);
  parallel_team(threads, [&](int64_t member, int64_t, const auto&) {
    for (int64_t item; (item = shares.take(member)) >= 0;) f(item, member);
  });
}

// f(chain, place, member) for each place in [0, length) of each chain, one place of a chain after the other.
template <class F>
void parallel_chains(int64_t chains, int64_t length, const F& f) {
  const auto threads = static_cast<int>(std::min<int64_t>(chains, thread_count()));
  if (threads <= 1) {
    for (int64_t chain = 0; chain < chains; ++chain)
      for (int64_t place = 0; place < length; ++place) f(chain, place, int64_t{0});
    return;
  }
  Chains shares(chains, length, threads);
  parallel_team(threads, [&](int64_t member, int64_t, const auto&) {
    for (Chains::Item item; (item = shares.take(member)).chain >= 0; shares.done(item.chain))
      f(item.chain, item.place, member);
  });
}

// f(part) for each part in [0, parts), one thread each as far as there are threads.
template <class F>
void parallel_parts(int64_t parts, const F& f) {
  parallel_items(parts, [&](int64_t part, int64_t) { f(part); });
}

constexpr int64_t items_per_thread = 8;  // enough that a late thread costs little

// f(begin, end) over [0, n), in some parts for each thread, of at least `grain` elements.
template <class F>
void parallel_for(int64_t n, int64_t grain, const F& f) {
  if (n <= 0) return;
  const int64_t most = thread_count() > 1 ? thread_count() * items_per_thread : 1;
  const int64_t parts = std::clamp<int64_t>(n / std::max<int64_t>(grain, 1), 1, most);
  if (parts == 1) return f(int64_t{0}, n);
  parallel_items(parts, [&](int64_t part, int64_t) { f(n * part / parts, n * (part + 1) / parts); });
}

// Elements per part that make a fork worth its microseconds, when one costs about `bytes` of traffic
// (or as many elementary operations).
inline int64_t grain_for(int64_t bytes) { return std::max<int64_t>(1, 32768 / std::max<int64_t>(bytes, 1)); }

}  // namespace mpsgraph::cpu
