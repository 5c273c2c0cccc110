// A variable's value on the CPU.
//
// A variable that is never assigned uses the memory of its initial value. The weights of a package file are then
// memory-mapped pages of that file.
#pragma once

#include <functional>
#include <span>

#include "runtime/backend.h"

namespace mpsgraph::cpu {

class CpuVariable final : public runtime::VariableStorage {
 public:
  explicit CpuVariable(const ConstantPtr& value);
  TensorType type() const override { return array_.type(); }
  runtime::NDArray read() const;  // a copy
  void write(const runtime::NDArray& value);
  std::byte* data() const { return array_.data(); }
  size_t bytes() const { return array_.bytes(); }
  // Give each variable its own memory, which holds the variable's current value. Must be called before programs write
  // to data().
  static void own(std::span<CpuVariable* const> variables);
  // Copy the value and return a function that restores it.
  std::function<void()> saved();

 private:
  void own();

  runtime::NDArray array_;
  ConstantPtr first_;  // owner of array_'s memory; null if the variable owns it
};

}  // namespace mpsgraph::cpu
