// Constant weights are packed into their kernel's layout once, when the kernel is created, not in each run. Kernels
// that need the same constant in the same layout share one copy, even across executables for different batch sizes. A
// package file may contain packed weights (runtime/preparation.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/kernel.h"
#include "mpsgraph/core/graph.h"

namespace mpsgraph::runtime {
struct DeviceForm;
}

namespace mpsgraph::cpu {

// Return the constant behind an operand, looking through reshapes and other aliases. Return null if the operand is not
// a constant or is a splat.
ConstantPtr constant_operand(const Operation& operation, size_t i);

// A constant operand, and the dtype in which the kernel computes, which may be wider than the dtype of the constant.
struct ConstantWeights {
  ConstantPtr value;
  DType dtype = DType::float32;
  std::function<void()> packed = {};  // called when a kernel takes a packed form

  explicit operator bool() const { return value != nullptr; }
  std::shared_ptr<const std::byte> elements() const;  // returns the elements in place, or converted to `dtype`
};

using PackedPtr = std::shared_ptr<const std::byte>;  // aligned to a cache line

// Return the constant, packed by `pack` into the layout named `layout`. `pack` may use several threads. It is called
// only if no kernel already holds the same constant in that layout. Throw DeviceError if the allocation fails.
PackedPtr prepacked(const ConstantWeights& constant, const std::string& layout, size_t bytes,
                    const std::function<void(const std::byte* elements, std::byte* packed)>& pack);
// Return the unpacked elements, converted to the kernel's dtype.
PackedPtr prepacked(const ConstantWeights& constant);

// Return a string that identifies the engine build and the instruction set. Packed weights are valid only for the
// engine sources and processor features for which they were packed.
std::string packed_for();
std::vector<runtime::DeviceForm> packed_weights();  // returns all packed weights in use

}  // namespace mpsgraph::cpu
