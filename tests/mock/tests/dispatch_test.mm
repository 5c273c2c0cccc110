// Tests of the mock's queues, groups, semaphores, time functions, and signposts.
#include <dispatch/dispatch.h>
#include <os/signpost.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "mock_check.h"

using check::dies_saying;
using check::leaves;

static void sleep_for(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

// This test runs first, while the process has a single thread, because each of its checks forks.
TEST(misuse_aborts_the_process) {
  CHECK(dies_saying("dispatch_sync on the serial queue here", [] {
    const dispatch_queue_t queue = dispatch_queue_create("here", DISPATCH_QUEUE_SERIAL);
    dispatch_sync(queue, ^{ dispatch_sync(queue, ^{}); });
  }));
  CHECK(dies_saying("a semaphore was released while in use", [] {
    @autoreleasepool {
      const dispatch_semaphore_t semaphore = dispatch_semaphore_create(1);
      dispatch_semaphore_wait(semaphore, DISPATCH_TIME_NOW);
    }
  }));
  CHECK(dies_saying("without dispatch_group_enter", [] { dispatch_group_leave(dispatch_group_create()); }));
  CHECK(
      dies_saying("a dispatch group was released while in use", [] { dispatch_group_enter(dispatch_group_create()); }));
  CHECK(dies_saying("nil queue", [] {
    dispatch_queue_t none = [NSMutableArray array].firstObject;
    dispatch_async(none, ^{});
  }));
}

TEST(serial_queue_runs_blocks_one_at_a_time_in_order) {
  CHECK_EQUAL(leaves([] {
                const dispatch_queue_t queue = dispatch_queue_create("serial", DISPATCH_QUEUE_SERIAL);
                std::vector<int> order;
                std::vector<int>* const seen = &order;
                NSObject* const captured = [[NSObject alloc] init];
                for (int i = 0; i < 500; ++i) {
                  dispatch_async(queue, ^{
                    (void)captured;
                    seen->push_back(i);
                  });
                }
                const std::thread::id here = std::this_thread::get_id();
                bool same = false;
                bool* const on_this_thread = &same;
                dispatch_sync(queue, ^{
                  seen->push_back(500);
                  *on_this_thread = std::this_thread::get_id() == here;
                });
                CHECK(same);
                CHECK_EQUAL(order.size(), 501ul);
                for (int i = 0; i < static_cast<int>(order.size()); ++i) CHECK_EQUAL(order[static_cast<size_t>(i)], i);
              }),
              0L);
}

TEST(queue_stays_alive_until_its_last_block_has_run) {
  const dispatch_semaphore_t done = dispatch_semaphore_create(0);
  @autoreleasepool {
    const dispatch_queue_t queue = dispatch_queue_create("short-lived", nil);
    dispatch_async(queue, ^{ sleep_for(20); });
    dispatch_async(queue, ^{ dispatch_semaphore_signal(done); });
  }
  CHECK_EQUAL(dispatch_semaphore_wait(done, DISPATCH_TIME_FOREVER), 0l);
}

TEST(concurrent_blocks_overlap_and_barriers_run_alone) {
  const dispatch_queue_t queue = dispatch_queue_create("concurrent", DISPATCH_QUEUE_CONCURRENT);
  const dispatch_semaphore_t a = dispatch_semaphore_create(0), b = dispatch_semaphore_create(0);
  dispatch_async(queue, ^{  // This block and the next wait for each other.
    dispatch_semaphore_signal(a);
    dispatch_semaphore_wait(b, DISPATCH_TIME_FOREVER);
  });
  dispatch_async(queue, ^{
    dispatch_semaphore_signal(b);
    dispatch_semaphore_wait(a, DISPATCH_TIME_FOREVER);
  });
  std::atomic<int> running{0}, wrong{0}, ran{0};
  std::atomic<int>*const now = &running, *const bad = &wrong, *const count = &ran;
  for (int i = 0; i < 60; ++i) {
    if (i % 10 == 5) {
      dispatch_barrier_async(queue, ^{
        if (++*now != 1) ++*bad;
        sleep_for(1);
        --*now;
        ++*count;
      });
    } else {
      dispatch_async(queue, ^{
        ++*now;
        --*now;
        ++*count;
      });
    }
  }
  dispatch_barrier_sync(queue, ^{
    if (*now != 0) ++*bad;
  });
  CHECK_EQUAL(wrong.load(), 0);
  CHECK_EQUAL(ran.load(), 60);
}

TEST(queues_store_labels_and_specifics) {
  static const char key = 0;
  static int context = 0;
  const dispatch_queue_t queue = dispatch_queue_create("labelled", nil);
  CHECK_EQUAL(std::string(dispatch_queue_get_label(queue)), std::string("labelled"));
  static std::atomic<int> destroyed{0};
  dispatch_queue_set_specific(queue, &key, &context, [](void*) { ++destroyed; });
  CHECK(dispatch_get_specific(&key) == nullptr);
  dispatch_sync(queue, ^{
    CHECK(dispatch_get_specific(&key) == &context);
    CHECK_EQUAL(std::string(dispatch_queue_get_label(DISPATCH_CURRENT_QUEUE_LABEL)), std::string("labelled"));
  });
  dispatch_queue_set_specific(queue, &key, nullptr, nullptr);
  CHECK_EQUAL(destroyed.load(), 1);
}

TEST(exception_propagates_from_dispatch_sync_and_frees_the_queue) {
  const dispatch_queue_t queue = dispatch_queue_create("raising", nil);
  CHECK_EQUAL(check::raised_by(^{ dispatch_sync(queue, ^{ [NSException raise:NSRangeException format:@"inside"]; }); }),
              std::string("NSRangeException"));
  int ran = 0;
  int* const count = &ran;
  dispatch_sync(queue, ^{ ++*count; });
  CHECK_EQUAL(ran, 1);
}

TEST(groups_wait_and_notify) {
  CHECK_EQUAL(leaves([] {
                const dispatch_group_t group = dispatch_group_create();
                const dispatch_queue_t queue = dispatch_get_global_queue(QOS_CLASS_DEFAULT, 0);
                std::atomic<int> ran{0};
                std::atomic<int>* const count = &ran;
                for (int i = 0; i < 20; ++i) dispatch_group_async(group, queue, ^{ ++*count; });
                CHECK_EQUAL(dispatch_group_wait(group, DISPATCH_TIME_FOREVER), 0l);
                CHECK_EQUAL(ran.load(), 20);
                dispatch_group_enter(group);
                const dispatch_semaphore_t notified = dispatch_semaphore_create(0);
                dispatch_group_notify(group, queue, ^{ dispatch_semaphore_signal(notified); });
                CHECK(dispatch_group_wait(group, dispatch_time(DISPATCH_TIME_NOW, 5 * NSEC_PER_MSEC)) != 0);
                CHECK(dispatch_semaphore_wait(notified, DISPATCH_TIME_NOW) != 0);
                dispatch_group_leave(group);
                CHECK_EQUAL(dispatch_semaphore_wait(notified, DISPATCH_TIME_FOREVER), 0l);
              }),
              0L);
}

TEST(semaphores_time_out) {
  const dispatch_semaphore_t semaphore = dispatch_semaphore_create(2);
  CHECK(dispatch_semaphore_wait(semaphore, DISPATCH_TIME_NOW) == 0 &&
        dispatch_semaphore_wait(semaphore, DISPATCH_TIME_NOW) == 0);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(dispatch_semaphore_wait(semaphore, dispatch_time(DISPATCH_TIME_NOW, 20 * NSEC_PER_MSEC)) != 0);
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(20));
  dispatch_async(dispatch_get_global_queue(0, 0), ^{
    dispatch_semaphore_signal(semaphore);
    dispatch_semaphore_signal(semaphore);
  });
  CHECK_EQUAL(dispatch_semaphore_wait(semaphore, dispatch_time(DISPATCH_TIME_NOW, 60 * NSEC_PER_SEC)), 0l);
  CHECK_EQUAL(dispatch_semaphore_wait(semaphore, DISPATCH_TIME_FOREVER), 0l);
  dispatch_semaphore_signal(semaphore);
  dispatch_semaphore_signal(semaphore);
  CHECK(dispatch_semaphore_create(-1) == nil);
}

