// The thread pool: gates that callers open and helpers enter, how callers and helpers wait, and the balance between the
// time that helpers save and the time that callers wait for them.
#include "backends/cpu/thread_pool.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <exception>
#include <new>

#include "backends/cpu/flush_to_zero.h"
#include "backends/cpu/ticks.h"
#include "runtime/thread_count.h"
#include "runtime/thread_storage.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace mpsgraph::cpu {
namespace {

// ---- gate: one word that combines the number of threads admitted, the number of threads inside, and a ticket, which
// is incremented when the gate opens or closes and is odd while it is open

constexpr uint64_t inside_bits = 12, threads_bits = 12, one_ticket = uint64_t{1} << (inside_bits + threads_bits);

bool is_open(uint64_t gate) { return gate & one_ticket; }
int64_t inside(uint64_t gate) { return static_cast<int64_t>(gate & ((1 << inside_bits) - 1)); }
int64_t threads_of(uint64_t gate) { return static_cast<int64_t>(gate >> inside_bits & ((1 << threads_bits) - 1)); }
uint64_t ticket(uint64_t gate) { return gate / one_ticket; }

// ---- waiting

void rest_a_moment() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// Spin until there() returns true, for at most `count` microseconds; return the last result of there().
template <class F>
bool spin(double count, const F& there) {
  for (int i = 0; i < 64; ++i) {  // most waits end here, before reading the clock
    if (there()) return true;
    rest_a_moment();
  }
  const uint64_t end = ticks() + microseconds(count);
  do {
    for (int i = 0; i < 16; ++i) {
      if (there()) return true;
      rest_a_moment();
    }
  } while (ticks() < end);
  return there();
}

constexpr double between_loops = 100;  // microseconds; covers the gap between two training steps in Python
constexpr double for_items = 100;  // microseconds; longer than it takes to wake a thread

// ---- balance of gains and costs

// In microseconds: the initial and the maximum balance between the time that helpers save and the time that callers
// wait for them, and the shortest and longest pause in which loops run without helpers. The balance is reset to
// first_balance after each pause, so that the time to wake the helpers and a few late arrivals do not cause another
// pause.
constexpr double first_balance = 500, most_balance = 5000, first_pause = 20'000, longest_pause = 500'000;

struct Place {
  int64_t member = 0;
  bool in_a_loop = false;
  ThreadPool* lent = nullptr;  // pool of a lent team that this thread's loops use
};
thread_local Place place;

ThreadPool* the_pool = nullptr;

}  // namespace

ThreadPool& ThreadPool::get() {
  // The pool is never destroyed, because helpers sleep in it until the process ends. A forked child has no helpers and
  // starts with a new pool.
  static const bool once = [] {
    the_pool = new ThreadPool;
    pthread_atfork(nullptr, nullptr, [] {
      the_pool = new ThreadPool;
      place = {};
    });
    return true;
  }();
  (void)once;
  return place.lent ? *place.lent : *the_pool;
}

int64_t ThreadPool::member() { return place.member; }

ThreadPool::Alone::Alone(bool alone) : before_(place.in_a_loop) { place.in_a_loop = before_ || alone; }
ThreadPool::Alone::~Alone() { place.in_a_loop = before_; }

void ThreadPool::run(int threads, int64_t phases, const Loop& loop) {
  threads = std::min(threads, runtime::thread_count());
  Job* const job = threads > 1 && !place.in_a_loop ? claim() : nullptr;
  if (!job) {
    for (int64_t phase = 0; phase < phases; ++phase)
      if (loop.prepare(loop.context, phase) > 0) loop.work(loop.context, phase, place.member);
    return;
  }
  if (helpers_.load(std::memory_order_acquire) < threads - 1) start(threads);
  place.in_a_loop = true;
  int64_t own = 0;
  uint64_t waited = 0;
  const uint64_t begin = ticks();
  for (int64_t phase = 0; phase < phases; ++phase) {
    const int64_t items = loop.prepare(loop.context, phase);
    if (items <= 0) continue;
    if (items == 1) {
      own += loop.work(loop.context, phase, 0);
      continue;
    }
    open(*job, static_cast<int>(std::min<int64_t>(threads, items)), loop, phase);
    own += loop.work(loop.context, phase, 0);
    waited += shut(*job);
  }
  const uint64_t worked = ticks() - begin - waited;
  place.in_a_loop = false;
  if (waited > 0 || job->helped.load(std::memory_order_relaxed) > 0) settle(*job, own, worked, waited);
  job->taken.store(false, std::memory_order_release);
}

