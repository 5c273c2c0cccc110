// The interface that an asynchronous device, such as a GPU, provides to command queues and shared events.
//
// A queue's thread encodes each command buffer into DeviceCommands and commits them without waiting, so the next
// command buffer is encoded while the device works. Devices without a DeviceQueue run their work on the queue's thread.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

namespace mpsgraph::runtime {

// A point in committed work on the device. Other queues of the same device can wait for this point on the device,
// without the host.
class DeviceFence {
 public:
  using Outcome = std::exception_ptr;  // the error of the work; null on success
  virtual ~DeviceFence() = default;
  virtual void release() = 0;  // called by the host if the work before the fence failed
  // Calls `then` once, as soon as the outcome of the work before the fence is known. Reaching the fence does not mean
  // that this work succeeded, because the device continues after failed work.
  void when_settled(std::function<void(Outcome)> then);
  // Reports the outcome of the work before the fence. Called by the command buffer that signals the fence; only the
  // first call has an effect.
  void settle(Outcome outcome);

 private:
  std::mutex mutex_;
  bool settled_ = false;
  Outcome outcome_;
  std::vector<std::function<void(Outcome)>> waiting_;
};

// The work of one command buffer. Not thread-safe: used by one thread at a time.
class DeviceCommands {
 public:
  // `queue` identifies the queue that runs the commands. All commands of a queue run in order.
  explicit DeviceCommands(const void* queue) : queue_(queue) {}
  virtual ~DeviceCommands() = default;
  DeviceCommands(const DeviceCommands&) = delete;
  DeviceCommands& operator=(const DeviceCommands&) = delete;

  virtual void encode_wait(const DeviceFence& fence) = 0;
  // Encodes a signal. `reached` is called once, on a thread of the device, and must not throw.
  virtual std::shared_ptr<DeviceFence> encode_signal(std::function<void()> reached) = 0;
  // Commits the commands encoded so far and waits until they have run. Further commands can be encoded afterwards.
  // Throws the device's error.
  virtual void finish() = 0;
  // Commits the commands. `scheduled` and `completed` are called once each, in this order, on threads of the device.
  virtual void commit(std::function<void()> scheduled, std::function<void(std::exception_ptr)> completed) = 0;

  const void* queue() const { return queue_; }
  // Keeps an object alive until the work is done.
  void keep(std::shared_ptr<const void> object) { kept_.push_back(std::move(object)); }

 protected:
  void let_go() { kept_.clear(); }

 private:
  const void* const queue_;
  std::vector<std::shared_ptr<const void>> kept_;
};

class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;
  virtual std::unique_ptr<DeviceCommands> begin(std::string_view label) = 0;
};

}  // namespace mpsgraph::runtime
