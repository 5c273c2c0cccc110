// Kernels that convert their operands, compute in a wider type, and convert the results back. The conversions use the
// vectorized casts of tile_functions.h. Constants are converted once and shared by all kernels that need the wide type.
#include "backends/cpu/wide_kernels.h"

#include <utility>

#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/prepacked_weights.h"

namespace mpsgraph::cpu {
namespace {

struct Conversion {
  TileFunction convert;
  Slot from, to;
  size_t from_size, to_size;
  int64_t elements;

  Conversion(const Operand& x, const Operand& y)
      : convert(cast_function(x.dtype, y.dtype)),
        from(x.slot),
        to(y.slot),
        from_size(size_of(x.dtype)),
        to_size(size_of(y.dtype)),
        elements(x.elements()) {}

  void run(Frame& frame) const {
    parallel_for(elements, 32768, [&](int64_t begin, int64_t end) {
      const void* x = frame.at<const std::byte>(from) + static_cast<size_t>(begin) * from_size;
      convert(frame.at<std::byte>(to) + static_cast<size_t>(begin) * to_size, &x, end - begin);
    });
  }
};

class WidenedKernel final : public Kernel {
 public:
  WidenedKernel(Lowering& lowering, DType narrow, DType wide, Lower lower) {
    Widened widened(lowering, narrow, wide, *this);
    computation_ = lower(widened);
    for (size_t i = 0; i < widened.inputs.size(); ++i)
      if (widened.constants[i] && !widened.is_packed[i])
        constants_.emplace_back(widened.inputs[i].slot, prepacked(widened.constants[i]));
  }

  void run(Frame& frame) const override {
    for (const auto& [slot, value] : constants_) frame.pointers[slot] = const_cast<std::byte*>(value.get());
    for (const Conversion& conversion : before_) conversion.run(frame);
    computation_->run(frame);
    for (const Conversion& conversion : behind_) conversion.run(frame);
  }
  std::unique_ptr<KernelState> make_state() const override {
    computation_->index = index;  // the inner kernel uses the state of this kernel
    return computation_->make_state();
  }
  std::string description() const override { return explained(*computation_); }

 private:
  // The lowering that builds the inner kernel. It presents wide operands in place of the narrow ones.
  struct Widened final : LoweringView {
    Widened(Lowering& given, DType narrow, DType wide, WidenedKernel& kernel) : LoweringView(given) {
      for (size_t i = 0; i < given.input_count(); ++i) {
        const Operand x = given.input(i);
        ConstantWeights constant = x.dtype == narrow ? given.constant(i) : ConstantWeights{};
        constant.dtype = wide;
        inputs.push_back(widened(x, narrow, wide, constant.value != nullptr));
        constants.push_back(constant);
        is_packed.push_back(false);
        if (x.dtype == narrow && !constant) kernel.before_.emplace_back(x, inputs.back());
      }
      for (size_t o = 0; o < given.operation().outputs.size(); ++o) {
        const Operand y = given.output(o);
        outputs.push_back(widened(y, narrow, wide, false));
        if (y.dtype == narrow) kernel.behind_.emplace_back(outputs.back(), y);
      }
    }
    Operand widened(Operand x, DType narrow, DType wide, bool lies_elsewhere) {
      if (x.dtype != narrow) return x;
      x.dtype = wide;
      x.slot = given.scratch(lies_elsewhere ? 0 : x.bytes());
      return x;
    }
    // Constants that the inner kernel packs are not kept in unpacked form.
    ConstantWeights constant(size_t i) override {
      if (!constants[i]) return inputs[i].slot == given.input(i).slot ? given.constant(i) : ConstantWeights{};
      is_packed[i] = true;
      return constants[i];
    }
    Operand input(size_t i) const override { return inputs[i]; }
    Operand output(size_t o) const override { return outputs[o]; }
    size_t input_count() const override { return inputs.size(); }

    std::vector<Operand> inputs, outputs;
    std::vector<ConstantWeights> constants;  // narrow constants, indexed by operand
    std::vector<bool> is_packed;  // whether the inner kernel packed the constant, indexed by operand
  };

  std::vector<Conversion> before_, behind_;
  std::vector<std::pair<Slot, PackedPtr>> constants_;  // slot that the inner kernel reads, and converted constant
  std::unique_ptr<Kernel> computation_;
};

}  // namespace

DType wide_float(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16 ? DType::float32 : dtype; }

DType wide_integer(DType dtype) {
  if (!is_integer(dtype) || size_of(dtype) >= sizeof(int32_t)) return dtype;
  return is_signed(dtype) ? DType::int32 : DType::uint32;
}

std::unique_ptr<Kernel> widened_kernel(Lowering& lowering, DType narrow, DType wide, Lower lower) {
  return std::make_unique<WidenedKernel>(lowering, narrow, wide, lower);
}

}  // namespace mpsgraph::cpu
