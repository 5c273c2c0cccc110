// A Program compiled for the Metal device.
//
// A program without variables is compiled from a separate MPSGraph. A program with variables is part of the MPSGraph
// that holds the variables. Both become an MPSGraphExecutable, but if executables of an MPSGraph turn out not to share
// its variables, a program with variables runs through the MPSGraph (variables.h).
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/metal/graph_program.h"
#include "backends/metal/lowering.h"
#include "backends/metal/queue.h"
#include "backends/metal/variables.h"
#include "runtime/backend.h"

namespace mpsgraph::metal {

// The arrays of one run, wrapped as tensor data. `commands` keeps the arrays alive until the run completes.
struct RunData {
  RunData(MetalDevice& device, MetalCommands& commands, std::span<const runtime::NDArray> feeds,
          std::span<runtime::NDArray> results, const std::vector<bool>& fed, const std::vector<bool>& computed);
  std::vector<MPSGraphTensorData*> inputs, outputs;  // nil if there is nothing to feed or compute
};

class MetalProgram final : public runtime::CompiledProgram {
 public:
  // `makes_room`: whether the variables may move to another MPSGraph. Must be false if other programs refer to the
  // MPSGraph that holds the variables now.
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
  // Encode this program as one part of a program with custom operations (parted_program.h). If `is_first` is set,
  // previously encoded work is submitted first.
  void encode_part(MetalCommands& commands, std::span<const runtime::NDArray> feeds,
                   std::span<runtime::NDArray> results, bool is_first);
  bool reports() const { return !reports_.empty(); }  // whether the host inspects results after completion
  runtime::SerializedOrder serialize(const std::filesystem::path& path,
                                     const runtime::SerializationDescriptor& descriptor) const override;

 private:
  void encode_into(MetalCommands& commands, std::span<const runtime::NDArray> feeds,
                   std::span<runtime::NDArray> results, bool is_first = true);
  // Check the feeds that hold indices after waiting for pending writes to them. Throws an error if an index is out of
  // range.
  void check_feeds(MetalCommands& commands, std::span<const runtime::NDArray> feeds);
  // Allocate the arrays for the results that only the host inspects, such as failed checks and printed values. After
  // completion, the host reads these arrays in order until one of them fails the run.
  std::vector<runtime::NDArray> read_reports(MetalCommands& commands);

  MetalDevice& device_;
  std::mutex encoding_;  // protects programs without variables; see MetalVariables::encoding
  const compiler::Program program_;
  const std::vector<std::shared_ptr<runtime::VariableStorage>> storages_;
  std::shared_ptr<MetalVariables> home_;  // null if the program has no variables
  std::shared_ptr<const int> generation_;
  // Unused feeds and constant targets are nil. The last targets are additional results that the host inspects after
  // completion (reports_).
  GraphProgram compiled_;
  std::vector<ProgramLowering::Report> reports_;
  std::vector<bool> fed_, computed_;
  std::vector<std::string> names_;
  size_t constant_bytes_ = 0;
  size_t arena_bytes_ = 0;  // peak size of live tensors; an estimate, because MPSGraph does not report its memory
};

}  // namespace mpsgraph::metal
