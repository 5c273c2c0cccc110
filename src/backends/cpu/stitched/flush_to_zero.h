// While it lives, numbers too small for a full mantissa (below 2^-126 in float32) count as zero on this thread, as
// operands and as results.
//
// An average that decays, an optimizer's momentum of a unit that is dead, ends among such numbers and never leaves them,
// and an x86 core spends some hundred cycles on each. Other processors' cores do not, and keep them.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace mpsgraph::cpu {

class FlushToZero {
 public:
#if defined(__x86_64__)
  explicit FlushToZero(bool wanted) : before_(_mm_getcsr()), wanted_(wanted) {
    constexpr unsigned results_are_zero = 0x8000, operands_are_zero = 0x0040;
    if (wanted_) _mm_setcsr(before_ | results_are_zero | operands_are_zero);
  }
  ~FlushToZero() {
    if (wanted_) _mm_setcsr(before_);
  }

 private:
  unsigned before_;
  bool wanted_;
#else
  explicit FlushToZero(bool) {}
  ~FlushToZero() {}
#endif

 public:
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;
};

}  // namespace mpsgraph::cpu
