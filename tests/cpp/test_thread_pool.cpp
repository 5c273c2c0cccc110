// Loops on the thread pool: which threads take part, in which order, and which ones are not waited for.
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "backends/cpu/parallel.h"
#include "check.h"
#include "mpsgraph/core/errors.h"
#include "mpsgraph/runtime/threads.h"

using namespace mpsgraph::cpu;
using namespace std::chrono_literals;

namespace {

constexpr int threads = 4;  // even on machines with fewer processors

void begin() {
  static const bool once = (mpsgraph::runtime::set_thread_count(threads), true);
  (void)once;
  CHECK_EQUAL(thread_count(), threads);
}

void wait_for(const std::atomic<bool>& flag) {
  while (!flag) std::this_thread::yield();
}

// Repeat until helpers take items. The pool does not ask for helpers while they cost more time than they save.
template <class F>
void until(const F& done) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (!done()) CHECK(std::chrono::steady_clock::now() < end);
}

TEST(each_item_is_taken_once_and_phases_run_in_order) {
  begin();
  const int64_t counts[] = {37, 0, 1, 100, 3}, before[] = {0, 37, 37, 38, 138};
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> taken[5][100] = {};
    std::atomic<int64_t> done{0}, early{0};
    parallel_phases(threads, counts, [&](int64_t phase, Items& items) {
      for (int64_t item : items) {
        early += done < before[phase];
        ++taken[phase][item];
        ++done;
      }
    });
    CHECK_EQUAL(early.load(), 0);
    for (int phase = 0; phase < 5; ++phase)
      for (int64_t item = 0; item < 100; ++item) CHECK_EQUAL(taken[phase][item].load(), item < counts[phase] ? 1 : 0);
  }
}

TEST(helper_threads_take_items) {
  begin();
  std::atomic<int> others{0};
  until([&] {
    parallel_items(16, [&](int64_t, int64_t member) {
      others += member != 0;
      std::this_thread::sleep_for(100us);
    });
    return others > 0;
  });
}

// A loop waits for threads that are processing one of its items, and for no other threads.
TEST(loop_does_not_wait_for_absent_threads) {
  begin();
  std::atomic<bool> kept{false}, free{false};
  std::atomic<int> inside{0};
  std::thread other([&] {
    until([&] {
      parallel_items(threads, [&](int64_t, int64_t) {
        ++inside;
        const auto end = std::chrono::steady_clock::now() + 20ms;  // all threads may join
        while (inside < threads && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        if (inside < threads) {
          --inside;
          return;
        }
        kept = true;
        wait_for(free);
      });
      return kept.load();
    });
  });
  wait_for(kept);  // all helpers are in the other caller's loop
  std::set<int64_t> members;
  int64_t sum = 0;
  parallel_items(1000, [&](int64_t item, int64_t member) {
    members.insert(member);
    sum += item;
  });
  CHECK_EQUAL(sum, 999 * 1000 / 2);
  CHECK(members == std::set<int64_t>{0});
  free = true;
  other.join();
}

TEST(nested_loop_runs_on_the_calling_member) {
  begin();
  for (int round = 0; round < 100; ++round)
    parallel_items(8, [&](int64_t, int64_t member) {
      const auto self = std::this_thread::get_id();
      int64_t items = 0;
      parallel_items(8, [&](int64_t, int64_t inner) {
        CHECK(std::this_thread::get_id() == self);
        CHECK_EQUAL(inner, member);
        CHECK_EQUAL(thread_number(), member);
        ++items;
      });
      CHECK_EQUAL(items, 8);
    });
}

TEST(concurrent_callers_do_not_interfere) {
  begin();
  std::vector<std::thread> callers;
  std::atomic<int64_t> wrong{0};
  for (int caller = 0; caller < 12; ++caller)  // more than the pool has slots for
    callers.emplace_back([&] {
      for (int round = 0; round < 300; ++round) {
        std::atomic<int64_t> sum{0};
        parallel_for(1 << 12, 64, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) sum += i;
        });
        wrong += sum != int64_t{(1 << 12) - 1} * (1 << 12) / 2;
      }
    });
  for (std::thread& caller : callers) caller.join();
  CHECK_EQUAL(wrong.load(), 0);
}

TEST(chains_advance_one_position_at_a_time) {
  begin();
  std::vector<std::atomic<int64_t>> places(7);
  for (int round = 0; round < 100; ++round) {
    for (auto& place : places) place = 0;
    parallel_chains(7, 5, [&](int64_t chain, int64_t place, int64_t) {
      CHECK_EQUAL(places[static_cast<size_t>(chain)].exchange(place + 1), place);
    });
    for (auto& place : places) CHECK_EQUAL(place.load(), 5);
  }
}

// A helper that holds its items much longer than the caller would need for them, as if it had lost its processor.
TEST(helpers_that_cost_more_than_they_save_are_suspended) {
  begin();
  std::atomic<int> late{0};
  until([&] {
    parallel_items(8, [&](int64_t, int64_t member) {
      if (member == 0) return std::this_thread::sleep_for(50us);
      ++late;
      std::this_thread::sleep_for(8ms);
    });
    return late > 0;
  });
  bool alone = false;
  until([&] {
    std::atomic<int> others{0};
    parallel_items(64, [&](int64_t, int64_t member) {
      others += member != 0;
      if (member != 0) std::this_thread::sleep_for(8ms);
    });
    alone = others == 0;
    return alone;
  });
  // They are used again later.
  std::atomic<int> others{0};
  until([&] {
    parallel_items(16, [&](int64_t, int64_t member) {
      others += member != 0;
      std::this_thread::sleep_for(100us);
    });
    return others > 0;
  });
}

