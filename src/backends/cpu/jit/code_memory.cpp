// Allocates separate pages for generated code, writes them, and makes them executable. The pages are never both
// writable and executable for a thread.
#include "backends/cpu/jit/code_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#if defined(__APPLE__)
#include <TargetConditionals.h>
#include <libkern/OSCacheControl.h>
#include <pthread.h>
#endif

namespace mpsgraph::cpu::jit {
namespace {

// Processors other than x86 may execute stale instructions until their instruction caches are flushed.
void flush_instructions([[maybe_unused]] void* address, [[maybe_unused]] size_t bytes) {
#if defined(__APPLE__)
  sys_icache_invalidate(address, bytes);
#elif !defined(__x86_64__)
  auto* const begin = static_cast<char*>(address);
  __builtin___clear_cache(begin, begin + bytes);
#endif
}

// Return executable pages that contain the code, or MAP_FAILED.
void* executable_pages([[maybe_unused]] const std::vector<uint8_t>& code, [[maybe_unused]] size_t bytes) {
#if defined(__APPLE__) && defined(__aarch64__)
#if TARGET_OS_OSX
  // Apple silicon requires MAP_JIT. Each thread switches such pages between writable and executable. Under the hardened
  // runtime, mmap fails unless the application has the entitlement com.apple.security.cs.allow-jit.
  void* address =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_JIT, -1, 0);
  if (address == MAP_FAILED) return address;
  pthread_jit_write_protect_np(0);
  std::memcpy(address, code.data(), code.size());
  pthread_jit_write_protect_np(1);
  flush_instructions(address, code.size());
  return address;
#else
  return MAP_FAILED;  // iOS allows no generated code
#endif
#else
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return address;
  std::memcpy(address, code.data(), code.size());
  flush_instructions(address, code.size());
  if (mprotect(address, bytes, PROT_READ | PROT_EXEC) == 0) return address;
  munmap(address, bytes);
  return MAP_FAILED;
#endif
}

}  // namespace

std::shared_ptr<const CodeMemory> CodeMemory::make(const std::vector<uint8_t>& code) {
  if (code.empty()) return nullptr;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t bytes = (code.size() + page - 1) / page * page;
  void* const address = executable_pages(code, bytes);
  if (address == MAP_FAILED) return nullptr;
  return std::shared_ptr<const CodeMemory>(new CodeMemory(address, bytes));
}

CodeMemory::~CodeMemory() { munmap(address_, bytes_); }

}  // namespace mpsgraph::cpu::jit
