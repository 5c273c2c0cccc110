// The number of threads, asked for once.
#include "backends/cpu/parallel.h"

#include <pthread.h>

namespace mpsgraph::cpu {

#ifdef _OPENMP
int thread_count() {
  static const int count = [] {
    // A forked child has none of a team's threads, and would wait for them in whatever uses OpenMP there.
    pthread_atfork(release_team, nullptr, nullptr);
    return omp_get_max_threads();
  }();
  return count;
}
void release_team() { omp_pause_resource_all(omp_pause_soft); }
ThreadScope::ThreadScope() : before_(omp_get_max_threads()) {
  if (before_ != thread_count()) omp_set_num_threads(thread_count());
}
ThreadScope::~ThreadScope() {
  if (before_ != thread_count()) omp_set_num_threads(before_);
}
#else
int thread_count() { return 1; }
void release_team() {}
ThreadScope::ThreadScope() : before_(1) {}
ThreadScope::~ThreadScope() = default;
#endif

}  // namespace mpsgraph::cpu
