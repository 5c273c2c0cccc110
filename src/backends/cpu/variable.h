// A variable's value on the CPU device, in the layout of its home.
#pragma once

#include "backends/cpu/home_layouts.h"
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

 private:
  LayoutPtr layout_;
  runtime::NDArray array_;
};

}  // namespace mpsgraph::cpu
