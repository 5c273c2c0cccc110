// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011).
//
// The generator is counter-based: block i of four 32-bit words is a function of the key and counter + i, so any thread
// can produce any part of a stream. The order of words and blocks, and the functions that map words to numbers, are
// TensorFlow's.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "mpsgraph/export.h"

namespace mpsgraph::cpu {

class Philox {
 public:
  using Block = std::array<uint32_t, 4>;

  Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high)
      : key_(key), low_(counter_low), high_(counter_high) {}
  // Construct from a state of type int32[7]: the number 1, four words of the counter, and two words of the key. The
  // words of the counter and of the key are stored from the lowest to the highest.
  explicit Philox(const int32_t* state)
      : Philox(joined(state[5], state[6]), joined(state[1], state[2]), joined(state[3], state[4])) {}
  void write_state(int32_t* state) const {
    const uint64_t words[] = {low_, high_, key_};
    state[0] = 1;
    for (int i = 0; i < 6; ++i)
      state[1 + i] = static_cast<int32_t>(static_cast<uint32_t>(words[i / 2] >> (i % 2 * 32)));
  }

  void skip(uint64_t blocks) {
    low_ += blocks;
    high_ += low_ < blocks;
  }
  Philox skipped(uint64_t blocks) const {
    Philox result = *this;
    result.skip(blocks);
    return result;
  }

  // Generate n blocks (4 n words), starting with the current block. The counters of consecutive blocks differ by
  // `step`.
  MPSGRAPH_API void generate(uint32_t* words, int64_t n, uint64_t step = 1) const;
  Block block() const {
    Block c{static_cast<uint32_t>(low_), static_cast<uint32_t>(low_ >> 32), static_cast<uint32_t>(high_),
            static_cast<uint32_t>(high_ >> 32)};
    auto k0 = static_cast<uint32_t>(key_), k1 = static_cast<uint32_t>(key_ >> 32);
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c[0], p1 = uint64_t{0xCD9E8D57u} * c[2];
      c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    }
    return c;
  }

 private:
  static uint64_t joined(int32_t low, int32_t high) {
    return static_cast<uint32_t>(low) | static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32;
  }

  uint64_t key_, low_, high_;
};

// Map a random word to a number in [0, 1): the low bits of the word become the mantissa.
inline float uniform_float(uint32_t x) { return std::bit_cast<float>((x & 0x7fffffu) | 0x3f800000u) - 1.0f; }
inline float uniform_half(uint32_t x) { return static_cast<float>(x & 0x3ffu) * 0x1p-10f; }
inline float uniform_bfloat16(uint32_t x) { return static_cast<float>(x & 0x7fu) * 0x1p-7f; }
inline double uniform_double(uint32_t x0, uint32_t x1) {
  return std::bit_cast<double>(uint64_t{x0 & 0xfffffu} << 32 | x1 | uint64_t{1023} << 52) - 1.0;
}

// Return the inverse distribution function of the standard normal at p in (0, 1). Winitzki's approximation of the
// inverse error function is refined to double accuracy by two Halley steps, for the smaller of the two tails.
inline double inverse_normal(double p) {
  constexpr double a = 0.147, pi = 3.14159265358979323846;
  const double tail = std::min(p, 1 - p), logarithm = std::log(4 * tail * (1 - tail)), b = 2 / (pi * a) + logarithm / 2;
  double z = std::sqrt(2 * (std::sqrt(std::max(b * b - logarithm / a, 0.0)) - b));
  if (!(z > 0)) return 0;
  for (int step = 0; step < 2; ++step) {
    const double error = (tail - 0.5 * std::erfc(z * 0.70710678118654752440)) * std::sqrt(2 * pi) * std::exp(z * z / 2);
    z -= error / (1 + z * error / 2);
  }
  return p < 0.5 ? -z : z;
}

}  // namespace mpsgraph::cpu
