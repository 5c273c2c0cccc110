// The Metal backend from a C++ application, on the mock: training, queues and events, memory, device faults, threads,
// packages, and shutdown. Other behavior is tested from Python; these tests also pass under the sanitizers.
#include <filesystem>

#include "backend_check.h"

using namespace backend;

namespace {

constexpr double seconds = 60;

// --- training --------------------------------------------------------------------------------------------------------

TEST(network_learns_with_varying_batch_sizes) {
  Network network;
  network.on.set_cache_limits(4, size_t{1} << 30);
  const float first = network.step(9);
  float last = first;
  for (int64_t i = 0; i < 80; ++i) last = network.step(3 + i % 40);  // relocates the variables more than once
  CHECK(first > 0.9f);
  CHECK(last < 0.2f * first);
}

TEST(training_does_not_leak) {
  const auto train = [](int steps) {
    Network network;
    for (int i = 0; i < steps; ++i) network.step(9);
  };
  train(2);
  CHECK_EQUAL(check::leaves([&] { train(30); }), 0);
}

TEST(threads_train_and_read_one_network_concurrently) {
  Network network;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        if (t % 2)
          network.step(3 + t + i % 3);
        else
          network.on.variable_value(network.weights[static_cast<size_t>(i % 4)]);
        network.on.run(network.batch(6), {network.loss});
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(network.step(9) < 1);
}

// --- control flow ----------------------------------------------------------------------------------------------------

TEST(loops_and_branches_compute_expected_values) {
  auto graph = std::shared_ptr<Graph>(parse(R"(graph {
    %n = placeholder() {type=int32[]} : int32[]
    %x = placeholder() {type=float32[2]} : float32[2]
    %zero = constant() {value=int32[] splat 0x00000000} : int32[]
    %one = constant() {value=int32[] splat 0x00000001} : int32[]
    %sum = for(%zero, %n, %one, %x) : float32[2] (%i: int32[], %before: float32[2]) {
      %after = addition(%before, %x) : float32[2]
      yield %after
    }
    %many = greater_than(%n, %one) : bool[]
    %y = if(%many) : float32[2] {
      %negative = negative(%sum) : float32[2]
      yield %negative
    } {
      yield %sum
    }
  })"));
  DeviceGraph on(graph, metal());
  const auto run = [&](int32_t n) {
    NDArray count = NDArray::allocate(DType::int32, {});
    std::memcpy(count.data(), &n, sizeof n);
    return values(on.run({{graph->find("n")->output(), count}, {graph->find("x")->output(), array({1, 2})}},
                         {graph->find("y")->output()})[0]);
  };
  CHECK_EQUAL(run(3), (Floats{-4, -8}));
  CHECK_EQUAL(run(1), (Floats{2, 4}));
}

// --- queues and events -----------------------------------------------------------------------------------------------

TEST(two_queues_alternate_by_shared_events) {
  Doubler d;
  const auto executable = d.of(64);
  const auto ping = CommandQueue::create(metal()), pong = CommandQueue::create(metal());
  const auto there = std::make_shared<SharedEvent>(), back = std::make_shared<SharedEvent>();
  Floats one(64, 1), two(64, 0);
  std::vector<std::shared_ptr<Execution>> runs;
  for (uint64_t round = 1; round <= 40; ++round) {  // doubles `one` into `two`, and `two` back into `one`
    ExecutionDescriptor to, from;
    to.wait_for_event(back, round - 1);
    to.signal_event(there, round);
    from.wait_for_event(there, round);
    from.signal_event(back, round);
    one.assign(64, static_cast<float>(round));
    runs.push_back(executable->run_async({borrowed(one)}, {borrowed(two)}, to, ping));
    runs.push_back(executable->run_async({borrowed(two)}, {borrowed(one)}, from, pong));
    back->wait(round, seconds);
    CHECK_EQUAL(one[63], 4 * static_cast<float>(round));
  }
  for (auto& run : runs) run->wait(seconds);
}

TEST(events_order_command_buffers_in_flight) {
  Counter c;
  const auto step = c.step();
  const auto first = CommandQueue::create(metal()), second = CommandQueue::create(metal());
  const auto event = std::make_shared<SharedEvent>();
  std::vector<NDArray> sums;
  std::shared_ptr<CommandBuffer> last;
  for (uint64_t i = 0; i < 50; ++i) {
    last = (i % 2 ? second : first)->command_buffer();
    if (i > 0) last->encode_wait_for_event(event, i);
    sums.push_back(step->encode(*last, {array({1, 1})})[0]);
    last->encode_signal_event(event, i + 1);
    last->commit();
  }
  last->wait_until_completed(seconds);
  for (size_t i = 0; i < sums.size(); ++i)
    CHECK_EQUAL(values(sums[i]), (Floats{static_cast<float>(i + 1), static_cast<float>(i + 1)}));
}

TEST(handlers_run_once_each_and_receive_results) {
  Doubler d;
  const auto executable = d.of(4);
  std::atomic<int> scheduled{0}, completed{0};
  std::vector<std::shared_ptr<Execution>> runs;
  for (int i = 0; i < 100; ++i) {
    ExecutionDescriptor descriptor;
    descriptor.scheduled_handler = [&](auto&, auto error) { scheduled += !error; };
    descriptor.completed_handler = [&, i](auto& results, auto error) {
      completed += !error && values(results[0])[0] == static_cast<float>(2 * i);
    };
    runs.push_back(executable->run_async({array(Floats(4, static_cast<float>(i)))}, {}, descriptor));
  }
  for (auto& run : runs) run->wait(seconds);
  CHECK_EQUAL(scheduled, 100);
  CHECK_EQUAL(completed, 100);
}

// A command buffer with several runs is committed in parts, of which the first complete while the last is still being
// encoded. The buffer must complete with the last part.
TEST(split_command_buffer_completes_with_its_last_part) {
  Doubler d;
  const auto executable = d.of(1);
  const auto queue = CommandQueue::create(metal());
  for (int i = 0; i < 200; ++i) {
    auto buffer = queue->command_buffer();
    NDArray value = array({1});
    for (int part = 0; part < 3; ++part) value = executable->encode(*buffer, {value})[0];
    buffer->commit();
    buffer->wait_until_completed(seconds);
    CHECK_EQUAL(values(value), Floats{8});
  }
}

TEST(queues_may_be_destroyed_with_work_in_flight) {
  Doubler d;
  const auto executable = d.of(16);
  const auto drop = [&] {
    std::vector<std::shared_ptr<Execution>> runs;
    for (int i = 0; i < 40; ++i) {
      const auto queue = CommandQueue::create(metal());
      for (int j = 0; j < 3; ++j) runs.push_back(executable->run_async({array(Floats(16, 1))}, {}, {}, queue));
    }
    for (auto& run : runs) CHECK_EQUAL(values(run->results()[0])[15], 2.0f);
  };
  Device::set_memory_cache_limit(0);
  executable->run({array(Floats(16, 1))});
  const long before = mock_live_objects();
  drop();
  // queue threads terminate asynchronously
  for (int i = 0; i < 10'000 && mock_live_objects() > before; ++i) usleep(1000);
  CHECK(mock_live_objects() <= before);
  Device::set_memory_cache_limit(size_t{256} << 20);
}

// --- memory ----------------------------------------------------------------------------------------------------------

TEST(results_are_written_to_caller_memory) {
  Doubler d;
  const auto executable = d.of(2048);
  void* pages = std::aligned_alloc(16384, 32768);
  for (const int staged : {0, 1}) {
    mock_refuse_memory_of_others(staged);
    for (const size_t offset : {size_t{0}, size_t{64}, size_t{4}}) {
      float* in = static_cast<float*>(pages);
      float* out = in + 4096 - offset / 4;
      for (int i = 0; i < 2048; ++i) in[i] = static_cast<float>(i);
      const auto over = [](float* first) { return NDArray::borrow(first, DType::float32, {2048}, {1}, [] {}); };
      if (offset) std::memmove(in + offset / 4, in, 2000 * 4);
      in += offset / 4;
      const float last = in[2047 - offset / 4];
      executable->run({over(in)}, {over(out - offset / 4)});
      CHECK_EQUAL(out[2047 - offset / 4 - offset / 4], 2 * last);
    }
  }
  mock_refuse_memory_of_others(0);
  std::free(pages);
}

// The result of each run is the feed of the other, in memory that Metal does not track, so one run must wait.
TEST(runs_with_crossed_memory_on_two_queues_do_not_deadlock) {
  Doubler d;
  const auto executable = d.of(8);
  Floats one(8, 1), two(8, 1);
  std::vector<std::thread> threads;
  for (const bool forth : {true, false})
    threads.emplace_back([&, forth] {
      const auto queue = CommandQueue::create(metal());
      const NDArray from = borrowed(forth ? one : two), to = borrowed(forth ? two : one);
      for (int i = 0; i < 200; ++i) executable->run({from}, {to}, queue);
    });
  for (auto& thread : threads) thread.join();
  CHECK_EQUAL(one[0], one[7]);
}

// --- device faults ---------------------------------------------------------------------------------------------------

TEST(fault_fails_only_its_own_command_buffer) {
  Counter c;
  const auto step = c.step();
  step->run({array({1, 1})});
  mock_fail_next_command_buffer("page fault");
  CHECK_THROWS(DeviceError, step->run({array({1, 1})}), "page fault");
  CHECK_EQUAL(values(step->run({array({1, 1})})[0]), (Floats{2, 2}));
}

// A signal with a later value also satisfies waits for earlier values. If the signaling work fails, everything that
// waits for either value fails, directly or indirectly.
TEST(fault_fails_everything_waiting_for_its_event) {
  Doubler d;
  const auto executable = d.of(1);
  const auto queue = CommandQueue::create(metal()), other = CommandQueue::create(metal());
  for (const uint64_t value : {2, 5}) {
    const auto event = std::make_shared<SharedEvent>(), next = std::make_shared<SharedEvent>();
    const auto promised = [](const SharedEvent& awaited, uint64_t number) {
      while (!awaited.known(number)) usleep(100);
    };
    mock_hold_command_buffers(1);
    auto failing = queue->command_buffer();
    failing->encode_device_work([](DeviceCommands*) {}, "failing");
    executable->encode(*failing, {array({1})});
    failing->encode_signal_event(event, 5);
    failing->commit();
    promised(*event, 5);
    auto waiting = other->command_buffer();
    waiting->encode_wait_for_event(event, value, seconds);
    executable->encode(*waiting, {array({1})});
    waiting->encode_signal_event(next, 1);
    waiting->commit();
    promised(*next, 1);
    auto last = queue->command_buffer();
    last->encode_wait_for_event(next, 1, seconds);
    executable->encode(*last, {array({1})});
    last->commit();
    mock_fail_command_buffer("failing", "lost");
    mock_hold_command_buffers(0);
    CHECK_THROWS(DeviceError, failing->wait_until_completed(seconds), "lost");
    CHECK_THROWS(DeviceError, waiting->wait_until_completed(seconds), cat("value ", value, " will not be"), "lost");
    CHECK_THROWS(DeviceError, last->wait_until_completed(seconds), "value 1 will not be signaled", "lost");
    CHECK_EQUAL(event->signaled_value(), 0u);
    CHECK_EQUAL(next->signaled_value(), 0u);
  }
  CHECK_EQUAL(values(executable->run({array({1})})[0]), Floats{2});
}

// --- threads ---------------------------------------------------------------------------------------------------------

TEST(command_buffers_using_two_graphs_in_opposite_order_do_not_deadlock) {
  Counter a, b;
  const auto step_a = a.step(), step_b = b.step();
  std::vector<std::thread> threads;
  for (const bool a_first : {true, false})
    threads.emplace_back([&, a_first] {
      const auto queue = CommandQueue::create(metal());
      for (int i = 0; i < 60; ++i) {
        auto buffer = queue->command_buffer();
        for (const bool first : {true, false}) (first == a_first ? step_a : step_b)->encode(*buffer, {array({1, 1})});
        buffer->commit();
        if (i % 8 == 7) buffer->wait_until_completed(seconds);
      }
      queue->close();
    });
  for (auto& thread : threads) thread.join();
  CHECK_EQUAL(values(a.on.variable_value(a.v)), (Floats{120, 120}));
  CHECK_EQUAL(values(b.on.variable_value(b.v)), (Floats{120, 120}));
}

TEST(compiling_does_not_block_concurrent_runs) {
  Counter c;
  const auto step = c.step();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      const auto queue = CommandQueue::create(metal());
      while (!stop) {
        const Floats now = values(step->run({array({1, 1})}, {}, queue)[0]);
        CHECK_EQUAL(now[0], now[1]);
      }
    });
  for (int i = 0; i < 60; ++i) {  // each iteration compiles, and occasionally relocates the variable
    c.on.clear_cache();
    c.on.run({{c.x, array({0, 0})}}, {c.sum});
  }
  stop = true;
  for (auto& thread : threads) thread.join();
}