TEST(dispatch_after_runs_blocks_in_time_order) {
  CHECK(dispatch_time(DISPATCH_TIME_FOREVER, -5) == DISPATCH_TIME_FOREVER);
  CHECK(dispatch_time(1000, 500) == 1500 && dispatch_time(1000, -500) == 500 && dispatch_time(1000, -5000) == 1);
  CHECK(dispatch_time(1000, INT64_MAX) == DISPATCH_TIME_FOREVER);
  CHECK_EQUAL(leaves([] {
                const dispatch_queue_t queue = dispatch_queue_create("later", nil);
                const dispatch_semaphore_t done = dispatch_semaphore_create(0);
                std::vector<int> order;
                std::vector<int>* const seen = &order;
                dispatch_after(dispatch_time(DISPATCH_TIME_NOW, 40 * NSEC_PER_MSEC), queue, ^{
                  seen->push_back(2);
                  dispatch_semaphore_signal(done);
                });
                dispatch_after(dispatch_time(DISPATCH_TIME_NOW, 5 * NSEC_PER_MSEC), queue, ^{ seen->push_back(1); });
                dispatch_after(DISPATCH_TIME_NOW, queue, ^{ seen->push_back(0); });
                dispatch_semaphore_wait(done, DISPATCH_TIME_FOREVER);
                CHECK(order == std::vector<int>({0, 1, 2}));
              }),
              0L);
}

