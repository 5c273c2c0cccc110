// The queue's thread owns its state, so a queue may be dropped by anybody, even by that thread.
#include "runtime/command_queue.h"

#include <deque>
#include <thread>

#include "core/errors.h"
#include "runtime/device.h"
#include "runtime/handler_thread.h"
#include "runtime/profiler.h"

namespace mpsgraph::runtime {

class CommandQueue::Thread final : public Worker {
 public:
  static std::shared_ptr<Thread> start(std::unique_ptr<DeviceQueue> device) {
    start_handler_thread();
    auto self = std::make_shared<Thread>();
    self->device_ = std::move(device);
    self->thread_ = std::thread([self] { self->loop(); });
    try {
      register_worker(self);
    } catch (...) {
      self->finish();
      throw;
    }
    return self;
  }

  void enqueue(std::shared_ptr<CommandBuffer> buffer) {
    {
      std::lock_guard lock(mutex_);
      if (closing_ || shutting_down())
        throw DeviceError("[commit] the command queue is closed and takes no more command buffers");
      buffers_.push_back(std::move(buffer));
    }
    condition_.notify_one();
  }

  // Ends the loop when everything is done, without waiting for it.
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
    for (;;) {
      condition_.wait(lock, [this] { return closing_ || !buffers_.empty(); });
      if (buffers_.empty()) break;
      auto buffer = std::move(buffers_.front());
      buffers_.pop_front();
      busy_ = true;
      ++in_flight_;
      lock.unlock();
      buffer->execute(device_.get(), [this] {
        // Under the lock, because this object may go as soon as the loop has seen that nothing is in flight.
        std::lock_guard done(mutex_);
        --in_flight_;
        condition_.notify_all();
      });
      buffer.reset();
      lock.lock();
      busy_ = false;
    }
    condition_.wait(lock, [this] { return in_flight_ == 0; });
    lock.unlock();
    device_.reset();  // now, and not when another queue looks for threads that have ended
    finished_ = true;
  }

  std::mutex mutex_;
  std::condition_variable condition_;
  std::deque<std::shared_ptr<CommandBuffer>> buffers_;
  bool busy_ = false, closing_ = false;
  int in_flight_ = 0;  // command buffers that are being run, here or by the device
  std::unique_ptr<DeviceQueue> device_;
  std::atomic<bool> finished_{false};
  WorkerThreadState state_;
  std::mutex join_mutex_;
  std::thread thread_;
};

std::shared_ptr<CommandQueue> CommandQueue::create(Device& device) {
  device.check_usable();
  return std::shared_ptr<CommandQueue>(new CommandQueue(device, Thread::start(device.backend().make_queue())));
}

CommandQueue::~CommandQueue() {
  if (thread_->guard.forked()) {
    // Its condition variable still counts a thread that is not there, and would wait for it when destroyed.
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

void CommandQueue::enqueue(std::shared_ptr<CommandBuffer> buffer) {
  check_usable();
  thread_->enqueue(std::move(buffer));
}

}  // namespace mpsgraph::runtime
