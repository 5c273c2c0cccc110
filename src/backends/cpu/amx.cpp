// Detects AMX, Intel's matrix instructions: CPUID reports whether the processor has them, and the operating system must
// grant use of the tile registers.
#include "backends/cpu/amx.h"
#include "backends/cpu/instruction_set.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace mpsgraph::cpu {

bool has_amx() {
#if defined(__x86_64__) && defined(__linux__)
  static const bool there = [] {
    constexpr unsigned bfloat16 = 1u << 22, registers = 1u << 24, integers = 1u << 25,
                       all = bfloat16 | registers | integers;
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (instruction_set() != "AVX-512" || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & all) != all) return false;
    // Arguments of arch_prctl that request permission to use AMX: the code ARCH_REQ_XCOMP_PERM, and the XSAVE component
    // of AMX tile data.
    constexpr long request_permission = 0x1023, tile_data = 18;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  }();
  return there;
#else
  return false;
#endif
}

}  // namespace mpsgraph::cpu
