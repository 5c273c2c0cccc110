// Submits command buffers, reports their completion, and converts their errors.
#include "backends/metal/queue.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "backends/metal/guarded.h"
#include "backends/metal/signposts.h"

namespace mpsgraph::metal {

// --- fences ----------------------------------------------------------------------------------------------------------

namespace {

// A fence that other queues can wait for. Each signal creates a shared event, whose value becomes 1 when the device
// reaches the fence.
class MetalFence final : public runtime::DeviceFence {
 public:
  MetalFence(id<MTLDevice> device, std::function<void()> reached) : event([device newSharedEvent]) {
    if (!event) throw DeviceError("[metal] cannot create a shared event");
    static MTLSharedEventListener* const listener = [[MTLSharedEventListener alloc] init];
    const auto failed = failed_;
    [event notifyListener:listener
                  atValue:1
                    block:^(id<MTLSharedEvent>, uint64_t) {
                      if (!*failed) reached();
                    }];
  }
  void release() override {
    *failed_ = true;
    event.signaledValue = 1;
  }
  const id<MTLSharedEvent> event;

 private:
  const std::shared_ptr<std::atomic<bool>> failed_ = std::make_shared<std::atomic<bool>>(false);
};

std::exception_ptr device_error(NSError* error) {
  return std::make_exception_ptr(
      DeviceError(cat("[metal] the command buffer failed: ", text_of(error.localizedDescription), " (",
                      text_of(error.domain), " ", error.code, ")")));
}

}  // namespace

// --- progress --------------------------------------------------------------------------------------------------------

// State shared with the completion handlers of submitted MTLCommandBuffers.
struct MetalCommands::Progress {
  std::mutex mutex;
  std::condition_variable condition;
  int in_flight = 0, finished = 0;
  std::exception_ptr error;  // the first error of any part
  std::vector<std::function<void()>> actions;
  // called with the first error after the last part has completed; set by commit()
  std::function<void(std::exception_ptr)> completed;

