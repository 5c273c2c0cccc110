// All classes of application.hpp: operators, control flow, runs with any feeds and targets, queues, command buffers,
// events, arrays, names, devices, and errors. Prints "done" if everything holds.
#include <mpsgraph/application.hpp>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace mg = mpsgraph::application;

namespace {

int failures = 0;
void require(bool holds, const char* what) {
  if (!holds) ++failures, std::fprintf(stderr, "failed: %s\n", what);
}
// Requires that `call` throws Failure with this status, and with a message that contains `part`.
template <class Call>
void require_failure(mpsgraph_status status, const char* part, Call&& call) {
  try {
    call();
  } catch (const mg::Failure& failure) {
    if (failure.status != status || std::string(failure.what()).find(part) == std::string::npos)
      ++failures, std::fprintf(stderr, "failed: expected \"%s\" (%d), got %s: %s\n", part, static_cast<int>(status),
                               failure.status_name(), failure.what());
    return;
  }
  ++failures, std::fprintf(stderr, "failed: expected an exception with \"%s\"\n", part);
}

const auto scalar_type = mg::type(MPSGRAPH_FLOAT32, {});
const auto vector_type = mg::type(MPSGRAPH_FLOAT32, {3});
mg::Array vector(float a, float b, float c) { return mg::Array::of<float>({3}, {a, b, c}); }
// Returns the value of a tensor that depends on one feed.
std::vector<float> value(const mg::Tensor& target, const mg::Tensor& feed, const mg::Array& array) {
  return target.graph().run({{feed, array}}, target).values<float>();
}
using Floats = std::vector<float>;

void operators() {
  const mg::Graph graph;
  const mg::Tensor x = graph.placeholder(vector_type);
  const mg::Array one_two_four = vector(1, 2, 4);
  const auto of = [&](const mg::Tensor& target) { return value(target, x, one_two_four); };
  require(of(x + 1) == Floats{2, 3, 5} && of(1 + x) == Floats{2, 3, 5}, "addition with a number on either side");
  require(of(1 - x) == Floats{0, -1, -3}, "subtraction from a number");
  require(of(-x * 2.5) == Floats{-2.5, -5, -10}, "negation and multiplication");
  require(of(8 / x) == Floats{8, 4, 2}, "division of a number");
  require(of(x % 3) == Floats{1, 2, 1}, "modulo");
  require(of(mg::cast(x > 1 && x < 4, MPSGRAPH_FLOAT32)) == Floats{0, 1, 0}, "comparisons and logical operators");
  require(of(mg::cast(!(x == 2) || x != 4, MPSGRAPH_FLOAT32)) == Floats{1, 1, 1}, "equality");
  mg::Tensor y = x;
  y += 1, y *= x, y -= x, y /= 2;
  require(of(y) == Floats{0.5, 2, 8}, "assignment operators");
  require(of(mg::select(x > 1, x, 0)) == Floats{0, 2, 4}, "a number next to a mask has the dtype of the tensor");
  require(of(mg::slice_axis(x, 0, -2, 3)) == Floats{2, 4}, "slice_axis with a negative start");
  require(of(mg::concat({x, x}, 0)).size() == 6, "a list of tensors");
  const auto parts = mg::split(x, {1, 2});
  require(parts.size() == 2 && of(parts[1]) == Floats{2, 4}, "an operation with several results");
  const auto [largest, indices] = [&] {
    const auto found = mg::top_k(x, 1);
    return std::pair(found.at(0), found.at(1));
  }();
  require(of(largest) == Floats{4} && indices.dtype() == MPSGRAPH_INT32, "top_k");
  const mg::Tensor axis = graph.constant(0, MPSGRAPH_INT32);
  require(of(mg::cumulative_sum(x, axis)) == Floats{1, 3, 7}, "an attribute that is a tensor");
  require(of(mg::reshape(x, mg::shape_of(x))) == Floats{1, 2, 4}, "a shape that is a tensor");

  const mg::Array indices_found = graph.run({{x, vector(0, 2, -1)}}, mg::non_zero_indices(x));
  require(indices_found.values<int32_t>() == std::vector<int32_t>{1, 2}, "non_zero_indices");
  const float corners[] = {0, 0, 1, 1, 0, 0, 1, 0.9f, 2, 2, 3, 3}, confidence[] = {0.8f, 0.9f, 0.7f};
  const mg::Tensor boxes = graph.constant(mg::Array::of<float>({1, 3, 4}, std::span<const float>(corners)));
  const mg::Tensor scores = graph.constant(mg::Array::of<float>({1, 3, 1}, std::span<const float>(confidence)));
  const mg::Array selected = graph.run({}, mg::non_maximum_suppression(boxes, scores, 0.5, 0));
  require(selected.values<int32_t>() == std::vector<int32_t>{0, 0, 1, 0, 0, 2}, "non_maximum_suppression");

  const mg::Tensor half = graph.placeholder(mg::type(MPSGRAPH_FLOAT16, {1}));
  require((half * 0.1).dtype() == MPSGRAPH_FLOAT16, "a number gets the dtype of the tensor");
  const mg::Tensor count = graph.placeholder(mg::type(MPSGRAPH_INT64, {1}));
  const int64_t large = (int64_t{1} << 53) + 1;
  require(graph.run({{count, mg::Array::of<int64_t>({1}, {1})}}, count * large).item<int64_t>() == large,
          "64-bit integers must be exact");
  require_failure(MPSGRAPH_DTYPE_ERROR, "0.5 cannot be represented in int64", [&] { count * 0.5; });
  require_failure(MPSGRAPH_DTYPE_ERROR, "100000 cannot be represented in float16", [&] { half * 1e5; });
  require_failure(MPSGRAPH_DTYPE_ERROR, "bool operand", [&] { half + true; });
  require_failure(MPSGRAPH_INVALID_ARGUMENT, "at least one operand must be a tensor", [] { mg::addition(1, 2); });
  require_failure(MPSGRAPH_INVALID_ARGUMENT, "default-constructed", [] { mg::relu(mg::Tensor()); });
  require_failure(MPSGRAPH_SHAPE_ERROR, "broadcast", [&] { x + parts[1]; });
}

void control_flow() {
  const mg::Graph graph;
  const mg::Tensor x = graph.placeholder(scalar_type);
  const auto of = [&](const mg::Tensor& target, float at) { return value(target, x, mg::Array::scalar(at))[0]; };
  const mg::Tensor absolute = mg::if_(x > 0, [&] { return x; }, [&] { return -x; });
  require(of(absolute, 3) == 3 && of(absolute, -2) == 2, "if");
  require(of(mg::gradients(absolute, {x})[0], -2) == -1, "the gradient of if");
  const auto [low, high] = mg::if_(x > 0, [&] { return std::array{x, x * 2}; }, [&] { return std::array{x * 2, x}; });
  require(of(low, -1) == -2 && of(high, 1) == 2, "if with two results");

  const mg::Tensor power = mg::for_(0, 3, 1, x, [&](const mg::Tensor&, const mg::Tensor& v) { return v * x; });
  require(of(power, 2) == 16 && of(mg::gradients(power, {x})[0], 2) == 32, "for and its gradient");
  const auto sums = mg::for_(0, 4, 1, std::vector{x, x}, [](const mg::Tensor& index, const auto& v) {
    return std::vector{v[0] + mg::cast(index, MPSGRAPH_FLOAT32), v[1] * 2};
  });
  require(of(sums[0], 1) == 7 && of(sums[1], 1) == 16, "for with a vector of values");

  const mg::Tensor doubled =
      mg::while_(x, [](const mg::Tensor& v) { return v < 100; }, [](const mg::Tensor& v) { return v * 2; });
  require(of(doubled, 3) == 192 && of(doubled, 300) == 300, "while");
  const auto counted = mg::while_(
      std::array{x, x * 0}, [](const auto& v) { return std::pair(v[0] > 1, std::array{v[0] / 2, v[1]}); },
      [](const auto& v) { return std::array{v[0], v[1] + 1}; });
  require(of(counted[1], 8) == 3, "while with a condition that returns values");

  // A block that throws leaves the graph usable.
  require_failure(MPSGRAPH_SHAPE_ERROR, "matmul", [&] {
    mg::if_(
        x > 0,
        [&] {
          return mg::if_(
              x > 1, [&] { return x; }, [&]() -> mg::Tensor { throw mg::Failure(MPSGRAPH_SHAPE_ERROR, "matmul"); });
        },
        [&] { return x; });
  });
  require(of(x + 1, 1) == 2, "the graph after a block that threw");
  require_failure(MPSGRAPH_GRAPH_ERROR, "at least one initial value",
                  [] { mg::for_(0, 1, 1, std::vector<mg::Tensor>(), [](const auto&, const auto& v) { return v; }); });

  const mg::Tensor counter = graph.variable(mg::Array::scalar(0.0f));
  const mg::Operation increment = mg::assign(counter, counter + 1);
  const mg::Tensor later = graph.after({increment}, [&] { return x * 2; });
  require(of(later, 4) == 8 && counter.value().item<float>() == 1, "operations after others");
}

void runs() {
  const mg::Graph graph;
  const mg::Tensor x = graph.placeholder(mg::unranked_type(MPSGRAPH_FLOAT32)), total = mg::reduction_sum(x);
  const mg::Tensor w = graph.variable(vector(1, 1, 1), "w");
  const mg::Tensor loss = mg::reduction_sum(w * x);
  const auto updates = mg::minimize(loss, {w}, 0.5);
  const auto results = graph.run({{x, vector(1, 2, 3)}}, {loss, total}, updates);
  require(results[0].values<float>() == Floats{6} && results[1].values<float>() == Floats{6}, "any targets");
  require(w.value().values<float>() == Floats{0.5, 0, -0.5}, "one step of gradient descent");
  w.set_value(vector(0, 0, 0));
  require(mg::read(w).values<float>() == Floats{0, 0, 0}, "set_value");

  const auto adam = mg::minimize(loss, {w}, mg::Adam{.learning_rate = 0.1});
  for (int i = 0; i < 2; ++i) graph.run({{x, vector(1, -1, 0)}}, {}, adam);
  const Floats moved = w.value().values<float>();
  require(std::abs(moved[0] + 0.2f) < 1e-5f && std::abs(moved[1] - 0.2f) < 1e-5f && moved[2] == 0, "two steps of Adam");

  const mg::Executable executable = graph.compile({{x, vector_type}}, {total, loss});
  require(executable.input_count() == 1 && executable.output_count() == 2, "counts of an executable");
  require(executable.input_type(0).dims[0] == 3 && executable.output_type(0).dtype == MPSGRAPH_FLOAT32, "types");
  const mg::Array there = mg::Array::zeros(executable.output_type(0)),
                  second = mg::Array::zeros(executable.output_type(1));
  executable.run({vector(1, 1, 1)}, {there, second});
  require(there.values<float>()[0] == 3, "a run into the caller's array");

  std::atomic<int> completions = 0;
  const mg::Queue queue;
  const mg::Execution execution = graph.run_async(
      {{x, vector(2, 2, 2)}}, {total}, {},
      [&](mpsgraph_status status, const std::string&, std::vector<mg::Array> found) {
        completions += status == MPSGRAPH_OK && found.size() == 1;
      },
      &queue);
  require(execution.results()[0].values<float>()[0] == 6, "results of an asynchronous run");
  execution.wait(10);
  const mg::Execution silent = executable.run_async({vector(1, 2, 3)}, {}, nullptr, {there, second});
  silent.wait();
  silent.cancel();
  require(there.values<float>()[0] == 6, "an asynchronous run into the caller's array");

  const mg::CommandBuffer buffer(queue), other(mg::Queue{});
  const mg::Event event;
  const auto encoded = buffer.encode(executable, {vector(1, 2, 3)});
  buffer.encode(executable, {vector(4, 4, 4)}, {there, second});
  buffer.signal(event, 5);
  buffer.add_completion([&](mpsgraph_status status, const std::string&, std::vector<mg::Array> none) {
    completions += status == MPSGRAPH_OK && none.empty();
  });
  other.wait_for(event, 5);
  const auto last = other.encode(executable, {vector(1, 1, 1)});
  other.commit();
  require(event.value() == 0, "the event before the first command buffer");
  buffer.commit();
  buffer.wait();
  event.wait(5, 10);
  other.wait(10);
  require(encoded[0].values<float>()[0] == 6 && there.values<float>()[0] == 12, "command buffers");
  require(last[0].values<float>()[0] == 3, "a command buffer after an event");
  event.signal(7);
  require(event.value() == 7, "an event of the host");
  require_failure(MPSGRAPH_TIMEOUT, "", [&] { event.wait(100, 0.01); });
  for (int i = 0; i < 1000 && completions < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  require(completions == 2, "completions");
}

void arrays() {
  const mg::Array owned = mg::Array::owning({2, 2}, std::vector<int32_t>{1, 2, 3, 4});
  require(owned.shape() == std::vector<int64_t>{2, 2} && owned.strides() == std::vector<int64_t>{2, 1},
          "shape, strides");
  std::vector<float> memory{1, 2, 3, 4};
  const int64_t dims[] = {2, 2}, columns[] = {1, 2};
  const mg::Array transposed = mg::Array::over<float>(dims, memory, columns);
  require(transposed.values<float>() == Floats{1, 3, 2, 4}, "strides of external memory");
  const float more[] = {5, 6, 7, 8};
  transposed.write<float>(more);
  require(memory == Floats{5, 7, 6, 8}, "write through strides");
  const mg::Array shared = mg::Array::from_dlpack(owned.to_dlpack());
  const mg::Array versioned = mg::Array::from_dlpack(owned.to_dlpack_versioned());
  owned.span<int32_t>()[3] = 9;
  require(shared.values<int32_t>().back() == 9 && versioned.values<int32_t>().back() == 9, "DLPack shares memory");
  const mg::Array complex = mg::Array::full({1}, std::complex<float>(1, 2));
  require(complex.dtype() == MPSGRAPH_COMPLEX64 && complex.item<std::complex<float>>().imag() == 2, "complex elements");
  require_failure(MPSGRAPH_DTYPE_ERROR, "requested element type", [&] { (void)owned.span<float>(); });
  require_failure(MPSGRAPH_SHAPE_ERROR, "strides must have one element for each axis",
                  [&] { mg::Array::over<float>(dims, memory, std::span(columns, 1)); });
}

void graphs(const std::string& path) {
  require(!mg::Device::names().empty() && mg::Device("cpu").name() == "cpu", "devices");
  require(!mg::Device().name().empty() && !mg::Device("cpu").description().empty(), "the default device");
  require_failure(MPSGRAPH_DEVICE_ERROR, "tpu", [] { mg::Device("tpu"); });
  require(mg::version()[0] != 0 && mg::thread_count() > 0, "version and threads");
  mg::set_thread_count(mg::thread_count());
  mg::set_memory_cache_limit(mg::memory_statistics().cache_limit);

  const mg::Graph graph{mg::Device("cpu")};
  const mg::Tensor x = graph.placeholder(vector_type, "x"), w = graph.variable(vector(1, 2, 3), "w");
  const mg::Tensor y = mg::multiplication(x, w, "product");
  graph.set_name(MPSGRAPH_OUTPUT, "y", y);
  require(y.name() == "product" && graph.names(MPSGRAPH_INPUT) == std::vector<std::string>{"x"}, "names");
  require(graph.find_operation("product").outputs().size() == 1, "find_operation");
  graph.save(path);
  const mg::Graph opened = mg::Graph::open(path), parsed = mg::Graph::from_text(graph.text());
  require(opened.compile().run({vector(1, 1, 1)})[0].values<float>() == Floats{1, 2, 3}, "a package");
  require(parsed.text().find("multiplication") != std::string::npos, "text");
  opened.find(MPSGRAPH_PARAMETER, "w").set_value(vector(0, 0, 0));
  opened.load_state(path);
  require(opened.tensors(MPSGRAPH_TRAINABLE).at(0).value().values<float>() == Floats{1, 2, 3}, "load_state");
  require(mg::operation_kinds().size() > 200, "kinds of operations");
  require(mg::operation_description("relu").find("\"kind\": \"relu\"") != std::string::npos, "description");
  require_failure(MPSGRAPH_PACKAGE_ERROR, "", [&] { mg::Graph::open(path + "/missing"); });

  mg::Tensor kept;
  {
    const mg::Graph temporary;
    kept = temporary.constant(2) * 3;
  }
  require(kept.graph().run({}, kept).item<float>() == 6, "a tensor keeps its graph alive");

  const mg::Trainer trainer(graph, {x}, mg::reduction_sum(mg::square(y)), mg::minimize(mg::reduction_sum(y), {w}, 1));
  require(trainer.step({vector(1, 0, 0)}) == 1 && w.value().values<float>()[0] == 0, "a trainer");
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  operators();
  control_flow();
  runs();
  arrays();
  graphs(arguments[1]);
  std::puts(failures ? "failed" : "done");
  return failures ? 1 : 0;
}
