// The number of threads, queried once, which threads have OpenMP teams, and how loops are shared out to them.
#include "backends/cpu/parallel.h"

#include <pthread.h>

#include <atomic>

#ifdef _OPENMP
#include <omp.h>
#endif

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
int thread_number() { return omp_get_thread_num(); }
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
int thread_number() { return 0; }
void note_team() {}
void release_team() {}
void make_way() {}
ThreadScope::ThreadScope() : before_(1) {}
ThreadScope::~ThreadScope() = default;
#endif

namespace {

template <class F>
void on_team([[maybe_unused]] int threads, const F& f) {
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

template <class F>
void share_items(int64_t items, const F& f) {
  const auto threads = static_cast<int>(std::min<int64_t>(items, thread_count()));
  if (threads <= 1) {
    for (int64_t item = 0; item < items; ++item) f(item, int64_t{0});
    return;
  }
  Shares shares(items, threads);
  on_team(threads, [&](int64_t member, int64_t, void (*)()) {
    for (int64_t item; (item = shares.take(member)) >= 0;) f(item, member);
  });
}

}  // namespace

void run_team(int threads, const void* f, TeamBody body) {
  on_team(threads, [&](int64_t member, int64_t members, void (*wait)()) { body(f, member, members, wait); });
}

void run_items(int64_t items, const void* f, ItemBody body) {
  share_items(items, [&](int64_t item, int64_t member) { body(f, item, member); });
}

void run_chains(int64_t chains, int64_t length, const void* f, ChainBody body) {
  const auto threads = static_cast<int>(std::min<int64_t>(chains, thread_count()));
  if (threads <= 1) {
    for (int64_t chain = 0; chain < chains; ++chain)
      for (int64_t place = 0; place < length; ++place) body(f, chain, place, 0);
    return;
  }
  Chains shares(chains, length, threads);
  on_team(threads, [&](int64_t member, int64_t, void (*)()) {
    for (Chains::Item item; (item = shares.take(member)).chain >= 0; shares.done(item.chain))
      body(f, item.chain, item.place, member);
  });
}

void run_ranges(int64_t n, int64_t grain, const void* f, RangeBody body) {
  if (n <= 0) return;
  const int64_t most = thread_count() > 1 ? thread_count() * items_per_thread : 1;
  const int64_t parts = std::clamp<int64_t>(n / std::max<int64_t>(grain, 1), 1, most);
  if (parts == 1) return body(f, 0, n);
  share_items(parts, [&](int64_t part, int64_t) { body(f, n * part / parts, n * (part + 1) / parts); });
}

}  // namespace mpsgraph::cpu
