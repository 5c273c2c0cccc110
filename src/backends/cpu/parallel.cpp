// Partitioning of parallel loops, and their execution on the thread pool.
#include "backends/cpu/parallel.h"

#include <exception>
#include <utility>

#include "runtime/run_control.h"

namespace mpsgraph::cpu {
namespace {

thread_local const std::atomic<bool>* polled = nullptr;
thread_local int64_t polls = 0;

bool is_set(const std::atomic<bool>* flag) { return flag && flag->load(std::memory_order_relaxed); }
void end_if_set(const std::atomic<bool>* flag) {
  ++polls;
  if (is_set(flag)) runtime::throw_cancelled();
}

// The first exception that a thread's share of a loop has thrown. It is rethrown on the calling thread once all threads
// have left the loop.
class FirstError {
 public:
  template <class Work>
  void guard(const Work& work) noexcept {
    try {
      work();
    } catch (...) {
      if (!taken_.exchange(true)) error_ = std::current_exception();
    }
  }
  bool any() const { return taken_.load(std::memory_order_relaxed); }
  void rethrow() const {  // call this only when all threads have left the loop
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::atomic<bool> taken_{false};
  std::exception_ptr error_;
};

struct Phases {
  Shares shares;
  const void* count;
  PhaseCount count_of;
  const void* f;
  PhaseBody body;
  const std::atomic<bool>* cancelled;
  FirstError error{};
};

ThreadPool::Loop loop_of(Phases& phases) {
  return {&phases,
          [](void* context, int64_t phase) {
            auto& p = *static_cast<Phases*>(context);
            // After a cancelled or failed phase, which may be incomplete, the remaining phases have no items.
            const bool ended = is_set(p.cancelled) || p.error.any();
            const int64_t count = ended ? 0 : p.count_of(p.count, phase);
            p.shares.share(count);
            return count;
          },
          [](void* context, int64_t phase, int64_t member) {
            auto& p = *static_cast<Phases*>(context);
            const PollScope scope(p.cancelled);
            Items items(p.shares, member, p.cancelled);
            p.error.guard([&] { p.body(p.f, phase, items); });
            polls += items.taken();
            return items.taken();
          }};
}

}  // namespace

PollScope::PollScope(const std::atomic<bool>* cancelled) : before_(std::exchange(polled, cancelled)) {}
PollScope::~PollScope() { polled = before_; }
void poll_run() { end_if_set(polled); }
int64_t poll_count() { return polls; }

void run_phases(int threads, int64_t phases, const void* count, PhaseCount count_of, const void* f, PhaseBody body) {
  Phases all{Shares(0, threads), count, count_of, f, body, polled};
  ThreadPool::get().run(threads, phases, loop_of(all));
  all.error.rethrow();
  end_if_set(all.cancelled);
}

void run_items(int64_t items, const void* f, ItemBody body) {
  const auto threads = static_cast<int>(std::min<int64_t>(items, thread_count()));
  if (threads <= 1) {
    for (int64_t item = 0; item < items; ++item) {
      end_if_set(polled);
      body(f, item, thread_number());
    }
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
      for (int64_t place = 0; place < length; ++place) {
        end_if_set(polled);
        body(f, chain, place, thread_number());
      }
    return;
  }
  struct All {
    Chains shares;
    int64_t chains;
    const void* f;
    ChainBody body;
    const std::atomic<bool>* cancelled;
    FirstError error{};
  } all{Chains(chains, length, threads), chains, f, body, polled};
  ThreadPool::get().run(threads, 1,
                        {&all, [](void* context, int64_t) { return static_cast<All*>(context)->chains; },
                         [](void* context, int64_t, int64_t member) {
                           auto& all = *static_cast<All*>(context);
                           const PollScope scope(all.cancelled);
                           int64_t taken = 0;
                           const auto ended = [&] { return is_set(all.cancelled) || all.error.any(); };
                           for (Chains::Item item; !ended() && (item = all.shares.take(member)).chain >= 0; ++taken)
                             all.error.guard([&] {
                               all.body(all.f, item.chain, item.place, member);
                               all.shares.done(item.chain);
                             });
                           polls += taken;
                           return taken;
                         }});
  all.error.rethrow();
  end_if_set(all.cancelled);
}

void run_ranges(int64_t n, int64_t grain, const void* f, RangeBody body) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t enough = thread_count() > 1 ? thread_count() * items_per_thread : 1;
  const int64_t short_items =
      grain == 1 ? std::min(n, most_single_items) : std::min(n / grain / grains_per_item, most_short_items);
  const int64_t most = std::max(enough, short_items);
  const int64_t parts = std::clamp<int64_t>(n / grain, 1, most);
  if (parts == 1) return body(f, 0, n);
  parallel_parts(parts, [&](int64_t part) { body(f, n * part / parts, n * (part + 1) / parts); });
}

}  // namespace mpsgraph::cpu
