// The runtime over a backend of a few lines: queues, events, handlers, caches, buffers, fork and shutdown.
//
// The backend evaluates float32 graphs of element-wise operations one by one. Its variables can be told to move, as
// real ones do when a layout changes. The tests hold under ThreadSanitizer and AddressSanitizer too.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <unordered_map>

#include "check.h"
#include "core/builder.h"
#include "core/definition.h"
#include "runtime/device_graph.h"
#include "runtime/dlpack.h"
#include "runtime/profiler.h"

using namespace mpsgraph;
using namespace mpsgraph::runtime;

namespace {

// --- a backend -------------------------------------------------------------------------------------------------------

struct FakeVariable final : VariableStorage {
  explicit FakeVariable(const ConstantPtr& value) : array(NDArray::allocate(value->dtype(), value->dims())) {
    value->expand_into(array.data());
  }
  TensorType type() const override { return array.type(); }
  NDArray read() const override { return array.copy_contiguous(); }
  void write(const NDArray& value) override { array.copy_from(value); }
  NDArray array;
  int layout = 0;
};

std::atomic<bool> fail_next_run{false};
std::atomic<int> running{0}, most_running{0}, programs_alive{0};

struct FakeProgram final : CompiledProgram {
  FakeProgram(compiler::Program p, std::vector<std::shared_ptr<VariableStorage>> storages) : program(std::move(p)) {
    for (size_t i = 0; i < storages.size(); ++i) {
      auto variable = std::static_pointer_cast<FakeVariable>(storages[i]);
      layouts.push_back(variable->layout);
      variables[program.variables[i]] = variable;
      order.push_back(variable);
    }
    ++programs_alive;
  }
  ~FakeProgram() override { --programs_alive; }

  bool stale() const override {
    for (size_t i = 0; i < order.size(); ++i)
      if (order[i]->layout != layouts[i]) return true;
    return false;
  }

  void run(std::span<const NDArray> feeds, std::span<NDArray> results) override {
    const int now = ++running;
    for (int seen = most_running; now > seen && !most_running.compare_exchange_weak(seen, now);) {}
    CHECK(!stale());
    std::unordered_map<Tensor*, std::vector<float>> values;
    for (size_t i = 0; i < feeds.size(); ++i) values[program.feeds[i]] = floats(feeds[i]);
    for (auto& operation : program.graph->root().operations) evaluate(*operation, values);
    for (size_t i = 0; i < results.size(); ++i)
      std::memcpy(results[i].data(), values[program.targets[i]].data(), results[i].bytes());
    --running;
    if (fail_next_run.exchange(false)) throw DeviceError("the fake device failed");
  }

  void evaluate(Operation& operation, std::unordered_map<Tensor*, std::vector<float>>& values) {
    if (operation.is("placeholder") || operation.is("variable")) return;
    if (operation.is("read")) {
      values[operation.output()] = floats(variables.at(operation.input(0))->array);
    } else if (operation.is("assign")) {
      auto& value = values[operation.input(1)];
      std::memcpy(variables.at(operation.input(0))->array.data(), value.data(), value.size() * sizeof(float));
    } else if (operation.is("constant")) {
      auto& data = operation.attributes.data("value");
      for (int64_t i = 0; i < data->elements(); ++i) values[operation.output()].push_back(data->scalar(i));
    } else {
      auto &a = values[operation.input(0)], &b = values[operation.input(1)];
      auto& result = values[operation.output()];
      for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
        const float x = a[i % a.size()], y = b[i % b.size()];
        result.push_back(operation.is("multiplication") ? x * y : x + y);
      }
    }
  }

  static std::vector<float> floats(const NDArray& array) {
    std::vector<float> values(array.elements());
    if (!values.empty()) std::memcpy(values.data(), array.data(), array.bytes());
    return values;
  }

  size_t arena_bytes() const override { return 1000; }
  size_t constant_bytes() const override { return 24; }
  std::vector<std::string> kernel_names() const override { return {"fake"}; }
  std::string plan() const override { return "fake"; }

  compiler::Program program;
  std::unordered_map<Tensor*, std::shared_ptr<FakeVariable>> variables;
  std::vector<std::shared_ptr<FakeVariable>> order;
  std::vector<int> layouts;
};

struct FakeBackend final : Backend {
  std::string_view name() const override { return "fake"; }
  std::string description() const override { return "fake"; }
  std::unique_ptr<CompiledProgram> compile(compiler::Program program,
                                           std::vector<std::shared_ptr<VariableStorage>> storages,
                                           const compiler::Options& options) override {
    for (auto& pass : options.disabled_passes)  // the tests' way to make variables move, once
      if (pass == "stay") {
        for (auto& storage : storages) static_cast<FakeVariable&>(*storage).layout = 1;
      }
    return std::make_unique<FakeProgram>(std::move(program), std::move(storages));
  }
  std::shared_ptr<VariableStorage> make_variable(const ConstantPtr& value) override {
    return std::make_shared<FakeVariable>(value);
  }
};

