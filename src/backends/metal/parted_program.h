// PartedProgram: a program with custom operations. It alternates MPSGraph programs and user kernels in one command
// buffer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/metal/custom.h"
#include "backends/metal/program.h"
#include "compiler/parts.h"

namespace mpsgraph::metal {

bool is_custom(const Operation& operation);

class PartedProgram final : public runtime::CompiledProgram {
 public:
  PartedProgram(MetalDevice& device, compiler::Program program,
                std::vector<std::shared_ptr<runtime::VariableStorage>> storages);

  void run(std::span<const runtime::NDArray> feeds, std::span<runtime::NDArray> results) override;
  bool encode(runtime::DeviceCommands& commands, std::span<const runtime::NDArray> feeds,
              std::span<runtime::NDArray> results) override;
  bool stale() const override;
  size_t arena_bytes() const override;
  size_t constant_bytes() const override;
  std::vector<std::string> kernel_names() const override;
  std::string plan() const override;
  runtime::SerializedOrder serialize(const std::filesystem::path& path,
                                     const runtime::SerializationDescriptor& descriptor) const override;

 private:
  struct Step {
    std::unique_ptr<MetalProgram> program;  // null if the step is a user kernel or a host function
    std::unique_ptr<MetalKernel> kernel;    // null if the step is a host function
    CustomRun host;
    std::string name;
  };
  void encode_into(MetalCommands& commands, std::span<const runtime::NDArray> feeds,
                   std::span<runtime::NDArray> results);
  void run_on_host(const Step& step, MetalCommands& commands, const std::vector<runtime::NDArray>& operands,
                   const std::vector<runtime::NDArray>& results);

  MetalDevice& device_;
  std::vector<Step> steps_;  // one step per part of the program, in order
  const compiler::Parts parts_;
  std::map<size_t, runtime::NDArray> constants_;
};

}  // namespace mpsgraph::metal
