// A Program compiled for the Metal device.
//
// A program without variables is an MPSGraphExecutable, compiled once from a separate MPSGraph. A program with
// variables is part of the MPSGraph that holds them and runs through that, because it is not known whether executables
// of the same MPSGraph share its variables.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/metal/lowering.h"
#include "backends/metal/queue.h"
#include "backends/metal/variables.h"
#include "runtime/backend.h"

namespace mpsgraph::metal {

// An MPSGraphExecutable, with the positions of its feeds and targets among the requested ones, because an executable
// chooses their order.
struct CompiledGraph {
  static CompiledGraph compile(MetalDevice& device, const ProgramLowering& lowering);

  MPSGraphExecutable* executable = nil;  // nil if there is nothing to compute
  std::vector<size_t> feeds, targets;
};

// Arrays as tensor data for one run. `commands` keeps them until the run completes.
struct RunData {
  RunData(MetalDevice& device, MetalCommands& commands, std::span<const runtime::NDArray> feeds,
          std::span<runtime::NDArray> results, const std::vector<bool>& fed, const std::vector<bool>& computed);
  std::vector<MPSGraphTensorData*> inputs, outputs;  // nil if there is nothing to feed or compute
};

class MetalProgram final : public runtime::CompiledProgram {
 public:
  // `makes_room`: whether the variables may move to another MPSGraph. They may not if other programs refer to the
  // current one.
  MetalProgram(MetalDevice& device, compiler::Program program,
               std::vector<std::shared_ptr<runtime::VariableStorage>> storages, bool makes_room = true);

  void run(std::span<const runtime::NDArray> feeds, std::span<runtime::NDArray> results) override;
  bool encode(runtime::DeviceCommands& commands, std::span<const runtime::NDArray> feeds,
              std::span<runtime::NDArray> results) override;
  bool stale() const override { return home_ && home_->generation() != generation_; }
  size_t arena_bytes() const override { return arena_bytes_; }
  size_t constant_bytes() const override { return constant_bytes_; }
  std::vector<std::string> kernel_names() const override { return names_; }
  std::string plan() const override;
  const compiler::Program& program() const { return program_; }
  // Encode this program as part of another one. Work encoded before the first part is submitted.
  void encode_part(MetalCommands& commands, std::span<const runtime::NDArray> feeds,
                   std::span<runtime::NDArray> results, bool is_first);
  bool reports() const { return !reports_.empty(); }  // whether the host inspects results after completion
  runtime::SerializedOrder serialize(const std::filesystem::path& path,
                                     const runtime::SerializationDescriptor& descriptor) const override;

 private:
  void encode_into(MetalCommands& commands, std::span<const runtime::NDArray> feeds,
                   std::span<runtime::NDArray> results, bool is_first = true);
  // Check the feeds that hold indices, after waiting for pending writes to them. Throws if an index is out of range.
  void check_feeds(MetalCommands& commands, std::span<const runtime::NDArray> feeds);
  // Allocate the arrays of the reports. After completion they are read in order, up to the first that fails the run.
  std::vector<runtime::NDArray> read_reports(MetalCommands& commands);

  MetalDevice& device_;
  std::mutex encoding_;  // for programs without variables; see MetalVariables::encoding
  const compiler::Program program_;
  const std::vector<std::shared_ptr<runtime::VariableStorage>> storages_;
  std::shared_ptr<MetalVariables> home_;  // null without variables
  std::shared_ptr<const int> generation_;
  MPSGraph* graph_ = nil;
  GraphTensors feeds_, targets_;  // nil for unused feeds and constant targets; report results are the last targets
  std::vector<ProgramLowering::Report> reports_;
  NSArray<MPSGraphOperation*>* target_operations_ = nil;
  CompiledGraph compiled_;  // for programs without variables
  std::vector<bool> fed_, computed_;
  std::vector<std::string> names_;
  size_t constant_bytes_ = 0;
  size_t arena_bytes_ = 0;  // an estimate, because MPSGraph does not report it: peak size of live tensors
};

}  // namespace mpsgraph::metal
