// While it lives, numbers too small for a full mantissa (below 2^-126 in float32) count as zero on this thread, as
// operands of arithmetic and as results (decision 0017).
//
// What decays, gradients of what is learnt, an optimizer's momentum of a unit that is dead, ends among such numbers and
// never leaves them, and an x86 core spends some hundred cycles on each. Other processors' cores do not, and keep them.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace mpsgraph::cpu {

class FlushToZero {
 public:
#if defined(__x86_64__)
  FlushToZero() : before_(_mm_getcsr()) { for_good(); }
  ~FlushToZero() { _mm_setcsr(before_); }
  static void for_good() {
    constexpr unsigned results_are_zero = 0x8000, operands_are_zero = 0x0040;
    _mm_setcsr(_mm_getcsr() | results_are_zero | operands_are_zero);
  }

 private:
  unsigned before_;
#else
  FlushToZero() {}
  ~FlushToZero() {}
  static void for_good() {}
#endif

 public:
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;
};

}  // namespace mpsgraph::cpu
