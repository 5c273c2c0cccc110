// Command buffers: encoding, execution on the queue's thread, and reporting of errors to waiters and handlers.
#include "mpsgraph/runtime/command_buffer.h"

#include <algorithm>

#include "mpsgraph/core/errors.h"
#include "mpsgraph/runtime/command_queue.h"
#include "mpsgraph/runtime/profiler.h"
#include "runtime/device_work.h"
#include "runtime/handler_thread.h"
#include "runtime/run_control.h"
#include "runtime/worker.h"

namespace mpsgraph::runtime {

std::string_view name(CommandBufferStatus status) {
  switch (status) {
    case CommandBufferStatus::not_enqueued: return "not_enqueued";
    case CommandBufferStatus::committed: return "committed";
    case CommandBufferStatus::scheduled: return "scheduled";
    case CommandBufferStatus::completed: return "completed";
    case CommandBufferStatus::error: return "error";
  }
  return "unknown";
}

CommandBuffer::CommandBuffer(std::shared_ptr<CommandQueue> queue) : queue_(std::move(queue)) {}

// ---- encoding ----

void CommandBuffer::check_open(std::string_view what) const {
  queue_->check_usable();
  std::lock_guard lock(mutex_);
  require_open(what);
}

void CommandBuffer::require_open(std::string_view what) const {
  if (status_ != CommandBufferStatus::not_enqueued)
    throw DeviceError(cat("[", what, "] the command buffer has already been committed (its status is ", name(status_),
                          "); create a new one with CommandQueue.command_buffer()"));
}

void CommandBuffer::encode(std::function<void()> work, std::string label) {
  encode_device_work(
      [work = std::move(work)](DeviceCommands* device) {
        if (device) device->finish();
        work();
      },
      std::move(label));
}

void CommandBuffer::encode_device_work(DeviceWork work, std::string label, bool brief) {
  check_open("encode");
  commands_.push_back({.work = std::move(work), .label = std::move(label), .event = {}, .timeout = {}, .brief = brief});
}

void CommandBuffer::encode_wait_for_event(std::shared_ptr<SharedEvent> event, uint64_t value, Timeout timeout) {
  check_open("encode_wait_for_event");
  commands_.push_back(
      {.work = {}, .label = {}, .event = std::move(event), .value = value, .waits = true, .timeout = timeout});
}

void CommandBuffer::encode_wait_for_event(std::shared_ptr<SharedEvent> event, uint64_t value) {
  const Timeout timeout = event->default_timeout();
  encode_wait_for_event(std::move(event), value, timeout);
}

void CommandBuffer::encode_signal_event(std::shared_ptr<SharedEvent> event, uint64_t value) {
  check_open("encode_signal_event");
  commands_.push_back({.work = {}, .label = {}, .event = std::move(event), .value = value, .timeout = {}});
}

void CommandBuffer::add_scheduled_handler(Handler handler) {
  check_open("add_scheduled_handler");
  scheduled_handlers_.push_back(std::move(handler));
}

void CommandBuffer::add_completed_handler(Handler handler) {
  check_open("add_completed_handler");
  completed_handlers_.push_back(std::move(handler));
}

CommandBuffer::Mark CommandBuffer::mark() const {
  check_open("mark");
  return {commands_.size(), scheduled_handlers_.size(), completed_handlers_.size()};
}

void CommandBuffer::rewind(const Mark& mark) {
  check_open("rewind");
  commands_.resize(std::min(commands_.size(), mark.commands));
  scheduled_handlers_.resize(std::min(scheduled_handlers_.size(), mark.scheduled_handlers));
  completed_handlers_.resize(std::min(completed_handlers_.size(), mark.completed_handlers));
}

void CommandBuffer::commit(bool waiting) {
  queue_->check_usable();
  bool at_once;
  {
    std::lock_guard lock(mutex_);
    require_open("commit");
    status_ = CommandBufferStatus::committed;
    brief_ = std::ranges::all_of(commands_, [](const Command& command) { return command.brief; });
    at_once = waiting && brief_;
    handlers_pending_ = !scheduled_handlers_.empty() + !completed_handlers_.empty();
  }
  static std::atomic<uint64_t> numbers{0};
  commit_.session = Profiler::get().session();
  if (commit_.session) {
    commit_.number = ++numbers;
    commit_.at = Profiler::Clock::now();
    profile_instant(label(), "commit", commit_.number);
  }
  try {
    const auto self = shared_from_this();
    if (executes_for(queue_.get())) {
      // This buffer was committed by a custom operation of the buffer that the queue is executing. The queue would
      // reach this buffer only after that one, which waits for the operation, so execute it here.
      nested_ = true;
      execute(queue_->device_queue(), [queue = queue_] {});
    } else if (!at_once || !queue_->run_at_once(self))
      queue_->enqueue(self);
  } catch (...) {
    std::lock_guard lock(mutex_);
    status_ = CommandBufferStatus::not_enqueued;
    throw;
  }
}

// ---- execution ----

// The point in a queue's work at which an event reaches a value.
struct EventPoint {
  std::shared_ptr<SharedEvent> event;
  uint64_t value;
  std::shared_ptr<DeviceFence> fence;
};

namespace {

// Waits until the outcomes of all events are known, then calls `then` with the first failure, or null if none failed.
void when_settled(std::shared_ptr<const std::vector<EventPoint>> waits, std::function<void(std::exception_ptr)> then,
                  size_t first = 0) {
  if (first == waits->size()) return then(nullptr);
  const EventPoint& wait = (*waits)[first];
  wait.fence->when_settled([waits, then = std::move(then), first](std::exception_ptr cause) {
    if (cause)
      then(SharedEvent::failure((*waits)[first].value, "command buffer", cause));
    else
      when_settled(waits, then, first + 1);
  });
}

}  // namespace

// The state of a command buffer on a device that runs work asynchronously.
struct CommandBuffer::OnDevice {
  std::unique_ptr<DeviceCommands> commands;
  std::vector<EventPoint> signals, waits;
  Profiler::Clock::time_point handed_over;