TEST(dispatch_once_runs_once_across_threads) {
  static dispatch_once_t token;
  static int count = 0;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      dispatch_once(&token, ^{
        sleep_for(10);
        ++count;
      });
      if (count != 1) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(count == 1 && wrong == 0);
}

TEST(blocks_on_queues_have_autorelease_pools) {
  CHECK(mock_wait_until_idle(60));
  const long missing = mock_autoreleases_without_pool();
  const long before = mock_live_objects();
  const dispatch_queue_t queue = dispatch_queue_create("pools", nil);
  for (int i = 0; i < 50; ++i) dispatch_async(queue, ^{ (void)[NSArray arrayWithObject:@(i + 0.5)]; });
  dispatch_sync(queue, ^{});
  CHECK_EQUAL(mock_autoreleases_without_pool(), missing);
  CHECK(mock_wait_until_idle(60));
  CHECK_EQUAL(mock_live_objects(), before + 1);  // The queue itself is still alive.
  dispatch_after(dispatch_time(DISPATCH_TIME_NOW, NSEC_PER_MSEC), queue, ^{ sleep_for(50); });
  sleep_for(20);
  CHECK(!mock_wait_until_idle(0.001));
  CHECK(mock_wait_until_idle(60));
}

TEST(queues_run_functions_in_order) {
  const dispatch_queue_t queue = dispatch_queue_create("functions", nil);
  int sum = 0;
  dispatch_async_f(queue, &sum, [](void* at) { *static_cast<int*>(at) += 1; });
  dispatch_sync_f(queue, &sum, [](void* at) { *static_cast<int*>(at) *= 10; });
  CHECK_EQUAL(sum, 10);
}

TEST(signposts_are_recorded) {
  mock_clear_signposts();
  const os_log_t log = os_log_create("a subsystem", "a category");
  const os_signpost_id_t id = os_signpost_id_generate(log), other = os_signpost_id_generate(log);
  CHECK(id != other && os_signpost_enabled(log));
  os_signpost_interval_begin(log, id, "run", "%{public}s of %d", "step", 3);
  os_signpost_event_emit(log, other, "event");
  os_signpost_interval_end(log, id, "run");
  os_log_error(log, "a message with %@ and %lu", @"an object", 4ul);
  CHECK_EQUAL(mock_signpost_count(), 4ul);
  mock_signpost record[4];
  for (size_t i = 0; i < 4; ++i) CHECK(mock_signpost_at(i, &record[i]));
  mock_signpost none;
  CHECK(!mock_signpost_at(4, &none));
  CHECK(record[0].kind == MOCK_SIGNPOST_BEGIN && record[0].id == id && record[2].kind == MOCK_SIGNPOST_END);
  CHECK(record[1].kind == MOCK_SIGNPOST_EVENT && record[1].id == other && record[2].time >= record[0].time);
  CHECK_EQUAL(std::string(record[0].name) + record[0].message, std::string("runstep of 3"));
  CHECK_EQUAL(std::string(record[2].subsystem) + record[2].category, std::string("a subsystema category"));
  CHECK_EQUAL(std::string(record[3].message), std::string("a message with an object and 4"));
  for (int i = 0; i < 9000; ++i) os_signpost_event_emit(log, other, "many");
  CHECK_EQUAL(mock_signpost_count(), 8192ul);
  mock_clear_signposts();
  CHECK_EQUAL(mock_signpost_count(), 0ul);
  CHECK(dies_saying("signpost bad has no id", [&] { os_signpost_event_emit(log, OS_SIGNPOST_ID_NULL, "bad"); }));
}

int main() { return check::run_all(); }
