// Treats denormal numbers (below 2^-126 in float32) as zero on this thread while an object of this class exists, both
// as operands and as results (decision 0017).
//
// Values that decay, such as gradients late in training or the optimizer momentum of a dead unit, end up as denormals
// and stay there, and an x86 core spends about a hundred cycles on each. Other processors handle denormals at full
// speed, so they keep them.
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
