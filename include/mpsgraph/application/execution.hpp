// Executables, asynchronous runs, queues, command buffers, and shared events.
#pragma once

#include <functional>
#include <memory>

#include "mpsgraph/application/array.hpp"

namespace mpsgraph::application {

// Called with the results, or the error, when a run has ended. It is called on a thread of the library and must not
// throw.
using Completion = std::function<void(mpsgraph_status, const std::string& message, std::vector<Array> results)>;

namespace detail {

// A Completion as the function and context that the C interface expects. keep() passes ownership to complete().
class HeldCompletion {
 public:
  explicit HeldCompletion(Completion completion) : held_(std::make_unique<Completion>(std::move(completion))) {}
  void* context() const { return held_.get(); }
  void keep() { held_.release(); }
  static void complete(void* context, mpsgraph_status status, const char* message, const mpsgraph_array* results,
                       size_t count) {
    const std::unique_ptr<Completion> held(static_cast<Completion*>(context));
    std::vector<Array> arrays;
    for (size_t i = 0; i < count; ++i) {
      check(mpsgraph_retain(results[i]));
      arrays.emplace_back(results[i]);
    }
    if (*held) (*held)(status, message, std::move(arrays));
  }

 private:
  std::unique_ptr<Completion> held_;
};

}  // namespace detail

// A queue, which executes committed command buffers in order. Several queues run concurrently.
class Queue : public Shared<mpsgraph_queue> {
 public:
  using Shared::Shared;
  explicit Queue(const Device& device = {})
      : Shared(made([&](mpsgraph_queue* queue) { return mpsgraph_queue_create(device.handle(), queue); })) {}
};

// A run that run_async() started.
class Execution : public Shared<mpsgraph_execution> {
 public:
  Execution() = default;
  Execution(mpsgraph_execution started, size_t output_count) : Shared(started), output_count_(output_count) {}
  // Waits until the run is done. Throws Failure if the run failed or takes longer than `seconds`; a negative number
  // means no timeout.
  void wait(double seconds = -1) const { check(mpsgraph_execution_wait(handle(), seconds)); }
  // Cancels the run without waiting for its end. Variables then have the values from before the run.
  void cancel() const { check(mpsgraph_execution_cancel(handle())); }
  // Waits without a timeout and returns the results.
  std::vector<Array> results() const {
    std::vector<mpsgraph_array> found(output_count_);
    check(mpsgraph_execution_results(handle(), found.data(), found.size()));
    return {found.begin(), found.end()};
  }

 private:
  size_t output_count_ = 0;
};

// A compiled program. Several threads may run it at the same time.
class Executable : public Shared<mpsgraph_executable> {
 public:
  using Shared::Shared;
  size_t input_count() const { return count(&mpsgraph_executable_input_count); }
  size_t output_count() const { return count(&mpsgraph_executable_output_count); }
  mpsgraph_type input_type(size_t index) const { return type(&mpsgraph_executable_input_type, index); }
  mpsgraph_type output_type(size_t index) const { return type(&mpsgraph_executable_output_type, index); }

  // Runs the program on one array per input and returns new arrays with the outputs. A run that takes longer than
  // `seconds` is cancelled: run() throws Failure, and variables have the values from before the run. A negative number
  // means no timeout.
  std::vector<Array> run(List<Array> inputs, double seconds = -1) const {
    std::vector<mpsgraph_array> results(output_count());
    const auto given = handles(inputs);
    check(mpsgraph_executable_run_for(handle(), given.data(), given.size(), results.data(), results.size(), seconds));
    return {results.begin(), results.end()};
  }
  // Runs the program and writes its results into the caller's arrays.
  void run(List<Array> inputs, List<Array> results) const {
    const auto given = handles(inputs);
    auto written = handles(results);
    check(mpsgraph_executable_run(handle(), given.data(), given.size(), written.data(), written.size()));
  }
  // Starts a run on a queue and returns immediately. `completion` is called when the run has ended. The results are new
  // arrays, or the caller's. Without a queue, the run uses the device's default queue.
  Execution run_async(List<Array> inputs, Completion completion = {}, const Queue* queue = nullptr,
                      List<Array> results = {}) const {
    const auto given = handles(inputs), written = handles(results);
    mpsgraph_execution started;
    const mpsgraph_queue on = queue ? queue->handle() : nullptr;
    if (!completion) {
      check(mpsgraph_executable_run_async(handle(), given.data(), given.size(), written.data(), written.size(), on,
                                          nullptr, nullptr, &started));
    } else {
      detail::HeldCompletion held(std::move(completion));
      check(mpsgraph_executable_run_async(handle(), given.data(), given.size(), written.data(), written.size(), on,
                                          &detail::HeldCompletion::complete, held.context(), &started));
      held.keep();
    }
    return Execution(started, output_count());
  }

