// Calibration of the tick counter against the system clock, done once.
#include "backends/cpu/ticks.h"

namespace mpsgraph::cpu {

uint64_t microseconds(double count) {
  static const double ticks_per_microsecond = [] {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    const uint64_t first = ticks();
    while (Clock::now() - begin < std::chrono::microseconds(50)) {}
    const std::chrono::duration<double, std::micro> passed = Clock::now() - begin;
    return static_cast<double>(ticks() - first) / passed.count();
  }();
  return static_cast<uint64_t>(count * ticks_per_microsecond);
}

}  // namespace mpsgraph::cpu
