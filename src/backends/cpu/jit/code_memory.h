// Memory for generated code, which is written once and then executable.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace mpsgraph::cpu::jit {

class CodeMemory {
 public:
  // Copy code to executable memory. Return null if there is no code or if the operating system does not allow
  // executable memory.
  static std::shared_ptr<const CodeMemory> make(const std::vector<uint8_t>& code);
  ~CodeMemory();
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;

  template <class Function>
  Function entry() const {
    return reinterpret_cast<Function>(address_);
  }

 private:
  CodeMemory(void* address, size_t bytes) : address_(address), bytes_(bytes) {}
  void* address_;
  size_t bytes_;
};

}  // namespace mpsgraph::cpu::jit
