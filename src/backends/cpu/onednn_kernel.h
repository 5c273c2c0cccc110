// A kernel that runs a few oneDNN primitives in order, with its memory objects kept in the frame.
#pragma once

#include <dnnl.hpp>
#include <optional>
#include <unordered_map>

#include "backends/cpu/kernel.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {

const dnnl::engine& onednn_engine();
dnnl::stream& onednn_stream();  // of this thread
std::optional<dnnl::memory::data_type> onednn_type(DType dtype);  // what oneDNN computes convolutions and products in

// How many threads oneDNN uses in what this thread makes or runs with it. A few, which are GNU OpenMP's and sleep
// between their loops, for convolutions only; else one, and loops over parts run on the pool.
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
    int id;  // DNNL_ARG_...
    dnnl::memory::desc desc;
    Slot slot;
  };
  // Adds a primitive; its scratchpad must have been asked for as the user's (see scratchpad_attributes).
  void add(Lowering& lowering, const dnnl::primitive& primitive, std::vector<Argument> arguments);
  // Copies between layouts, through oneDNN's reorder.
  void add_reorder(Lowering& lowering, const dnnl::memory::desc& from, Slot from_slot, const dnnl::memory::desc& to,
                   Slot to_slot);
  // relu of the result, in place behind the last primitive: oneDNN's own makes zeros of NaN.
  void add_relu(const Operand& result);

  // Of oneDNN's own, with which the primitives were made.
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

// In place, NaN and -0 stay.
void relu_of(Frame& frame, const Operand& result);

// Attributes that every primitive of ours is made with.
dnnl::primitive_attr scratchpad_attributes();
// Nothing when oneDNN has no implementation, or only its slow reference one and ours is there instead.
template <class Description, class... Args>
std::optional<Description> try_primitive(bool take_reference, const Args&... args) {
  try {
    Description description(onednn_engine(), args...);
    if (!take_reference && std::string_view(description.impl_info_str()).find("ref") != std::string_view::npos)
      return std::nullopt;
    return description;
  } catch (const dnnl::error&) {  // unimplemented for this combination
    return std::nullopt;
  }
}

// For fused operations, which only oneDNN runs.
[[noreturn]] inline void refuse(const Lowering& lowering) {
  const Operation& operation = lowering.operation();
  throw UnsupportedError(cat("[", operation.kind(), "] oneDNN has no implementation for '", operation.name,
                             "': ", operation.output()->type, "; disable the pass 'fuse'", operation.where()));
}

// What followed a convolution or product and is now part of it: bias, an added residual, and relu, for which the caller
// adds add_relu.
struct Epilogue {
  bool has_bias = false, has_residual = false, relu = false;
  explicit Epilogue(const Operation& operation);
  Operand bias(const Lowering& lowering) const { return lowering.input(2); }
  Operand residual(const Lowering& lowering) const { return lowering.input(has_bias ? 3 : 2); }
  dnnl::primitive_attr attributes(const dnnl::memory::desc& residual) const;
};

}  // namespace mpsgraph::cpu
