// CommandQueue: one thread that runs committed command buffers in order. Queues run beside each other.
//
// All kernels run on queue threads, never on the caller's. A queue that is dropped still finishes what was committed.
#pragma once

#include <memory>

#include "runtime/command_buffer.h"

namespace mpsgraph::runtime {

class Device;

class CommandQueue : public std::enable_shared_from_this<CommandQueue> {
 public:
  static std::shared_ptr<CommandQueue> create(Device& device);
  ~CommandQueue();
  CommandQueue(const CommandQueue&) = delete;
  CommandQueue& operator=(const CommandQueue&) = delete;

  std::shared_ptr<CommandBuffer> command_buffer() { return std::make_shared<CommandBuffer>(shared_from_this()); }
  Device& device() const { return device_; }
  // Takes no more work, cancels event waits, finishes what was committed, joins. Not from its own handlers' work.
  void close();

  void check_usable() const;                               // DeviceError in a forked child
  void enqueue(std::shared_ptr<CommandBuffer> buffer);     // by CommandBuffer::commit

 private:
  class Thread;
  CommandQueue(Device& device, std::shared_ptr<Thread> thread) : device_(device), thread_(std::move(thread)) {}
  Device& device_;
  std::shared_ptr<Thread> thread_;
};

}  // namespace mpsgraph::runtime