Device& device() {
  static const bool registered = [] {
    register_backend("fake", []() -> std::unique_ptr<Backend> { return std::make_unique<FakeBackend>(); });
    return true;
  }();
  (void)registered;
  return Device::get("fake");
}

// --- small graphs and arrays -----------------------------------------------------------------------------------------

NDArray array(std::vector<float> values) {
  NDArray result = NDArray::allocate(DType::float32, {static_cast<int64_t>(values.size())});
  std::memcpy(result.data(), values.data(), result.bytes());
  return result;
}

std::vector<float> values(const NDArray& array) { return FakeProgram::floats(array.copy_contiguous()); }

struct Doubler {  // y = 2 x
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  Tensor* x = graph->add("placeholder", {}, {{"type", TensorType{DType::float32, {-1}}}}, "x");
  Tensor* y = Builder(*graph).mul(x, 2.0);
  DeviceGraph on{graph, device()};
};

struct Counter {  // v += x
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  Tensor* x = graph->add("placeholder", {}, {{"type", TensorType{DType::float32, {2}}}}, "x");
  Tensor* v = graph->add("variable", {}, {{"value", ConstantData::splat(DType::float32, {2}, 1.0)}}, "v");
  Tensor* sum = graph->add("addition", {v, x});
  Operation* assign = graph->create("assign", {v, sum});
  DeviceGraph on{graph, device()};
};

using Floats = std::vector<float>;

compiler::Options without(std::string pass) {
  compiler::Options options;
  options.disabled_passes.push_back(std::move(pass));
  return options;
}

// --- buffers and arrays ----------------------------------------------------------------------------------------------

TEST(buffers_are_aligned_and_reused) {
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{65}, size_t{1000}, size_t{16384}, size_t{70000}, size_t{9} << 20}) {
    const auto before = Buffer::statistics();
    std::byte* first;
    {
      auto buffer = Buffer::allocate(bytes);
      first = buffer->data();
      CHECK(first != nullptr);
      CHECK_EQUAL(reinterpret_cast<uintptr_t>(first) % (bytes >= 16384 ? 4096 : 64), 0u);
      CHECK_EQUAL(buffer->bytes(), bytes);
      std::memset(first, 7, bytes);
      CHECK(Buffer::statistics().live_bytes >= before.live_bytes + bytes);
    }
    CHECK_EQUAL(Buffer::statistics().live_bytes, before.live_bytes);
    CHECK(Buffer::allocate(bytes)->data() == first);
    CHECK(Buffer::statistics().reused > before.reused);
  }
}

TEST(the_buffer_cache_is_bounded_and_drops_the_oldest) {
  Buffer::set_cache_limit(0);
  CHECK_EQUAL(Buffer::statistics().cached_bytes, 0u);
  Buffer::set_cache_limit(100 << 10);
  for (size_t kib = 10; kib < 100; kib += 5) Buffer::allocate(kib << 10);
  const auto statistics = Buffer::statistics();
  CHECK(statistics.cached_bytes > 0 && statistics.cached_bytes <= statistics.cache_limit);
  const auto reused = statistics.reused;
  Buffer::allocate(10 << 10);  // long gone
  CHECK_EQUAL(Buffer::statistics().reused, reused);
  Buffer::set_cache_limit(size_t{256} << 20);
}

TEST(absurd_sizes_are_errors) {
  CHECK_THROWS(DeviceError, Buffer::allocate(size_t{1} << 60), "cannot allocate");
  CHECK_THROWS(DeviceError, Buffer::allocate(~size_t{0}), "cannot allocate");
  CHECK_THROWS(DeviceError, NDArray::allocate(DType::float32, {int64_t{1} << 50}), "cannot allocate");
  CHECK_THROWS(ShapeError, NDArray::allocate(DType::float32, {int64_t{1} << 40, int64_t{1} << 40}));
  CHECK_THROWS(ShapeError, NDArray::allocate(DType::float32, {-2}));
  CHECK_EQUAL(values(array({1, 2})), (Floats{1, 2}));  // and nothing is broken
}

