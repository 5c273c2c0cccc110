// Cancelled runs: parallel loops end after the items that have begun, and kernels check often whether they were
// cancelled. The tests count checks and items, so they do not depend on how fast the machine is.
#include <atomic>

#include "backends/cpu/parallel.h"
#include "kernel_harness.h"
#include "mpsgraph/core/errors.h"
#include "mpsgraph/runtime/threads.h"

using namespace kernels;

namespace {

constexpr int threads = 4;

void begin() {
  static const bool once = (mpsgraph::runtime::set_thread_count(threads), true);
  (void)once;
  CHECK_EQUAL(thread_count(), threads);
}

// Run loop(item), which calls item() for each item, and request cancellation in the tenth item. Return how many items
// began after the request.
template <class Loop>
int64_t items_after_request(const Loop& loop) {
  std::atomic<bool> cancelled{false};
  std::atomic<int64_t> begun{0}, at_request{0};
  const auto item = [&] {
    if (++begun < 10 || cancelled.load()) return;
    at_request = begun.load();
    cancelled = true;
  };
  {
    const PollScope scope(&cancelled);
    CHECK_THROWS(CancelledError, loop(item), "cancelled");
  }
  return begun - at_request;
}

TEST(cancelled_loops_begin_at_most_one_more_item_per_thread) {
  begin();
  for (int round = 0; round < 20; ++round) {
    CHECK(items_after_request([](const auto& item) { parallel_items(10000, [&](int64_t, int64_t) { item(); }); }) <=
          threads);
    CHECK(items_after_request([](const auto& item) {
            parallel_phases(threads, {100, 100, 10000}, [&](int64_t, Items& items) {
              for (int64_t i : items) static_cast<void>(i), item();
            });
          }) <= threads);
    CHECK(items_after_request([](const auto& item) {
            parallel_chains(8, 1000, [&](int64_t, int64_t, int64_t) { item(); });
          }) <= threads);
    CHECK(items_after_request(
              [](const auto& item) { parallel_for(1 << 30, 1 << 10, [&](int64_t, int64_t) { item(); }); }) <= threads);
  }
}

TEST(poll_run_ends_items_and_loops_inside_items_on_every_thread) {
  begin();
  for (int round = 0; round < 20; ++round) {
    CHECK(items_after_request([](const auto& item) {
            parallel_items(
                threads, [&](int64_t, int64_t) { for_polled_pieces(0, 10000, 1, [&](int64_t, int64_t) { item(); }); });
          }) <= threads);
    CHECK(items_after_request([](const auto& item) {
            parallel_items(threads,
                           [&](int64_t, int64_t) { parallel_items(10000, [&](int64_t, int64_t) { item(); }); });
          }) <= threads);
  }
}

TEST(long_loops_are_divided_into_short_ranges) {
  begin();
  const auto longest = [](int64_t n, int64_t grain) {
    std::atomic<int64_t> longest{0}, sum{0};
    parallel_for(n, grain, [&](int64_t first, int64_t end) {
      sum += end - first;
      for (int64_t before = longest; before < end - first && !longest.compare_exchange_weak(before, end - first);) {}
    });
    CHECK_EQUAL(sum.load(), n);
    return longest.load();
  };
  CHECK_EQUAL(longest(1000, 1000), 1000);
  CHECK(longest(1 << 20, 1 << 10) <= 64 << 10);
  CHECK_EQUAL(longest(200, 1), 1);
  CHECK(longest(1 << 20, 1) <= 1 << 12);
  CHECK(longest(int64_t{1} << 40, 1 << 10) <= int64_t{1} << 30);
}

TEST(loops_without_a_flag_are_not_cancelled) {
  begin();
  std::atomic<bool> cancelled{true};
  const PollScope scope(&cancelled);
  {
    const PollScope none(nullptr);
    std::atomic<int64_t> items{0};
    parallel_items(100, [&](int64_t, int64_t) { parallel_items(10, [&](int64_t, int64_t) { ++items; }); });
    poll_run();
    CHECK_EQUAL(items.load(), 1000);
  }
  CHECK_THROWS(CancelledError, poll_run(), "cancelled");
}

// Run a kernel on one thread, check that it ends when it is cancelled, and return how often it checks for that.
int64_t polls(Kind kind, const std::vector<Array>& inputs, Attributes attributes) {
  Graph graph;
  std::vector<Tensor*> tensors;
  for (const Array& a : inputs)
    tensors.push_back(graph.add("constant", {}, {{"value", ConstantData::copy(a.dtype, a.dims, a.bytes.data())}}));
  const Operation* operation = graph.create(kind, tensors, std::move(attributes));
  HarnessLowering lowering(*operation, false, false);
  const auto kernel = make_kernel(lowering);
  const ThreadPool::Alone alone(true);
  const int64_t before = poll_count();
  run_kernel(*kernel, lowering, inputs);
  const int64_t count = poll_count() - before;
  const std::atomic<bool> cancelled{true};
  const PollScope scope(&cancelled);
  CHECK_THROWS(CancelledError, run_kernel(*kernel, lowering, inputs), "cancelled");
  CHECK_EQUAL(poll_count() - before - count, 1);
  return count;
}

TEST(kernels_check_often_whether_they_were_cancelled) {
  begin();
  const Ints first{0}, none{};
  const auto scan = [](int64_t axis) { return Attributes{{"axis", axis}, {"exclusive", false}, {"reverse", false}}; };
  const auto sorted = [](int64_t axis) { return Attributes{{"axis", axis}, {"descending", false}}; };
  const Array rows = numbers(DType::float32, {4096, 256}), row = numbers(DType::float32, {1 << 20});
  struct Case {
    Kind kind;
    std::vector<Array> inputs;
    Attributes attributes;
    int64_t least;
  };
  const Array picks = array(DType::int32, {1 << 20});
  const Case cases[] = {
      {"sort", {rows}, sorted(1), 4},
      {"sort", {rows}, sorted(0), 4},
      {"sort", {row}, sorted(0), 4},
      {"sort", {numbers(DType::float64, {1 << 20})}, sorted(0), 4},
      {"sort", {numbers(DType::int16, {1 << 20})}, sorted(0), 4},
      {"sort", {numbers(DType::float32, {1 << 17, 8})}, sorted(1), 4},
      {"arg_sort", {rows}, sorted(1), 4},
      {"arg_sort", {row}, sorted(0), 4},
      {"top_k", {rows}, {{"axis", int64_t{1}}, {"k", int64_t{8}}}, 4},
      {"top_k", {rows}, {{"axis", int64_t{0}}, {"k", int64_t{8}}}, 4},
      {"top_k", {row}, {{"axis", int64_t{0}}, {"k", int64_t{1} << 19}}, 2},
      {"cumulative_sum", {numbers(DType::int32, {4096, 256})}, scan(1), 4},
      {"cumulative_sum", {numbers(DType::int32, {1 << 21})}, scan(0), 4},
      {"fast_fourier_transform", {array(DType::complex64, {1 << 18})}, {{"axes", first}}, 16},
      {"fast_fourier_transform", {array(DType::complex64, {1024, 256})}, {{"axes", Ints{1}}}, 16},
      {"fast_fourier_transform", {array(DType::complex64, {99991})}, {{"axes", first}}, 16},
      {"matrix_inverse", {tabulate(DType::float64, {256, 256}, [](const Dims& at) { return at[0] == at[1]; })}, {}, 4},
      {"matrix_multiplication", {numbers(DType::float64, {512, 512}), numbers(DType::float64, {512, 512})}, {}, 4},
      {"matrix_multiplication", {numbers(DType::float32, {512, 512}), numbers(DType::float32, {512, 512})}, {}, 4},
      {"matrix_multiplication", {numbers(DType::int32, {512, 512}), numbers(DType::int32, {512, 512})}, {}, 4},
      {"gather_gradient", {numbers(DType::float32, {1 << 20}), picks, ints({16})}, {{"axis", int64_t{0}}}, 4},
      {"gather_gradient",
       {numbers(DType::float32, {1 << 15, 64}), array(DType::int32, {1 << 15}), ints({1024, 64})},
       {{"axis", int64_t{0}}},
       4},
      {"pad_gradient",
       {numbers(DType::float32, {1026, 1026}), ints({1024, 1024})},
       {{"left", Ints{1, 1}}, {"right", Ints{1, 1}}, {"mode", std::string("reflect")}},
       16},
  };
  for (const auto& [kind, inputs, attributes, least] : cases) {
    const int64_t count = polls(kind, inputs, attributes);
    if (count < least)
      check::fail(__FILE__, __LINE__,
                  cat(kind, " of ", inputs[0].dtype, to_string(inputs[0].dims), " checks only ", count, " times"));
  }
}

}  // namespace
