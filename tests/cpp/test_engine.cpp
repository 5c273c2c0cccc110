// The CPU engine as a whole: allocations per step, memory of values, order of state changes, control flow.
//
// Programs run directly on the backend, without queues, so that only the engine's own allocations are counted.
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

#include "backends/cpu/backend.h"
#include "check.h"
#include "compiler/program.h"
#include "mpsgraph/core/builder.h"
#include "mpsgraph/core/gradients.h"
#include "mpsgraph/core/text.h"
#include "mpsgraph/runtime/device.h"
#include "runtime/backend.h"

namespace {
std::atomic<int64_t> allocations{0};
}

// Counts allocations of this program and the library. Not inlined, because g++ 12 reports new and free as a mismatch.
[[gnu::noinline]] void* operator new(size_t bytes) {
  allocations++;
  if (void* memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  allocations++;
  return std::malloc(bytes ? bytes : 1);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace mpsgraph {
namespace {

using runtime::NDArray;

// A graph, its variables, and its compiled targets.
struct Engine {
  std::shared_ptr<Graph> graph;
  std::unordered_map<const Tensor*, std::shared_ptr<runtime::VariableStorage>> storages;
  std::unique_ptr<runtime::CompiledProgram> program;
  size_t result_count = 0;

  explicit Engine(std::shared_ptr<Graph> g) : graph(std::move(g)) { cpu::register_backend(); }
  Tensor* find(std::string_view name) const { return graph->find(name)->output(); }

  void compile(const std::vector<Tensor*>& targets, const std::vector<Operation*>& operations = {},
               const compiler::Options& options = {}) {
    std::vector<std::pair<Tensor*, TensorType>> feeds;
    for (Tensor* placeholder : graph->placeholders()) feeds.push_back({placeholder, placeholder->type});
    compiler::Program specialized = compiler::specialize(*graph, feeds, targets, operations);
    runtime::Backend& backend = runtime::Device::get("cpu").backend();
    std::vector<std::shared_ptr<runtime::VariableStorage>> used;
    for (Tensor* variable : specialized.source_variables) {
      auto& storage = storages[variable];
      if (!storage) storage = backend.make_variable(variable->operation->attributes.data("value"), nullptr);
      used.push_back(storage);
    }
    result_count = targets.size();
    program = backend.compile(std::move(specialized), std::move(used), options);
  }

  NDArray value_of(const Tensor* variable) const {
    return runtime::Device::get("cpu").backend().read_variables({&storages.at(variable), 1})[0];
  }

  std::vector<float> run(const std::vector<NDArray>& feeds = {}) {
    std::vector<NDArray> results(result_count);
    program->run(feeds, results);
    if (results.empty()) return {};
    const float* data = reinterpret_cast<const float*>(results[0].data());
    return std::vector<float>(data, data + results[0].elements());
  }
};

std::shared_ptr<Graph> parsed(const std::string& text) { return std::shared_ptr<Graph>(parse(text)); }

NDArray floats(Dims dims, const std::function<float(int64_t)>& value) {
  NDArray array = NDArray::allocate(DType::float32, std::move(dims));
  for (int64_t i = 0; i < array.elements(); ++i) reinterpret_cast<float*>(array.data())[i] = value(i);
  return array;
}

// Build a chain of alternating transposes and exponentials, which do not fuse with each other.
Engine chain(int length, int64_t size) {
  auto graph = std::make_shared<Graph>();
  Builder b(*graph);
  Tensor* x = graph->add("placeholder", {}, {{"type", TensorType{DType::float32, {size, size}}}}, "x");
  for (int i = 0; i < length; ++i) x = b.unary("tanh", b.transpose(x, {1, 0}));
  Engine engine(graph);
  engine.compile({x});
  return engine;
}

TEST(number_of_allocations_does_not_depend_on_kernel_count) {
  const auto count = [](int length) {
    Engine engine = chain(length, 8);
    const std::vector<NDArray> feeds{floats({8, 8}, [](int64_t i) { return 0.1f * i; })};
    std::vector<NDArray> results{NDArray::allocate(DType::float32, {8, 8})};
    engine.program->run(feeds, results);
    const int64_t before = allocations;
    engine.program->run(feeds, results);
    return allocations - before;
  };
  const auto of_short_chain = count(2);
  CHECK_EQUAL(of_short_chain, count(200));
}

TEST(a_long_chain_needs_two_buffers) {
  Engine engine = chain(50, 64);
  CHECK(engine.program->kernel_names().size() == 100);
  // Two values of 16 KiB, and the scratch memory of the fused kernels.
  CHECK(engine.program->arena_bytes() <= 2 * 64 * 64 * 4 + 16 * 1024);
}

TEST(repeated_runs_are_bitwise_equal) {
  Engine engine(parsed(R"(graph {
    %x = placeholder() {type=float32[300,700]} : float32[300,700]
    %e = exponent(%x) : float32[300,700]
    %s = reduction_sum(%e) {axes=[]} : float32[1,1]
  })"));
  engine.compile({engine.find("s")});
  const std::vector<NDArray> feeds{floats({300, 700}, [](int64_t i) { return std::sin(0.37f * i); })};
  const float first = engine.run(feeds)[0];
  double expected = 0;
  for (int64_t i = 0; i < 300 * 700; ++i) expected += std::exp(std::sin(0.37f * i));
  CHECK(std::fabs(first - expected) < 1e-5 * expected);
  for (int i = 0; i < 5; ++i) CHECK_EQUAL(engine.run(feeds)[0], first);
}

TEST(fused_kernels_reduce_rows_and_columns_of_any_length) {
  for (int64_t rows : {1, 3, 17, 600})
    for (int64_t columns : {1, 5, 64, 511, 513, 3000})
      for (int axis : {0, 1}) {
        auto graph = std::make_shared<Graph>();
        Builder b(*graph);
        Tensor* x = graph->add("placeholder", {}, {{"type", TensorType{DType::float32, {rows, columns}}}}, "x");
        Tensor* bias = graph->add("placeholder", {}, {{"type", TensorType{DType::float32, {columns}}}}, "bias");
        Tensor* scale = graph->add("placeholder", {}, {{"type", TensorType{DType::float32, {rows, 1}}}}, "scale");
        Engine engine(graph);
        engine.compile({b.sum(b.mul(b.add(x, bias), scale), {axis})});
        const auto value = [](int64_t i) { return static_cast<float>(i % 7) - 2.f; };
        const auto sums =
            engine.run({floats({rows, columns}, value), floats({columns}, value), floats({rows, 1}, value)});
        std::vector<double> expected(axis == 0 ? columns : rows, 0.);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < columns; ++c)
            expected[axis == 0 ? c : r] += (value(r * columns + c) + value(c)) * value(r);
        CHECK_EQUAL(sums.size(), expected.size());
        bool close = true;
        for (size_t i = 0; i < sums.size(); ++i)
          close = close && std::fabs(sums[i] - expected[i]) <= 1e-4 * (1 + std::fabs(expected[i]));
        CHECK(close);
      }
}

const char* const counter = R"(graph {
  %v = variable() {value=float32[2] splat 0x3f800000} : float32[2]
  %old = read(%v) : float32[2]
  %one = constant() {value=float32[] splat 0x3f800000} : float32[]
  %next = addition(%old, %one) : float32[2]
  %a = assign(%v, %next) : ()
  %new = read(%v) : float32[2]
  %ten = constant() {value=float32[] splat 0x41200000} : float32[]
  %scaled = multiplication(%new, %ten) : float32[2]
  %both = addition(%scaled, %old) : float32[2]
})";

TEST(read_keeps_its_value_after_later_assign) {
  Engine engine(parsed(counter));
  engine.compile({engine.find("both")}, {engine.graph->find("a")});
  CHECK_EQUAL(engine.run()[0], 21.f);  // 10 x 2 + 1
  CHECK_EQUAL(engine.run()[0], 32.f);  // 10 x 3 + 2
}

TEST(reads_are_equal_without_the_assign) {
  Engine engine(parsed(counter));
  engine.compile({engine.find("both")});
  CHECK_EQUAL(engine.run()[0], 11.f);
  CHECK_EQUAL(engine.run()[0], 11.f);
}

TEST(update_is_computed_in_place) {
  Engine engine(parsed(R"(graph {
    %g = placeholder() {type=float32[1000]} : float32[1000]
    %v = variable() {value=float32[1000] splat 0x00000000} : float32[1000]
    %r = read(%v) : float32[1000]
    %n = addition(%r, %g) : float32[1000]
    %a = assign(%v, %n) : ()
  })"));
  engine.compile({}, {engine.graph->find("a")});
  CHECK_EQUAL(engine.program->kernel_names().size(), size_t{1});  // no copy
  CHECK(engine.program->arena_bytes() < 4000);
  const std::vector<NDArray> feeds{floats({1000}, [](int64_t i) { return static_cast<float>(i); })};
  engine.run(feeds);
  engine.run(feeds);
  const NDArray value = engine.value_of(engine.find("v"));
  CHECK_EQUAL(reinterpret_cast<const float*>(value.data())[999], 1998.f);
}

TEST(updates_of_many_variables_form_one_kernel) {
  auto graph = std::make_shared<Graph>();
  Builder b(*graph);
  std::vector<Operation*> updates;
  std::vector<Tensor*> variables;
  for (int64_t n : {10, 3000, 7, 70000}) {
    Tensor* v = graph->add("variable", {}, {{"value", ConstantData::splat(DType::float32, {n}, 1.)}});
    Tensor* g = graph->add("variable", {}, {{"value", ConstantData::splat(DType::float32, {n}, double(n))}});
    variables.push_back(v);
    updates.push_back(graph->create("assign", {v, b.sub(v, b.mul(g, 0.5))}));
  }
  Engine engine(graph);
  engine.compile({}, updates);
  CHECK_EQUAL(engine.program->kernel_names().size(), size_t{1});
  engine.run();
  for (Tensor* v : variables) {
    const NDArray value = engine.value_of(v);
    const float expected = 1.f - 0.5f * v->type.shape[0];
    const float* data = reinterpret_cast<const float*>(value.data());
    for (int64_t i = 0; i < value.elements(); ++i)
      if (data[i] != expected)
        return check::fail(__FILE__, __LINE__, cat("element ", i, " is ", data[i], ", not ", expected));
  }
}

TEST(two_variables_can_be_swapped) {
  Engine engine(parsed(R"(graph {
    %v = variable() {value=float32[1] splat 0x3f800000} : float32[1]
    %w = variable() {value=float32[1] splat 0x40000000} : float32[1]
    %rv = read(%v) : float32[1]
    %rw = read(%w) : float32[1]
    %a = assign(%v, %rw) : ()
    %b = assign(%w, %rv) : ()
    %s = read(%v) : float32[1]
    %t = read(%w) : float32[1]
    %m = constant() {value=float32[] splat 0x41200000} : float32[]
    %p = multiplication(%s, %m) : float32[1]
    %q = addition(%p, %t) : float32[1]
  })"));
  engine.compile({engine.find("q")}, {engine.graph->find("a"), engine.graph->find("b")});
  CHECK_EQUAL(engine.run()[0], 21.f);
  CHECK_EQUAL(engine.run()[0], 12.f);
}

TEST(loop_variables_can_be_swapped) {
  auto graph = std::make_shared<Graph>();
  Builder b(*graph);
  Tensor* n = graph->add("placeholder", {}, {{"type", TensorType{DType::int32, Shape(Dims{})}}}, "n");
  const TensorType value{DType::float32, {1}};
  const Ints none;
  Tensor *zero = graph->add("constant", {}, {{"value", ConstantData::splat(DType::int32, {}, 0.)}}),
         *one = graph->add("constant", {}, {{"value", ConstantData::splat(DType::int32, {}, 1.)}});
  Tensor *first = b.filled(value, 0), *second = b.filled(value, 1);
  Block* body = graph->begin_block({{DType::int32, Shape(none)}, value, value});
  Tensor* sum = b.add(body->arguments[1], body->arguments[2]);
  std::vector<std::unique_ptr<Block>> blocks;
  blocks.push_back(graph->finish_block(body, {body->arguments[2], sum}));
  Operation* loop = graph->create("for", {zero, n, one, first, second}, {}, "fibonacci", std::move(blocks));
  Engine engine(graph);
  engine.compile({loop->output(0)});
  NDArray count = NDArray::allocate(DType::int32, {});
  const auto fibonacci = [&](int32_t i) {
    std::memcpy(count.data(), &i, sizeof i);
    return engine.run({count})[0];
  };
  CHECK_EQUAL(fibonacci(0), 0.f);
  CHECK_EQUAL(fibonacci(1), 1.f);
  CHECK_EQUAL(fibonacci(20), 6765.f);
}

// The sum of x^(2^(i+1)) over the outer iterations, where the inner loop squares i + 1 times.
TEST(nested_loop_gradients_save_intermediate_values) {
  auto graph = std::make_shared<Graph>();
  Builder b(*graph);
  const TensorType index{DType::int32, Shape(Dims{})}, value{DType::float32, {1}};
  Tensor* n = graph->add("placeholder", {}, {{"type", index}}, "n");
  Tensor* x = graph->add("placeholder", {}, {{"type", value}}, "x");
  Tensor *zero = b.scalar(DType::int32, 0), *one = b.scalar(DType::int32, 1);
  const auto loop = [&](Tensor* count, Tensor* initial, auto build) {
    Block* body = graph->begin_block({index, value});
    Tensor* next = build(body->arguments[0], body->arguments[1]);
    std::vector<std::unique_ptr<Block>> blocks;
    blocks.push_back(graph->finish_block(body, {next}));
    return graph->create("for", {zero, count, one, initial}, {}, {}, std::move(blocks))->output();
  };
  Tensor* y = loop(n, b.filled(value, 0), [&](Tensor* i, Tensor* sum) {
    return b.add(sum, loop(b.add(i, 1), x, [&](Tensor*, Tensor* v) { return b.mul(v, v); }));
  });
  for (int order : {0, 1, 2, 3}) {
    if (order > 0) y = gradients(y, {x})[0];
    Engine engine(graph);
    engine.compile({y});
    for (int32_t count : {3, 0, 1, 6, 2}) {
      NDArray fed = NDArray::allocate(DType::int32, {});
      std::memcpy(fed.data(), &count, sizeof count);
      const std::vector<NDArray> feeds{fed, floats({1}, [](int64_t) { return 0.9f; })};
      double expected = 0;
      for (int i = 0; i < count; ++i) {
        const double power = std::pow(2.0, i + 1);
        double term = std::pow(0.9, power - order);
        for (int k = 0; k < order; ++k) term *= power - k;
        expected += term;
      }
      CHECK(std::fabs(engine.run(feeds)[0] - expected) < 1e-4 * (1 + std::fabs(expected)));
    }
  }
}

TEST(passes_can_be_disabled_individually) {
  const char* text = R"(graph {
    %x = placeholder() {type=float32[4,6]} : float32[4,6]
    %w = placeholder() {type=float32[6,5]} : float32[6,5]
    %b = placeholder() {type=float32[5]} : float32[5]
    %m = matrix_multiplication(%x, %w) : float32[4,5]
    %a = addition(%m, %b) : float32[4,5]
    %r = relu(%a) : float32[4,5]
    %t = tanh(%r) : float32[4,5]
    %s = reduction_sum(%t) {axes=[1]} : float32[4,1]
  })";
  const auto value = [](int64_t i) { return 0.3f * static_cast<float>(i % 5) - 0.5f; };
  const std::vector<NDArray> feeds{floats({4, 6}, value), floats({6, 5}, value), floats({5}, value)};
  std::vector<float> expected;
  for (const std::string off : {"", "prune", "channels_last", "quantize", "normalize", "fold", "simplify", "absorb",
                                "fuse", "fuse_elementwise", "schedule"}) {
    Engine engine(parsed(text));
    compiler::Options options;
    if (!off.empty()) options.disabled_passes = {off};
    engine.compile({engine.find("s")}, {}, options);
    const std::vector<float> sums = engine.run(feeds);
    if (expected.empty()) expected = sums;
    for (size_t i = 0; i < sums.size(); ++i) CHECK(std::fabs(sums[i] - expected[i]) < 1e-5f);
  }
}

}  // namespace
}  // namespace mpsgraph
