// Backend: the interface that a device implements. The rest of the runtime is the same for all devices.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/program.h"
#include "mpsgraph/core/attributes.h"
#include "mpsgraph/runtime/device.h"
#include "mpsgraph/runtime/executable.h"
#include "mpsgraph/runtime/ndarray.h"
#include "runtime/device_work.h"

namespace mpsgraph::runtime {

// State shared by the variables of one graph on one device, for backends that need it.
class VariableHome {
 public:
  virtual ~VariableHome() = default;
};

// A variable's value on one device, in whatever memory layout the kernels prefer.
class VariableStorage {
 public:
  virtual ~VariableStorage() = default;
  virtual TensorType type() const = 0;
};

// Position of each feed and each target in the serialized program; nullopt for a feed or target that the serialized
// program does not contain.
struct SerializedOrder {
  std::vector<std::optional<size_t>> feeds, targets;
};

// A copy of a constant that a device has derived for its own kernels and keeps, e.g. with the elements in a different
// order.
struct DeviceForm {
  const std::byte* of;  // address of the constant's elements
  std::string name;
  ConstantForm form;
};

// A compiled program. run() is called from the threads of queues, possibly concurrently.
class CompiledProgram {
 public:
  virtual ~CompiledProgram() = default;
  // Runs the program. `feeds` must be contiguous and have the types for which it was compiled. Each result is an array
  // that is contiguous, writable, and of the result's type, or an invalid array, which run() replaces with a new one.
  virtual void run(std::span<const NDArray> feeds, std::span<NDArray> results) = 0;
  // Encodes a run as part of `commands`. The commands keep all memory alive that the run needs. Returns false if the
  // device cannot encode the run; the caller then calls run().
  virtual bool encode(DeviceCommands& commands, std::span<const NDArray> feeds, std::span<NDArray> results) {
    (void)commands, (void)feeds, (void)results;
    return false;
  }
  // Writes the program in the device's native form, with the current values of variables. Throws UnsupportedError if
  // the device has no such form.
  virtual SerializedOrder serialize(const std::filesystem::path& path, const SerializationDescriptor& descriptor) const;
  // Whether a variable has moved since compilation, for example to another MPSGraph; the runtime then recompiles the
  // program.
  virtual bool stale() const { return false; }
  // Whether a run with these feeds would first compile part of the program. If so, no other run of the graph may be
  // active during that compilation.
  virtual bool compiles(std::span<const NDArray> feeds) const {
    (void)feeds;
    return false;
  }
  virtual size_t arena_bytes() const = 0;  // size of the planned intermediates
  virtual size_t own_arena_bytes() const { return arena_bytes(); }
  // Bytes of the program's intermediate values that lie in arenas shared with other programs.
  virtual size_t shared_bytes() const { return 0; }
  virtual size_t constant_bytes() const = 0;
  virtual std::vector<std::string> kernel_names() const = 0;  // names of the kernels, in execution order
  virtual std::string plan() const = 0;  // human-readable list of kernels, buffers, and offsets
  // The optimized program, if the backend can compile a copy of it with other sizes (compiler/size_template.h).
  virtual const compiler::Program* resizable_program() const { return nullptr; }
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // name such as "cpu"
  virtual std::string description() const = 0;  // description such as "CPU: AVX-512, 2 threads"
  // Compiles a program, which it may rewrite. `storages` belong to program.variables, in order. Runs no passes if the
  // program is already optimized.
  virtual std::unique_ptr<CompiledProgram> compile(compiler::Program program,
                                                   std::vector<std::shared_ptr<VariableStorage>> storages,
                                                   const compiler::Options& options) = 0;
  // Whether the backend can read the value of a fed flag when a run begins, so that the flag can select between
  // programs (compiler::rest_of_flags).
  virtual bool sees_feeds() const { return false; }
  virtual std::shared_ptr<VariableHome> make_variable_home() { return nullptr; }  // called once per graph
  virtual std::shared_ptr<VariableStorage> make_variable(const ConstantPtr& value,
                                                         const std::shared_ptr<VariableHome>& home) = 0;
  // Copies the values of variables of one graph, in the logical, row-major layout. The list is not empty and contains
  // no variable twice. All variables are passed at once, because each access may cost a program of the device.
  virtual std::vector<NDArray> read_variables(std::span<const std::shared_ptr<VariableStorage>> storages) = 0;
  // Each value must have the type of its variable, and may have any strides.
  virtual void write_variables(std::span<const std::shared_ptr<VariableStorage>> storages,
                               std::span<const NDArray> values) = 0;
  // Memory for a result, contiguous and uninitialized.
  virtual NDArray allocate(DType dtype, const Dims& dims) { return NDArray::allocate(dtype, dims); }
  // Loads the output of serialize() as a program whose feeds and targets have the serialized order.
  virtual std::unique_ptr<CompiledProgram> load(const std::filesystem::path& path);
  // Statistics of the memory that allocate() returns, if that memory is not on the process's own heap.
  virtual BufferStatistics memory_statistics() const { return {}; }
  virtual void set_memory_cache_limit(size_t bytes) { (void)bytes; }
  // A string that identifies the build and processor for which this backend rearranges constants for its kernels
  // (preparation.h). Rearranged constants in a package can be used only if they were stored with the same string. Empty
  // if the backend does not rearrange constants.
  virtual std::string takes_forms() const { return {}; }
  virtual std::vector<DeviceForm> forms() const { return {}; }  // the forms currently kept, for any graph
  virtual DeviceLimits measure_limits() { return {}; }  // measures the limits, which takes a while
  // A queue of the device, for devices that run work asynchronously; null if work runs on the thread of the command
  // queue.
  virtual std::unique_ptr<DeviceQueue> make_queue() { return nullptr; }
};

// Backends register themselves by name when they are loaded. The default device is the available device with the
// highest rank.
struct BackendEntry {
  std::string name;
  std::unique_ptr<Backend> (*make)();
  bool (*available)() = nullptr;  // null if the backend is always available; called when devices are first listed
  int rank = 0;
};
void register_backend(BackendEntry entry);

}  // namespace mpsgraph::runtime
