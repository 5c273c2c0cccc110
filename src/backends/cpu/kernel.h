// Kernel: one prepared step of a CPU executable; Lowering: what a kernel is made from.
//
// A kernel addresses its operands by slots. A frame maps slots to memory: arena offsets are fixed
// when the frame is made; feeds, results and variables are entered before each run. So a step is a
// walk over a flat list: no allocation, no hashing, no lock in a kernel.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/control_flow/history_memory.h"
#include "core/registration.h"
#include "mpsgraph/core/graph.h"

namespace mpsgraph::cpu {

using Slot = int;  // index into Frame::pointers

struct KernelState {  // what a kernel keeps for each frame, e.g. oneDNN memory objects
  virtual ~KernelState() = default;
};

class KernelProfile;  // kernel_profile.h

struct Frame {
  std::vector<std::byte*> pointers;
  std::vector<std::unique_ptr<KernelState>> states;  // by kernel index; null for most
  HistoryMemory history;                             // what loops keep for their derivatives, in this run
  const KernelProfile* profile = nullptr;            // null: nobody looks

  template <class T>
  T* at(Slot slot) const {
    return reinterpret_cast<T*>(pointers[slot]);
  }
};

class Layout;  // variable_layouts.h

// A dense tensor that a kernel reads or writes: row-major, unless it is weights in their home layout.
struct Operand {
  Slot slot = -1;
  DType dtype = DType::float32;
  Dims dims;
  const Layout* layout =
      nullptr;  // null: row-major; else only for kernels of convolutions and fused element-wise kernels
  int64_t elements() const { return element_count(dims); }
  size_t bytes() const { return static_cast<size_t>(elements()) * size_of(dtype); }
};

class Kernel {
 public:
  virtual ~Kernel();
  virtual void run(Frame& frame) const = 0;
  virtual std::unique_ptr<KernelState> make_state() const { return nullptr; }
  virtual std::string description() const { return {}; }  // for the printed plan
  virtual bool uses_openmp() const { return false; }      // whose team is then its own
  std::string name;   // the operation's name, set by the lowering
  int index = -1;     // into Frame::states, set by the lowering
  std::vector<const Operation*> operations;  // what it computes, for profiles; several when kernels were merged
  size_t copied_bytes = 0;  // by a copy, which computes no operation
};

struct ConstantWeights;  // prepacked_weights.h

// Handed to a lowering function for one operation.
class Lowering {
 public:
  virtual ~Lowering() = default;
  virtual const Operation& operation() const = 0;
  virtual Operand input(size_t i) const = 0;
  virtual Operand output(size_t i = 0) const = 0;
  virtual size_t input_count() const { return operation().inputs.size(); }
  // The value of operand i, if it is a constant with all its elements. A kernel that asks for it and gets it packs it,
  // and does not read the operand's slot.
  virtual ConstantWeights constant(size_t i);
  // Memory that lives during this kernel only.
  virtual Slot scratch(size_t bytes) = 0;
  // Offers that output `o` may be written into the memory of input `i`, because the kernel reads each element of
  // that input before it writes the same byte range. Taken when the input dies here. The kernel must not care.
  virtual void may_share(size_t o, size_t i) = 0;
  // Says that the kernel finds memory for output `o` itself, when it runs, and enters it into the frame.
  virtual void enters_memory(size_t o) = 0;
  virtual bool reference_only() const = 0;  // plain loops, for tests

  const Attributes& attributes() const { return operation().attributes; }
};

using Lower = std::unique_ptr<Kernel> (*)(Lowering&);

// Of several kernels for one kind the one of the highest precedence comes first; what it cannot do it hands down.
enum class Precedence : uint8_t {
  plain,    // runs everywhere
  library,  // oneDNN's, where the library is there
  own       // ours, where they are faster than the library's
};
Lower find_kernel(std::string_view kind, Precedence up_to = Precedence::own);  // null when the CPU has none

// What a file of kernels brings. It stands at the file's end:
//   const Kernels pooling_kernels("pooling", [] { define_kernel("max_pooling2d", lower_max); });
using Kernels = Registration<Kernel>;
void define_kernel(std::string_view kind, Lower lower, Precedence precedence = Precedence::plain);  // in such a block

// Of a kernel that runs a callable, what is the same whatever the callable: compiled once, not for each of them.
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

// A kernel from a callable, for everything that needs no state:
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