TEST(views_stay_within_their_buffer_and_keep_it_alive) {
  bool released = false;
  float memory[6] = {0, 1, 2, 3, 4, 5};
  NDArray view;
  {
    auto buffer = Buffer::borrow(memory, sizeof memory, [&] { released = true; });
    CHECK(!buffer->owned());
    view = NDArray(buffer, DType::float32, {3, 2}, {1, 3});
    CHECK_THROWS(ShapeError, NDArray(buffer, DType::float32, {3, 3}, {1, 3}), "does not lie within");
    CHECK_THROWS(ShapeError, NDArray(buffer, DType::float32, {2}, {-1}), "does not lie within");
    CHECK_THROWS(ShapeError, NDArray(buffer, DType::float32, {2}, {int64_t{1} << 62}));
    CHECK_THROWS(ShapeError, NDArray(buffer, DType::float32, Dims(17, 1), Dims(17, 1)), "at most 16");
    CHECK_EQUAL(values(NDArray(buffer, DType::float32, {2}, {-2}, 16)), (Floats{4, 2}));
    CHECK_EQUAL(values(NDArray(buffer, DType::float32, {2, 3}, {0, 2})), (Floats{0, 2, 4, 0, 2, 4}));
  }
  CHECK(!released);
  CHECK(!view.contiguous());
  CHECK_EQUAL(values(view), (Floats{0, 3, 1, 4, 2, 5}));
  view.copy_from(NDArray(array({10, 11, 12, 13, 14, 15}).buffer(), DType::float32, {3, 2}, {2, 1}));
  CHECK_EQUAL(memory[1], 12.0f);
  view = {};
  CHECK(released);
}

TEST(dlpack_goes_both_ways_and_releases) {
  bool released = false;
  float memory[6] = {0, 1, 2, 3, 4, 5};
  {
    NDArray a(Buffer::borrow(memory, sizeof memory, [&] { released = true; }), DType::float32, {2, 3}, {-3, 1}, 12);
    NDArray b = from_dlpack(to_dlpack(a));
    NDArray c = from_dlpack(to_dlpack_versioned(b));
    CHECK(c.data() == a.data());
    CHECK_EQUAL(values(c), (Floats{3, 4, 5, 0, 1, 2}));
    NDArray read_only(Buffer::borrow(memory, sizeof memory, {}, false), DType::float32, {6}, {1});
    CHECK(!from_dlpack(to_dlpack_versioned(read_only)).writable());
    CHECK_THROWS(DeviceError, to_dlpack(read_only), "read-only");
    auto* foreign = to_dlpack(a);
    foreign->dl_tensor.device.device_type = 2;
    CHECK_THROWS(DeviceError, from_dlpack(foreign), "type 2");
    auto* odd = to_dlpack(a);
    odd->dl_tensor.dtype.lanes = 4;
    CHECK_THROWS(DTypeError, from_dlpack(odd), "4 lanes");
    CHECK(!released);
  }
  CHECK(released);
  for (int i = 0; i < dtype_count; ++i) {
    NDArray a = NDArray::allocate(static_cast<DType>(i), {2, 0});
    CHECK_EQUAL(from_dlpack(to_dlpack(a)).dtype(), static_cast<DType>(i));
  }
}

// --- queues and command buffers --------------------------------------------------------------------------------------

TEST(a_queue_runs_in_order_on_its_own_thread) {
  auto queue = CommandQueue::create(device());
  std::vector<int> order;
  std::thread::id worker;
  std::shared_ptr<CommandBuffer> last;
  for (int i = 0; i < 100; ++i) {
    last = queue->command_buffer();
    last->encode([&order, &worker, i] { order.push_back(i), worker = std::this_thread::get_id(); }, "work");
    last->commit();
  }
  last->wait_until_completed();
  CHECK(worker != std::this_thread::get_id());
  CHECK_EQUAL(order.size(), 100u);
  CHECK(std::ranges::is_sorted(order));
  CHECK(last->status() == CommandBufferStatus::completed);
}

TEST(a_command_buffer_is_committed_once) {
  auto buffer = CommandQueue::create(device())->command_buffer();
  CHECK_THROWS(DeviceError, buffer->wait_until_completed(), "has not been committed");
  CHECK(buffer->status() == CommandBufferStatus::not_enqueued);
  buffer->commit();  // empty, and its queue is only held by the buffer
  CHECK_THROWS(DeviceError, buffer->commit(), "committed already");
  CHECK_THROWS(DeviceError, buffer->encode([] {}, "late"), "committed already");
  CHECK_THROWS(DeviceError, buffer->add_completed_handler([](auto&) {}), "committed already");
  buffer->wait_until_completed();
}

TEST(an_exception_in_work_reaches_the_waiter_and_skips_the_rest) {
  auto queue = CommandQueue::create(device());
  auto buffer = queue->command_buffer();
  auto event = std::make_shared<SharedEvent>();
  bool skipped = true;
  std::atomic<bool> handled{false};
  buffer->encode([] { throw ShapeError("went wrong"); }, "work");
  buffer->encode([&] { skipped = false; }, "work");
  buffer->encode_signal_event(event, 1);
  buffer->add_completed_handler([&](CommandBuffer& b) { handled = b.status() == CommandBufferStatus::error; });
  buffer->commit();
  CHECK_THROWS(ShapeError, buffer->wait_until_completed(), "went wrong");
  CHECK_THROWS(ShapeError, buffer->wait_until_completed(), "went wrong");
  CHECK(skipped);
  CHECK(handled);
  CHECK_THROWS(DeviceError, event->wait(1), "went wrong");
  auto next = queue->command_buffer();  // the queue goes on
  next->encode([] {}, "work");
  next->commit();
  next->wait_until_completed();
}

