// CommandBuffer: work, waits and signals that a queue runs in the order they were encoded.
//
// It is encoded on any one thread and committed once. On an asynchronous device the queue's thread submits the
// commands and goes on; else it runs them. When a command throws, the rest is skipped, events that it was to
// signal fail, and the error reaches wait_until_completed(). Handlers run on the runtime's handler thread, without any
// lock; an exception in one reaches the same place. Completed handlers run after success and failure alike.
#pragma once

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

class MPSGRAPH_API CommandBuffer : public std::enable_shared_from_this<CommandBuffer> {
 public:
  using Handler = std::function<void(CommandBuffer&)>;
  explicit CommandBuffer(std::shared_ptr<CommandQueue> queue);  // use CommandQueue::command_buffer()

  // `label` names the work in profiles. DeviceError after commit.
  void encode(std::function<void()> work, std::string label);  // runs on the host, after all work encoded before it
  // Is given the device's commands to encode into; null where work runs on the queue's thread.
  using DeviceWork = std::function<void(DeviceCommands*)>;
  // `brief`: takes so little time that a thread that waits for it may run it itself.
  void encode_device_work(DeviceWork work, std::string label, bool brief = false);
  void encode_wait_for_event(std::shared_ptr<SharedEvent> event, uint64_t value);  // the event's default time-out
  void encode_wait_for_event(std::shared_ptr<SharedEvent> event, uint64_t value, Timeout timeout);
  void encode_signal_event(std::shared_ptr<SharedEvent> event, uint64_t value);
  void add_scheduled_handler(Handler handler);  // when the queue has reached this buffer
  void add_completed_handler(Handler handler);  // when its work is done or has failed

  // What has been encoded so far, and the way back to it: for work of several commands of which one can fail while it
  // is encoded. DeviceError after commit.
  struct Mark {
    size_t commands = 0, scheduled_handlers = 0, completed_handlers = 0;
  };
  Mark mark() const;
  void rewind(const Mark& mark);

  // DeviceError the second time. `waiting`: the caller waits for it next; if all work is short and the queue has
  // nothing else to do, it is done when this returns.
  void commit(bool waiting = false);
  // Until work and handlers are done (from a handler: the work only). Throws what they threw, TimeoutError when it
  // takes longer, DeviceError before commit.
  void wait_until_completed(Timeout timeout = {});
  bool wait_for(Timeout timeout);  // the same without throwing: false when not done in time
  bool brief() const { return brief_; }  // from commit on
  // For a thread that will wait however long it takes: runs short work here if the queue has not begun with it.
  void hasten();
  // What wait_until_completed() does after the wait.
  void rethrow() const;
  [[noreturn]] void throw_timeout(double timeout) const;
  bool done() const;
  CommandBufferStatus status() const;
  std::exception_ptr error() const;  // null when there is none (yet)
  CommandQueue& queue() const { return *queue_; }

  // By the queue's thread. `device`: null where work runs on that thread. `completed` is called once, when the work is
  // done and the handlers stand in line, which may need a thread that ends with the last queue; on a thread of the
  // device's if the work has been submitted.
  void execute(DeviceQueue* device, std::function<void()> completed);

 private:
  struct Command {
    DeviceWork work;  // empty: a wait or a signal
    std::string label;
    std::shared_ptr<SharedEvent> event;
    uint64_t value = 0;
    bool waits = false;
    Timeout timeout;
    bool brief = false;
  };
  void check_open(std::string_view what) const;
  void require_open(std::string_view what) const;  // with mutex_ held
  struct OnDevice;
  void run_command(Command& command, OnDevice* device);
  void record_device_run(const OnDevice& device) noexcept;
  void complete(std::exception_ptr error, const std::function<void()>& completed);
  void post_handlers(std::vector<Handler> handlers);
  bool finished() const;  // with mutex_ held

  const std::shared_ptr<CommandQueue> queue_;
  std::vector<Command> commands_;
  std::vector<Handler> scheduled_handlers_, completed_handlers_;

  mutable std::mutex mutex_;
  std::condition_variable condition_;
  CommandBufferStatus status_ = CommandBufferStatus::not_enqueued;
  bool work_done_ = false;
  bool brief_ = false;  // all of its commands are; known from commit on
  int handlers_pending_ = 0;
  std::exception_ptr error_;

  // While a profile is taken, else zero: a number for it, and when it was committed.
  struct Commit {
    uint64_t session = 0, number = 0;
    std::chrono::steady_clock::time_point at;
  };
  Commit commit_;
  std::string label() const;
};

}  // namespace mpsgraph::runtime
