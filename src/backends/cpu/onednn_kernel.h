// A kernel that runs a sequence of oneDNN primitives, whose memory objects are kept in the frame.
#pragma once

#include <dnnl.hpp>
#include <optional>
#include <unordered_map>

#include "backends/cpu/kernel.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {

const dnnl::engine& onednn_engine();
dnnl::stream& onednn_stream();  // the oneDNN stream of the calling thread
// Return the oneDNN type for convolutions and matmuls, or nullopt if oneDNN does not support dtype on this processor.
std::optional<dnnl::memory::data_type> onednn_type(DType dtype);

// Sets the number of threads that oneDNN uses while the calling thread creates or runs primitives. Convolutions use
// several threads, which belong to GNU OpenMP and sleep between loops. All other primitives use one thread; where they
// are part of a parallel loop, our thread pool runs the loop.
class OnednnThreads {
 public:
  explicit OnednnThreads(int count);
  ~OnednnThreads();
  OnednnThreads(const OnednnThreads&) = delete;
  OnednnThreads& operator=(const OnednnThreads&) = delete;

 private:
  int before_;
};

class OnednnKernel final : public Kernel {
 public:
  struct Argument {
    int id;  // a DNNL_ARG_... constant
    dnnl::memory::desc desc;
    Slot slot;
  };
  // Append a primitive, which must have been created with a user-provided scratchpad (see scratchpad_attributes).
  void add(Lowering& lowering, const dnnl::primitive& primitive, std::vector<Argument> arguments);
  // Append a copy between layouts by a oneDNN reorder.
  void add_reorder(Lowering& lowering, const dnnl::memory::desc& from, Slot from_slot, const dnnl::memory::desc& to,
                   Slot to_slot);
  // Apply ReLU to the result in place after the last primitive. oneDNN's own ReLU turns NaN into zero.
  void add_relu(const Operand& result);

  // Set the number of oneDNN threads; it must match the number with which the primitives were created.
  void use_threads(int count) { threads_ = count; }

  void run(Frame& frame) const override;
  std::unique_ptr<KernelState> make_state() const override;
  std::string description() const override { return text_; }
  bool uses_openmp() const override { return threads_ > 1; }

 private:
  struct Step {
    dnnl::primitive primitive;
    std::vector<Argument> arguments;
  };
  struct State;
  std::vector<Step> steps_;
  std::optional<Operand> relu_;
  std::string text_;
  int threads_ = 1;
};

// Apply ReLU in place, preserving NaN and -0.
void relu_of(Frame& frame, const Operand& result);

// Run a primitive of the kernel `name`. Throw OutOfMemoryError if oneDNN fails.
void execute_primitive(const dnnl::primitive& primitive, const std::vector<dnnl_exec_arg_t>& arguments,
                       const std::string& name);
// Return the attributes with which all primitives must be created.
dnnl::primitive_attr scratchpad_attributes();
// Create a primitive description. Return nullopt if oneDNN has no implementation, or if it has only the slow reference
// implementation and `take_reference` is false.
template <class Description, class... Args>
std::optional<Description> try_primitive(bool take_reference, const Args&... args) {
  try {
    Description description(onednn_engine(), args...);
    if (!take_reference && std::string_view(description.impl_info_str()).find("ref") != std::string_view::npos)
      return std::nullopt;
    return description;
  } catch (const dnnl::error&) {  // oneDNN has no implementation for these arguments
    return std::nullopt;
  }
}

// The epilogue fused into a convolution or matmul: an optional bias, an optional added residual, and ReLU. oneDNN
// applies the first two; the caller must apply ReLU with add_relu.
struct Epilogue {
  bool has_bias = false, has_residual = false, relu = false;
  explicit Epilogue(const Operation& operation);
  Operand bias(const Lowering& lowering) const { return lowering.input(2); }
  Operand residual(const Lowering& lowering) const { return lowering.input(has_bias ? 3 : 2); }
  dnnl::primitive_attr attributes(const dnnl::memory::desc& residual) const;
};

}  // namespace mpsgraph::cpu