  std::shared_ptr<const std::vector<EventPoint>> waits_so_far() const {
    return std::make_shared<const std::vector<EventPoint>>(waits);
  }
};

void CommandBuffer::run_command(Command& command, OnDevice* device) {
  const auto& event = command.event;
  if (command.work) {
    ProfileScope scope(command.label, device ? "encode" : "run", commit_.number);
    command.work(device ? device->commands.get() : nullptr);
  } else if (!device && command.waits) {
    event->wait(command.value, command.timeout, "command buffer");
  } else if (!device) {
    event->signal(command.value);
  } else if (command.waits) {
    // The thread that will signal the event may itself wait for the commands encoded so far, so these are finished
    // first.
    if (!event->known(command.value)) device->commands->finish();
    const auto fence = event->wait_or_promise(command.value, command.timeout, "command buffer");
    if (!fence) return;
    device->commands->encode_wait(*fence);
    device->waits.push_back({event, command.value, fence});
  } else {
    // The device continues after a failed wait. The event is therefore signaled by the host, and only after all waits
    // so far have succeeded.
    auto fence = device->commands->encode_signal([event, value = command.value, waits = device->waits_so_far()] {
      when_settled(waits, [event, value](std::exception_ptr failure) {
        if (!failure) event->signal(value);
      });
    });
    device->signals.push_back({event, command.value, std::move(fence)});
  }
}

void CommandBuffer::execute(DeviceQueue* queue, std::function<void()> completed) {
  {
    std::lock_guard lock(mutex_);
    status_ = CommandBufferStatus::scheduled;
  }
  if (commit_.session)
    Profiler::get().record(commit_.session,
                           {.name = label(),
                            .category = "queue",
                            .shape = ProfileRecord::Shape::overlapping,
                            .command_buffer = commit_.number,
                            .kernel = {}},
                           commit_.at, Profiler::Clock::now());
  RunState state{.queue = queue_.get(), .cancelled = &cancelled_};
  const RunScope scope(state);
  std::exception_ptr error;
  std::shared_ptr<OnDevice> device;
  if (queue) {
    try {
      device = std::make_shared<OnDevice>();
      device->commands = queue->begin(commands_.empty() ? "command buffer" : commands_.front().label);
    } catch (...) {
      error = std::current_exception();
      device = nullptr;
    }
  }
  if (!device) post_handlers(std::move(scheduled_handlers_));
  for (auto& command : commands_) {
    if (error) break;
    try {
      if (cancelled_) throw_cancelled();
      run_command(command, device.get());
    } catch (...) {
      error = std::current_exception();
    }
  }
  if (!device) return complete(error, completed);
  for (auto& [event, value, fence] : device->signals) event->promise(value, fence);
  device->handed_over = Profiler::Clock::now();
  const auto done = [self = shared_from_this(), device, error, completed](std::exception_ptr failure) {
    device->commands.reset();
    self->record_device_run(*device);
    const auto conclude = [self, device, error, completed, failure](std::exception_ptr outcome) {
      for (auto& [event, value, fence] : device->signals) {
        if (outcome)
          event->fail(value, outcome);
        else
          event->signal(value);
        fence->settle(outcome);
        if (failure) fence->release();
      }
      self->complete(error ? error : outcome, completed);
    };
    if (failure)
      conclude(failure);
    else
      when_settled(device->waits_so_far(), conclude);
  };
  try {
    device->commands->commit([self = shared_from_this()] { self->post_handlers(std::move(self->scheduled_handlers_)); },
                             done);
  } catch (...) {
    post_handlers(std::move(scheduled_handlers_));
    done(std::current_exception());
  }
}

// Records the whole run on the device as one entry, because the device reports no times of single kernels.
void CommandBuffer::record_device_run(const OnDevice& device) noexcept {
  if (!commit_.session) return;
  try {
    Profiler::get().record(commit_.session,
                           {.name = label(),
                            .category = "device",
                            .shape = ProfileRecord::Shape::overlapping,
                            .command_buffer = commit_.number,
                            .kernel = {}},
                           device.handed_over, Profiler::Clock::now());
  } catch (...) {  // If there is no memory for the record, only the record is lost, not the work.
  }
}

void CommandBuffer::complete(std::exception_ptr error, const std::function<void()>& completed) {
  for (auto& command : commands_) {
    if (!command.event || command.waits) continue;
    if (error)
      command.event->fail(command.value, error);
    else
      command.event->signal(command.value);
  }
  commands_.clear();  // Release the feeds before anyone is notified that the work is done.
  auto handlers = std::move(completed_handlers_);
  {
    std::lock_guard lock(mutex_);
    work_done_ = true;
    if (error && !error_) error_ = error;
    status_ = error_ ? CommandBufferStatus::error : CommandBufferStatus::completed;
  }
  condition_.notify_all();
  post_handlers(std::move(handlers));
  completed();
}

void CommandBuffer::post_handlers(std::vector<Handler> handlers) {
  if (handlers.empty()) return;
  post_handler([self = shared_from_this(), handlers = std::move(handlers)]() mutable {
    std::exception_ptr error;
    for (auto& handler : handlers) {
      try {
        ProfileScope scope("handler", "handler", self->commit_.number);
        handler(*self);
      } catch (...) {
        if (!error) error = std::current_exception();
      }
    }
    handlers.clear();
    {
      std::lock_guard lock(self->mutex_);
      --self->handlers_pending_;
      if (error && !self->error_) {
        self->error_ = error;
        if (self->work_done_) self->status_ = CommandBufferStatus::error;
      }
    }
    self->condition_.notify_all();
  });
}

// ---- waiting ----

std::string CommandBuffer::label() const {
  for (const Command& command : commands_)
    if (!command.label.empty()) return command.label;
  return "command buffer";
}

bool CommandBuffer::finished() const { return work_done_ && (handlers_pending_ == 0 || on_handler_thread()); }

bool CommandBuffer::wait_for(Timeout timeout) {
  queue_->check_usable();
  std::unique_lock lock(mutex_);
  if (status_ == CommandBufferStatus::not_enqueued)
    throw DeviceError("[wait_until_completed] the command buffer has not been committed; call commit() first");
  if (!nested_ && !finished() && executes_for(queue_.get()))
    throw DeviceError(
        "[wait_until_completed] a custom operation waits for the command buffer that runs it, or for one that follows "
        "it on the same queue, so the wait would never end; wait after the run");
  ProfileScope scope("wait until completed", "wait", commit_.number);
  auto result = wait_until(lock, condition_, timeout, [this] { return finished(); });
  if (result == WaitResult::cancelled)
    throw DeviceError("[wait_until_completed] waiting was cancelled because the runtime is shutting down");
  return result == WaitResult::ready;
}

void CommandBuffer::hasten() {
  {
    std::lock_guard lock(mutex_);
    if (status_ != CommandBufferStatus::committed || !brief_) return;
  }
  queue_->run_instead(shared_from_this());
}

void CommandBuffer::wait_until_completed(Timeout timeout) {
  if (!timeout) hasten();
  if (!wait_for(timeout)) throw_timeout(*timeout);
  rethrow();
}

void CommandBuffer::wait_or_cancel(Timeout timeout) {
  if (!timeout) return wait_until_completed();
  if (wait_for(timeout)) return rethrow();
  cancel();
  wait_for({});
  rethrow_after_timeout(*timeout);
}

void CommandBuffer::rethrow_after_timeout(double timeout) const {
  try {
    rethrow();
  } catch (const CancelledError&) {
    throw TimeoutError(cat("[run] the run did not end within ", timeout,
                           " s and was cancelled; variables have the values from before the run"));
  }
}

void CommandBuffer::rethrow() const {
  if (auto failure = error()) std::rethrow_exception(failure);
}

void CommandBuffer::throw_timeout(double timeout) const {
  throw TimeoutError(cat("[wait_until_completed] the command buffer was not completed within ", timeout,
                         " s; its status is ", name(status())));
}

bool CommandBuffer::done() const {
  std::lock_guard lock(mutex_);
  return finished();
}

CommandBufferStatus CommandBuffer::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

std::exception_ptr CommandBuffer::error() const {
  std::lock_guard lock(mutex_);
  return error_;
}

}  // namespace mpsgraph::runtime
