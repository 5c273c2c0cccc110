// CommandBuffer: work, event waits and event signals that a queue executes in the order in which they were encoded.
//
// A command buffer is encoded by one thread at a time and committed once. On an asynchronous device, the queue's thread
// submits the commands and continues; otherwise it runs them. If a command throws, the remaining commands are skipped,
// the events that they would have signaled fail, and wait_until_completed() rethrows the error. Handlers run on the
// runtime's handler thread without any lock held; wait_until_completed() rethrows their exceptions too. Completed
// handlers run after both success and failure.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mpsgraph/export.h"
#include "mpsgraph/runtime/shared_event.h"

namespace mpsgraph::runtime {

class CommandQueue;
class DeviceCommands;
class DeviceQueue;

enum class CommandBufferStatus { not_enqueued, committed, scheduled, completed, error };
MPSGRAPH_API std::string_view name(CommandBufferStatus status);

// A list of commands that is encoded once and executed by a queue.
class MPSGRAPH_API CommandBuffer : public std::enable_shared_from_this<CommandBuffer> {
 public:
  using Handler = std::function<void(CommandBuffer&)>;
  explicit CommandBuffer(std::shared_ptr<CommandQueue> queue);  // callers use CommandQueue::command_buffer() instead

  // Appends work that runs on the host after everything encoded before it. `label` names the work in profiles. Throws
  // DeviceError after commit().
  void encode(std::function<void()> work, std::string label);
  // A function that performs work for the device. Its argument is the object into which to encode the device's
  // commands, or null if the work runs on the queue's thread.
  using DeviceWork = std::function<void(DeviceCommands*)>;
  // Appends work for the device. `brief` marks work that is so short that a thread waiting for the work may run it
  // itself.
  void encode_device_work(DeviceWork work, std::string label, bool brief = false);
  // fails after the event's default timeout
  void encode_wait_for_event(std::shared_ptr<SharedEvent> event, uint64_t value);
  void encode_wait_for_event(std::shared_ptr<SharedEvent> event, uint64_t value, Timeout timeout);
  void encode_signal_event(std::shared_ptr<SharedEvent> event, uint64_t value);
  void add_scheduled_handler(Handler handler);  // called when the queue reaches this buffer
  void add_completed_handler(Handler handler);  // called when the work is done or has failed

  // mark() records what has been encoded so far, and rewind() discards everything encoded after a mark. Use them for
  // work that consists of several commands if encoding a later command may fail. Both throw DeviceError after commit().
  struct Mark {
    size_t commands = 0, scheduled_handlers = 0, completed_handlers = 0;
  };
  Mark mark() const;
  void rewind(const Mark& mark);

  // Submits the buffer to its queue. Throws DeviceError if the buffer was already committed. Pass true for `waiting` if
  // the caller will wait for the buffer next. If all of the buffer's work is brief and the queue is idle, the buffer is
  // then completed when this function returns.
  void commit(bool waiting = false);
  // Waits until work and handlers are done; when called from a handler, waits only for the work. Rethrows the errors of
  // work and handlers. Throws TimeoutError if they are not done in time, and DeviceError before commit().
  void wait_until_completed(Timeout timeout = {});
  // Like wait_until_completed(), but returns false on a timeout and does not rethrow errors of the work.
  bool wait_for(Timeout timeout);
  bool brief() const { return brief_; }  // valid after commit()
  // For a thread that will wait without a timeout: runs brief work on this thread if the queue has not begun it.
  void hasten();
  // Throws the error that wait_until_completed() would throw after its wait.
  void rethrow() const;
  [[noreturn]] void throw_timeout(double timeout) const;
  // Cancels the work that is not done yet. The buffer then ends with CancelledError, after at most one kernel or part
  // of a kernel, and the variables of the run that was active have their values from before that run. Work that a
  // device executes asynchronously is not interrupted. Returns immediately.
  void cancel() { cancelled_ = true; }
  // Waits like wait_until_completed(), but cancels the work if it is not done in time.
  void wait_or_cancel(Timeout timeout);
  // Throws TimeoutError if the work was cancelled; otherwise does the same as rethrow(). For callers that have called
  // cancel() after a timeout and have then waited for the end of the work.
  void rethrow_after_timeout(double timeout) const;
  bool done() const;
  CommandBufferStatus status() const;
  std::exception_ptr error() const;  // null if no error has occurred so far
  CommandQueue& queue() const { return *queue_; }

  // Called by the queue's thread. `device` is null if work runs on that thread. `completed` is called exactly once,
  // when the work is done and the handlers have been queued. The handlers must be queued first, because they may need a
  // thread that ends with the last queue. If the work was submitted to a device, `completed` is called on one of the
  // device's threads.
  void execute(DeviceQueue* device, std::function<void()> completed);

 private:
  struct Command {
    DeviceWork work;  // empty if the command is a wait or a signal
    std::string label;
    std::shared_ptr<SharedEvent> event;
    uint64_t value = 0;
    bool waits = false;
    Timeout timeout;
    bool brief = false;
  };
  void check_open(std::string_view what) const;
  void require_open(std::string_view what) const;  // the caller must hold mutex_
  struct OnDevice;
  void run_command(Command& command, OnDevice* device);
  void record_device_run(const OnDevice& device) noexcept;
  void complete(std::exception_ptr error, const std::function<void()>& completed);
  void post_handlers(std::vector<Handler> handlers);
  bool finished() const;  // the caller must hold mutex_

  const std::shared_ptr<CommandQueue> queue_;
  std::vector<Command> commands_;
  std::vector<Handler> scheduled_handlers_, completed_handlers_;

  mutable std::mutex mutex_;
  std::condition_variable condition_;
  CommandBufferStatus status_ = CommandBufferStatus::not_enqueued;
  bool work_done_ = false;
  bool brief_ = false;  // whether all commands of the buffer are brief; known after commit()
  bool nested_ = false;  // whether a custom operation of the buffer that the queue is executing committed it
  int handlers_pending_ = 0;
  std::atomic<bool> cancelled_{false};
  std::exception_ptr error_;

  // The buffer's number and time of commit in the current profile; zero if no profile is being recorded.
  struct Commit {
    uint64_t session = 0, number = 0;
    std::chrono::steady_clock::time_point at;
  };
  Commit commit_;
  std::string label() const;
};

}  // namespace mpsgraph::runtime
