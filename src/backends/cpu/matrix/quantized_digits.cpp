// Selects the kernels that multiply packed weights by dot products of bytes, and computes sizes for them.
#include "backends/cpu/matrix/quantized_digits.h"

#include "backends/cpu/matrix/quantized_digit_tiles.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace mpsgraph::cpu {
namespace {

#if defined(__x86_64__)
bool has_avx_vnni() {
  constexpr unsigned avx_vnni = 1u << 4;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & avx_vnni) != 0;
}
#endif

}  // namespace

int64_t shared_elements(int bits, int64_t group, int64_t words) {
  for (const int64_t shared : {128, 64})
    if (group % shared == 0 && shared * bits / 32 % words == 0) return shared;
  return 32;
}

int64_t DigitTiles::Shape::byte_count() const { return vectors * tiles * parts * side * side * 4; }
int64_t DigitTiles::Shape::factor_count() const { return vectors * tiles * side; }
int64_t DigitTiles::Shape::sum_count() const { return groups * side; }
int64_t DigitTiles::Shape::scratch_count() const { return 2 * side * (groups + side) + tiles * side * side; }

const QuantizedDigits* quantized_digits(int bits) {
  static const QuantizedDigits* const all = []() -> const QuantizedDigits* {
    [[maybe_unused]] const std::string_view set = instruction_set();
#if defined(__x86_64__)
    if (set == "AVX-512" && __builtin_cpu_supports("avx512vnni")) return &avx512::quantized_digits;
    if (set == "AVX2" && has_avx_vnni()) return &avx2::quantized_digits;
#elif defined(__aarch64__)
    if (set == "NEON-bf16") return &neon_bf16::quantized_digits;
    if (set == "NEON-dotprod") return &neon_dotprod::quantized_digits;
#endif
    return nullptr;
  }();
  if (bits != 2 && bits != 4 && bits != 8) return nullptr;
#if defined(__x86_64__)
  static const QuantizedDigits nibbles{avx2::quantized_digits.split, avx2::multiply_nibbles};
  if (!all && bits <= 4 && instruction_set() == "AVX2") return &nibbles;
#endif
  return all;
}

}  // namespace mpsgraph::cpu
