// Makes this thread treat denormal numbers (below 2^-126 in float32) as zero, both as operands and as results, while an
// object of this class exists (decision 0017).
//
// Values that decay, such as gradients late in training or the optimizer momentum of a dead unit, end up as denormals
// and remain denormal. On x86, each operation on a denormal takes about a hundred cycles. On other processors, which
// handle denormals at full speed, this class does nothing.
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
