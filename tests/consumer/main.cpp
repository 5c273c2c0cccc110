// A C++ application that uses the installed package.
//
// It builds a graph with gradients, compiles a training step for the CPU, and runs it until a line fits a set of
// points. It then saves the line as a package and loads it again. With a package as argument, it loads that package
// instead, feeds ones to all inputs, and prints the outputs.
//
// The program checks its results and exits with 1 if they are wrong. tests/package/test_packaging.py builds and runs
// it.
#include <mpsgraph/mpsgraph.hpp>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mg = mpsgraph;
using mg::runtime::NDArray;

namespace {

constexpr int64_t points = 64;
constexpr float slope = 3.0f, offset = -1.0f;

NDArray column(float (*value)(int64_t)) {
  NDArray array = NDArray::allocate(mg::DType::float32, {points, 1});
  for (int64_t i = 0; i < points; ++i) reinterpret_cast<float*>(array.data())[i] = value(i);
  return array;
}

float abscissa(int64_t i) { return 2.0f * static_cast<float>(i) / (points - 1) - 1.0f; }
float ordinate(int64_t i) { return slope * abscissa(i) + offset; }
float scalar(const NDArray& array) { return *reinterpret_cast<const float*>(array.data()); }

// Save the line to a package, load it, and return its value at x = 1.
float at_one(const mg::runtime::PackageContents& line, mg::runtime::DeviceGraph& values) {
  const auto path = std::filesystem::temp_directory_path() / "mpsgraph_consumer.mpsgraph";
  mg::runtime::save_package(path, line, &values);
  const auto package = mg::runtime::Package::load(path);
  const float ordinate =
      reinterpret_cast<const float*>(package.run({{"x", column(abscissa)}}).at("y").data())[points - 1];
  std::filesystem::remove_all(path);
  return ordinate;
}

int run_package(const char* path) {
  const auto package = mg::runtime::Package::load(path);
  std::map<std::string, NDArray> ones;
  for (const auto& [name, tensor] : package.contents().inputs) {
    mg::Dims dims = tensor->shape().dims();
    for (int64_t& size : dims) size = size < 0 ? 2 : size;
    NDArray array = NDArray::allocate(mg::DType::float32, dims);
    for (int64_t i = 0; i < array.elements(); ++i) reinterpret_cast<float*>(array.data())[i] = 1;
    ones.emplace(name, array);
  }
  for (const auto& [name, array] : package.run(ones)) {
    std::printf("%s:", name.c_str());
    for (int64_t i = 0; i < array.elements(); ++i)
      std::printf(" %g", static_cast<double>(reinterpret_cast<const float*>(array.data())[i]));
    std::printf("\n");
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1) return run_package(arguments[1]);
  const auto graph = std::make_shared<mg::Graph>();
  mg::Builder build(*graph);

  // loss = mean((x w + b - y)^2)
  const mg::TensorType type{mg::DType::float32, {-1, 1}};
  mg::Tensor* x = graph->add("placeholder", {}, {{"type", type}}, "x");
  mg::Tensor* y = graph->add("placeholder", {}, {{"type", type}}, "y");
  const auto zero = mg::ConstantData::splat(mg::DType::float32, {1, 1}, 0.0);
  mg::Tensor* w = graph->add("variable", {}, {{"value", zero}}, "w");
  mg::Tensor* b = graph->add("variable", {}, {{"value", zero}}, "b");
  mg::Tensor* line = build.add(build.matmul(x, w), b);
  mg::Tensor* error = build.sub(line, y);
  mg::Tensor* loss = build.mean(build.mul(error, error));

  const std::vector<mg::Tensor*> variables{w, b};
  const std::vector<mg::Tensor*> gradients = mg::gradients(loss, variables);
  std::vector<mg::Operation*> updates;
  for (size_t i = 0; i < variables.size(); ++i) {
    mg::Tensor* stepped =
        graph->add("stochastic_gradient_descent", {build.scalar(mg::DType::float32, 0.5), variables[i], gradients[i]});
    updates.push_back(graph->create("assign", {variables[i], stepped}));
  }

  mg::runtime::DeviceGraph device_graph(graph, mg::runtime::Device::get("cpu"));
  const mg::TensorType fed{mg::DType::float32, {points, 1}};
  const auto step = device_graph.compile({{x, fed}, {y, fed}}, {loss}, updates);
  const std::vector<NDArray> feeds{column(abscissa), column(ordinate)};
  for (int i = 0; i <= 60; ++i) {
    const float value = scalar(step->run(feeds)[0]);
    if (i % 20 == 0) std::printf("step %d: loss %g\n", i, value);
  }

  const float fitted_slope = scalar(device_graph.variable_value(w));
  const float fitted_offset = scalar(device_graph.variable_value(b));
  std::printf("y = %g x + %g on %s\n", fitted_slope, fitted_offset, device_graph.device().description().c_str());
  if (std::abs(fitted_slope - slope) > 1e-3f || std::abs(fitted_offset - offset) > 1e-3f) return 1;

  const float loaded = at_one({graph, {{"x", x}}, {{"y", line}}, {{"w", w}, {"b", b}}, {w, b}}, device_graph);
  std::printf("loaded from the package: y = %g at x = 1\n", loaded);
  if (std::abs(loaded - slope - offset) > 2e-3f) return 1;

  try {  // errors must keep their types across the library boundary
    build.matmul(x, build.scalar(mg::DType::float32, 1));
  } catch (const mg::ShapeError& wrong) {
    std::printf("ShapeError: %s\n", wrong.what());
    return 0;
  }
  return 1;
}
