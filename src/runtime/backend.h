// Backend: what a device must bring. The runtime above it is the same for all.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/program.h"
#include "core/attributes.h"
#include "runtime/ndarray.h"

namespace mpsgraph::runtime {

// A variable's value on one device, in whatever layout its kernels prefer.
class VariableStorage {
 public:
  virtual ~VariableStorage() = default;
  virtual TensorType type() const = 0;
  virtual NDArray read() const = 0;                   // a copy in the logical, row-major layout
  virtual void write(const NDArray& value) = 0;       // same type; any strides
};

// A compiled program. run() is called from queue threads, several at a time.
class CompiledProgram {
 public:
  virtual ~CompiledProgram() = default;
  // `feeds` are contiguous and of the compiled types; `results` are contiguous, writable and of the
  // result types, or invalid: then they are allocated here and stored.
  virtual void run(std::span<const NDArray> feeds, std::span<NDArray> results) = 0;
  // True when a variable has moved to another layout since; the runtime then compiles anew.
  virtual bool stale() const { return false; }
  virtual size_t arena_bytes() const = 0;             // planned intermediates
  virtual size_t constant_bytes() const = 0;
  virtual std::vector<std::string> kernel_names() const = 0;  // in execution order
  virtual std::string plan() const = 0;               // for people: kernels, buffers, offsets
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;          // "cpu"
  virtual std::string description() const = 0;        // "CPU, AVX-512, oneDNN 3.2, 2 threads"
  // May rewrite the program. `storages` stand for program.variables, in order.
  virtual std::unique_ptr<CompiledProgram> compile(compiler::Program program,
                                                   std::vector<std::shared_ptr<VariableStorage>> storages,
                                                   const compiler::Options& options) = 0;
  virtual std::shared_ptr<VariableStorage> make_variable(const ConstantPtr& value) = 0;
};

// The CPU backend registers itself here; more backends register under their names.
using BackendFactory = std::unique_ptr<Backend> (*)();
void register_backend(std::string name, BackendFactory factory);

}  // namespace mpsgraph::runtime
