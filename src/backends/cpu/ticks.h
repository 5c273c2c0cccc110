// A clock that costs a few nanoseconds to read, for timing every loop and every run.
#pragma once

#include <chrono>
#include <cstdint>

namespace mpsgraph::cpu {

inline uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t now;
  asm volatile("mrs %0, cntvct_el0" : "=r"(now));
  return now;
#else
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

uint64_t microseconds(double count);  // converts to ticks; the first call calibrates for 50 microseconds

}  // namespace mpsgraph::cpu
