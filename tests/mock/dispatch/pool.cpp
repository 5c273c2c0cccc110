// The thread pool behind all queues. A thread is created if no other thread is idle. Threads are kept and, as in
// Apple's implementation, never joined.
#include "dispatch/pool.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "mock.h"

extern "C" {
void* objc_autoreleasePoolPush(void);
void objc_autoreleasePoolPop(void* pool);
}

namespace mock {

namespace {

constexpr size_t kMaximalThreads = 256;

struct Pool {
  std::mutex lock;
  std::condition_variable changed, at_rest;
  std::deque<std::function<void()>> jobs;
  size_t threads = 0, idle = 0;
};

Pool& pool() {
  static Pool* const instance = new Pool;  // never destroyed, because the threads outlive main
  return *instance;
}

void work() {
  std::unique_lock lock(pool().lock);
  for (;;) {
    if (++pool().idle == pool().threads && pool().jobs.empty()) pool().at_rest.notify_all();
    pool().changed.wait(lock, [] { return !pool().jobs.empty(); });
    --pool().idle;
    std::function<void()> job = std::move(pool().jobs.front());
    pool().jobs.pop_front();
    lock.unlock();
    void* const autorelease_pool = objc_autoreleasePoolPush();
    job();
    job = nullptr;
    objc_autoreleasePoolPop(autorelease_pool);
    lock.lock();
  }
}

struct Timers {
  std::mutex lock;
  std::condition_variable changed;
  std::multimap<uint64_t, std::function<void()>> jobs;
  bool running = false;
};

Timers& timers() {
  static Timers* const instance = new Timers;
  return *instance;
}

void keep_time() {
  std::unique_lock lock(timers().lock);
  for (;;) {
    timers().changed.wait(lock, [] { return !timers().jobs.empty(); });
    const auto first = timers().jobs.begin();
    const std::chrono::steady_clock::time_point due{std::chrono::nanoseconds(first->first)};
    if (std::chrono::steady_clock::now() < due) {
      timers().changed.wait_until(lock, due);
      continue;  // an earlier job may have been added
    }
    submit(std::move(first->second));
    timers().jobs.erase(first);
  }
}

}  // namespace

void submit(std::function<void()> job) {
  const std::lock_guard lock(pool().lock);
  pool().jobs.push_back(std::move(job));
  if (pool().idle >= pool().jobs.size()) {
    pool().changed.notify_one();
    return;
  }
  if (pool().threads == kMaximalThreads) return;  // the next idle thread takes it
  ++pool().threads;
  std::thread(work).detach();
}

void submit_at(uint64_t time, std::function<void()> job) {
  const std::lock_guard lock(timers().lock);
  timers().jobs.emplace(time, std::move(job));
  timers().changed.notify_one();
  if (timers().running) return;
  timers().running = true;
  std::thread(keep_time).detach();
}

}  // namespace mock

int mock_wait_until_idle(double seconds) {
  using mock::pool;
  std::unique_lock lock(pool().lock);
  return pool().at_rest.wait_for(lock, std::chrono::duration<double>(seconds),
                                 [] { return pool().idle == pool().threads && pool().jobs.empty(); });
}
