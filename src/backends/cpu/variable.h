// A variable's value on the CPU device.
#pragma once

#include "runtime/backend.h"

namespace mpsgraph::cpu {

class CpuVariable final : public runtime::VariableStorage {
 public:
  explicit CpuVariable(const ConstantPtr& value);
  TensorType type() const override { return array_.type(); }
  runtime::NDArray read() const override { return array_.copy_contiguous(); }
  void write(const runtime::NDArray& value) override { array_.copy_from(value); }
  std::byte* data() const { return array_.data(); }

 private:
  runtime::NDArray array_;
};

}  // namespace mpsgraph::cpu