TEST(handlers_run_elsewhere_and_their_exceptions_reach_the_waiter) {
  auto queue = CommandQueue::create(device());
  auto buffer = queue->command_buffer();
  std::vector<std::string> order;
  std::thread::id scheduled, completed;
  buffer->encode([] {}, "work");
  buffer->add_scheduled_handler(
      [&](CommandBuffer&) { order.push_back("scheduled"), scheduled = std::this_thread::get_id(); });
  buffer->add_completed_handler([&](CommandBuffer& b) {
    order.push_back("completed");
    completed = std::this_thread::get_id();
    CHECK(b.status() == CommandBufferStatus::completed);
    b.wait_until_completed();           // of its own buffer: the work is done
    auto more = b.queue().command_buffer();
    more->encode([] {}, "work");
    more->commit();
    more->wait_until_completed();       // and of new work
    throw GraphError("bad handler");
  });
  buffer->add_completed_handler([&](CommandBuffer&) { order.push_back("second"); });
  buffer->commit();
  CHECK_THROWS(GraphError, buffer->wait_until_completed(), "bad handler");
  CHECK_EQUAL(order.size(), 3u);
  CHECK_EQUAL(order[0] + order[1] + order[2], std::string("scheduledcompletedsecond"));
  CHECK(scheduled == completed && completed != std::this_thread::get_id());
  CHECK(buffer->status() == CommandBufferStatus::error);
}

TEST(events_order_two_queues) {
  auto first = CommandQueue::create(device()), second = CommandQueue::create(device());
  auto ping = std::make_shared<SharedEvent>(), pong = std::make_shared<SharedEvent>();
  int value = 0;  // handed to and fro; the events are its only protection
  std::shared_ptr<CommandBuffer> a, b;
  for (int i = 1; i <= 50; ++i) {
    b = second->command_buffer();
    b->encode_wait_for_event(ping, i);
    b->encode([&value, i] { CHECK_EQUAL(value++, 2 * i - 1); }, "pong");
    b->encode_signal_event(pong, i);
    b->commit();
    a = first->command_buffer();
    a->encode_wait_for_event(pong, i - 1);
    a->encode([&value, i] { CHECK_EQUAL(value++, 2 * i - 2); }, "ping");
    a->encode_signal_event(ping, i);
    a->commit();
  }
  a->wait_until_completed();
  b->wait_until_completed();
  CHECK_EQUAL(value, 100);
  CHECK_EQUAL(pong->signaled_value(), 50u);
  pong->signal(10);
  CHECK_EQUAL(pong->signaled_value(), 50u);
}

TEST(two_queues_run_at_the_same_time) {
  auto first = CommandQueue::create(device()), second = CommandQueue::create(device());
  Semaphore here(0), there(0);
  auto a = first->command_buffer(), b = second->command_buffer();
  a->encode([&] { here.signal(), there.wait(20.0); }, "a");  // each needs the other
  b->encode([&] { there.signal(), here.wait(20.0); }, "b");
  a->commit();
  b->commit();
  a->wait_until_completed(30.0);
  b->wait_until_completed(30.0);
}

TEST(what_is_never_signalled_times_out) {
  auto event = std::make_shared<SharedEvent>(0.05);
  CHECK_THROWS(TimeoutError, event->wait(1), "did not reach value 1 within 0.05 s");
  CHECK(!event->wait_for(1, 0.0));
  auto queue = CommandQueue::create(device());
  auto buffer = queue->command_buffer();
  buffer->encode_wait_for_event(event, 3);
  buffer->commit();
  CHECK_THROWS(TimeoutError, buffer->wait_until_completed(), "value 3");
  auto slow = queue->command_buffer();
  Semaphore go(0);
  slow->encode([&] { go.wait(); }, "slow");
  slow->commit();
  CHECK_THROWS(TimeoutError, slow->wait_until_completed(0.05), "was not done within 0.05 s");
  CHECK(!slow->done());
  go.signal();
  slow->wait_until_completed();
  CHECK_THROWS(TimeoutError, go.wait(0.01), "semaphore");
  CHECK_THROWS(DeviceError, Semaphore(-1), "at least 0");
}

