// Executables: values and checks, descriptors, the cache, variables that change layout, threads, the profiler.
#include <algorithm>
#include <thread>

#include "fake_backend.h"
#include "mpsgraph/runtime/profiler.h"

using namespace mpsgraph;
using namespace mpsgraph::runtime;
using namespace mpsgraph::runtime::fake;

namespace {

TEST(runs_compute_values_and_check_arrays) {
  Doubler d;
  auto executable = d.on.compile({{d.x, {DType::float32, {3}}}}, {d.y});
  CHECK_EQUAL(values(executable->run({array({1, 2, 3})})[0]), (Floats{2, 4, 6}));
  NDArray input = array({1, 2, 3}), output = array({0, 0, 0});
  CHECK(executable->run({input}, {output})[0].data() == output.data());
  CHECK_EQUAL(values(output), (Floats{2, 4, 6}));
  CHECK_THROWS(GraphError, executable->run({}), "the number of inputs must be 1");
  CHECK_THROWS(GraphError, executable->run({NDArray()}), "no array was given");
  CHECK_THROWS(ShapeError, executable->run({array({1, 2})}), "feed x", "(2)", "(3)");
  CHECK_THROWS(DTypeError, executable->run({NDArray::allocate(DType::int32, {3})}), "int32", "float32");
  CHECK_THROWS(ShapeError, executable->run({input}, {array({0})}), "result");
  CHECK_THROWS(DTypeError, executable->run({input}, {NDArray::allocate(DType::int8, {3})}), "int8");
  CHECK_THROWS(DeviceError, executable->run({input}, {input}), "shares memory with feed x");
  CHECK_THROWS(GraphError, executable->run({input}, {output, output}), "the number of results must be 1");
  float memory[6] = {};
  NDArray strided(Buffer::borrow(memory, sizeof memory, {}), DType::float32, {3}, {2});
  NDArray read_only(Buffer::borrow(memory, sizeof memory, {}, false), DType::float32, {3}, {1});
  CHECK_THROWS(ShapeError, executable->run({input}, {strided}), "must be contiguous");
  CHECK_THROWS(ShapeError, executable->run({strided}), "must be contiguous");
  CHECK_THROWS(DeviceError, executable->run({input}, {read_only}), "read-only");
  CHECK_THROWS(GraphError, d.on.compile({}, {}), "nothing to run");
  CHECK_EQUAL(values(executable->run({input})[0]), (Floats{2, 4, 6}));
}

TEST(run_async_and_encode_respect_execution_descriptor) {
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
  auto again = executable->encode(*buffer, outputs);  // the second run reads the results of the first
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

TEST(executable_cache_is_bounded) {
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
  CHECK_EQUAL(d.on.cache_statistics().count, 1u);  // the newest one is kept
  d.on.clear_cache();
  CHECK_EQUAL(d.on.cache_statistics().count, 0u);
  CHECK_EQUAL(programs_alive, before);
}

TEST(cache_distinguishes_compile_requests) {
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

TEST(invalid_feeds_throw_when_compiling) {
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

TEST(feeds_may_come_in_any_order) {
  auto graph = std::make_shared<Graph>();
  const Attributes type{{"type", TensorType{DType::float32, {1}}}};
  Tensor *a = graph->add("placeholder", {}, type), *b = graph->add("placeholder", {}, type);
  Tensor* y = Builder(*graph).add(Builder(*graph).mul(a, 10.0), b);
  DeviceGraph on(graph, device());
  CHECK_EQUAL(values(on.run({{a, array({1})}, {b, array({2})}}, {y})[0]), Floats{12});
  CHECK_EQUAL(values(on.run({{b, array({2})}, {a, array({1})}}, {y})[0]), Floats{12});
  CHECK_EQUAL(on.cache_statistics().compiles, 1u);
}

TEST(variables_keep_their_value_between_runs) {
  Counter c;
  CHECK_EQUAL(values(c.on.variable_value(c.v)), (Floats{1, 1}));
  for (int i = 0; i < 3; ++i) c.on.run({{c.x, array({1, 2})}}, {}, {c.assign});
  CHECK_EQUAL(values(c.on.variable_value(c.v)), (Floats{4, 7}));
  c.on.set_variable(c.v, array({10, 20}));
  CHECK_EQUAL(values(c.on.run({{c.x, array({1, 2})}}, {c.sum}, {c.assign})[0]), (Floats{11, 22}));
  CHECK_THROWS(ShapeError, c.on.set_variable(c.v, array({1})), "(2)", "(1)");
  CHECK_THROWS(DTypeError, c.on.set_variable(c.v, NDArray::allocate(DType::float64, {2})), "float64");
  CHECK_THROWS(GraphError, c.on.set_variable(c.x, array({1, 2})), "must be a variable of this graph");
  CHECK_THROWS(GraphError, c.on.variable_value(Counter().v), "must be a variable of this graph");
  CHECK_THROWS(GraphError, c.on.set_variables({{c.v, array({1, 2})}, {c.v, array({3, 4})}}), "must occur once");
  CHECK_EQUAL(values(c.on.variable_value(c.v)), (Floats{11, 22}));
}

TEST(programs_recompile_when_a_variable_changes_layout) {
  Counter c;
  const Feed feed{c.x, {DType::float32, {2}}};
  auto step = c.on.compile({feed}, {c.sum}, {c.assign});
  step->run({array({1, 1})});
  CHECK_EQUAL(c.on.cache_statistics().compiles, 1u);

  // One run is in flight, blocked, while the layout changes; another follows.
  auto go = std::make_shared<SharedEvent>();
  ExecutionDescriptor descriptor;
  descriptor.wait_for_event(go, 1);
  auto waiting = step->run_async({array({1, 1})}, {}, descriptor);
  c.on.compile({feed}, {c.sum}, {}, without("stay"));
  CHECK_EQUAL(c.on.cache_statistics().compiles, 3u);  // the step in flight was recompiled as well
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

TEST(threads_run_one_executable_concurrently) {
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

TEST(compiling_does_not_block_concurrent_runs) {
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

TEST(devices_are_found_by_name) {
  CHECK_THROWS(DeviceError, Device::get("tpu"), "\"tpu\"", "fake");
  CHECK(&Device::get("fake") == &device());
}

TEST(profiler_keeps_a_bounded_record) {
  Doubler d;
  CHECK_THROWS(DeviceError, Profiler::get().stop(), "no profile is being recorded");
  Profiler::get().start(32);
  CHECK_THROWS(DeviceError, Profiler::get().start(), "already");
  for (int i = 0; i < 10; ++i) d.on.run({{d.x, array({1})}}, {d.y});
  const Profile profile = Profiler::get().stop();
  d.on.run({{d.x, array({1})}}, {d.y});
  CHECK_EQUAL(profile.records.size(), 32u);
  CHECK(profile.dropped > 0);
  for (std::string_view category : {"encode", "commit", "queue", "run", "wait"})
    CHECK(std::ranges::find(profile.records, category, &ProfileRecord::category) != profile.records.end());
  const auto trace = profile.chrome_trace();
  CHECK(trace.find("traceEvents") != std::string::npos && trace.find("\"cat\":\"encode\"") != std::string::npos);
  Profiler::get().start();
  CHECK_EQUAL(Profiler::get().stop().records.size(), 0u);
}

TEST(copy_counter_counts_copies) {
  const auto before = copy_count();
  counted_copy(array({1}));
  CHECK_EQUAL(copy_count(), before + 1);
}

}  // namespace
