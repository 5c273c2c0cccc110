// Command queues. A queue's thread owns the queue's state, so any thread, even the queue's own, may release the queue.
#include "mpsgraph/runtime/command_queue.h"

#include <chrono>
#include <deque>
#include <optional>
#include <thread>

#include "mpsgraph/core/errors.h"
#include "mpsgraph/runtime/device.h"
#include "mpsgraph/runtime/profiler.h"
#include "runtime/backend.h"
#include "runtime/device_work.h"
#include "runtime/handler_thread.h"
#include "runtime/worker.h"

namespace mpsgraph::runtime {

class CommandQueue::Thread final : public Worker {
 public:
  static std::shared_ptr<Thread> start(Backend& backend) {
    start_handler_thread();
    auto self = std::make_shared<Thread>(backend);
    self->device_ = backend.make_queue();
    self->thread_ = start_thread([self] { self->loop(); });
    try {
      register_worker(self);
    } catch (...) {
      self->finish();
      throw;
    }
    return self;
  }

  explicit Thread(Backend& backend) : backend_(backend) {}

  DeviceQueue* device() const { return device_.get(); }

  void enqueue(std::shared_ptr<CommandBuffer> buffer) {
    bool calls;
    {
      std::lock_guard lock(mutex_);
      if (closing_ || shutting_down())
        throw DeviceError("[commit] the command queue is closed and accepts no more command buffers");
      buffers_.push_back(std::move(buffer));
      ++enqueued_;
      calls = !watching_ || called();
    }
    if (calls) condition_.notify_one();
  }

  // Checks that the buffer can run and removes it from the queue in one step under the lock, so that buffers run in
  // queue order whichever thread runs them.
  bool run_at_once(const std::shared_ptr<CommandBuffer>& buffer) {
    {
      std::lock_guard lock(mutex_);
      if (device_ || closing_ || shutting_down() || busy_ || !buffers_.empty()) return false;
      begin();
    }
    run_here(*buffer);
    return true;
  }
  bool run_instead(const std::shared_ptr<CommandBuffer>& buffer) {
    {
      std::lock_guard lock(mutex_);
      if (device_ || busy_ || buffers_.empty() || buffers_.front() != buffer) return false;
      buffers_.pop_front();
      begin();
      ++taken_in_a_row_;
    }
    run_here(*buffer);
    return true;
  }

  // Tells the queue's loop to end once all work is done, without waiting for the loop to end.
  void close() {
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
    }
    condition_.notify_one();
  }

  bool quiet() override {
    std::lock_guard lock(mutex_);
    return (buffers_.empty() && !busy_ && in_flight_ == 0) || state_.blocked > 0;
  }
  bool blocked() override { return state_.blocked > 0; }
  void cancel_waits() override { state_.cancelled = true; }
  void finish() override {
    close();
    std::lock_guard lock(join_mutex_);
    if (thread_.joinable()) thread_.join();
  }
  bool finished() override { return finished_; }

  const ForkGuard guard;

 private:
  void loop() {
    this_worker() = &state_;
    static std::atomic<int> numbers{0};
    Profiler::name_this_thread(cat("command queue ", ++numbers));
    std::unique_lock lock(mutex_);
    while (true) {
      const auto something = [this] { return !busy_ && (closing_ || !buffers_.empty()); };
      condition_.wait(lock, something);
      if (buffers_.empty()) break;
      if (taken_by_a_waiter(lock)) {
        if (taken_in_a_row_ >= habit) watch(lock);
        continue;
      }
      taken_in_a_row_ = 0;
      auto buffer = std::move(buffers_.front());
      buffers_.pop_front();
      begin();
      lock.unlock();
      buffer->execute(device_.get(), [this] { completed(); });
      buffer.reset();
      lock.lock();
      busy_ = false;
    }
    condition_.wait(lock, [this] { return in_flight_ == 0; });
    lock.unlock();
    device_.reset();  // released here rather than when another queue cleans up threads that have ended
    finished_ = true;
  }

  bool alone() const { return !device_ && !closing_ && buffers_.size() == 1 && buffers_.front()->brief(); }
  bool called() const { return !busy_ && (closing_ || (!buffers_.empty() && !alone())); }

