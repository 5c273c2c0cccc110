// Custom operations through the header-only C++ interface: one defined by the program with a gradient, one from a
// library, and errors.
//
// custom LIBRARY DIRECTORY: LIBRARY is built from tests/custom/own_library.cpp, and packages are saved to DIRECTORY.
#include <mpsgraph/custom_operation.h>
#include <mpsgraph/application.hpp>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace mg = mpsgraph::application;
using mpsgraph::custom::Call;

namespace {

int failures = 0;
void require(bool holds, const char* what) {
  if (!holds) ++failures, std::fprintf(stderr, "failed: %s\n", what);
}

template <class Action>
mg::Failure refusal(const Action& action) {
  try {
    action();
  } catch (const mg::Failure& failure) {
    return failure;
  }
  return {MPSGRAPH_OK, "expected an error, but none was thrown"};
}

// Kernel for y = x^exponent.
void power(Call& call) {
  const auto x = call.operand<float>(0);
  const auto y = call.result<float>(0);
  const auto exponent = static_cast<float>(call.integer("exponent"));
  if (exponent < 0) throw std::domain_error("exponent must not be negative");
  call.parallel_for(y.size(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = std::pow(x[i], exponent);
  });
}

void power_gradient(Call& call) {
  const auto incoming = call.operand<float>(0), x = call.operand<float>(1);
  const auto dx = call.result<float>(0);
  const auto exponent = static_cast<float>(call.integer("exponent"));
  for (int64_t i = 0; i < dx.size(); ++i) dx[i] = incoming[i] * exponent * std::pow(x[i], exponent - 1);
}

mpsgraph_custom_operation described(const char* name, int32_t operands, mpsgraph_custom_kernel kernel) {
  static const mpsgraph_custom_attribute exponent{
      "exponent", MPSGRAPH_CUSTOM_INTEGER, /*required=*/0, /*integer=*/2, 0, nullptr, nullptr, 0};
  mpsgraph_custom_operation made{};
  made.name = name;
  made.key = "1";
  made.attributes = &exponent;
  made.attribute_count = 1;
  made.operand_count = operands;
  made.kernel = kernel;
  return made;
}

std::vector<float> run(const mg::Graph& graph, std::vector<float> numbers) {
  const auto size = static_cast<int64_t>(numbers.size());
  const mpsgraph_type type = mg::type(MPSGRAPH_FLOAT32, {size});
  const auto results = graph.compile({&type, 1}).run({mg::Array::over<float>({size}, numbers)});
  std::vector<float> all;
  for (const mg::Array& result : results)
    all.insert(all.end(), result.span<float>().begin(), result.span<float>().end());
  return all;
}

mg::Tensor custom(const mg::Graph& graph, mg::Tensor x, const char* name, mg::Attributes attributes = {}) {
  return graph.add("custom", {x}, attributes.set("operation", name));
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  const std::string library = words[1], package = std::string(words[2]) + "/root.mpsgraph";
  const mpsgraph_type open = mg::type(MPSGRAPH_FLOAT32, {-1});

  const mg::Graph graph;
  const mg::Tensor x = graph.placeholder(open, "x");
  const mg::Failure unknown = refusal([&] { custom(graph, x, "app.power"); });
  require(unknown.status == MPSGRAPH_GRAPH_ERROR, "an unregistered operation must give a graph error");
  require(std::string(unknown.what()).find("app.power") != std::string::npos, "the error must name the operation");

  mpsgraph_custom_operation forward = described("app.power", 1, mpsgraph::custom::kernel<power>);
  forward.gradient = "app.power_gradient";
  mg::register_custom_operation(forward);
  mg::register_custom_operation(described(forward.gradient, 2, mpsgraph::custom::kernel<power_gradient>));
  const mg::Tensor y = custom(graph, x, "app.power", mg::Attributes().set("exponent", 3));
  graph.set_name(MPSGRAPH_OUTPUT, "y", y);
  graph.set_name(MPSGRAPH_OUTPUT, "dx", graph.gradients(y, {&x, 1})[0]);
  require(run(graph, {1, 2, -3}) == std::vector<float>{1, 8, -27, 3, 12, 27}, "result and gradient must be right");

  const mg::Graph negative;
  const mg::Tensor z = negative.placeholder(open, "x");
  negative.set_name(MPSGRAPH_OUTPUT, "y", custom(negative, z, "app.power", mg::Attributes().set("exponent", -1)));
  const mg::Failure thrown = refusal([&] { run(negative, {1}); });
  require(thrown.status == MPSGRAPH_DEVICE_ERROR, "an exception in a kernel must give a device error");
  require(std::string(thrown.what()).find("exponent must not be negative") != std::string::npos,
          "the error must contain the message of the exception");

  const mg::Failure nowhere = refusal([&] { mg::load_custom_operations(library + ".nowhere"); });
  require(nowhere.status == MPSGRAPH_GRAPH_ERROR, "a missing library must give a graph error");
  mg::load_custom_operations(library);
  const mg::Graph roots;
  const mg::Tensor r = roots.placeholder(open, "x");
  roots.set_name(MPSGRAPH_OUTPUT, "y", custom(roots, r, "own.cube_root", mg::Attributes().set("shift", 0.0)));
  roots.save(package);
  require(run(mg::Graph::open(package), {1, 8, -27}) == std::vector<float>{1, 2, -3},
          "a library operation in a package must compute the right result");

  std::puts(failures ? "failed" : "done");
  return failures ? 1 : 0;
}
