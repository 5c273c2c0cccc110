// Kernel: one prepared computation of a CPU executable. Lowering: the information from which a kernel is built.
//
// A kernel addresses its operands by slot, and a frame maps slots to memory. Arena offsets are fixed when the program
// is compiled; pointers to feeds, results, and variables are set before each run. A run therefore calls the kernels of
// a flat list in order, without allocation, hashing, or locks.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/control_flow/history_memory.h"
#include "core/registration.h"
#include "mpsgraph/core/graph.h"

namespace mpsgraph::cpu {

using Slot = int;  // index into Frame::pointers

struct KernelState {  // per-frame state of a kernel
  virtual ~KernelState() = default;
};

class KernelProfile;  // defined in kernel_profile.h

struct Frame {
  std::vector<std::byte*> pointers;
  std::vector<std::unique_ptr<KernelState>> states;  // indexed by Kernel::index; most entries are null
  HistoryMemory history;  // values that loops of this run keep for their gradients
  const KernelProfile* profile = nullptr;  // null when not profiling
  const std::atomic<bool>* cancelled = &never_cancelled;  // set to end the run before the next kernel
  static const std::atomic<bool> never_cancelled;

  void poll() const {  // throws CancelledError if the run was cancelled
    if (cancelled->load(std::memory_order_relaxed)) throw_cancelled();
  }
  [[noreturn]] static void throw_cancelled();

  template <class T>
  T* at(Slot slot) const {
    return reinterpret_cast<T*>(pointers[slot]);
  }
};

// A dense, row-major tensor that a kernel reads or writes.
struct Operand {
  Slot slot = -1;
  DType dtype = DType::float32;
  Dims dims;
  int64_t elements() const { return element_count(dims); }
  size_t bytes() const { return static_cast<size_t>(elements()) * size_of(dtype); }
};

class Kernel {
 public:
  virtual ~Kernel();
  virtual void run(Frame& frame) const = 0;
  virtual std::unique_ptr<KernelState> make_state() const { return nullptr; }
  virtual std::string description() const { return {}; }  // shown in the printed plan
  std::string name;  // operation name, set by the lowering
  int index = -1;  // index into Frame::states, set by the lowering
  std::vector<const Operation*> operations;  // the operations that profiles report; several if kernels were merged
  size_t copied_bytes = 0;  // bytes moved by a copy, which implements no operation
  std::string_view candidate;  // the candidate's name, if the kernel was chosen from a table (kernel_table.h)
  std::string declined;  // the candidates before it, and why they declined
};

// Return the description of a kernel for plans and profiles: which candidate it is, how it computes, and why the
// candidates before it declined.
std::string explained(const Kernel& kernel);

struct ConstantWeights;  // defined in prepacked_weights.h

// The interface through which the kernel factory of one operation queries operands and reserves memory.
class Lowering {
 public:
  virtual ~Lowering() = default;
  virtual const Operation& operation() const = 0;
  virtual Operand input(size_t i) const = 0;
  virtual Operand output(size_t i = 0) const = 0;
  virtual size_t input_count() const { return operation().inputs.size(); }
  // Return the value of operand i if it is a constant that is not a splat. A kernel that takes the returned weights
  // must pack them, and must not read the operand's slot.
  virtual ConstantWeights constant(size_t i);
  // Reserve scratch memory that lives only while this kernel runs.
  virtual Slot scratch(size_t bytes) = 0;
  // Allow output `o` to share the memory of input `i`. A kernel may call this if it reads each input element before it
  // writes the same byte range. The memory is shared only if this kernel is the last to use the input, so the kernel
  // must work whether or not the two operands share memory.
  virtual void may_share(size_t o, size_t i) = 0;
  // Declare that the kernel allocates memory for output `o` when it runs, and stores the pointer in the frame.
  virtual void enters_memory(size_t o) = 0;
  virtual bool reference_only() const = 0;  // whether tests request plain loops

  const Attributes& attributes() const { return operation().attributes; }
};

// A lowering that presents the operands of another one in a different form. Operands in new forms are neither constants
// nor share memory with results.
class LoweringView : public Lowering {
 public:
  explicit LoweringView(Lowering& given) : given(given) {}
  const Operation& operation() const override { return given.operation(); }
  Operand input(size_t i) const override { return given.input(i); }
  Operand output(size_t o) const override { return given.output(o); }
  size_t input_count() const override { return given.input_count(); }
  ConstantWeights constant(size_t i) override;
  Slot scratch(size_t bytes) override { return given.scratch(bytes); }
  void may_share(size_t, size_t) override {}
  void enters_memory(size_t o) override { given.enters_memory(o); }
  bool reference_only() const override { return given.reference_only(); }

 protected:
  Lowering& given;
};

// Builds the kernel of an operation.
using Lower = std::unique_ptr<Kernel> (*)(Lowering&);

// Registers the kernels that a file defines. Place the registration at the end of the file:
//   const Kernels pooling_kernels("pooling", [] { define_kernel("max_pooling2d", lower_max); });
using Kernels = Registration<Kernel>;
// Define the kernel of a kind of operation; call this in the function passed to a Kernels object. For kinds with
// several kernels, see kernel_table.h.
void define_kernel(Kind kind, Lower lower);

// Base class of the kernels that are made from callables. It contains everything that does not depend on the callable's
// type, so that this code is compiled only once.
class DescribedKernel : public Kernel {
 public:
  ~DescribedKernel() override;
  std::string description() const override;
  void describe(std::string description);

 private:
  std::string description_;
};

template <class Function>
class FunctionKernel final : public DescribedKernel {
 public:
  explicit FunctionKernel(Function f) : function_(std::move(f)) {}
  void run(Frame& frame) const override { function_(frame); }

 private:
  Function function_;
};

// Make a stateless kernel from a callable:
//   return kernel([=](Frame& f) { ... f.at<float>(x.slot) ... });
template <class Function>
std::unique_ptr<Kernel> kernel(Function function) {
  return std::make_unique<FunctionKernel<Function>>(std::move(function));
}
template <class Function>
std::unique_ptr<Kernel> kernel(Function function, std::string description) {
  auto result = std::make_unique<FunctionKernel<Function>>(std::move(function));
  result->describe(std::move(description));
  return result;
}

}  // namespace mpsgraph::cpu
