// Header-only C++ interface over the C API: trains, saves, loads, and runs one executable on 8 threads.
#include <mpsgraph/application.hpp>

#include <cmath>
#include <cstdio>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace mg = mpsgraph::application;

namespace {

int failures = 0;
void require(bool holds, const char* what) {
  if (!holds) ++failures, std::fprintf(stderr, "failed: %s\n", what);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  constexpr int64_t points = 64;
  std::vector<float> xs(points), ys(points);
  for (int64_t i = 0; i < points; ++i) xs[i] = 2.0f * i / (points - 1) - 1, ys[i] = 3 * xs[i] - 1;
  const float zero[] = {0}, rate[] = {0.5f};

  const mg::Graph graph;
  const auto open_column = mg::type(MPSGRAPH_FLOAT32, {-1, 1});
  const mg::Tensor x = graph.placeholder(open_column, "x"), y = graph.placeholder(open_column, "y");
  const std::vector<mg::Tensor> variables{graph.variable(mg::Array::of<float>({1, 1}, zero), "w"),
                                          graph.variable(mg::Array::of<float>({1, 1}, zero), "b")};
  const mg::Tensor line = graph.add("addition", {graph.add("matrix_multiplication", {x, variables[0]}), variables[1]});
  const mg::Tensor error = graph.add("subtraction", {line, y});
  const mg::Tensor loss =
      graph.add("mean", {graph.add("square", {error})}, mg::Attributes().set("axes", {0, 1}), "loss");
  const auto gradients = graph.gradients(loss, variables);
  std::vector<mg::Operation> updates;
  for (size_t i = 0; i < variables.size(); ++i) {
    const mg::Tensor by = graph.add("constant", {}, mg::Attributes().set("value", mg::Array::of<float>({}, rate)));
    updates.push_back(graph.create(
        "assign", {variables[i], graph.add("stochastic_gradient_descent", {by, variables[i], gradients[i]})}));
  }

  const mg::Array points_x = mg::Array::over<const float>({points, 1}, xs);
  const mg::Array points_y = mg::Array::over<const float>({points, 1}, ys);
  const std::vector<mg::Tensor> feeds{x, y};
  const mg::Trainer trainer(graph, feeds, loss, updates);
  double last = 0;
  for (int i = 0; i < 60; ++i) last = trainer.step({points_x, points_y});
  std::printf("loss %g, slope %g\n", last, static_cast<double>(mg::read(variables[0]).span<float>()[0]));
  require(last < 1e-6, "training must find the line");

  const mg::Graph other;  // with the inputs and outputs of an application
  graph.set_name(MPSGRAPH_OUTPUT, "line", line);
  graph.save(arguments[1]);
  const mg::Graph opened = mg::Graph::open(arguments[1]);
  require(opened.tensors(MPSGRAPH_TRAINABLE).size() == 2, "both trainable variables must be listed");
  const std::vector<mpsgraph_type> types(2, mg::type(MPSGRAPH_FLOAT32, {points, 1}));
  const mg::Executable executable = opened.compile(types);

  std::vector<std::thread> threads;
  std::vector<int> wrong(8, 0);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        std::vector<float> mine(points, static_cast<float>(t));
        const auto results = executable.run({mg::Array::over<float>({points, 1}, mine), points_y});
        for (const float value : results[0].span<float>()) wrong[t] += std::abs(value - (3.0f * t - 1)) > 1e-2f;
      }
    });
  for (auto& thread : threads) thread.join();
  for (const int number : wrong) require(number == 0, "each of the 8 threads must get its own results");

  std::promise<float> promise;
  const auto execution =
      executable.run_async(std::vector<mg::Array>{points_x, points_y},
                           [&](mpsgraph_status status, const std::string&, std::vector<mg::Array> results) {
                             promise.set_value(status == MPSGRAPH_OK ? results.at(0).span<float>()[points - 1] : -100);
                           });
  require(std::abs(promise.get_future().get() - 2) < 1e-2, "the completion must receive the results");
  execution.wait();

  try {
    const float three[] = {1, 2, 3};
    graph.add("matrix_multiplication", {x, graph.variable(mg::Array::of<float>({3, 1}, three), "three")});
    require(false, "a wrong shape must throw");
  } catch (const mg::Failure& failure) {
    std::printf("%s: %s\n", mpsgraph_status_name(failure.status), failure.what());
    require(failure.status == MPSGRAPH_SHAPE_ERROR, "a wrong shape must give a shape error");
  }
  try {
    other.add("relu", {x});
    require(false, "a tensor of another graph must throw");
  } catch (const mg::Failure& failure) {
    require(failure.status == MPSGRAPH_GRAPH_ERROR, "a tensor of another graph must give a graph error");
  }
  std::puts(failures ? "failed" : "done");
  return failures ? 1 : 0;
}
