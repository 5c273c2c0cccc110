// What an asynchronous device, such as a GPU, provides to command queues and shared events.
//
// The queue's thread then encodes each command buffer into DeviceCommands and commits them; it does not wait for them,
// so the next command buffer is encoded while the device works. Devices without a DeviceQueue run their work on the
// queue's thread.
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

// A point that committed work on the device reaches; other queues of the device wait for it there, without the host.
class DeviceFence {
 public:
  using Outcome = std::exception_ptr;  // null when all went well
  virtual ~DeviceFence() = default;
  virtual void release() = 0;  // by the host, when the work that should have reached it failed
  // The device goes on behind a fence whatever became of the work before it, so whoever waited asks: `then` is called
  // once, as soon as the outcome is known.
  void when_settled(std::function<void(Outcome)> then);
  void settle(Outcome outcome);  // by the command buffer that signals it; the first time counts

 private:
  std::mutex mutex_;
  bool settled_ = false;
  Outcome outcome_;
  std::vector<std::function<void(Outcome)>> waiting_;
};

// The work of one command buffer. Used by one thread at a time.
class DeviceCommands {
 public:
  // `queue`: stands for the queue that runs them, in order with all others of that queue.
  explicit DeviceCommands(const void* queue) : queue_(queue) {}
  virtual ~DeviceCommands() = default;
  DeviceCommands(const DeviceCommands&) = delete;
  DeviceCommands& operator=(const DeviceCommands&) = delete;

  virtual void encode_wait(const DeviceFence& fence) = 0;
  // `reached` is called once, on a thread of the device's, and throws nothing.
  virtual std::shared_ptr<DeviceFence> encode_signal(std::function<void()> reached) = 0;
  // Hands over what has been encoded and waits until it is done, so that the host may go on from there; then more can
  // be encoded. Throws the device's error.
  virtual void finish() = 0;
  // Hands it over. `scheduled` and `completed` are called once each, in this order, on threads of the device's.
  virtual void commit(std::function<void()> scheduled, std::function<void(std::exception_ptr)> completed) = 0;

  const void* queue() const { return queue_; }
  // Lives until the work is done.
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
