// Static parallel loops: the only place where kernels meet OpenMP.
//
// A range is cut into equal contiguous parts, one per thread and fixed by sizes alone, so that the
// same run gives the same bits. Without OpenMP (sanitizer builds) the loops are serial.
#pragma once

#include <algorithm>
#include <cstdint>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace mpsgraph::cpu {

// How many threads a kernel may use: what OpenMP offered when it was first asked, the same for the whole process. Kernels
// size their scratch memory by it, so a later omp_set_num_threads, on whatever thread, changes nothing here.
int thread_count();

// Ends the threads that wait for this thread's next loop; that loop starts others.
void release_team();

// While it lives, OpenMP on this thread (and so oneDNN) uses thread_count() threads, whatever was set there.
class ThreadScope {
 public:
  ThreadScope();
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  [[maybe_unused]] int before_;  // without OpenMP
};

// f(part) for each part in [0, parts), one thread each as far as there are threads.
template <class F>
void parallel_parts(int64_t parts, const F& f) {
#ifdef _OPENMP
  if (parts > 1 && !omp_in_parallel()) {
    const int threads = static_cast<int>(std::min<int64_t>(parts, thread_count()));
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t part = 0; part < parts; ++part) f(part);
    return;
  }
#endif
  for (int64_t part = 0; part < parts; ++part) f(part);
}

// f(begin, end) over [0, n) in at most thread_count() parts of at least `grain` items.
template <class F>
void parallel_for(int64_t n, int64_t grain, const F& f) {
  if (n <= 0) return;
  const int64_t parts = std::clamp<int64_t>(n / std::max<int64_t>(grain, 1), 1, thread_count());
  if (parts == 1) return f(int64_t{0}, n);
  parallel_parts(parts, [&](int64_t part) { f(n * part / parts, n * (part + 1) / parts); });
}

// f(member, members, wait) on a team of at most `threads`, each once; wait() returns when all have called it.
template <class F>
void parallel_team([[maybe_unused]] int threads, const F& f) {
#ifdef _OPENMP
  if (threads > 1 && !omp_in_parallel()) {
#pragma omp parallel num_threads(std::min(threads, thread_count()))
    f(omp_get_thread_num(), omp_get_num_threads(), [] {
#pragma omp barrier
    });
    return;
  }
#endif
  f(0, 1, [] {});
}

// Items per part that make a fork worth its microseconds, when one item costs about `bytes` of traffic
// (or as many elementary operations).
inline int64_t grain_for(int64_t bytes) { return std::max<int64_t>(1, 32768 / std::max<int64_t>(bytes, 1)); }

}  // namespace mpsgraph::cpu
