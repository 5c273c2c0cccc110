// Machine code of recorded VectorCode, shared by all kernels whose code is equal.
#pragma once

#include <memory>

#include "backends/cpu/jit/code_memory.h"
#include "backends/cpu/jit/vector_code.h"

namespace mpsgraph::cpu::jit {

// Return executable code, generating it unless a kernel that still exists has the same code. Return null if the
// operating system does not allow executable memory, or if the code is too large for the processor's addressing.
// Thread-safe.
std::shared_ptr<const CodeMemory> compiled(VectorCode code);

}  // namespace mpsgraph::cpu::jit