// ---- lent teams: threads that join for one call, arbitrarily late

int team_size = threads;
std::chrono::microseconds delay{0};

void fork_threads(void (*f)(void*), void* data, unsigned, unsigned) {
  std::vector<std::thread> others;
  for (int i = 1; i < team_size; ++i)
    others.emplace_back([f, data] {
      std::this_thread::sleep_for(delay);
      f(data);
    });
  f(data);
  for (std::thread& other : others) other.join();
}

TEST(lent_team_takes_items) {
  begin();
  const auto self = std::this_thread::get_id();
  std::set<std::thread::id> seen;
  std::mutex mutex;
  until([&] {
    std::atomic<int64_t> sum{0}, wrong{0};
    ThreadPool::with_team(&fork_threads, [&] {
      for (int round = 0; round < 50; ++round)
        parallel_items(64, [&](int64_t item, int64_t member) {
          sum += item;
          wrong += (member == 0) != (std::this_thread::get_id() == self) || member >= threads;
          std::this_thread::sleep_for(10us);
          const std::lock_guard lock(mutex);
          seen.insert(std::this_thread::get_id());
        });
    });
    CHECK_EQUAL(sum.load(), 50 * 63 * 64 / 2);
    CHECK_EQUAL(wrong.load(), 0);
    return seen.size() > 1;
  });
  parallel_items(64, [&](int64_t, int64_t member) { CHECK((member == 0) == (std::this_thread::get_id() == self)); });
}

TEST(lent_team_may_be_too_large_too_small_or_late) {
  begin();
  for (const int size : {1, 2, 3 * threads})
    for (const auto late : {0us, 2000us}) {
      team_size = size;
      delay = late;
      std::atomic<int64_t> sum{0}, wrong{0};
      for (int round = 0; round < 20; ++round)
        ThreadPool::with_team(&fork_threads, [&] {
          parallel_for(1 << 12, 64, [&](int64_t begin, int64_t end) { sum += end - begin; });
          parallel_items(32, [&](int64_t, int64_t member) { wrong += member < 0 || member >= threads; });
        });
      CHECK_EQUAL(sum.load(), 20 * (1 << 12));
      CHECK_EQUAL(wrong.load(), 0);
    }
  team_size = threads;
  delay = 0us;
}

TEST(exception_propagates_through_lent_team) {
  begin();
  for (int round = 0; round < 20; ++round)
    CHECK_THROWS(mpsgraph::DeviceError, ThreadPool::with_team(&fork_threads, [] { throw mpsgraph::DeviceError("!"); }));
  int inner = 0;
  ThreadPool::with_team(&fork_threads, [&] {  // a program that calls another one
    ThreadPool::with_team([](void (*)(void*), void*, unsigned, unsigned) { CHECK(false); }, [&] { ++inner; });
  });
  CHECK_EQUAL(inner, 1);
}

TEST(callers_use_separate_teams_concurrently) {
  begin();
  std::vector<std::thread> callers;
  std::atomic<int64_t> sum{0};
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] {
      for (int round = 0; round < 30; ++round)
        ThreadPool::with_team(&fork_threads, [&] { parallel_items(64, [&](int64_t item, int64_t) { sum += item; }); });
    });
  for (std::thread& caller : callers) caller.join();
  CHECK_EQUAL(sum.load(), 4 * 30 * 63 * 64 / 2);
}

TEST(team_is_lent_to_one_thread_within_a_scope) {
  begin();
  using mpsgraph::runtime::LentTeam;
  CHECK(!LentTeam::lent() && !LentTeam::current());
  {
    const LentTeam team(&fork_threads, [] { return threads; });
    CHECK(LentTeam::lent() && LentTeam::current() == &fork_threads);
    {
      const LentTeam small(&fork_threads, [] { return threads - 1; });
      CHECK(LentTeam::lent() && !LentTeam::current());
    }
    CHECK(LentTeam::current() == &fork_threads);
    bool elsewhere = true;
    std::thread([&] { elsewhere = LentTeam::lent(); }).join();
    CHECK(!elsewhere);
  }
  CHECK(!LentTeam::lent());
}

TEST(fewer_threads_are_used_when_fewer_are_set) {
  begin();
  mpsgraph::runtime::set_thread_count(1);
  parallel_items(64, [&](int64_t, int64_t member) { CHECK_EQUAL(member, 0); });
  CHECK_THROWS(mpsgraph::DeviceError, mpsgraph::runtime::set_thread_count(threads + 1));
  CHECK_THROWS(mpsgraph::DeviceError, mpsgraph::runtime::set_thread_count(-1));
  CHECK_EQUAL(mpsgraph::runtime::thread_count(), 1);
  mpsgraph::runtime::set_thread_count(0);
  CHECK_EQUAL(mpsgraph::runtime::thread_count(), threads);
}

}  // namespace
