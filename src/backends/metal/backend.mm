// Registers the device "metal" if a GPU supports the Metal Performance Shaders, and compiles programs for that device.
#include <algorithm>

#include "backends/metal/guarded.h"
#include "backends/metal/nngraph/graph.h"
#include "backends/metal/oracle.h"
#include "backends/metal/package.h"
#include "backends/metal/parted_program.h"
#include "backends/metal/prepare.h"
#include "backends/metal/probes.h"
#include "backends/metal/program.h"
#include "mpsgraph/runtime/command_queue.h"

namespace mpsgraph::metal {
namespace {

class MetalBackend final : public runtime::Backend, public runtime::FrameworkOracle {
 public:
  std::string_view name() const override { return "metal"; }
  std::string description() const override {
    return guarded([&] { return device_.description(); });
  }
  std::unique_ptr<runtime::CompiledProgram> compile(compiler::Program program,
                                                    std::vector<std::shared_ptr<runtime::VariableStorage>> storages,
                                                    const compiler::Options& options) override {
    prepare(program, options);
    if (std::ranges::any_of(program.graph->root().operations, [](const auto& one) { return is_custom(*one); }))
      return std::make_unique<PartedProgram>(device_, std::move(program), std::move(storages));
    return std::make_unique<MetalProgram>(device_, std::move(program), std::move(storages));
  }
  std::shared_ptr<runtime::VariableHome> make_variable_home() override {
    return guarded([&] { return std::make_shared<MetalVariables>(device_); });
  }
  std::shared_ptr<runtime::VariableStorage> make_variable(const ConstantPtr& value,
                                                          const std::shared_ptr<runtime::VariableHome>& home) override {
    return MetalVariable::make(std::static_pointer_cast<MetalVariables>(home), value);
  }
  std::vector<runtime::NDArray> read_variables(
      std::span<const std::shared_ptr<runtime::VariableStorage>> storages) override {
    return home_of(storages).read(storages);
  }
  void write_variables(std::span<const std::shared_ptr<runtime::VariableStorage>> storages,
                       std::span<const runtime::NDArray> values) override {
    home_of(storages).write(storages, values);
  }
  std::unique_ptr<runtime::CompiledProgram> load(const std::filesystem::path& path) override {
    return guarded([&] { return std::make_unique<MetalPackage>(device_, path); });
  }
  runtime::NDArray allocate(DType dtype, const Dims& dims) override {
    return guarded([&] { return device_.allocate(dtype, dims); });
  }
  runtime::BufferStatistics memory_statistics() const override { return device_.pool->statistics(); }
  void set_memory_cache_limit(size_t bytes) override { device_.pool->set_limit(bytes); }
  std::unique_ptr<runtime::DeviceQueue> make_queue() override {
    return guarded([&] { return std::make_unique<MetalQueue>(device_); });
  }
  std::vector<runtime::Probe> probes() override { return metal::probes(device_); }
  std::vector<runtime::NDArray> gradients(compiler::Program program, std::span<const runtime::NDArray> feeds) override {
    return metal::apple_gradients(device_, std::move(program), feeds);
  }

  MetalDevice& device() { return device_; }

 private:
  static MetalVariables& home_of(std::span<const std::shared_ptr<runtime::VariableStorage>> storages) {
    return static_cast<MetalVariable&>(*storages.front()).home();
  }
  MetalDevice device_;
};

std::unique_ptr<nngraph::DeviceNodes> make_nodes(const nngraph::NNGraph& graph) {
  return std::make_unique<MetalNodes>(metal_device(graph.device()), graph);
}

void encode_optimizer_step(const nngraph::Optimizer& optimizer, runtime::CommandBuffer& buffer,
                           const nngraph::OptimizerStep& step) {
  encode_step(metal_device(buffer.queue().device()), optimizer, buffer, step);
}

[[maybe_unused]] const bool registered = [] {
  runtime::register_backend({.name = "metal",
                             .make = []() -> std::unique_ptr<runtime::Backend> {
                               return guarded([] { return std::make_unique<MetalBackend>(); });
                             },
                             .available = MetalDevice::available,
                             .rank = 1});
  nngraph::register_node_backend("metal", {.make_nodes = make_nodes, .encode_step = encode_optimizer_step});
  return true;
}();

}  // namespace

MetalDevice& metal_device(runtime::Device& device) { return static_cast<MetalBackend&>(device.backend()).device(); }

}  // namespace mpsgraph::metal
