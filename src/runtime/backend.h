// Backend: what a device must bring. The runtime above it is the same for all.
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

// What the variables of one graph on one device share, when the device needs something of the kind.
class VariableHome {
 public:
  virtual ~VariableHome() = default;
};

// A variable's value on one device, in whatever layout its kernels prefer.
class VariableStorage {
 public:
  virtual ~VariableStorage() = default;
  virtual TensorType type() const = 0;
  virtual NDArray read() const = 0;                   // a copy in the logical, row-major layout
  virtual void write(const NDArray& value) = 0;       // same type; any strides
};

// Where each feed and each target stands among those of what was written; none: it is not there.
struct SerializedOrder {
  std::vector<std::optional<size_t>> feeds, targets;
};

// What a device has made of a constant for kernels of its own, and holds.
struct DeviceForm {
  const std::byte* of;  // the constant's elements
  std::string name;
  ConstantForm form;
};

// A compiled program. run() is called from queue threads, several at a time.
class CompiledProgram {
 public:
  virtual ~CompiledProgram() = default;
  // `feeds` are contiguous and of the compiled types; `results` are contiguous, writable and of the
  // result types, or invalid: then they are allocated here and stored.
  virtual void run(std::span<const NDArray> feeds, std::span<NDArray> results) = 0;
  // The same as part of `commands`, which keep what they need of the arrays. False when it cannot: run() then follows.
  virtual bool encode(DeviceCommands& commands, std::span<const NDArray> feeds, std::span<NDArray> results) {
    (void)commands, (void)feeds, (void)results;
    return false;
  }
  // Writes it in the device's own form, with the values that variables have now. UnsupportedError where there is none.
  virtual SerializedOrder serialize(const std::filesystem::path& path, const SerializationDescriptor& descriptor) const;
  // True when a variable has moved to another layout since; the runtime then compiles anew.
  virtual bool stale() const { return false; }
  // Would a run with these feeds compile something? Then it must exclude all others of the graph.
  virtual bool compiles(std::span<const NDArray> feeds) const {
    (void)feeds;
    return false;
  }
  virtual size_t arena_bytes() const = 0;             // planned intermediates
  virtual size_t own_arena_bytes() const { return arena_bytes(); }
  virtual size_t shared_bytes() const { return 0; }   // the rest of them: of arenas that programs share
  virtual size_t constant_bytes() const = 0;
  virtual std::vector<std::string> kernel_names() const = 0;  // in execution order
  virtual std::string plan() const = 0;               // for people: kernels, buffers, offsets
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;          // "cpu"
  virtual std::string description() const = 0;        // "CPU, AVX-512, oneDNN 3.2, 2 threads"
  // May rewrite the program. `storages` are those of program.variables, in order.
  virtual std::unique_ptr<CompiledProgram> compile(compiler::Program program,
                                                   std::vector<std::shared_ptr<VariableStorage>> storages,
                                                   const compiler::Options& options) = 0;
  // Is the value of a fed flag there when a run begins, so that it may choose between programs
  // (compiler::rest_of_flags)?
  virtual bool sees_feeds() const { return false; }
  virtual std::shared_ptr<VariableHome> make_variable_home() { return nullptr; }  // once for each graph
  virtual std::shared_ptr<VariableStorage> make_variable(const ConstantPtr& value,
                                                         const std::shared_ptr<VariableHome>& home) = 0;
  // Memory for a result, contiguous and not initialised.
  virtual NDArray allocate(DType dtype, const Dims& dims) { return NDArray::allocate(dtype, dims); }
  // What serialize() wrote, as a program whose feeds and targets have the written order.
  virtual std::unique_ptr<CompiledProgram> load(const std::filesystem::path& path);
  // Of that memory, where it is not the process's own.
  virtual BufferStatistics memory_statistics() const { return {}; }
  virtual void set_memory_cache_limit(size_t bytes) { (void)bytes; }
  // Whose forms of constants it takes, as packages keep them (preparation.h): forms fit where this text is the same.
  // Empty: it makes none.
  virtual std::string takes_forms() const { return {}; }
  virtual std::vector<DeviceForm> forms() const { return {}; }  // those that are held now, of any graph
  virtual DeviceLimits measure_limits() { return {}; }  // takes a while
  // For a device that runs work by itself; null when work runs on the queue's thread.
  virtual std::unique_ptr<DeviceQueue> make_queue() { return nullptr; }
};

// Backends register themselves when they are loaded, under their names. The default device is the available one of the
// highest rank.
struct BackendEntry {
  std::string name;
  std::unique_ptr<Backend> (*make)();
  bool (*available)() = nullptr;  // null: always; called when devices are first listed
  int rank = 0;
};
void register_backend(BackendEntry entry);

}  // namespace mpsgraph::runtime
