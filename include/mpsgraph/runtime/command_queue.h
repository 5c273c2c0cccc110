// CommandQueue: one thread that runs committed command buffers in order. Several queues run concurrently.
//
// Work runs on the queue's thread. Brief work may run on a thread that waits for it instead, because switching to the
// queue's thread and back takes longer than a small step. A queue that is destroyed still completes the buffers that
// were committed.
#pragma once

#include <memory>

#include "mpsgraph/export.h"
#include "mpsgraph/runtime/command_buffer.h"

namespace mpsgraph::runtime {

class Device;
class DeviceQueue;

// An in-order queue of command buffers on a device.
class MPSGRAPH_API CommandQueue : public std::enable_shared_from_this<CommandQueue> {
 public:
  static std::shared_ptr<CommandQueue> create(Device& device);
  ~CommandQueue();
  CommandQueue(const CommandQueue&) = delete;
  CommandQueue& operator=(const CommandQueue&) = delete;

  std::shared_ptr<CommandBuffer> command_buffer() { return std::make_shared<CommandBuffer>(shared_from_this()); }
  Device& device() const { return device_; }
  DeviceQueue* device_queue() const;  // the queue of an asynchronous device; null if work runs on this queue's thread
  // Accepts no more work, cancels event waits, completes the committed buffers, and joins the thread. Must not be
  // called from the work or handlers of this queue.
  void close();

  void check_usable() const;  // throws DeviceError in a forked child
  void enqueue(std::shared_ptr<CommandBuffer> buffer);  // called by CommandBuffer::commit
  // run_at_once() runs `buffer` on the calling thread if the queue is idle. run_instead() runs `buffer` on the calling
  // thread if `buffer` is next in the queue and the queue's thread has not begun it. Otherwise, both functions return
  // false and do nothing.
  bool run_at_once(const std::shared_ptr<CommandBuffer>& buffer);
  bool run_instead(const std::shared_ptr<CommandBuffer>& buffer);

 private:
  class Thread;
  CommandQueue(Device& device, std::shared_ptr<Thread> thread) : device_(device), thread_(std::move(thread)) {}
  Device& device_;
  std::shared_ptr<Thread> thread_;
};

}  // namespace mpsgraph::runtime
