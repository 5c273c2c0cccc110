// The number of threads, queried once, and which threads have OpenMP teams.
#include "backends/cpu/parallel.h"

#include <pthread.h>

#include <atomic>

namespace mpsgraph::cpu {

#ifdef _OPENMP
namespace {

std::atomic<int> teams{0};

struct TeamMark {  // OpenMP itself ends the team of a thread that ends
  bool there = false;
  void set(bool now) {
    if (there != now) teams += now ? 1 : -1;
    there = now;
  }
  ~TeamMark() { set(false); }
};
thread_local TeamMark team;

}  // namespace

int thread_count() {
  static const int count = [] {
    // A forked child has none of a team's threads, and would wait for them in whatever uses OpenMP there.
    pthread_atfork(release_team, nullptr, [] { teams = 0; });
    return omp_get_max_threads();
  }();
  return count;
}
void note_team() {
  if (team.there) return;
  team.set(true);
#pragma omp parallel num_threads(thread_count())
  if (omp_get_thread_num() > 0) FlushToZero::for_good();
}
void release_team() {
  if (!team.there) return;
  omp_pause_resource_all(omp_pause_soft);
  team.set(false);
}
void make_way() {
  if (teams > 1) release_team();
}
ThreadScope::ThreadScope() : before_(omp_get_max_threads()) {
  if (before_ != thread_count()) omp_set_num_threads(thread_count());
}
ThreadScope::~ThreadScope() {
  if (before_ != thread_count()) omp_set_num_threads(before_);
}
#else
int thread_count() { return 1; }
void note_team() {}
void release_team() {}
void make_way() {}
ThreadScope::ThreadScope() : before_(1) {}
ThreadScope::~ThreadScope() = default;
#endif

}  // namespace mpsgraph::cpu
