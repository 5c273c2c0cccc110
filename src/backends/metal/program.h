// A Program compiled for the Metal device.
//
// Without variables it is an MPSGraphExecutable, compiled once, over an MPSGraph of its own. With variables it is a
// part of the MPSGraph that holds them, and runs through that, because an executable's variables are not known to be
// shared with another executable of the same MPSGraph.
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

// An MPSGraphExecutable, and which of the tensors that were asked for each of its own is: it states its order itself.
struct CompiledGraph {
  static CompiledGraph compile(MetalDevice& device, const ProgramLowering& lowering);

  MPSGraphExecutable* executable = nil;  // when there is nothing to compute
  std::vector<size_t> feeds, targets;
};

// Arrays as data for one run, which `commands` keep until it is done.
struct RunData {
  RunData(MetalDevice& device, MetalCommands& commands, std::span<const runtime::NDArray> feeds,
          std::span<runtime::NDArray> results, const std::vector<bool>& fed, const std::vector<bool>& computed);
  std::vector<MPSGraphTensorData*> inputs, outputs;  // nil where there is nothing to feed or to compute
};

class MetalProgram final : public runtime::CompiledProgram {
 public:
  // `makes_room`: may the variables move to another MPSGraph? Not where other programs belong to it.
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
  // As a part of a program; what was encoded before the first one is submitted.
  void encode_part(MetalCommands& commands, std::span<const runtime::NDArray> feeds,
                   std::span<runtime::NDArray> results, bool is_first);
  bool reports() const { return !reports_.empty(); }  // does the host look at something when it is done?
  runtime::SerializedOrder serialize(const std::filesystem::path& path,
                                     const runtime::SerializationDescriptor& descriptor) const override;

 private:
  void encode_into(MetalCommands& commands, std::span<const runtime::NDArray> feeds,
                   std::span<runtime::NDArray> results, bool is_first = true);
  // Throws when a feed that is indices has one outside, and waits for whoever writes it.
  void check_feeds(MetalCommands& commands, std::span<const runtime::NDArray> feeds);
  // The arrays of the reports, which are read when the device is done, in order, to the first that ends the run.
  std::vector<runtime::NDArray> read_reports(MetalCommands& commands);

  MetalDevice& device_;
  std::mutex encoding_;  // without variables; see MetalVariables::encoding
  const compiler::Program program_;
  const std::vector<std::shared_ptr<runtime::VariableStorage>> storages_;
  std::shared_ptr<MetalVariables> home_;  // null without variables
  std::shared_ptr<const int> generation_;
  MPSGraph* graph_ = nil;
  GraphTensors feeds_, targets_;  // nil: not fed, a constant; the reports' results are the last targets
  std::vector<ProgramLowering::Report> reports_;
  NSArray<MPSGraphOperation*>* target_operations_ = nil;
  CompiledGraph compiled_;  // without variables
  std::vector<bool> fed_, computed_;
  std::vector<std::string> names_;
  size_t constant_bytes_ = 0;
  size_t arena_bytes_ = 0;  // an estimate, as MPSGraph does not tell: the most that is alive at once
};

}  // namespace mpsgraph::metal