  // Briefly reserves a lone short buffer for the thread that committed the buffer, because this thread often waits for
  // the buffer next. Otherwise the committing thread and the queue's thread would compete for the buffer, and whenever
  // the queue's thread won, the thread teams of both threads would be active.
  bool taken_by_a_waiter(std::unique_lock<std::mutex>& lock) {
    const auto left = [this] { return alone() && !busy_; };
    while (left()) {
      const uint64_t seen = enqueued_;
      const bool changed = condition_.wait_for(lock, left_alone, [&] { return !left(); });
      if (!changed && enqueued_ == seen) break;  // No thread is waiting for the buffer.
    }
    return busy_ || buffers_.empty();
  }

  // If waiting threads take every buffer, waking this thread for each buffer would only take a processor away from the
  // threads of a kernel. Instead, this thread polls for a buffer that no waiting thread took. It stops polling when
  // there is other work, or when there has been no work for a while.
  void watch(std::unique_lock<std::mutex>& lock) {
    watching_ = true;
    for (auto last = Clock::now(); Clock::now() < last + rest_after;) {
      const uint64_t seen = enqueued_;
      if (condition_.wait_for(lock, look_every, [this] { return called(); })) break;
      if (enqueued_ != seen) last = Clock::now();
      // No waiting thread took the buffer in the meantime.
      if (enqueued_ == seen && !busy_ && !buffers_.empty()) break;
    }
    watching_ = false;
  }

  void begin() {  // The caller must hold mutex_.
    busy_ = true;
    ++in_flight_;
  }

  void completed() {
    // Notify with the lock held. As soon as the notified loop sees that no work is in flight, it may end and this
    // object may be destroyed.
    std::lock_guard done(mutex_);
    --in_flight_;
    condition_.notify_all();
  }

  // The caller keeps the queue, and thus this object, alive.
  void run_here(CommandBuffer& buffer) {
    buffer.execute(nullptr, [] {});
    std::lock_guard done(mutex_);
    --in_flight_;
    busy_ = false;
    if (closing_ || !buffers_.empty()) condition_.notify_all();
  }

  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds rest_after{20};
  static constexpr std::chrono::microseconds left_alone{200};
  static constexpr std::chrono::milliseconds look_every{10};
  static constexpr int habit = 8;

  Backend& backend_;  // The backend lives as long as the process.
  std::mutex mutex_;
  std::condition_variable condition_;
  std::deque<std::shared_ptr<CommandBuffer>> buffers_;
  bool busy_ = false, closing_ = false;  // busy_: whether any thread is running a command buffer of this queue
  uint64_t enqueued_ = 0;  // number of command buffers enqueued so far
  int taken_in_a_row_ = 0;  // number of consecutive buffers run by threads that waited for them
  bool watching_ = false;  // whether the queue's thread is polling for short buffers
  int in_flight_ = 0;  // number of command buffers that are running on a thread or on the device
  std::unique_ptr<DeviceQueue> device_;
  std::atomic<bool> finished_{false};
  WorkerThreadState state_;
  std::mutex join_mutex_;
  std::thread thread_;
};

std::shared_ptr<CommandQueue> CommandQueue::create(Device& device) {
  device.check_usable();
  return std::shared_ptr<CommandQueue>(new CommandQueue(device, Thread::start(device.backend())));
}

CommandQueue::~CommandQueue() {
  if (thread_->guard.forked()) {
    // In a forked child, leak the thread object: its condition variable still counts a thread that does not exist here,
    // and its destructor would wait for it.
    new std::shared_ptr<Thread>(std::move(thread_));
    return;
  }
  thread_->close();
}

void CommandQueue::close() {
  check_usable();
  thread_->cancel_waits();
  thread_->finish();
}

void CommandQueue::check_usable() const { thread_->guard.check("the command queue"); }

DeviceQueue* CommandQueue::device_queue() const { return thread_->device(); }

void CommandQueue::enqueue(std::shared_ptr<CommandBuffer> buffer) {
  check_usable();
  thread_->enqueue(std::move(buffer));
}

bool CommandQueue::run_at_once(const std::shared_ptr<CommandBuffer>& buffer) {
  check_usable();
  return thread_->run_at_once(buffer);
}

bool CommandQueue::run_instead(const std::shared_ptr<CommandBuffer>& buffer) {
  check_usable();
  return thread_->run_instead(buffer);
}

}  // namespace mpsgraph::runtime