TEST(a_queue_that_is_blocked_can_be_closed) {
  auto queue = CommandQueue::create(device());
  auto event = std::make_shared<SharedEvent>(Timeout{});
  auto buffer = queue->command_buffer();
  buffer->encode_wait_for_event(event, 1);
  buffer->commit();
  queue->close();
  CHECK_THROWS(DeviceError, buffer->wait_until_completed(), "cancelled");
  CHECK_THROWS(DeviceError, queue->command_buffer()->commit(), "closed");
}

TEST(a_semaphore_of_two_bounds_what_is_in_flight) {
  auto queue = CommandQueue::create(device());
  auto semaphore = std::make_shared<Semaphore>(2);
  std::atomic<int> in_flight{0}, most{0};
  std::shared_ptr<CommandBuffer> last;
  for (int i = 0; i < 30; ++i) {
    semaphore->wait();
    most = std::max(most.load(), ++in_flight);
    last = queue->command_buffer();
    last->encode([] {}, "step");
    last->add_completed_handler([&, semaphore](CommandBuffer&) {
      --in_flight;
      semaphore->signal();
    });
    last->commit();
  }
  last->wait_until_completed();
  CHECK(most <= 2);
  CHECK_EQUAL(semaphore->value(), 2);
}

// --- executables -----------------------------------------------------------------------------------------------------

TEST(runs_give_values_and_check_their_arrays) {
  Doubler d;
  auto executable = d.on.compile({{d.x, {DType::float32, {3}}}}, {d.y});
  CHECK_EQUAL(values(executable->run({array({1, 2, 3})})[0]), (Floats{2, 4, 6}));
  NDArray input = array({1, 2, 3}), output = array({0, 0, 0});
  CHECK(executable->run({input}, {output})[0].data() == output.data());
  CHECK_EQUAL(values(output), (Floats{2, 4, 6}));
  CHECK_THROWS(GraphError, executable->run({}), "0 inputs");
  CHECK_THROWS(GraphError, executable->run({NDArray()}), "has no array");
  CHECK_THROWS(ShapeError, executable->run({array({1, 2})}), "feed x", "(2)", "(3)");
  CHECK_THROWS(DTypeError, executable->run({NDArray::allocate(DType::int32, {3})}), "int32", "float32");
  CHECK_THROWS(ShapeError, executable->run({input}, {array({0})}), "result");
  CHECK_THROWS(DTypeError, executable->run({input}, {NDArray::allocate(DType::int8, {3})}), "int8");
  CHECK_THROWS(DeviceError, executable->run({input}, {input}), "shares memory with feed x");
  CHECK_THROWS(GraphError, executable->run({input}, {output, output}), "2 results");
  float memory[6] = {};
  NDArray strided(Buffer::borrow(memory, sizeof memory, {}), DType::float32, {3}, {2});
  NDArray read_only(Buffer::borrow(memory, sizeof memory, {}, false), DType::float32, {3}, {1});
  CHECK_THROWS(ShapeError, executable->run({input}, {strided}), "not contiguous");
  CHECK_THROWS(ShapeError, executable->run({strided}), "not contiguous");
  CHECK_THROWS(DeviceError, executable->run({input}, {read_only}), "read-only");
  CHECK_THROWS(GraphError, d.on.compile({}, {}), "nothing to run");
  CHECK_EQUAL(values(executable->run({input})[0]), (Floats{2, 4, 6}));
}

TEST(run_async_and_encode_follow_their_descriptor) {
  Doubler d;
  auto executable = d.on.compile({{d.x, {DType::float32, {1}}}}, {d.y});
  auto go = std::make_shared<SharedEvent>(), started = std::make_shared<SharedEvent>(),
       done = std::make_shared<SharedEvent>();
  std::atomic<int> handled{0};
  ExecutionDescriptor descriptor;
  descriptor.wait_for_event(go, 1);
  descriptor.signal_event(started, 1, ExecutionDescriptor::Stage::scheduled);
  descriptor.signal_event(done, 7);
  descriptor.scheduled_handler = [&](auto& results, auto error) { handled += results.size() == 1 && !error; };
  descriptor.completed_handler = [&](auto& results, auto error) {
    handled += values(results[0])[0] == 8 && !error ? 10 : 0;
  };
  auto execution = executable->run_async({array({4})}, {}, descriptor);
  CHECK(!execution->done());
  CHECK(!execution->wait_for(0.02));
  CHECK_EQUAL(started->signaled_value(), 0u);
  go->signal(1);
  CHECK_EQUAL(values(execution->results()[0]), (Floats{8}));
  CHECK_EQUAL(done->signaled_value(), 7u);
  CHECK_EQUAL(started->signaled_value(), 1u);
  CHECK_EQUAL(handled, 11);

  auto buffer = CommandQueue::create(device())->command_buffer();
  auto outputs = executable->encode(*buffer, {array({5})});
  auto again = executable->encode(*buffer, outputs);  // the second run reads what the first wrote
  buffer->commit();
  buffer->wait_until_completed();
  CHECK_EQUAL(values(again[0]), (Floats{20}));

  fail_next_run = true;
  auto failing = executable->run_async({array({4})});
  CHECK_THROWS(DeviceError, failing->results(), "the fake device failed");
  CHECK(failing->done() && failing->error());
  ExecutionDescriptor waiting;
  waiting.wait_until_completed = true;
  CHECK(executable->run_async({array({4})}, {}, waiting)->done());
}