ThreadPool::Job* ThreadPool::claim() {
  if (const uint64_t until = alone_until_.load(std::memory_order_relaxed)) {
    if (ticks() < until) return nullptr;
    alone_until_.store(0, std::memory_order_relaxed);
  }
  for (Job& job : jobs_)
    if (!job.taken.load(std::memory_order_relaxed) && !job.taken.exchange(true, std::memory_order_acquire)) return &job;
  return nullptr;
}

void ThreadPool::open(Job& job, int threads, const Loop& loop, int64_t phase) {
  job.loop = &loop;
  job.phase = phase;
  const uint64_t next = ticket(job.gate.load(std::memory_order_relaxed)) + 1;
  job.gate.store(next * one_ticket + (static_cast<uint64_t>(threads) << inside_bits), std::memory_order_release);
  call(threads);
}

void ThreadPool::call(int threads) {
  calls_.fetch_add(1);
  for (int64_t member = 1; member < threads; ++member) {
    std::atomic<int>& sleeping = helper_[static_cast<size_t>(member)].sleeping;
    if (!sleeping.load()) continue;
    sleeping.store(0);
    sleeping.notify_one();
  }
}

// Close the gate and wait until the helpers inside have left; return how many ticks the caller waited.
uint64_t ThreadPool::shut(Job& job) {
  if (inside(job.gate.fetch_add(one_ticket, std::memory_order_acq_rel)) == 0) return 0;
  const uint64_t begin = ticks();
  const auto empty = [&] { return inside(job.gate.load()) == 0; };
  if (spin(for_items, empty)) return ticks() - begin;
  // A helper may have been descheduled. Sleeping frees this core for it.
  while (!empty()) {
    job.sleeping.store(1);
    if (empty()) break;
    job.sleeping.wait(1);
  }
  job.sleeping.store(0);
  return ticks() - begin;
}

// Update the balance after a loop: add the time the helpers saved, subtract the time the caller waited. Without
// helpers, the caller would have processed their items too. The saved time is computed from the caller's time per item
// or from the helpers', whichever is shorter, because the longer one may include time when a thread was descheduled.
void ThreadPool::settle(Job& job, int64_t own, uint64_t worked, uint64_t waited) {
  const auto helped = static_cast<double>(job.helped.exchange(0, std::memory_order_relaxed));
  auto gain = static_cast<double>(job.helping.exchange(0, std::memory_order_relaxed));
  if (own > 0) gain = std::min(gain, static_cast<double>(worked) * helped / static_cast<double>(own));
  const auto most = static_cast<int64_t>(microseconds(most_balance));
  const int64_t before = balance_.load(std::memory_order_relaxed);
  const int64_t balance = before + static_cast<int64_t>(gain) - static_cast<int64_t>(waited);
  if (balance >= 0) {
    if (before < most) balance_.store(std::min(balance, most), std::memory_order_relaxed);
    if (balance >= most && pause_.load(std::memory_order_relaxed)) pause_.store(0, std::memory_order_relaxed);
    return;
  }
  const uint64_t pause =
      std::clamp(2 * pause_.load(std::memory_order_relaxed), microseconds(first_pause), microseconds(longest_pause));
  pause_.store(pause, std::memory_order_relaxed);
  balance_.store(static_cast<int64_t>(microseconds(first_balance)), std::memory_order_relaxed);
  alone_until_.store(ticks() + pause, std::memory_order_relaxed);
}

// ---- helpers

