// Partitioning of parallel loops, and their execution on the thread pool.
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

struct Phases {
  Shares shares;
  const void* count;
  PhaseCount count_of;
  const void* f;
  PhaseBody body;
};

ThreadPool::Loop loop_of(Phases& phases) {
  return {&phases,
          [](void* context, int64_t phase) {
            auto& p = *static_cast<Phases*>(context);
            const int64_t count = p.count_of(p.count, phase);
            p.shares.share(count);
            return count;
          },
          [](void* context, int64_t phase, int64_t member) {
            auto& p = *static_cast<Phases*>(context);
            Items items(p.shares, member);
            p.body(p.f, phase, items);
            return items.taken();
          }};
}

}  // namespace

void run_phases(int threads, int64_t phases, const void* count, PhaseCount count_of, const void* f, PhaseBody body) {
  Phases all{Shares(0, threads), count, count_of, f, body};
  ThreadPool::get().run(threads, phases, loop_of(all));
}

void run_items(int64_t items, const void* f, ItemBody body) {
  const auto threads = static_cast<int>(std::min<int64_t>(items, thread_count()));
  if (threads <= 1) {
    for (int64_t item = 0; item < items; ++item) body(f, item, thread_number());
    return;
  }
  parallel_phases(threads, {items}, [&](int64_t, Items& mine) {
    for (int64_t item : mine) body(f, item, mine.member());
  });
}

void run_chains(int64_t chains, int64_t length, const void* f, ChainBody body) {
  const auto threads = static_cast<int>(std::min<int64_t>(chains, thread_count()));
  if (threads <= 1) {
    for (int64_t chain = 0; chain < chains; ++chain)
      for (int64_t place = 0; place < length; ++place) body(f, chain, place, thread_number());
    return;
  }
  struct All {
    Chains shares;
    int64_t chains;
    const void* f;
    ChainBody body;
  } all{Chains(chains, length, threads), chains, f, body};
  ThreadPool::get().run(threads, 1,
                        {&all, [](void* context, int64_t) { return static_cast<All*>(context)->chains; },
                         [](void* context, int64_t, int64_t member) {
                           auto& all = *static_cast<All*>(context);
                           int64_t taken = 0;
                           for (Chains::Item item; (item = all.shares.take(member)).chain >= 0; ++taken) {
                             all.body(all.f, item.chain, item.place, member);
                             all.shares.done(item.chain);
                           }
                           return taken;
                         }});
}

void run_ranges(int64_t n, int64_t grain, const void* f, RangeBody body) {
  if (n <= 0) return;
  const int64_t most = thread_count() > 1 ? thread_count() * items_per_thread : 1;
  const int64_t parts = std::clamp<int64_t>(n / std::max<int64_t>(grain, 1), 1, most);
  if (parts == 1) return body(f, 0, n);
  parallel_parts(parts, [&](int64_t part) { body(f, n * part / parts, n * (part + 1) / parts); });
}

}  // namespace mpsgraph::cpu