TEST(executables_are_cached_within_limits) {
  Doubler d;
  const int before = programs_alive;
  for (int round = 0; round < 2; ++round)
    for (int64_t n = 1; n <= 1000; ++n) {
      auto result = d.on.run({{d.x, NDArray::allocate(DType::float32, {n})}}, {d.y});
      CHECK_EQUAL(result[0].dims(), Dims{n});
    }
  auto statistics = d.on.cache_statistics();
  CHECK_EQUAL(statistics.count, 64u);
  CHECK_EQUAL(programs_alive - before, 64);
  CHECK_EQUAL(statistics.compiles, 2000u);
  CHECK_EQUAL(statistics.misses, 2000u);
  CHECK_EQUAL(statistics.evictions, 1936u);
  CHECK_EQUAL(statistics.bytes, 64u * 1024);
  CHECK(statistics.seconds > 0);
  d.on.run({{d.x, NDArray::allocate(DType::float32, {1000})}}, {d.y});
  CHECK_EQUAL(d.on.cache_statistics().hits, 1u);
  d.on.set_cache_limits(64, 5000);
  CHECK_EQUAL(d.on.cache_statistics().count, 4u);
  d.on.set_cache_limits(0, 0);
  CHECK_EQUAL(d.on.cache_statistics().count, 1u);  // the newest stays
  d.on.clear_cache();
  CHECK_EQUAL(d.on.cache_statistics().count, 0u);
  CHECK_EQUAL(programs_alive, before);
}

TEST(the_cache_tells_requests_apart) {
  Doubler d;
  Tensor* z = Builder(*d.graph).add(d.x, d.y);
  const Feed feed{d.x, {DType::float32, {2}}};
  auto a = d.on.compile({feed}, {d.y}), b = d.on.compile({feed}, {z}), c = d.on.compile({feed}, {d.y, z});
  compiler::Options reference;
  reference.reference_kernels = true;
  auto e = d.on.compile({feed}, {d.y}, {}, reference);
  auto f = d.on.compile({feed}, {d.y}, {d.y->operation});
  CHECK(a != b && a != c && a != e && a != f && e != f);
  CHECK(a == d.on.compile({feed}, {d.y}));
  CHECK_EQUAL(d.on.cache_statistics().compiles, 5u);
}

TEST(compiling_reports_what_is_wrong_with_the_feeds) {
  Doubler d, other;
  const TensorType type{DType::float32, {2}};
  CHECK_THROWS(GraphError, d.on.compile({}, {d.y}), "x");
  CHECK_THROWS(GraphError, d.on.compile({{other.x, type}, {d.x, type}}, {d.y}), "another graph");
  CHECK_THROWS(GraphError, d.on.compile({{d.x, type}, {d.x, type}}, {d.y}), "twice");
  CHECK_THROWS(GraphError, d.on.compile({{d.y, type}}, {d.y}), "fed");
  CHECK_THROWS(GraphError, d.on.compile({{d.x, type}}, {other.y}), "another graph");
  CHECK_THROWS(GraphError, d.on.compile({{nullptr, type}}, {d.y}), "null");
  CHECK_THROWS(GraphError, d.on.compile({{d.x, type}}, {nullptr}), "null");
  CHECK_THROWS(DTypeError, d.on.compile({{d.x, {DType::int32, {2}}}}, {d.y}), "int32");
  CHECK_THROWS(ShapeError, d.on.compile({{d.x, {DType::float32, {2, 2}}}}, {d.y}), "x");
  CHECK_THROWS(ShapeError, d.on.compile({{d.x, {DType::float32, {-1}}}}, {d.y}), "x");
  CHECK_EQUAL(d.on.cache_statistics().count, 0u);
  CHECK_EQUAL(values(d.on.run({{d.x, array({1})}}, {d.y})[0]), (Floats{2}));
}

TEST(the_order_of_feeds_makes_no_difference_to_run) {
  auto graph = std::make_shared<Graph>();
  const Attributes type{{"type", TensorType{DType::float32, {1}}}};
  Tensor *a = graph->add("placeholder", {}, type), *b = graph->add("placeholder", {}, type);
  Tensor* y = Builder(*graph).add(Builder(*graph).mul(a, 10.0), b);
  DeviceGraph on(graph, device());
  CHECK_EQUAL(values(on.run({{a, array({1})}, {b, array({2})}}, {y})[0]), Floats{12});
  CHECK_EQUAL(values(on.run({{b, array({2})}, {a, array({1})}}, {y})[0]), Floats{12});
  CHECK_EQUAL(on.cache_statistics().compiles, 1u);
}

