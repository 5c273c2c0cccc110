// Peak arithmetic of AMX.
#include "backends/cpu/amx_registers.h"
#include "backends/cpu/machine_limits.h"

namespace mpsgraph::cpu::amx {
namespace {

constexpr double sums = side * side, at_once = 4;

void begin_with_zeros() {
  begin();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
}

}  // namespace

double bfloat16_loop(int64_t rounds) {
  begin_with_zeros();
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  end();
  return 2 * at_once * sums * (line / 2) * static_cast<double>(rounds);
}

double integer_loop(int64_t rounds) {
  begin_with_zeros();
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbusd(0, 4, 5);
    _tile_dpbusd(1, 4, 5);
    _tile_dpbusd(2, 4, 5);
    _tile_dpbusd(3, 4, 5);
  }
  end();
  return 2 * at_once * sums * line * static_cast<double>(rounds);
}

}  // namespace mpsgraph::cpu::amx
