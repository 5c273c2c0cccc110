// Queues, command buffers, and shared events of the C interface.
#include "c_api/objects.h"
#include "mpsgraph/runtime/executable.h"

using namespace mpsgraph;
using namespace mpsgraph::c_api;

namespace {

struct CommandBufferObject : Object {
  static constexpr HandleKind its_kind = HandleKind::command_buffer;
  explicit CommandBufferObject(std::shared_ptr<runtime::CommandBuffer> buffer)
      : Object(its_kind), buffer(std::move(buffer)) {}
  std::mutex mutex;  // protects the command buffer, which only one thread may encode at a time
  const std::shared_ptr<runtime::CommandBuffer> buffer;
};

struct EventObject : Object {
  static constexpr HandleKind its_kind = HandleKind::event;
  EventObject() : Object(its_kind), event(std::make_shared<runtime::SharedEvent>()) {}
  const std::shared_ptr<runtime::SharedEvent> event;
};

}  // namespace

mpsgraph_status mpsgraph_queue_create(mpsgraph_device device, mpsgraph_queue* queue) {
  return guarded([&] {
    required(queue, "queue");
    auto made = runtime::CommandQueue::create(device_or_default(device));
    *queue = static_cast<mpsgraph_queue>(give(std::make_shared<QueueObject>(std::move(made))));
  });
}

mpsgraph_status mpsgraph_command_buffer_create(mpsgraph_queue queue, mpsgraph_command_buffer* buffer) {
  return guarded([&] {
    required(buffer, "buffer");
    auto made = object<QueueObject>(queue)->queue->command_buffer();
    *buffer = static_cast<mpsgraph_command_buffer>(give(std::make_shared<CommandBufferObject>(std::move(made))));
  });
}

mpsgraph_status mpsgraph_command_buffer_encode(mpsgraph_command_buffer buffer, mpsgraph_executable executable,
                                               const mpsgraph_array* inputs, size_t input_count,
                                               mpsgraph_array* results, size_t result_count) {
  return guarded([&] {
    const auto held = object<CommandBufferObject>(buffer);
    const auto runs = object<ExecutableObject>(executable);
    auto fed = inputs_of(inputs, input_count, *runs->executable);
    auto given = results_of(results, result_count, runs->executable->targets().size());
    const std::lock_guard lock(held->mutex);
    const auto mark = held->buffer->mark();
    const auto made = runs->executable->encode(*held->buffer, std::move(fed), std::move(given));
    try {
      give_results(made, results);
    } catch (...) {
      held->buffer->rewind(mark);
      throw;
    }
  });
}

mpsgraph_status mpsgraph_command_buffer_wait_for_event(mpsgraph_command_buffer buffer, mpsgraph_event event,
                                                       uint64_t value) {
  return guarded([&] {
    const auto held = object<CommandBufferObject>(buffer);
    const auto awaited = object<EventObject>(event);
    const std::lock_guard lock(held->mutex);
    held->buffer->encode_wait_for_event(awaited->event, value);
  });
}

mpsgraph_status mpsgraph_command_buffer_signal_event(mpsgraph_command_buffer buffer, mpsgraph_event event,
                                                     uint64_t value) {
  return guarded([&] {
    const auto held = object<CommandBufferObject>(buffer);
    const auto signaled = object<EventObject>(event);
    const std::lock_guard lock(held->mutex);
    held->buffer->encode_signal_event(signaled->event, value);
  });
}

mpsgraph_status mpsgraph_command_buffer_add_completion(mpsgraph_command_buffer buffer, mpsgraph_completion completion,
                                                       void* context) {
  return guarded([&] {
    required(completion, "completion");
    const auto held = object<CommandBufferObject>(buffer);
    const std::lock_guard lock(held->mutex);
    held->buffer->add_completed_handler([=](runtime::CommandBuffer& done) {
      std::string message;
      mpsgraph_status status = MPSGRAPH_OK;
      if (const auto error = done.error()) status = status_of(error, message);
      completion(context, status, message.c_str(), nullptr, 0);
    });
  });
}

mpsgraph_status mpsgraph_command_buffer_commit(mpsgraph_command_buffer buffer) {
  return guarded([&] {
    const auto held = object<CommandBufferObject>(buffer);
    const std::lock_guard lock(held->mutex);
    held->buffer->commit();
  });
}

mpsgraph_status mpsgraph_command_buffer_wait(mpsgraph_command_buffer buffer, double seconds) {
  return guarded([&] {
    const auto held = object<CommandBufferObject>(buffer);
    held->buffer->wait_until_completed(to_timeout(seconds));
  });
}

mpsgraph_status mpsgraph_event_create(mpsgraph_event* event) {
  return guarded([&] {
    required(event, "event");
    *event = static_cast<mpsgraph_event>(give(std::make_shared<EventObject>()));
  });
}

mpsgraph_status mpsgraph_event_value(mpsgraph_event event, uint64_t* value) {
  return guarded([&] { *required(value, "value") = object<EventObject>(event)->event->signaled_value(); });
}

mpsgraph_status mpsgraph_event_signal(mpsgraph_event event, uint64_t value) {
  return guarded([&] { object<EventObject>(event)->event->signal(value); });
}

mpsgraph_status mpsgraph_event_wait(mpsgraph_event event, uint64_t value, double seconds) {
  return guarded([&] { object<EventObject>(event)->event->wait(value, to_timeout(seconds)); });
}