TEST(variables_keep_their_value_across_runs) {
  Counter c;
  CHECK_EQUAL(values(c.on.variable_value(c.v)), (Floats{1, 1}));
  for (int i = 0; i < 3; ++i) c.on.run({{c.x, array({1, 2})}}, {}, {c.assign});
  CHECK_EQUAL(values(c.on.variable_value(c.v)), (Floats{4, 7}));
  c.on.set_variable(c.v, array({10, 20}));
  CHECK_EQUAL(values(c.on.run({{c.x, array({1, 2})}}, {c.sum}, {c.assign})[0]), (Floats{11, 22}));
  CHECK_THROWS(ShapeError, c.on.set_variable(c.v, array({1})), "(2)", "(1)");
  CHECK_THROWS(DTypeError, c.on.set_variable(c.v, NDArray::allocate(DType::float64, {2})), "float64");
  CHECK_THROWS(GraphError, c.on.set_variable(c.x, array({1, 2})), "not a variable");
  CHECK_THROWS(GraphError, c.on.variable_value(Counter().v), "not a variable of this graph");
  CHECK_EQUAL(values(c.on.variable_value(c.v)), (Floats{11, 22}));
}

TEST(programs_are_compiled_again_when_a_variable_moves) {
  Counter c;
  const Feed feed{c.x, {DType::float32, {2}}};
  auto step = c.on.compile({feed}, {c.sum}, {c.assign});
  step->run({array({1, 1})});
  CHECK_EQUAL(c.on.cache_statistics().compiles, 1u);

  // One run in flight, blocked, while the variable moves; one afterwards.
  auto go = std::make_shared<SharedEvent>();
  ExecutionDescriptor descriptor;
  descriptor.wait_for_event(go, 1);
  auto waiting = step->run_async({array({1, 1})}, {}, descriptor);
  c.on.compile({feed}, {c.sum}, {}, without("stay"));
  CHECK_EQUAL(c.on.cache_statistics().compiles, 3u);  // the step in flight was compiled again with it
  go->signal(1);
  CHECK_EQUAL(values(waiting->results()[0]), (Floats{3, 3}));
  CHECK_EQUAL(values(step->run({array({1, 1})})[0]), (Floats{4, 4}));
  CHECK_EQUAL(c.on.cache_statistics().compiles, 3u);

  Counter idle;
  auto later = idle.on.compile({{idle.x, {DType::float32, {2}}}}, {idle.sum}, {idle.assign});
  idle.on.compile({{idle.x, {DType::float32, {2}}}}, {idle.sum}, {}, without("stay"));
  CHECK_EQUAL(idle.on.cache_statistics().compiles, 2u);
  CHECK_EQUAL(values(later->run({array({1, 1})})[0]), (Floats{2, 2}));
  CHECK_EQUAL(idle.on.cache_statistics().compiles, 3u);
}

TEST(many_threads_run_one_executable) {
  Doubler d;
  Counter c;
  auto executable = d.on.compile({{d.x, {DType::float32, {4}}}}, {d.y});
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      auto queue = t % 2 ? CommandQueue::create(device()) : nullptr;
      for (int i = 0; i < 50; ++i) {
        const float x = static_cast<float>(t * 100 + i);
        CHECK_EQUAL(values(executable->run({array({x, x, x, x})}, {}, queue)[0])[3], 2 * x);
        NDArray one = array({1, 1});
        std::vector<NDArray> feeds{one};
        auto step = c.on.executable_for({c.x}, feeds, {}, {c.assign});
        step->run(std::move(feeds), {}, queue);  // assigns from several queues exclude each other
        auto now = values(c.on.variable_value(c.v));
        CHECK_EQUAL(now[0], now[1]);
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK_EQUAL(values(c.on.variable_value(c.v)), (Floats{401, 401}));
  CHECK_EQUAL(c.on.cache_statistics().compiles, 1u);
}

TEST(compiling_goes_on_beside_runs) {
  Counter c;
  std::atomic<bool> stop{false};
  const Feed feed{c.x, {DType::float32, {2}}};
  auto reader = c.on.compile({feed}, {c.sum});
  std::thread runs([&] {
    while (!stop) reader->run({array({1, 1})});
  });
  for (int i = 0; i < 50; ++i) {
    c.on.clear_cache();
    c.on.compile({feed}, {c.sum}, {c.assign});
  }
  stop = true;
  runs.join();
}

TEST(a_device_is_found_by_name) {
  CHECK_THROWS(DeviceError, Device::get("tpu"), "\"tpu\"", "fake");
  CHECK(&Device::get("fake") == &device());
}

TEST(the_profiler_keeps_a_bounded_record) {
  Doubler d;
  Profiler::get().start(8);
  for (int i = 0; i < 10; ++i) d.on.run({{d.x, array({1})}}, {d.y});
  Profiler::get().stop();
  const auto count = Profiler::get().records().size();
  d.on.run({{d.x, array({1})}}, {d.y});
  CHECK_EQUAL(count, 8u);
  CHECK_EQUAL(Profiler::get().records().size(), count);
  CHECK(Profiler::get().dropped() > 0);
  CHECK_EQUAL(Profiler::get().records().back().category, std::string_view("run"));
  const auto trace = Profiler::get().chrome_trace();
  CHECK(trace.find("traceEvents") != std::string::npos && trace.find("\"cat\":\"encode\"") != std::string::npos);
}

TEST(the_copy_counter_counts) {
  const auto before = copy_count();
  counted_copy(array({1}));
  CHECK_EQUAL(copy_count(), before + 1);
}

// --- fork and the end ------------------------------------------------------------------------------------------------

template <class Function>
bool child_gets_device_error(Function function) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    try {
      function();
    } catch (const DeviceError& error) {
      _exit(std::string(error.what()).find("created before fork") != std::string::npos ? 42 : 2);
    } catch (...) {
      _exit(3);
    }
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 42;
}