// Reading such a variable adds it to the variables that runs in flight are using.
TEST(unused_variable_can_be_read_during_runs) {
  Counter c;
  std::vector<Tensor*> unused;
  for (int i = 0; i < 40; ++i)
    unused.push_back(
        c.graph->add("variable", {}, {{"value", ConstantData::splat(DType::float32, {3}, static_cast<double>(i))}}));
  const auto step = c.step();
  std::atomic<bool> stop{false};
  std::thread runs([&] {
    const auto queue = CommandQueue::create(metal());
    while (!stop) step->run({array({1, 1})}, {}, queue);
  });
  for (size_t i = 0; i < unused.size(); ++i)
    CHECK_EQUAL(values(c.on.variable_value(unused[i])), Floats(3, static_cast<float>(i)));
  stop = true;
  runs.join();
}

// --- packages --------------------------------------------------------------------------------------------------------

TEST(serialized_executable_runs_alongside_the_original) {
  const auto path = std::filesystem::temp_directory_path() / cat("backend_test.", getpid(), ".mpsgraphpackage");
  Counter c;
  c.on.set_variable(c.v, array({3, 4}));
  c.on.compile({{c.x, f32({2})}}, {c.sum})->serialize(path);
  c.step()->run({array({1, 1})});
  const auto loaded = SerializedExecutable::load(path, metal());
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) CHECK_EQUAL(values(loaded->run({array({1, 2})})[0]), (Floats{4, 6}));
    });
  for (auto& thread : threads) thread.join();
  std::filesystem::remove_all(path);
  std::filesystem::remove(path.string() + ".json");
}

// This must be the last test, because nothing runs after shutdown.
TEST(shutdown_finishes_work_in_flight) {
  Doubler d;
  const auto executable = d.of(64);
  std::atomic<int> handled{0};
  std::vector<std::shared_ptr<Execution>> runs;
  for (int i = 0; i < 20; ++i) {
    const auto queue = CommandQueue::create(metal());
    for (int j = 0; j < 3; ++j) {
      ExecutionDescriptor descriptor;
      descriptor.completed_handler = [&](auto&, auto error) { handled += !error; };
      runs.push_back(executable->run_async({array(Floats(64, 1))}, {}, descriptor, queue));
    }
  }
  shutdown();
  CHECK_EQUAL(handled, 60);
  for (auto& run : runs) CHECK(run->done() && !run->error());
  CHECK_THROWS(DeviceError, executable->run({array(Floats(64, 1))}), "closed");
}

}  // namespace

int main() { return check::run_all(); }