void ThreadPool::start(int threads) {
  const std::lock_guard lock(starting_);
  if (helpers_ >= threads - 1) return;
  if (!helper_) helper_ = std::make_unique<Helper[]>(static_cast<size_t>(runtime::most_threads()));
  if (helpers_ == 0) balance_.store(static_cast<int64_t>(microseconds(first_balance)));
  struct Start {
    ThreadPool* pool;
    int64_t member;
  };
  constexpr size_t stack = size_t{4} << 20;  // bytes; some systems default to half a megabyte
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigset_t all, before;  // block signals: the application's threads handle them
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int64_t member = helpers_ + 1; member < threads; ++member) {
    auto begin = std::make_unique<Start>(Start{this, member});
    pthread_t thread;
    const int failed = pthread_create(
        &thread, &attributes,
        [](void* argument) -> void* {
          const std::unique_ptr<Start> begin(static_cast<Start*>(argument));
          if (!runtime::reserve_thread_storage()) return nullptr;  // loops do without this helper
#ifdef __linux__
          pthread_setname_np(pthread_self(), "mpsgraph helper");
#endif
          FlushToZero::for_good();
          begin->pool->help(begin->member);
          return nullptr;
        },
        begin.get());
    if (failed) break;  // continue with the helpers that were started
    begin.release();
  }
  helpers_.store(threads - 1, std::memory_order_release);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
}

void ThreadPool::help(int64_t member) {
  place = {member, true};
  Helper& me = helper_[static_cast<size_t>(member)];
  while (true) {
    const uint32_t before = calls_.load();
    if (dismissed_.load()) return;
    if (take_part(me, member)) continue;
    const auto called = [&] { return calls_.load(std::memory_order_acquire) != before; };
    if (spin(between_loops, called)) continue;
    me.sleeping.store(1);
    if (called())
      me.sleeping.store(0);
    else
      me.sleeping.wait(1);
  }
}

// Join a parallel loop that still accepts threads (its gate is open), and process items of that loop until none are
// left. Return false if no loop accepts threads.
bool ThreadPool::take_part(Helper& me, int64_t member) {
  for (size_t j = 0; j < most_jobs; ++j) {
    Job& job = jobs_[j];
    uint64_t gate = job.gate.load(std::memory_order_acquire);
    while (is_open(gate) && member < threads_of(gate) && me.seen[j] != ticket(gate)) {
      if (!job.gate.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel)) continue;
      me.seen[j] = ticket(gate);
      const uint64_t begin = ticks();
      if (const int64_t items = job.loop->work(job.loop->context, job.phase, member); items > 0) {
        job.helped.fetch_add(items, std::memory_order_relaxed);
        job.helping.fetch_add(ticks() - begin, std::memory_order_relaxed);
      }
      const uint64_t left = job.gate.fetch_sub(1);
      if (!is_open(left) && inside(left) == 1 && job.sleeping.load()) {
        job.sleeping.store(0);
        job.sleeping.notify_one();
      }
      return true;
    }
  }
  return false;
}

// ---- lent teams

void ThreadPool::begin_team() {
  if (!helper_) {
    helper_ = std::make_unique<Helper[]>(static_cast<size_t>(runtime::most_threads()));
    helpers_ = runtime::most_threads();  // the application provides the team's threads, so none are started
    balance_.store(static_cast<int64_t>(microseconds(first_balance)));
  }
  dismissed_ = false;
}

void ThreadPool::dismiss_team() {
  dismissed_.store(true);
  call(runtime::most_threads());
}

void ThreadPool::with_team(Fork fork, const std::function<void()>& f) {
  if (place.lent || place.in_a_loop) return f();
  static thread_local ThreadPool mine;  // the pool is persistent, so that the tickets that helpers remember stay valid
  struct Team {
    ThreadPool& pool;
    const std::function<void()>& f;
    std::atomic<int64_t> next{1};
    std::exception_ptr error;

    void enter() {
      // Only the thread that called the application's fork function runs f. Exceptions must not propagate through that
      // function.
      if (place.lent == &pool) {
        try {
          f();
        } catch (...) {
          error = std::current_exception();
        }
        pool.dismiss_team();
        return;
      }
      const int64_t member = next.fetch_add(1);
      if (member >= runtime::most_threads()) return;
      const Place before = place;
      const FlushToZero flush;
      pool.help(member);
      place = before;
    }
  } team{mine, f, {1}, nullptr};
  mine.begin_team();
  place.lent = &mine;
  fork([](void* data) { static_cast<Team*>(data)->enter(); }, &team, 0, 0);
  place.lent = nullptr;
  if (team.error) std::rethrow_exception(team.error);
}

}  // namespace mpsgraph::cpu
