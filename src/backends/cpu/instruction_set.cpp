// Instruction set selection: what the processor or the system reports, and an environment variable that overrides it.
// Both are read once.
#include "backends/cpu/instruction_set.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <string>

#include "mpsgraph/core/errors.h"

#if defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace mpsgraph::cpu {
namespace {

// Return the value of MPSGRAPH_INSTRUCTION_SET, one of `choices`, or an empty string if it is unset or empty.
std::string_view asked_for(std::initializer_list<std::string_view> choices) {
  const char* set = std::getenv("MPSGRAPH_INSTRUCTION_SET");
  const std::string_view wish = set ? set : "";
  if (wish.empty()) return wish;
  const auto* found = std::find(choices.begin(), choices.end(), wish);
  if (found != choices.end()) return *found;
  std::string list;
  for (const std::string_view& choice : choices) {
    if (!list.empty()) list += &choice == choices.end() - 1 ? " or " : ", ";
    list += choice;
  }
  throw DeviceError(cat("environment variable MPSGRAPH_INSTRUCTION_SET must be ", list, ", got '", wish, "'"));
}

#if defined(__aarch64__)
enum class Extension { dotprod, bf16 };

#if defined(__APPLE__)
bool has_feature(const char* name) {
  int value = 0;
  size_t size = sizeof value;
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
}
bool has_extension(Extension extension) {
  if (extension == Extension::dotprod) return has_feature("hw.optional.arm.FEAT_DotProd");
  return has_feature("hw.optional.arm.FEAT_BF16") && has_feature("hw.optional.arm.FEAT_I8MM");
}
#elif defined(__linux__)
bool has_extension(Extension extension) {
  constexpr unsigned long dotprod = 1ul << 20, i8mm = 1ul << 13, bf16 = 1ul << 14;  // bits of AT_HWCAP and AT_HWCAP2
  if (extension == Extension::dotprod) return (getauxval(AT_HWCAP) & dotprod) != 0;
  return (~getauxval(AT_HWCAP2) & (i8mm | bf16)) == 0;
}
#else
bool has_extension(Extension) { return false; }
#endif
#endif

}  // namespace

std::string_view instruction_set() {
  static const std::string_view best = [] {
#if defined(__aarch64__)
    const std::string_view wish = asked_for({"NEON-bf16", "NEON-dotprod", "NEON"});
    const bool dotprod = wish != "NEON" && has_extension(Extension::dotprod);
    const bool bf16 = dotprod && wish != "NEON-dotprod" && has_extension(Extension::bf16);
    return bf16 ? "NEON-bf16" : dotprod ? "NEON-dotprod" : "NEON";
#else
    const std::string_view wish = asked_for({"AVX-512", "AVX2", "baseline"});
    const auto wanted = [&](std::string_view set) { return wish.empty() || set == wish; };
#if defined(__x86_64__)
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (has_avx512 && wanted("AVX-512")) return "AVX-512";
    if (has_avx2 && (wanted("AVX2") || wanted("AVX-512"))) return "AVX2";
#endif
    return "baseline";
#endif
  }();
  return best;
}

}  // namespace mpsgraph::cpu
