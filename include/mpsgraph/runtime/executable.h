// Executable: targets and target operations of a graph, compiled for one device and one type per feed.
//
// Inputs are in the order of feeds(), results in the order of targets(). Several threads may run the same executable.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
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

// A tensor that is fed, and the type of the arrays that are fed to it.
using Feed = std::pair<Tensor*, TensorType>;

// The platform for which an executable is serialized.
struct SerializationDescriptor {
  std::string platform = "macOS";          // or "iOS", "tvOS", "visionOS"
  std::string minimum_deployment_target;   // version of the platform, e.g. "14.0"; empty for Apple's default
};

// A compiled program that can be run, encoded, serialized, or called from another graph.
class MPSGRAPH_API Executable : public std::enable_shared_from_this<Executable>, public compiler::Callable {
 public:
  // Compiles the program. Throws the errors of compiler::specialize.
  static std::shared_ptr<Executable> create(std::shared_ptr<GraphState> state, std::vector<Feed> feeds,
                                            std::vector<Tensor*> targets, std::vector<Operation*> target_operations,
                                            compiler::Options options);

  const std::vector<Feed>& feeds() const { return feeds_; }
  const std::vector<Tensor*>& targets() const { return targets_; }
  const std::vector<TensorType>& target_types() const { return target_types_; }
  const std::vector<Operation*>& target_operations() const { return target_operations_; }
  Device& device() const;
  const std::shared_ptr<Graph>& graph() const;
  size_t bytes() const { return own_bytes() + shared_bytes(); }  // bytes of arena and constants
  size_t own_bytes() const;  // bytes of memory that is not shared with other executables
  size_t shared_bytes() const;                       // bytes of arenas that executables share
  std::vector<std::string> kernel_names() const;
  // Whether runs are so short that a thread that waits for one may run it itself.
  bool brief() const;
  // Returns the device's compiled program, for a backend that embeds it in another program.
  std::shared_ptr<CompiledProgram> compiled() const;
  // Returns a readable description of the compiled program: its kernels, buffers, and offsets.
  std::string plan() const;

  // Three ways to run the executable.
  //
  // `results` is empty or has one array per target. Results are written in place to arrays that are valid; such an
  // array must be contiguous, writable, and of the target's type, and must not overlap with other results or with
  // inputs. In place of invalid arrays, the run allocates new arrays. If a target's type has dynamic dimensions, which
  // depend on values, the run itself creates the array; encode() needs an array for such a target.
  //
  // `queue` is null for the device's default queue. run() may use the calling thread if runs are brief and the queue is
  // idle. run_async() may use the calling thread if `waiting` is true; the run is then completed when run_async()
  // returns.
  //
  // If a run does not end within `timeout` seconds, run() cancels it and throws TimeoutError, and variables keep their
  // values.
  std::vector<NDArray> run(std::vector<NDArray> inputs, std::vector<NDArray> results = {},
                           const std::shared_ptr<CommandQueue>& queue = nullptr, Timeout timeout = {});
  std::shared_ptr<Execution> run_async(std::vector<NDArray> inputs, std::vector<NDArray> results = {},
                                       const ExecutionDescriptor& descriptor = {},
                                       const std::shared_ptr<CommandQueue>& queue = nullptr, bool waiting = false);
  // Appends a run to a command buffer. Commits the buffer and waits only if the descriptor's wait_until_completed is
  // set.
  std::vector<NDArray> encode(CommandBuffer& buffer, std::vector<NDArray> inputs, std::vector<NDArray> results = {},
                              const ExecutionDescriptor& descriptor = {});

  // Writes the program in the device's own format for applications, with variables frozen to their current values.
  // Replaces an existing file at `path`. Throws GraphError if there are target operations, and UnsupportedError if the
  // device has no such format.
  void serialize(const std::filesystem::path& path, const SerializationDescriptor& descriptor = {});

  // Callable's interface: another graph's executable calls this program, which runs on the thread of that executable.
  std::vector<TensorType> operand_types() const override;
  std::vector<TensorType> result_types() const override { return target_types_; }
  void call(const std::vector<std::byte*>& operands, const std::vector<std::byte*>& results) override;

 private:
  friend class GraphState;
  friend class ExecutableTemplate;
  struct Run;
  explicit Executable(std::shared_ptr<GraphState> state);
  // An executable like another one, with other feeds and a program that passes have already optimized. After a change
  // of a variable's memory layout, `make` is called again.
  using MakeProgram = std::function<compiler::Program()>;
  static std::shared_ptr<Executable> like(const Executable& other, std::vector<Feed> feeds, MakeProgram make);
  void finish();  // builds the program and registers the executable
  void build();                                      // the caller must hold the gate exclusively
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
  MakeProgram make_;  // if empty, the program is compiled from the graph
  std::vector<TensorType> target_types_;
  // whether the executable changes variables, or compiles while it runs
  bool excludes_ = false;
  std::string label_;                                // name in profiles
  std::shared_ptr<CompiledProgram> program_;         // replaced while the gate is held exclusively
  mutable std::mutex program_mutex_;                 // protects program_ for readers that do not hold the gate
  std::atomic<bool> needs_build_{false};
  std::atomic<int> in_flight_{0};
  bool open_ended_ = false;                          // whether the duration of a run depends on values
  std::atomic<int64_t> nanoseconds_{INT64_MAX};      // duration of the last run on the host
  std::atomic<int64_t> fastest_{INT64_MAX};          // shortest duration of all runs
};

// Time that this process has spent compiling, for all graphs.
MPSGRAPH_API double compile_seconds();

}  // namespace mpsgraph::runtime
