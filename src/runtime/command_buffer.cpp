// Encoding, execution on the queue's thread, and the way of errors and handlers.
#include "runtime/command_buffer.h"

#include "core/errors.h"
#include "runtime/command_queue.h"
#include "runtime/handler_thread.h"
#include "runtime/profiler.h"

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

// --- encoding --------------------------------------------------------------------------------------------------------

void CommandBuffer::check_open(std::string_view what) const {
  queue_->check_usable();
  std::lock_guard lock(mutex_);
  require_open(what);
}

void CommandBuffer::require_open(std::string_view what) const {
  if (status_ != CommandBufferStatus::not_enqueued)
    throw DeviceError(cat("[", what, "] the command buffer has been committed already (it is ", name(status_),
                          "); make a new one with CommandQueue.command_buffer()"));
}

void CommandBuffer::encode(std::function<void()> work, std::string label) {
  check_open("encode");
  commands_.push_back({.work = std::move(work), .label = std::move(label), .event = {}, .timeout = {}});
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

void CommandBuffer::commit() {
  queue_->check_usable();
  {
    std::lock_guard lock(mutex_);
    require_open("commit");
    status_ = CommandBufferStatus::committed;
    handlers_pending_ = !scheduled_handlers_.empty() + !completed_handlers_.empty();
  }
  try {
    queue_->enqueue(shared_from_this());
  } catch (...) {
    std::lock_guard lock(mutex_);
    status_ = CommandBufferStatus::not_enqueued;
    throw;
  }
}

// --- execution -------------------------------------------------------------------------------------------------------

void CommandBuffer::run_command(Command& command) {
  if (command.work) {
    ProfileScope scope(command.label, "run");
    command.work();
  } else if (command.waits) {
    command.event->wait(command.value, command.timeout, "command buffer");
  } else {
    command.event->signal(command.value);
  }
}

void CommandBuffer::execute() {
  {
    std::lock_guard lock(mutex_);
    status_ = CommandBufferStatus::scheduled;
  }
  post_handlers(std::move(scheduled_handlers_));
  std::exception_ptr error;
  for (auto& command : commands_) {
    if (!error) {
      try {
        run_command(command);
      } catch (...) {
        error = std::current_exception();
      }
    }
    if (error && command.event && !command.waits) command.event->fail(command.value, error);
  }
  commands_.clear();  // the feeds are free before anybody learns that the work is done
  auto handlers = std::move(completed_handlers_);
  {
    std::lock_guard lock(mutex_);
    work_done_ = true;
    if (error && !error_) error_ = error;
    status_ = error_ ? CommandBufferStatus::error : CommandBufferStatus::completed;
  }
  condition_.notify_all();
  post_handlers(std::move(handlers));
}

void CommandBuffer::post_handlers(std::vector<Handler> handlers) {
  if (handlers.empty()) return;
  post_handler([self = shared_from_this(), handlers = std::move(handlers)]() mutable {
    std::exception_ptr error;
    for (auto& handler : handlers) {
      try {
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

// --- waiting ---------------------------------------------------------------------------------------------------------

bool CommandBuffer::finished() const { return work_done_ && (handlers_pending_ == 0 || on_handler_thread()); }

bool CommandBuffer::wait_for(Timeout timeout) {
  queue_->check_usable();
  std::unique_lock lock(mutex_);
  if (status_ == CommandBufferStatus::not_enqueued)
    throw DeviceError("[wait_until_completed] the command buffer has not been committed; call commit() first");
  auto result = wait_until(lock, condition_, timeout, [this] { return finished(); });
  if (result == WaitResult::cancelled)
    throw DeviceError("[wait_until_completed] waiting was cancelled because the runtime shuts down");
  return result == WaitResult::ready;
}

void CommandBuffer::wait_until_completed(Timeout timeout) {
  if (!wait_for(timeout)) throw_timeout(*timeout);
  rethrow();
}

void CommandBuffer::rethrow() const {
  if (auto failure = error()) std::rethrow_exception(failure);
}

void CommandBuffer::throw_timeout(double timeout) const {
  throw TimeoutError(
      cat("[wait_until_completed] the command buffer was not done within ", timeout, " s; it is ", name(status())));
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
