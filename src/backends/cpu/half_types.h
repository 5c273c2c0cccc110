// Half and BFloat16: storage types for float16 and bfloat16 elements. Their conversions to and from float are inline
// and branch-free, so the compiler can vectorize loops over them.
#pragma once

#include <bit>
#include <cstdint>

namespace mpsgraph::cpu {

struct Half {
  uint16_t bits;
  Half() = default;
  Half(float value) {
    const uint32_t all = std::bit_cast<uint32_t>(value), sign = (all >> 16) & 0x8000u, u = all & 0x7fffffffu;
    const uint32_t normal = (u + 0xc8000fffu + ((u >> 13) & 1u)) >> 13;
    // If the result is subnormal in float16, adding 0.5 moves its mantissa bits to the bottom of the float32 mantissa,
    // and rounds them to nearest even.
    const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(u) + 0.5f) - 0x3f000000u;
    const uint32_t big = u > 0x7f800000u ? 0x7e00u | ((u >> 13) & 0x3ffu) : 0x7c00u;
    bits = static_cast<uint16_t>(sign | (u >= 0x47800000u ? big : u < 0x38800000u ? small : normal));
  }
  // Converts without producing float32 subnormals, which programs flush to zero. Every float16 subnormal is a normal
  // float32 number.
  operator float() const {
    const uint32_t magnitude = (bits & 0x7fffu) << 13;
    // The exponent of infinity and NaN is increased by 224 instead of 112, which maps the largest float16 exponent to
    // the largest float32 exponent.
    const uint32_t normal = magnitude + (magnitude >= 0x0f800000u ? 224u << 23 : 112u << 23);
    const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude + (113u << 23)) - 0x1p-14f);
    return std::bit_cast<float>((magnitude < 0x00800000u ? small : normal) | (bits & 0x8000u) << 16);
  }
};

struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  BFloat16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    bits = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

}  // namespace mpsgraph::cpu
