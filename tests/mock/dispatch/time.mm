// Times of dispatch functions, and dispatch_once.
#include <dispatch/dispatch.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

dispatch_time_t dispatch_time(dispatch_time_t when, int64_t delta) {
  if (when == DISPATCH_TIME_FOREVER) return when;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  if (when == DISPATCH_TIME_NOW) {
    when = static_cast<dispatch_time_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  }
  if (delta >= 0) {
    const auto moved = when + static_cast<uint64_t>(delta);
    return moved < INT64_MAX ? moved : static_cast<dispatch_time_t>(DISPATCH_TIME_FOREVER);
  }
  const uint64_t back = -static_cast<uint64_t>(delta);
  return back < when ? when - back : 1;
}

// Token values: 0 not run, 1 running, -1 done. One lock serves all tokens and is held only while a token changes.
void dispatch_once(dispatch_once_t* token, NS_NOESCAPE dispatch_block_t block) {
  static std::mutex* const lock = new std::mutex;
  static std::condition_variable* const changed = new std::condition_variable;
  const std::atomic_ref<dispatch_once_t> state(*token);
  if (state.load(std::memory_order_acquire) == -1) return;
  {
    std::unique_lock guard(*lock);
    changed->wait(guard, [&] { return state.load(std::memory_order_relaxed) != 1; });
    if (state.load(std::memory_order_relaxed) == -1) return;
    state.store(1, std::memory_order_relaxed);
  }
  block();
  const std::lock_guard guard(*lock);
  state.store(-1, std::memory_order_release);
  changed->notify_all();
}
