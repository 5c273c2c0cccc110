// Command queues of the device, their command buffers, and the points that order one queue after another.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/metal/device.h"
#include "runtime/device_work.h"

namespace mpsgraph::metal {

// The work of one command buffer of ours: one MPSCommandBuffer, which continues in a new MTLCommandBuffer when part of
// it is submitted early.
class MetalCommands final : public runtime::DeviceCommands {
 public:
  MetalCommands(const void* owner, MetalDevice& device, id<MTLCommandQueue> queue, std::string label);

  // For programs: where to encode. What has been encoded before is submitted, so that the device works on it meanwhile.
  MPSCommandBuffer* next_program();
  // For the parts of one: where to encode, behind what has been encoded before.
  MPSCommandBuffer* this_program();
  // Continues in a command buffer of the same queue that has been encoded already. What was encoded here before is
  // submitted.
  void take_over(id<MTLCommandBuffer> encoded);
  // What the host does with results before anybody learns that the work is done. What it throws is the work's failure.
  void copy_back(std::function<void()> action);

  void encode_wait(const runtime::DeviceFence& fence) override;
  std::shared_ptr<runtime::DeviceFence> encode_signal(std::function<void()> reached) override;
  void finish() override;
  void commit(std::function<void()> scheduled, std::function<void(std::exception_ptr)> completed) override;

 private:
  struct Progress;
  void open();
  // Learns when the MTLCommandBuffer at hand is done; `completed`: of the last part.
  void watch(std::function<void(std::exception_ptr)> completed = nullptr);

  MetalDevice& device_;
  const id<MTLCommandQueue> queue_;
  const std::string label_;
  MPSCommandBuffer* buffer_ = nil;
  id<MTLCommandBuffer> watched_ = nil;
  bool has_program_ = false;
  int parts_ = 0;  // that are watched
  std::shared_ptr<Progress> progress_;
};

// Encodes into a command buffer of its own, submits it, waits, and throws what the device reports. MPSGraph may submit
// the buffer's content while it encodes, and go on in a new one: a failure of either is one of the run.
void run_now(id<MTLCommandQueue> queue, const std::function<void(MPSCommandBuffer*)>& encode);

class MetalQueue final : public runtime::DeviceQueue {
 public:
  explicit MetalQueue(MetalDevice& device);
  ~MetalQueue() override;
  std::unique_ptr<runtime::DeviceCommands> begin(std::string_view label) override;
  // For work that is encoded before its turn has come. DeviceError when too many of them have not been submitted: Metal
  // would wait for ever.
  id<MTLCommandBuffer> open_command_buffer();

 private:
  MetalDevice& device_;
  id<MTLCommandQueue> queue_;
  std::mutex mutex_;
  std::vector<__weak id<MTLCommandBuffer>> open_;
};

}  // namespace mpsgraph::metal
