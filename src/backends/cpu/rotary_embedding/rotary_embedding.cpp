// rotary_embedding: the threads divide the rows of the result, and read the rows of the operands in place.
#include <algorithm>

#include "backends/cpu/kernel.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/rotary_embedding/rotary_rows.h"

namespace mpsgraph::cpu {
namespace {

// Return an operand's strides along all axes but the last, in the order of a permutation. The stride is 0 where the
// operand is broadcast.
Dims strides_of(const Dims& dims, const Ints& permutation) {
  const size_t rank = permutation.size(), missing = rank - dims.size();
  const Dims own = contiguous_strides(dims);
  Dims strides(rank - 1, 0);
  for (size_t i = 0; i + 1 < rank; ++i) {
    const auto axis = static_cast<size_t>(permutation[i]);
    if (axis >= missing && dims[axis - missing] != 1) strides[i] = own[axis - missing];
  }
  return strides;
}

class RotaryKernel final : public Kernel {
 public:
  explicit RotaryKernel(Lowering& lowering)
      : dims_(lowering.output().dims),
        turn_(lowering.attributes().boolean("inverse") ? rotary_functions().turn_back : rotary_functions().turn),
        result_(lowering.output().slot) {
    width_ = dims_.back();
    dims_.pop_back();
    for (size_t i = 0; i < operands_; ++i) {
      const Operand operand = lowering.input(i);
      slots_[i] = operand.slot;
      strides_[i] =
          strides_of(operand.dims, lowering.attributes().integers(i == 0 ? "permutation" : "angle_permutation"));
    }
    if (dims_.empty()) {
      dims_ = {1};
      for (Dims& strides : strides_) strides = {0};
    }
  }

  void run(Frame& frame) const override {
    const int64_t inner = dims_.back(), all = width_ == 0 ? 0 : element_count(dims_);
    parallel_for(all, grain_for(width_ * int64_t{4 * sizeof(float)}), [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t first = begin % inner, count = std::min(inner - first, end - begin);
        turn_(rows(frame, begin / inner, first, count));
        begin += count;
      }
    });
  }
  std::string description() const override { return "rotary embedding, by rows"; }

 private:
  static constexpr size_t operands_ = 3;

  // Return `count` rows along the second-to-last axis, starting with row `first`. `line` is the flattened index over
  // the axes before that axis.
  RotaryRows rows(Frame& frame, int64_t line, int64_t first, int64_t count) const {
    const size_t last = dims_.size() - 1;
    int64_t offsets[operands_], rest = line;
    for (size_t i = 0; i < operands_; ++i) offsets[i] = first * strides_[i][last];
    for (size_t axis = last; axis-- > 0; rest /= dims_[axis])
      for (size_t i = 0; i < operands_; ++i) offsets[i] += rest % dims_[axis] * strides_[i][axis];
    const auto at = [&](size_t i) { return frame.at<const float>(slots_[i]) + offsets[i]; };
    return {at(0),
            at(1),
            at(2),
            strides_[0][last],
            strides_[1][last],
            strides_[2][last],
            frame.at<float>(result_) + (line * dims_[last] + first) * width_,
            count,
            width_ / 2};
  }

  Dims dims_;  // dimensions of the result without the last axis
  int64_t width_;
  TurnRows turn_;
  Slot slots_[operands_], result_;
  Dims strides_[operands_];
};

}  // namespace

const Kernels rotary_embedding_kernels("rotary_embedding", [] {
  define_kernel("rotary_embedding",
                [](Lowering& lowering) -> std::unique_ptr<Kernel> { return std::make_unique<RotaryKernel>(lowering); });
});

}  // namespace mpsgraph::cpu
