// Executable: targets and target operations of a graph, compiled for one device and one type of each feed.
//
// Inputs are given in the order of feeds(), results come in the order of targets(). It may be run from many threads.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "mpsgraph/compiler/options.h"
#include "mpsgraph/core/graph.h"
#include "mpsgraph/export.h"
#include "mpsgraph/runtime/execution.h"

namespace mpsgraph::compiler {
struct Program;
}

namespace mpsgraph::runtime {

class CompiledProgram;
class Device;
class GraphState;

using Feed = std::pair<Tensor*, TensorType>;

// How a compiled program is written for applications.
struct SerializationDescriptor {
  std::string platform = "macOS";          // or "iOS", "tvOS", "visionOS"
  std::string minimum_deployment_target;   // of that system, e.g. "14.0"; empty: Apple's default
};

class MPSGRAPH_API Executable : public std::enable_shared_from_this<Executable>, public compiler::Callable {
 public:
  // Compiles, with the errors of compiler::specialize.
  static std::shared_ptr<Executable> create(std::shared_ptr<GraphState> state, std::vector<Feed> feeds,
                                            std::vector<Tensor*> targets, std::vector<Operation*> target_operations,
                                            compiler::Options options);

  const std::vector<Feed>& feeds() const { return feeds_; }
  const std::vector<Tensor*>& targets() const { return targets_; }
  const std::vector<TensorType>& target_types() const { return target_types_; }
  const std::vector<Operation*>& target_operations() const { return target_operations_; }
  Device& device() const;
  const std::shared_ptr<Graph>& graph() const;
  size_t bytes() const { return own_bytes() + shared_bytes(); }  // arena and constants
  size_t own_bytes() const;  // all but the shared ones
  size_t shared_bytes() const;                       // of arenas that executables share
  std::vector<std::string> kernel_names() const;
  // Its runs are so short that a thread that waits for one may run it itself.
  bool brief() const;
  // What its device made of it, for a backend that makes it a part of another program.
  std::shared_ptr<CompiledProgram> compiled() const;
  std::string plan() const;

  // `results`: none, or one for each target, where an invalid array means that it is allocated here. Given ones are
  // written in place: they must be contiguous, writable, of the target's type, and share no memory with the inputs.
  // Where a target's type has unknown dimensions, they depend on values: then the array is made by the run, and encode
  // needs one that is given.
  // `queue`: null for the device's default queue. `run` may use this thread, where its runs are short and the queue
  // has nothing else to do; run_async does with `waiting`, and is then done when it returns.
  std::vector<NDArray> run(std::vector<NDArray> inputs, std::vector<NDArray> results = {},
                           const std::shared_ptr<CommandQueue>& queue = nullptr);
  std::shared_ptr<Execution> run_async(std::vector<NDArray> inputs, std::vector<NDArray> results = {},
                                       const ExecutionDescriptor& descriptor = {},
                                       const std::shared_ptr<CommandQueue>& queue = nullptr, bool waiting = false);
  // Commits the command buffer, and waits, only when the descriptor says wait_until_completed.
  std::vector<NDArray> encode(CommandBuffer& buffer, std::vector<NDArray> inputs, std::vector<NDArray> results = {},
                              const ExecutionDescriptor& descriptor = {});

  // Writes it in the device's own form for applications, with variables frozen to the values that they have now; what
  // is there is replaced. GraphError with target operations, UnsupportedError on a device that has no such form.
  void serialize(const std::filesystem::path& path, const SerializationDescriptor& descriptor = {});

  // As the callable of another graph's executable, on its thread.
  std::vector<TensorType> operand_types() const override;
  std::vector<TensorType> result_types() const override { return target_types_; }
  void call(const std::vector<std::byte*>& operands, const std::vector<std::byte*>& results) override;

 private:
  friend class GraphState;
  struct Run;
  explicit Executable(std::shared_ptr<GraphState> state);
  void build();                                      // with the gate held exclusively
  void require_built();
  void check_callables();
  std::shared_ptr<Run> prepare(std::vector<NDArray> inputs, std::vector<NDArray> results);
  void execute(Run& run, DeviceCommands* device);
  std::unique_ptr<CompiledProgram> compile(compiler::Program program, compiler::Options options) const;
  std::shared_ptr<std::vector<NDArray>> encode_run(CommandBuffer& buffer, std::vector<NDArray> inputs,
                                                   std::vector<NDArray> results, const ExecutionDescriptor& descriptor);

  const std::shared_ptr<GraphState> state_;
  std::vector<Feed> feeds_;
  std::vector<Tensor*> targets_;
  std::vector<Operation*> target_operations_;
  compiler::Options options_;
  std::vector<TensorType> target_types_;
  bool excludes_ = false;                            // changes variables, or compiles while it runs
  std::string label_;                                // in profiles
  std::shared_ptr<CompiledProgram> program_;         // replaced with the gate held exclusively
  mutable std::mutex program_mutex_;                 // guards the pointer for readers without the gate
  std::atomic<bool> needs_build_{false};
  std::atomic<int> in_flight_{0};
  bool open_ended_ = false;                          // how long it runs depends on values
  std::atomic<int64_t> nanoseconds_{INT64_MAX};      // of the last run on the host
  std::atomic<int64_t> fastest_{INT64_MAX};          // of all
};

}  // namespace mpsgraph::runtime