 private:
  template <class Function>
  size_t count(Function of) const {
    size_t result;
    check(of(handle(), &result));
    return result;
  }
  template <class Function>
  mpsgraph_type type(Function of, size_t index) const {
    mpsgraph_type result;
    check(of(handle(), index, &result));
    return result;
  }
};

// A number, initially 0, that only increases. It orders the work of queues and the host.
class Event : public Shared<mpsgraph_event> {
 public:
  Event() : Shared(made([](mpsgraph_event* event) { return mpsgraph_event_create(event); })) {}
  uint64_t value() const {
    uint64_t result;
    check(mpsgraph_event_value(handle(), &result));
    return result;
  }
  // Raises the event to `value`; does nothing if the event has already reached it.
  void signal(uint64_t value) const { check(mpsgraph_event_signal(handle(), value)); }
  // Waits until the event reaches `value`. Throws Failure if this takes longer than `seconds`, or if the command buffer
  // that should have signaled the value failed. A negative number means no timeout.
  void wait(uint64_t value, double seconds = -1) const { check(mpsgraph_event_wait(handle(), value, seconds)); }
};

// Work for a queue. Encode runs and events, then call commit().
class CommandBuffer : public Shared<mpsgraph_command_buffer> {
 public:
  explicit CommandBuffer(const Queue& queue)
      : Shared(made(
            [&](mpsgraph_command_buffer* buffer) { return mpsgraph_command_buffer_create(queue.handle(), buffer); })) {}
  // Appends a run of an executable and returns the arrays for its results, which are valid once the command buffer is
  // completed. encode() may be given the arrays to write instead.
  std::vector<Array> encode(const Executable& executable, List<Array> inputs) const {
    std::vector<mpsgraph_array> results(executable.output_count());
    const auto given = handles(inputs);
    check(mpsgraph_command_buffer_encode(handle(), executable.handle(), given.data(), given.size(), results.data(),
                                         results.size()));
    return {results.begin(), results.end()};
  }
  void encode(const Executable& executable, List<Array> inputs, List<Array> results) const {
    const auto given = handles(inputs);
    auto written = handles(results);
    check(mpsgraph_command_buffer_encode(handle(), executable.handle(), given.data(), given.size(), written.data(),
                                         written.size()));
  }
  // Makes all work encoded afterwards wait until the event reaches `value`. The command buffer fails if this takes
  // longer than 60 seconds.
  void wait_for(const Event& event, uint64_t value) const {
    check(mpsgraph_command_buffer_wait_for_event(handle(), event.handle(), value));
  }
  // Raises the event to `value` once everything that was encoded before is done.
  void signal(const Event& event, uint64_t value) const {
    check(mpsgraph_command_buffer_signal_event(handle(), event.handle(), value));
  }
  // Adds a function to be called when the command buffer has ended. It receives no results.
  void add_completion(Completion completion) const {
    detail::HeldCompletion held(std::move(completion));
    check(mpsgraph_command_buffer_add_completion(handle(), &detail::HeldCompletion::complete, held.context()));
    held.keep();
  }
  // Submits the command buffer to its queue. It can be committed only once, and nothing can be encoded afterwards.
  void commit() const { check(mpsgraph_command_buffer_commit(handle())); }
  // Waits until the committed command buffer is completed. Throws Failure if it failed or takes longer than `seconds`;
  // a negative number means no timeout.
  void wait(double seconds = -1) const { check(mpsgraph_command_buffer_wait(handle(), seconds)); }
};

}  // namespace mpsgraph::application
