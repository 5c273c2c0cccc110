// The vector instructions that the generator emits: AVX2's and AVX-512's opcodes, and those of nodes with two operands.
#pragma once

#include "backends/cpu/jit/vector_code.h"

namespace mpsgraph::cpu::jit {

inline constexpr Opcode move_load{1, 0, 0x10}, move_store{1, 0, 0x11}, move_past{1, 0, 0x2b}, move_register{1, 0, 0x28};
inline constexpr Opcode broadcast{2, 1, 0x18}, broadcast_words{2, 1, 0x79}, broadcast_bytes{2, 1, 0x78};
inline constexpr Opcode masked_load{2, 1, 0x2c}, masked_store{2, 1, 0x2e};
inline constexpr Opcode widen_halves{2, 1, 0x13}, extract_upper{3, 1, 0x39}, pack_words{2, 1, 0x2b};
inline constexpr Opcode shuffle_bytes{2, 1, 0x00}, interleave_lanes{1, 1, 0x62}, store_lower{1, 1, 0xd6};
inline constexpr Opcode add_floats{1, 0, 0x58}, and_bits{1, 0, 0x54}, compare_floats{1, 0, 0xc2};
inline constexpr Opcode blend_by_mask{2, 1, 0x65}, blend_by_vector{3, 1, 0x4a}, mask_to_vector{2, 2, 0x38},
    vector_to_mask{2, 2, 0x39};
inline constexpr Opcode near_reciprocal_root{2, 1, 0x4e}, near_reciprocal{2, 1, 0x4c}, fix_up{3, 1, 0x54},
    mantissa_of{3, 1, 0x26}, exponent_of{2, 1, 0x42};  // AVX-512's
inline constexpr Opcode one_minus{2, 1, 0xac}, minus_square{2, 1, 0xbc},
    plus_product{2, 1, 0xb8};  // fused: forms 213, 231
inline constexpr Opcode shift_by_immediate{1, 1, 0x72}, round_floats{3, 1, 0x08}, extend_words{2, 1, 0x33};

struct Binary {
  Opcode opcode;
  bool commutes;
};
inline Binary binary(Kind kind) {
  switch (kind) {
    case Kind::add: return {add_floats, true};
    case Kind::subtract: return {{1, 0, 0x5c}, false};
    case Kind::multiply: return {{1, 0, 0x59}, true};
    case Kind::divide: return {{1, 0, 0x5e}, false};
    case Kind::least: return {{1, 0, 0x5d}, false};  // not of NaN
    case Kind::greatest: return {{1, 0, 0x5f}, false};
    case Kind::bitwise_and: return {and_bits, true};
    case Kind::and_not: return {{1, 0, 0x55}, false};
    case Kind::bitwise_or: return {{1, 0, 0x56}, true};
    case Kind::bitwise_xor: return {{1, 0, 0x57}, true};
    case Kind::integer_add: return {{1, 1, 0xfe}, true};
    case Kind::integer_subtract: return {{1, 1, 0xfa}, false};
    default: return {{2, 1, 0x2c}, false};  // scale
  }
}

}  // namespace mpsgraph::cpu::jit
