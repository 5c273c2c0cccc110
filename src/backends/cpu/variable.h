// A variable's value on the CPU device, in the layout of its home.
//
// A variable that nothing changes is its first value, where that lies: weights of a package are then pages of its file.
#pragma once

#include <span>

#include "backends/cpu/variable_layouts.h"
#include "runtime/backend.h"

namespace mpsgraph::cpu {

class CpuVariable final : public runtime::VariableStorage {
 public:
  explicit CpuVariable(const ConstantPtr& value);
  TensorType type() const override { return array_.type(); }
  runtime::NDArray read() const override;
  void write(const runtime::NDArray& value) override;
  std::byte* data() const { return array_.data(); }
  const LayoutPtr& layout() const { return layout_; }
  // Moves the value. Programs that were compiled for another layout are stale then.
  void move_to(LayoutPtr layout);
  // Call before programs write to data(): gives them memory of their own, with the values in it.
  static void own(std::span<CpuVariable* const> variables);

 private:
  void own();

  LayoutPtr layout_;
  runtime::NDArray array_;
  ConstantPtr first_;  // whose memory array_ is; null when it has its own
};

}  // namespace mpsgraph::cpu
