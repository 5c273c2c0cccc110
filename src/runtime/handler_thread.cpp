// A queue of closures, and a thread that runs them one after another.
#include "runtime/handler_thread.h"

#include <deque>
#include <thread>

#include "mpsgraph/runtime/process.h"
#include "mpsgraph/runtime/profiler.h"
#include "runtime/worker.h"

namespace mpsgraph::runtime {

namespace {

class HandlerThread final : public Worker {
 public:
  // Never destroyed before its thread, because the thread holds a reference.
  static const std::shared_ptr<HandlerThread>& get() {
    static const auto& instance = *new std::shared_ptr<HandlerThread>(start());
    return instance;
  }

  void post(std::function<void()> task) {
    {
      std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    condition_.notify_one();
  }
  bool here() const { return this_worker() == &state_; }

  bool quiet() override {
    std::lock_guard lock(mutex_);
    return (tasks_.empty() && !busy_) || state_.blocked > 0;
  }
  bool blocked() override { return state_.blocked > 0; }
  void cancel_waits() override { state_.cancelled = true; }
  void finish() override {
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
    }
    condition_.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  bool finished() override { return false; }  // never finishes, because this thread lives as long as the process

 private:
  static std::shared_ptr<HandlerThread> start() {
    auto self = std::make_shared<HandlerThread>();
    self->thread_ = start_thread([self] { self->loop(); });
    try {
      register_worker(self);
    } catch (...) {
      self->finish();
      throw;
    }
    return self;
  }

  void loop() {
    this_worker() = &state_;
    Profiler::name_this_thread("handlers");
    std::unique_lock lock(mutex_);
    for (;;) {
      condition_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      busy_ = true;
      {
        auto task = std::move(tasks_.front());
        tasks_.pop_front();
        lock.unlock();
        task();
      }  // The closure is destroyed without holding the lock.
      lock.lock();
      busy_ = false;
    }
  }

  std::mutex mutex_;
  std::condition_variable condition_;
  std::deque<std::function<void()>> tasks_;
  bool busy_ = false, closing_ = false;
  WorkerThreadState state_;
  std::thread thread_;
};

}  // namespace

void start_handler_thread() { HandlerThread::get(); }

void post_handler(std::function<void()> task) { HandlerThread::get()->post(std::move(task)); }

bool on_handler_thread() { return this_worker() && HandlerThread::get()->here(); }

}  // namespace mpsgraph::runtime
