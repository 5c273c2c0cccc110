// Constant weights are packed into their kernel's layout once, when the kernel is made, and not in each run. Kernels
// that want the same constant in the same layout share it, so that executables for several batch sizes hold one copy.
// A package may hold them packed (runtime/preparation.h).
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

// The value of an operand that is a constant, perhaps under another shape, with all its elements; else null.
ConstantPtr constant_operand(const Operation& operation, size_t i);

// A constant operand in the type that its kernel computes in, which may be wider.
struct ConstantWeights {
  ConstantPtr value;
  DType dtype = DType::float32;
  std::function<void()> packed = {};  // to be called when a form of it is taken

  explicit operator bool() const { return value != nullptr; }
  std::shared_ptr<const std::byte> elements() const;  // themselves, or a copy in that type
};

using PackedPtr = std::shared_ptr<const std::byte>;  // aligned to a cache line, as long as somebody holds it

// `layout` names what `pack` makes of the constant's elements; it is called, on several threads if it likes, unless
// somebody holds the same already. DeviceError when the memory cannot be had.
PackedPtr prepacked(const ConstantWeights& constant, const std::string& layout, size_t bytes,
                    const std::function<void(const std::byte* elements, std::byte* packed)>& pack);
// The elements themselves.
PackedPtr prepacked(const ConstantWeights& constant);

// Whose packed weights these kernels can take: the sources they were compiled from, and the processor's instructions.
std::string packed_for();
std::vector<runtime::DeviceForm> packed_weights();  // all that somebody holds

}  // namespace mpsgraph::cpu
