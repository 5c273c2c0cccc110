// Buffers, arrays, DLPack, queues, events, handlers, fork, and shutdown, on a mock backend.
//
// The tests also pass under ThreadSanitizer and AddressSanitizer.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "fake_backend.h"
#include "mpsgraph/runtime/dlpack.h"

using namespace mpsgraph;
using namespace mpsgraph::runtime;
using namespace mpsgraph::runtime::fake;

namespace {

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

TEST(buffer_cache_is_bounded_and_drops_oldest) {
  Buffer::set_cache_limit(0);
  CHECK_EQUAL(Buffer::statistics().cached_bytes, 0u);
  Buffer::set_cache_limit(100 << 10);
  for (size_t kib = 10; kib < 100; kib += 5) Buffer::allocate(kib << 10);
  const auto statistics = Buffer::statistics();
  CHECK(statistics.cached_bytes > 0 && statistics.cached_bytes <= statistics.cache_limit);
  const auto reused = statistics.reused;
  Buffer::allocate(10 << 10);  // evicted long ago
  CHECK_EQUAL(Buffer::statistics().reused, reused);
  Buffer::set_cache_limit(size_t{256} << 20);
}

TEST(excessive_sizes_throw) {
  CHECK_THROWS(DeviceError, Buffer::allocate(size_t{1} << 60), "cannot allocate");
  CHECK_THROWS(DeviceError, Buffer::allocate(~size_t{0}), "cannot allocate");
  CHECK_THROWS(DeviceError, NDArray::allocate(DType::float32, {int64_t{1} << 50}), "cannot allocate");
  CHECK_THROWS(ShapeError, NDArray::allocate(DType::float32, {int64_t{1} << 40, int64_t{1} << 40}));
  CHECK_THROWS(ShapeError, NDArray::allocate(DType::float32, {-2}));
  CHECK_EQUAL(values(array({1, 2})), (Floats{1, 2}));  // and later allocations still work
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

TEST(dlpack_round_trips_and_releases_memory) {
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
    CHECK_THROWS(DTypeError, from_dlpack(odd), "4 lane(s)");
    CHECK(!released);
  }
  CHECK(released);
  for (int i = 0; i < dtype_count; ++i) {
    NDArray a = NDArray::allocate(static_cast<DType>(i), {2, 0});
    CHECK_EQUAL(from_dlpack(to_dlpack(a)).dtype(), static_cast<DType>(i));
  }
}

// --- queues and command buffers --------------------------------------------------------------------------------------

TEST(queue_runs_in_order_on_its_own_thread) {
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

// Create work that may run on the thread that waits for it.
std::shared_ptr<CommandBuffer> brief(const std::shared_ptr<CommandQueue>& queue, std::function<void()> work) {
  auto buffer = queue->command_buffer();
  buffer->encode_device_work([work = std::move(work)](DeviceCommands*) { work(); }, "brief", true);
  return buffer;
}

TEST(brief_work_on_idle_queue_runs_on_waiting_thread) {
  auto queue = CommandQueue::create(device());
  const auto here = std::this_thread::get_id();
  std::thread::id worker;
  const auto note = [&] { worker = std::this_thread::get_id(); };
  auto buffer = brief(queue, note);
  buffer->commit(true);
  CHECK(worker == here && buffer->status() == CommandBufferStatus::completed);
  CHECK_THROWS(DeviceError, buffer->commit(true), "already been committed");

  auto long_work = queue->command_buffer();  // not run here, so that the caller can time out
  long_work->encode(note, "long");
  long_work->commit(true);
  long_work->wait_until_completed();
  CHECK(worker != here);

  auto waits = brief(queue, note);  // for an event; only the queue's thread can be interrupted there
  waits->encode_wait_for_event(std::make_shared<SharedEvent>(0.01), 1);
  waits->commit(true);
  CHECK_THROWS(TimeoutError, waits->wait_until_completed(), "value 1");
  CHECK(worker != here);
}

TEST(brief_work_is_left_to_a_prompt_waiter) {
  auto queue = CommandQueue::create(device());
  const auto here = std::this_thread::get_id();
  std::thread::id worker;
  const auto note = [&] { worker = std::this_thread::get_id(); };
  int ran_here = 0;
  for (int i = 0; i < 200; ++i) {
    auto buffer = brief(queue, note);
    buffer->commit();
    const auto soon = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
    while (std::chrono::steady_clock::now() < soon) continue;
    buffer->wait_until_completed();
    ran_here += worker == here;
  }
  CHECK(ran_here > 100);  // on a busy machine, this thread may be late

  auto buffer = brief(queue, note);  // without a waiter
  buffer->commit();
  for (int i = 0; i < 5000 && !buffer->done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(buffer->done() && worker != here);
}

TEST(brief_work_keeps_its_position_in_the_queue) {
  auto queue = CommandQueue::create(device());
  Semaphore begun(0), go(0);
  std::vector<int> order;
  auto slow = queue->command_buffer();
  slow->encode([&] { begun.signal(), go.wait(20.0), order.push_back(0); }, "slow");
  slow->commit();
  begun.wait(20.0);
  std::vector<std::shared_ptr<CommandBuffer>> buffers;
  for (int i = 1; i < 4; ++i) {
    buffers.push_back(brief(queue, [&order, i] { order.push_back(i); }));
    buffers.back()->commit(true);
    CHECK(!buffers.back()->done());
    buffers.back()->hasten();  // not the first one, or the queue is busy
    CHECK(!buffers.back()->done());
  }
  go.signal();
  buffers.back()->wait_until_completed();
  CHECK(std::ranges::is_sorted(order) && order.size() == 4);
}

TEST(threads_share_one_queue_with_brief_work) {
  auto queue = CommandQueue::create(device());
  int sum = 0;  // protected only by the order of the queue
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      std::vector<int> order;
      for (int i = 0; i < 200; ++i) {
        const auto work = [&sum, &order, i] { ++sum, order.push_back(i); };
        auto buffer = i % 5 == thread ? queue->command_buffer() : brief(queue, work);
        if (i % 5 == thread) buffer->encode(work, "work");
        buffer->commit(i % 3 != 0);
        if (i % 7 != 0 || i == 199) buffer->wait_until_completed();
      }
      CHECK(std::ranges::is_sorted(order) && order.size() == 200);
    });
  for (auto& thread : threads) thread.join();
  CHECK_EQUAL(sum, 800);
}

TEST(exception_in_brief_work_reaches_the_waiter) {
  auto queue = CommandQueue::create(device());
  auto buffer = brief(queue, [] { throw ShapeError("went wrong"); });
  std::atomic<bool> handled{false};
  buffer->add_completed_handler([&](CommandBuffer& b) { handled = b.status() == CommandBufferStatus::error; });
  buffer->commit(true);
  CHECK_THROWS(ShapeError, buffer->wait_until_completed(), "went wrong");
  CHECK(handled);
  auto next = brief(queue, [] {});
  next->commit(true);
  CHECK(next->status() == CommandBufferStatus::completed);
}

TEST(queue_closes_after_brief_work) {
  auto queue = CommandQueue::create(device());
  Semaphore begun(0), go(0);
  std::thread runner([&] {
    auto buffer = brief(queue, [&] { begun.signal(), go.wait(20.0); });
    buffer->commit(true);
    CHECK(buffer->status() == CommandBufferStatus::completed);
  });
  begun.wait(20.0);
  std::atomic<bool> closed{false};
  std::thread closer([&] {
    queue->close();
    closed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(!closed);
  go.signal();
  closer.join();
  runner.join();
  CHECK_THROWS(DeviceError, brief(queue, [] {})->commit(true), "closed");
}

TEST(command_buffer_is_committed_only_once) {
  auto buffer = CommandQueue::create(device())->command_buffer();
  CHECK_THROWS(DeviceError, buffer->wait_until_completed(), "has not been committed");
  CHECK(buffer->status() == CommandBufferStatus::not_enqueued);
  buffer->commit();  // empty, and only the buffer holds its queue
  CHECK_THROWS(DeviceError, buffer->commit(), "already been committed");
  CHECK_THROWS(DeviceError, buffer->encode([] {}, "late"), "already been committed");
  CHECK_THROWS(DeviceError, buffer->add_completed_handler([](auto&) {}), "already been committed");
  buffer->wait_until_completed();
}

TEST(exception_in_work_reaches_the_waiter_and_skips_the_rest) {
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
  auto next = queue->command_buffer();  // the queue continues
  next->encode([] {}, "work");
  next->commit();
  next->wait_until_completed();
}

TEST(handlers_run_on_another_thread_and_their_exceptions_reach_the_waiter) {
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
    b.wait_until_completed();           // on its own buffer, whose work is done
    auto more = b.queue().command_buffer();
    more->encode([] {}, "work");
    more->commit();
    more->wait_until_completed();       // and on new work
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
  int value = 0;  // passed back and forth, protected only by the events
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

TEST(two_queues_run_concurrently) {
  auto first = CommandQueue::create(device()), second = CommandQueue::create(device());
  Semaphore here(0), there(0);
  auto a = first->command_buffer(), b = second->command_buffer();
  a->encode([&] { here.signal(), there.wait(20.0); }, "a");  // each waits for the other
  b->encode([&] { there.signal(), here.wait(20.0); }, "b");
  a->commit();
  b->commit();
  a->wait_until_completed(30.0);
  b->wait_until_completed(30.0);
}

TEST(waiting_for_unsignaled_event_times_out) {
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
  CHECK_THROWS(TimeoutError, slow->wait_until_completed(0.05), "was not completed within 0.05 s");
  CHECK(!slow->done());
  go.signal();
  slow->wait_until_completed();
  CHECK_THROWS(TimeoutError, go.wait(0.01), "semaphore");
  CHECK_THROWS(DeviceError, Semaphore(-1), "at least 0");
}

TEST(blocked_queue_can_be_closed) {
  auto queue = CommandQueue::create(device());
  auto event = std::make_shared<SharedEvent>(Timeout{});
  auto buffer = queue->command_buffer();
  buffer->encode_wait_for_event(event, 1);
  buffer->commit();
  queue->close();
  CHECK_THROWS(DeviceError, buffer->wait_until_completed(), "cancelled");
  CHECK_THROWS(DeviceError, queue->command_buffer()->commit(), "closed");
}

TEST(semaphore_of_two_limits_work_in_flight) {
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

// --- fork and shutdown -----------------------------------------------------------------------------------------------

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

TEST(use_after_fork_throws) {
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
  CHECK(child_gets_device_error([&] {  // arrays still work, objects can be destroyed, and the process exits
    if (values(array({1, 2})) != Floats{1, 2}) return;
    buffer = nullptr;
    queue = nullptr;
    shutdown();
    event->wait(1);
  }));
  CHECK_EQUAL(values(executable->run({array({1})})[0]), (Floats{2}));  // the parent continues to work
}

// This must be the last test, because nothing runs after shutdown.
TEST(shutdown_finishes_work_in_flight) {
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