  void done(NSError* failure) {
    std::function<void(std::exception_ptr)> last;
    {
      std::lock_guard lock(mutex);
      if (failure && !error) error = device_error(failure);
      ++finished;
      if (--in_flight == 0) last = std::exchange(completed, nullptr);
    }
    condition.notify_all();
    if (last) {
      if (!error) run_actions();
      last(error);
    }
  }
  void run_actions() {
    for (const auto& action : std::exchange(actions, {})) try {
        action();
      } catch (...) {
        if (!error) error = std::current_exception();
      }
  }
};

// --- commands --------------------------------------------------------------------------------------------------------

MetalCommands::MetalCommands(const void* owner, MetalDevice& device, id<MTLCommandQueue> queue, std::string label)
    : DeviceCommands(owner),
      device_(device),
      queue_(queue),
      label_(std::move(label)),
      progress_(std::make_shared<Progress>()) {
  open();
}

void MetalCommands::open() {
  buffer_ = [MPSCommandBuffer commandBufferFromCommandQueue:queue_];
  if (!buffer_) throw DeviceError("[metal] cannot create a command buffer");
  buffer_.label = @(label_.c_str());
  watched_ = nil;
  has_program_ = false;
}

void MetalCommands::watch(std::function<void(std::exception_ptr)> completed) {
  id<MTLCommandBuffer> const part = buffer_.rootCommandBuffer;
  const bool is_new = part != watched_;
  {
    // Update both counters under the same lock, because earlier parts may have completed already or may complete at any
    // time.
    std::lock_guard lock(progress_->mutex);
    progress_->in_flight += is_new;
    if (completed) progress_->completed = std::move(completed);
  }
  if (!is_new) return;
  watched_ = part;
  ++parts_;
  const auto progress = progress_;
  const auto running = std::make_shared<Signpost>(Phase::run, label_);
  [buffer_ addCompletedHandler:^(id<MTLCommandBuffer> done) {
    (void)running;  // the captured objects are destroyed together with this block
    progress->done(done.status == MTLCommandBufferStatusError ? done.error : nil);
  }];
}

MPSCommandBuffer* MetalCommands::next_program() {
  if (has_program_) {
    watch();
    [buffer_ commit];
    open();  // commitAndContinue would keep the intermediate results of every program until the last one is released
  }
  has_program_ = true;
  watch();  // MPSGraph may submit part of the work while encoding
  return buffer_;
}

MPSCommandBuffer* MetalCommands::this_program() {
  has_program_ = true;
  watch();  // the current MTLCommandBuffer may have changed
  return buffer_;
}

void MetalCommands::take_over(id<MTLCommandBuffer> encoded) {
  watch();
  [buffer_ commit];
  buffer_ = [MPSCommandBuffer commandBufferWithCommandBuffer:encoded];
  buffer_.label = @(label_.c_str());
  has_program_ = true;
  watch();
}

void MetalCommands::copy_back(std::function<void()> action) {
  std::lock_guard lock(progress_->mutex);
  progress_->actions.push_back(std::move(action));
}

void MetalCommands::encode_wait(const runtime::DeviceFence& fence) {
  guarded([&] { [buffer_ encodeWaitForEvent:static_cast<const MetalFence&>(fence).event value:1]; });
}

std::shared_ptr<runtime::DeviceFence> MetalCommands::encode_signal(std::function<void()> reached) {
  bool copies_back;
  {
    std::lock_guard lock(progress_->mutex);
    copies_back = !progress_->actions.empty();
  }
  if (copies_back) finish();  // waiters for the signal read results that the host has yet to copy
  return guarded([&]() -> std::shared_ptr<runtime::DeviceFence> {
    // If a part of the work fails, the device continues and reaches the signal, possibly before the handler of the
    // failed part has run. `reached` is therefore called here only if all earlier parts are known to have succeeded.
    // The caller of commit() signals again after the last part in any case.
    watch();
    auto reached_rightly = [progress = progress_, before = parts_ - 1, reached] {
      {
        std::lock_guard lock(progress->mutex);
        if (progress->error || progress->finished < before) return;
      }
      reached();
    };
    auto fence = std::make_shared<MetalFence>(device_.device, std::move(reached_rightly));
    [buffer_ encodeSignalEvent:fence->event value:1];
    return fence;
  });
}

void MetalCommands::finish() {
  guarded([&] {
    watch();
    [buffer_ commit];
    buffer_ = nil;  // the buffer must not be used again, even if an exception follows
  });
  {
    std::unique_lock lock(progress_->mutex);
    progress_->condition.wait(lock, [&] { return progress_->in_flight == 0; });
    if (progress_->error) progress_->actions.clear();
  }
  guarded([&] {
    progress_->run_actions();
    let_go();
    open();
  });
  const std::exception_ptr error = std::exchange(progress_->error, nullptr);
  if (error) std::rethrow_exception(error);
}

void MetalCommands::commit(std::function<void()> scheduled, std::function<void(std::exception_ptr)> completed) {
  if (!buffer_) throw DeviceError("[metal] cannot create a command buffer");
  guarded([&] {
    const auto reached = scheduled;  // blocks would capture a reference as a reference, so copy the value
    [buffer_ addScheduledHandler:^(id<MTLCommandBuffer>) { reached(); }];
    watch(std::move(completed));
    MPSCommandBuffer* const last =
        std::exchange(buffer_, nil);  // commit may run handlers that destroy this object before it returns
    [last commit];
  });
}

void run_now(id<MTLCommandQueue> queue, const std::function<void(MPSCommandBuffer*)>& encode) {
  MPSCommandBuffer* buffer = [MPSCommandBuffer commandBufferFromCommandQueue:queue];
  if (!buffer) throw DeviceError("[metal] cannot create a command buffer");
  id<MTLCommandBuffer> const first = buffer.rootCommandBuffer;
  encode(buffer);
  id<MTLCommandBuffer> const last = buffer.rootCommandBuffer;
  [buffer commit];
  [last waitUntilCompleted];
  if (first != last) [first waitUntilCompleted];
  for (id<MTLCommandBuffer> part : {first, last})
    if (part.status == MTLCommandBufferStatusError) std::rethrow_exception(device_error(part.error));
}

// --- queue -----------------------------------------------------------------------------------------------------------

MetalQueue::MetalQueue(MetalDevice& device) : device_(device), queue_([device.device newCommandQueue]) {
  if (!queue_) throw DeviceError("[metal] cannot create a command queue");
  queue_.label = @"mpsgraph";
}

MetalQueue::~MetalQueue() {
  @autoreleasepool {  // the thread that destroys this object may have no autorelease pool
    queue_ = nil;
  }
}

id<MTLCommandBuffer> MetalQueue::open_command_buffer() {
  constexpr size_t most = 48;  // a Metal queue allows 64 incomplete buffers
  std::unique_lock lock(mutex_);
  const auto is_full = [&] {
    std::erase_if(open_, [](id<MTLCommandBuffer> buffer) {
      return buffer == nil || buffer.status >= MTLCommandBufferStatusCommitted;
    });
    return open_.size() >= most;
  };
  // Buffers that the caller has committed are submitted by this queue's thread, which may be late on a busy machine.
  // Wait for that thread before reporting an error.
  constexpr auto patience = std::chrono::seconds(2);
  for (const auto until = std::chrono::steady_clock::now() + patience;
       is_full() && std::chrono::steady_clock::now() < until;) {
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lock.lock();
  }
  if (is_full())
    throw DeviceError(cat("[metal] ", most,
                          " batches of nodes have been encoded on this queue without being committed; commit some of "
                          "their command buffers before encoding more"));
  id<MTLCommandBuffer> buffer = [queue_ commandBuffer];
  if (!buffer) throw DeviceError("[metal] cannot create a command buffer");
  open_.push_back(buffer);
  return buffer;
}

std::unique_ptr<runtime::DeviceCommands> MetalQueue::begin(std::string_view label) {
  return guarded([&] { return std::make_unique<MetalCommands>(this, device_, queue_, std::string(label)); });
}

}  // namespace mpsgraph::metal
