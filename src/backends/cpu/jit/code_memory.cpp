// Allocates separate pages for generated code. The pages are written first and then made executable, and are never both
// writable and executable.
#include "backends/cpu/jit/code_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace mpsgraph::cpu::jit {

std::shared_ptr<const CodeMemory> CodeMemory::make(const std::vector<uint8_t>& code) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t bytes = (code.size() + page - 1) / page * page;
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  std::memcpy(address, code.data(), code.size());
  if (mprotect(address, bytes, PROT_READ | PROT_EXEC) != 0) {
    munmap(address, bytes);
    return nullptr;
  }
  return std::shared_ptr<const CodeMemory>(new CodeMemory(address, bytes));
}

CodeMemory::~CodeMemory() { munmap(address_, bytes_); }

}  // namespace mpsgraph::cpu::jit
