// A minimal mock backend, and the small graphs that the runtime tests run on it.
//
// The backend evaluates float32 graphs of element-wise operations one by one. Tests can change the layout of its
// variables to simulate a device that does so.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "check.h"
#include "compiler/program.h"
#include "core/definition.h"
#include "mpsgraph/core/builder.h"
#include "mpsgraph/runtime/device_graph.h"
#include "runtime/backend.h"

namespace mpsgraph::runtime::fake {

struct FakeVariable final : VariableStorage {
  explicit FakeVariable(const ConstantPtr& value) : array(NDArray::allocate(value->dtype(), value->dims())) {
    value->expand_into(array.data());
  }
  TensorType type() const override { return array.type(); }
  NDArray array;
  int layout = 0;
};

inline std::atomic<bool> fail_next_run{false};
inline std::atomic<int> programs_alive{0};

struct FakeProgram final : CompiledProgram {
  FakeProgram(compiler::Program p, std::vector<std::shared_ptr<VariableStorage>> storages) : program(std::move(p)) {
    for (size_t i = 0; i < storages.size(); ++i) {
      auto variable = std::static_pointer_cast<FakeVariable>(storages[i]);
      layouts.push_back(variable->layout);
      variables[program.variables[i]] = variable;
      order.push_back(variable);
    }
    ++programs_alive;
  }
  ~FakeProgram() override { --programs_alive; }

  bool stale() const override {
    for (size_t i = 0; i < order.size(); ++i)
      if (order[i]->layout != layouts[i]) return true;
    return false;
  }

  void run(std::span<const NDArray> feeds, std::span<NDArray> results) override {
    CHECK(!stale());
    std::unordered_map<Tensor*, std::vector<float>> values;
    for (size_t i = 0; i < feeds.size(); ++i) values[program.feeds[i]] = floats(feeds[i]);
    for (auto& operation : program.graph->root().operations) evaluate(*operation, values);
    for (size_t i = 0; i < results.size(); ++i)
      std::memcpy(results[i].data(), values[program.targets[i]].data(), results[i].bytes());
    if (fail_next_run.exchange(false)) throw DeviceError("the fake device failed");
  }

  void evaluate(Operation& operation, std::unordered_map<Tensor*, std::vector<float>>& values) {
    if (operation.is("placeholder") || operation.is("variable")) return;
    if (operation.is("read")) {
      values[operation.output()] = floats(variables.at(operation.input(0))->array);
    } else if (operation.is("assign")) {
      auto& value = values[operation.input(1)];
      std::memcpy(variables.at(operation.input(0))->array.data(), value.data(), value.size() * sizeof(float));
    } else if (operation.is("constant")) {
      auto& data = operation.attributes.data("value");
      for (int64_t i = 0; i < data->elements(); ++i) values[operation.output()].push_back(data->scalar(i));
    } else {
      auto &a = values[operation.input(0)], &b = values[operation.input(1)];
      auto& result = values[operation.output()];
      for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
        const float x = a[i % a.size()], y = b[i % b.size()];
        result.push_back(operation.is("multiplication") ? x * y : x + y);
      }
    }
  }

  static std::vector<float> floats(const NDArray& array) {
    std::vector<float> values(array.elements());
    if (!values.empty()) std::memcpy(values.data(), array.data(), array.bytes());
    return values;
  }

  size_t arena_bytes() const override { return 1000; }
  size_t constant_bytes() const override { return 24; }
  std::vector<std::string> kernel_names() const override { return {"fake"}; }
  std::string plan() const override { return "fake"; }

  compiler::Program program;
  std::unordered_map<Tensor*, std::shared_ptr<FakeVariable>> variables;
  std::vector<std::shared_ptr<FakeVariable>> order;
  std::vector<int> layouts;
};

struct FakeBackend final : Backend {
  std::string_view name() const override { return "fake"; }
  std::string description() const override { return "fake"; }
  std::unique_ptr<CompiledProgram> compile(compiler::Program program,
                                           std::vector<std::shared_ptr<VariableStorage>> storages,
                                           const compiler::Options& options) override {
    for (auto& pass : options.disabled_passes)  // a test requests a new layout of the variables, once
      if (pass == "stay") {
        for (auto& storage : storages) static_cast<FakeVariable&>(*storage).layout = 1;
      }
    return std::make_unique<FakeProgram>(std::move(program), std::move(storages));
  }
  std::shared_ptr<VariableStorage> make_variable(const ConstantPtr& value,
                                                 const std::shared_ptr<VariableHome>&) override {
    return std::make_shared<FakeVariable>(value);
  }
  std::vector<NDArray> read_variables(std::span<const std::shared_ptr<VariableStorage>> storages) override {
    std::vector<NDArray> values;
    for (const auto& storage : storages)
      values.push_back(static_cast<const FakeVariable&>(*storage).array.copy_contiguous());
    return values;
  }
  void write_variables(std::span<const std::shared_ptr<VariableStorage>> storages,
                       std::span<const NDArray> values) override {
    for (size_t i = 0; i < storages.size(); ++i) static_cast<FakeVariable&>(*storages[i]).array.copy_from(values[i]);
  }
};

inline Device& device() {
  static const bool registered = [] {
    register_backend(
        {.name = "fake", .make = []() -> std::unique_ptr<Backend> { return std::make_unique<FakeBackend>(); }});
    return true;
  }();
  (void)registered;
  return Device::get("fake");
}

// --- small graphs and arrays -----------------------------------------------------------------------------------------

inline NDArray array(std::vector<float> values) {
  NDArray result = NDArray::allocate(DType::float32, {static_cast<int64_t>(values.size())});
  std::memcpy(result.data(), values.data(), result.bytes());
  return result;
}

inline std::vector<float> values(const NDArray& array) { return FakeProgram::floats(array.copy_contiguous()); }

struct Doubler {  // y = 2 x
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  Tensor* x = graph->add("placeholder", {}, {{"type", TensorType{DType::float32, {-1}}}}, "x");
  Tensor* y = Builder(*graph).mul(x, 2.0);
  DeviceGraph on{graph, device()};
};

struct Counter {  // v += x
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  Tensor* x = graph->add("placeholder", {}, {{"type", TensorType{DType::float32, {2}}}}, "x");
  Tensor* v = graph->add("variable", {}, {{"value", ConstantData::splat(DType::float32, {2}, 1.0)}}, "v");
  Tensor* sum = graph->add("addition", {v, x});
  Operation* assign = graph->create("assign", {v, sum});
  DeviceGraph on{graph, device()};
};

using Floats = std::vector<float>;

inline compiler::Options without(std::string pass) {
  compiler::Options options;
  options.disabled_passes.push_back(std::move(pass));
  return options;
}

}  // namespace mpsgraph::runtime::fake
