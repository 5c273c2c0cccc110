// Command queues of the device, their command buffers, and the fences that order queues.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/metal/device.h"
#include "runtime/device_work.h"

namespace mpsgraph::metal {

// The work of one command buffer, encoded into an MPSCommandBuffer. When part of the work is submitted early, the
// MPSCommandBuffer continues in a new MTLCommandBuffer.
class MetalCommands final : public runtime::DeviceCommands {
 public:
  MetalCommands(const void* owner, MetalDevice& device, id<MTLCommandQueue> queue, std::string label);

  // Return the buffer into which to encode the next program. Previous work is submitted so that the device can start on
  // it.
  MPSCommandBuffer* next_program();
  // Return the command buffer into which to encode the next part of the current program.
  MPSCommandBuffer* this_program();
  // Submit the work encoded so far, and continue in `encoded`, an already encoded command buffer of the same queue.
  void take_over(id<MTLCommandBuffer> encoded);
  // Add an action, such as copying results to host memory, that runs on the host before completion is reported. If the
  // action throws, the work fails.
  void copy_back(std::function<void()> action);

  void encode_wait(const runtime::DeviceFence& fence) override;
  std::shared_ptr<runtime::DeviceFence> encode_signal(std::function<void()> reached) override;
  void finish() override;
  void commit(std::function<void()> scheduled, std::function<void(std::exception_ptr)> completed) override;

 private:
  struct Progress;
  void open();
  // Observe the completion of the current MTLCommandBuffer, which is one part of the work. `completed` is called after
  // the last part.
  void watch(std::function<void(std::exception_ptr)> completed = nullptr);

  MetalDevice& device_;
  const id<MTLCommandQueue> queue_;
  const std::string label_;
  MPSCommandBuffer* buffer_ = nil;
  id<MTLCommandBuffer> watched_ = nil;
  bool has_program_ = false;
  int parts_ = 0;  // number of MTLCommandBuffers that watch() observes
  std::shared_ptr<Progress> progress_;
};

// Encode into a new command buffer, submit it, wait for it, and throw errors that the device reports. MPSGraph may
// submit part of the work while encoding and continue in a new buffer; a failure of either buffer fails the run.
void run_now(id<MTLCommandQueue> queue, const std::function<void(MPSCommandBuffer*)>& encode);

class MetalQueue final : public runtime::DeviceQueue {
 public:
  explicit MetalQueue(MetalDevice& device);
  ~MetalQueue() override;
  std::unique_ptr<runtime::DeviceCommands> begin(std::string_view label) override;
  // Return a command buffer for work that is encoded before its turn in the queue. Throws DeviceError if too many such
  // buffers are open, because Metal would block forever.
  id<MTLCommandBuffer> open_command_buffer();

 private:
  MetalDevice& device_;
  id<MTLCommandQueue> queue_;
  std::mutex mutex_;
  std::vector<__weak id<MTLCommandBuffer>> open_;
};

}  // namespace mpsgraph::metal
