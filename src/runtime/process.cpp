// Fork detection, by a counter that a fork handler increments in the child, and the list of threads that shutdown()
// ends.
#include "mpsgraph/runtime/process.h"

#include <pthread.h>

#include <cstdlib>
#include <system_error>
#include <thread>
#include <vector>

#include "mpsgraph/core/errors.h"
#include "runtime/handler_thread.h"
#include "runtime/thread_storage.h"
#include "runtime/worker.h"

#ifdef __GLIBC__
#include <execinfo.h>
#endif

namespace mpsgraph::runtime {

namespace {

std::atomic<uint64_t> fork_count{0};

uint64_t fork_generation() {
  static const bool registered = pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1); }) == 0;
  (void)registered;
  return fork_count.load(std::memory_order_relaxed);
}

// The list of the runtime's threads. It is never destroyed, because threads may outlive static destruction if an
// application exits without calling shutdown().
struct Threads {
  ForkGuard guard;
  std::mutex mutex;
  std::vector<std::shared_ptr<Worker>> workers;
  std::atomic<bool> shutting_down{false};
  std::mutex shutdown_mutex;
};

Threads& threads() {
  static Threads& instance = *new Threads;
  return instance;
}

// Waits until all workers are idle, i.e. blocked until code outside the runtime signals them. A thread that has been
// signaled but has not woken up yet still looks blocked, so all must be idle in several consecutive checks.
void wait_until_quiet(const std::vector<std::shared_ptr<Worker>>& workers) {
  constexpr int steady = 10;
  for (int seen = 0; seen < steady;) {
    bool quiet = true, blocked = false;
    for (auto& worker : workers) {
      quiet = quiet && worker->quiet();
      blocked = blocked || worker->blocked();
    }
    seen = quiet ? seen + 1 : 0;
    if (quiet && !blocked && seen >= 2) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

#ifdef __GLIBC__
// An exception that leaves std::call_once or pthread_once makes glibc load libgcc_s, and glibc aborts if there is no
// memory for that. backtrace() loads it in advance.
[[maybe_unused]] const int unwinder_loaded = [] {
  void* frame = nullptr;
  return backtrace(&frame, 1);
}();
#endif

// For the thread that loads the library.
[[maybe_unused]] const bool reserved_at_start = reserve_thread_storage();

}  // namespace

ForkGuard::ForkGuard() : generation_(fork_generation()) {}

bool ForkGuard::forked() const { return generation_ != fork_count.load(std::memory_order_relaxed); }

void ForkGuard::check(std::string_view what) const {
  if (forked())
    throw DeviceError(cat(what,
                          " was created before fork, and its threads do not exist in this process; start worker "
                          "processes with spawn, or use the device only after the fork"));
}

WorkerThreadState*& this_worker() {
  static thread_local WorkerThreadState* state = nullptr;
  return state;
}

BlockedScope::BlockedScope() {
  if (auto* worker = this_worker()) worker->blocked.fetch_add(1);
}
BlockedScope::~BlockedScope() {
  if (auto* worker = this_worker()) worker->blocked.fetch_sub(1);
}

void register_worker(std::shared_ptr<Worker> worker) {
  Threads& all = threads();
  all.guard.check("the runtime");
  // shutdown() must run at exit before static objects that kernels use are destroyed, so it is registered after these
  // objects have been constructed.
  static const bool at_exit = std::atexit(shutdown) == 0;
  (void)at_exit;
  std::vector<std::shared_ptr<Worker>> done;
  {
    std::lock_guard lock(all.mutex);
    if (all.shutting_down) throw DeviceError("the runtime has been shut down and accepts no more work");
    std::erase_if(all.workers, [&](auto& other) {
      if (other->finished()) done.push_back(other);
      return other->finished();
    });
    all.workers.push_back(std::move(worker));
  }
  for (auto& other : done) other->finish();
}

std::thread start_thread(std::function<void()> loop) {
  enum State : int { starting, running, failed };
  const auto state = std::make_shared<std::atomic<int>>(starting);
  try {
    std::thread thread([state, loop = std::move(loop)] {
      const bool reserved = reserve_thread_storage();
      state->store(reserved ? running : failed);
      state->notify_one();
      if (reserved) loop();
    });
    state->wait(starting);
    if (*state == running) return thread;
    thread.join();
    throw OutOfMemoryError("there is too little memory to start a thread");
  } catch (const std::system_error& error) {
    throw OutOfMemoryError(cat("the system cannot start a thread (", error.code().message(),
                               "): there is too little memory, or the process has as many threads as it may have"));
  }
}

bool shutting_down() { return threads().shutting_down; }

void shutdown() {
  Threads& all = threads();
  if (all.guard.forked()) return;
  std::lock_guard once(all.shutdown_mutex);
  std::vector<std::shared_ptr<Worker>> workers;
  {
    std::lock_guard lock(all.mutex);
    all.shutting_down = true;
    workers = all.workers;
  }
  if (workers.empty()) return;
  wait_until_quiet(workers);
  for (auto& worker : workers) worker->cancel_waits();
  // The handler thread is registered first and ends last, because all other workers need it until they have ended.
  for (size_t i = workers.size(); i-- > 0;) workers[i]->finish();
  std::lock_guard lock(all.mutex);
  all.workers.clear();
}

}  // namespace mpsgraph::runtime