TEST(use_after_fork_is_refused) {
  Doubler d;
  auto executable = d.on.compile({{d.x, {DType::float32, {1}}}}, {d.y});
  executable->run({array({1})});
  auto event = std::make_shared<SharedEvent>();
  auto queue = CommandQueue::create(device());
  auto buffer = queue->command_buffer();
  Semaphore semaphore(0);
  CHECK(child_gets_device_error([&] { executable->run({array({1})}); }));
  CHECK(child_gets_device_error([&] { d.on.compile({{d.x, {DType::float32, {2}}}}, {d.y}); }));
  CHECK(child_gets_device_error([&] { d.on.run({{d.x, array({1})}}, {d.y}); }));
  CHECK(child_gets_device_error([&] { Device::get("fake"); }));
  CHECK(child_gets_device_error([&] { CommandQueue::create(device()); }));
  CHECK(child_gets_device_error([&] { buffer->encode([] {}, "work"); }));
  CHECK(child_gets_device_error([&] { buffer->commit(); }));
  CHECK(child_gets_device_error([&] { buffer->wait_until_completed(); }));
  CHECK(child_gets_device_error([&] { event->wait(1); }));
  CHECK(child_gets_device_error([&] { semaphore.wait(); }));
  CHECK(child_gets_device_error([&] {  // arrays work, objects end, leaving does not hang
    if (values(array({1, 2})) != Floats{1, 2}) return;
    buffer = nullptr;
    queue = nullptr;
    shutdown();
    event->wait(1);
  }));
  CHECK_EQUAL(values(executable->run({array({1})})[0]), (Floats{2}));  // the parent goes on
}

// The last test: nothing runs after it.
TEST(z_shutdown_finishes_what_is_in_flight) {
  Doubler d;
  auto executable = d.on.compile({{d.x, {DType::float32, {1}}}}, {d.y});
  auto queue = CommandQueue::create(device()), other = CommandQueue::create(device());
  auto never = std::make_shared<SharedEvent>(Timeout{}), soon = std::make_shared<SharedEvent>(Timeout{});
  std::atomic<int> handled{0};
  auto stuck = queue->command_buffer();
  stuck->encode_wait_for_event(never, 1);
  stuck->add_completed_handler([&](CommandBuffer&) { handled += 100; });
  stuck->commit();
  auto waits = other->command_buffer();
  waits->encode_wait_for_event(soon, 1);
  waits->add_completed_handler([&](CommandBuffer& b) { handled += b.error() ? 0 : 1; });
  waits->commit();
  std::vector<std::shared_ptr<Execution>> executions;
  for (int i = 0; i < 20; ++i) executions.push_back(executable->run_async({array({1})}));
  auto slow = device().default_queue()->command_buffer();
  slow->encode([] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }, "slow");
  slow->encode_signal_event(soon, 1);
  slow->commit();
  shutdown();
  shutdown();
  for (auto& execution : executions) CHECK(execution->done() && !execution->error());
  CHECK_EQUAL(handled, 101);
  CHECK_THROWS(DeviceError, stuck->wait_until_completed(), "cancelled");
  CHECK_THROWS(DeviceError, executable->run({array({1})}), "closed");
  CHECK_THROWS(DeviceError, CommandQueue::create(device()), "shut down");
}

}  // namespace

int main() { return check::run_all(); }
