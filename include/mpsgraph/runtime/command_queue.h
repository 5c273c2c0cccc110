// CommandQueue: one thread that runs committed command buffers in order. Queues run beside each other.
//
// Work runs on the queue's thread, or, where it is short, on a thread that waits for it: two thread switches cost
// more than a small step takes. A queue that is dropped still finishes what was committed.
#pragma once

#include <memory>

#include "mpsgraph/export.h"
#include "mpsgraph/runtime/command_buffer.h"

namespace mpsgraph::runtime {

class Device;
class DeviceQueue;

class MPSGRAPH_API CommandQueue : public std::enable_shared_from_this<CommandQueue> {
 public:
  static std::shared_ptr<CommandQueue> create(Device& device);
  ~CommandQueue();
  CommandQueue(const CommandQueue&) = delete;
  CommandQueue& operator=(const CommandQueue&) = delete;

  std::shared_ptr<CommandBuffer> command_buffer() { return std::make_shared<CommandBuffer>(shared_from_this()); }
  Device& device() const { return device_; }
  DeviceQueue* device_queue() const;  // of an asynchronous device; null where work runs on the queue's thread
  // Takes no more work, cancels event waits, finishes what was committed, joins. Not from its own handlers' work.
  void close();

  void check_usable() const;  // DeviceError in a forked child
  void enqueue(std::shared_ptr<CommandBuffer> buffer);  // by CommandBuffer::commit
  // Runs the buffer on this thread if it is the next one: at once if the queue is idle, or in place of the queue's
  // thread if that has not begun with it. False: nothing has happened.
  bool run_at_once(const std::shared_ptr<CommandBuffer>& buffer);
  bool run_instead(const std::shared_ptr<CommandBuffer>& buffer);

 private:
  class Thread;
  CommandQueue(Device& device, std::shared_ptr<Thread> thread) : device_(device), thread_(std::move(thread)) {}
  Device& device_;
  std::shared_ptr<Thread> thread_;
};

}  // namespace mpsgraph::runtime
