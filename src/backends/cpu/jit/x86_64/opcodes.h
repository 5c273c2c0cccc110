// Opcodes of the vector instructions that the code generator emits, for AVX2 and AVX-512, and the opcodes of nodes with
// two operands.
#pragma once

#include "backends/cpu/jit/vector_code.h"
#include "backends/cpu/jit/x86_64/assembler.h"

namespace mpsgraph::cpu::jit::x86_64 {

// Opcodes that do not depend on the lane width.
inline constexpr Opcode move_whole{1, 0, 0x10}, store_whole{1, 0, 0x11}, move_past{1, 0, 0x2b},
    move_register{1, 0, 0x28};
inline constexpr Opcode look_up_doubles{2, 1, 0x7f, 1};  // half of the table is in a register, half in memory
inline constexpr Opcode broadcast_words{2, 1, 0x79}, broadcast_bytes{2, 1, 0x78};
inline constexpr Opcode extract_upper{3, 1, 0x39}, pack_words{2, 1, 0x2b}, shuffle_bytes{2, 1, 0x00};

// Opcodes of conversions between lanes and narrower elements in memory.
inline constexpr Opcode widen_halves{2, 1, 0x13}, narrow_to_halves{3, 1, 0x1d}, extend_words{2, 1, 0x33},
    narrow_to_words{2, 2, 0x33};
inline constexpr Opcode floats_to_bfloat16{2, 2, 0x72};
inline constexpr Opcode broadcast_floats{2, 1, 0x18}, floats_to_doubles{1, 0, 0x5a}, integers_to_doubles{1, 2, 0xe6},
    doubles_to_floats{1, 1, 0x5a, 1}, doubles_to_integers{1, 1, 0xe6, 1};

// Opcodes for approximations in 32-bit lanes: AVX-512's initial estimates, and forms 213 and 231 of the fused
// multiply-adds that refine them.
inline constexpr Opcode near_reciprocal_root{2, 1, 0x4e}, near_reciprocal{2, 1, 0x4c}, one_minus{2, 1, 0xac},
    minus_square{2, 1, 0xbc}, plus_product{2, 1, 0xb8};

// Opcodes that exist separately for 32-bit and 64-bit lanes.
struct LaneOpcodes {
  Opcode load, store, broadcast;
  Opcode masked_load, masked_store;  // AVX2 only
  Opcode load_bytes, store_bytes;  // store_bytes requires AVX-512
  Opcode interleave, store_lower;  // replace store_bytes on AVX2
  Opcode add, subtract, multiply, divide, least, greatest, square_root;
  Opcode bitwise_and, and_not, bitwise_or, bitwise_xor, integer_add, integer_subtract;
  Opcode integer_multiply, integer_least, integer_greatest;
  Opcode integer_compare;  // AVX-512 only
  Opcode integer_equal, integer_greater;  // AVX2 only
  Opcode to_float, to_integer;  // from and to integers; in 64-bit lanes, both require AVX-512
  Opcode shift, shift_sign, round, compare;
  Opcode blend_by_mask, blend_by_vector, mask_to_vector, vector_to_mask;
  Opcode scale, fix_up, mantissa, exponent;  // AVX-512 only
  uint8_t w;  // W bit of fused multiply-adds
};

inline constexpr LaneOpcodes opcodes_of_floats{
    .load = {1, 0, 0x10},
    .store = {1, 0, 0x11},
    .broadcast = {2, 1, 0x18},
    .masked_load = {2, 1, 0x2c},
    .masked_store = {2, 1, 0x2e},
    .load_bytes = {2, 1, 0x31},
    .store_bytes = {2, 2, 0x31},
    .interleave = {1, 1, 0x62},
    .store_lower = {1, 1, 0xd6},
    .add = {1, 0, 0x58},
    .subtract = {1, 0, 0x5c},
    .multiply = {1, 0, 0x59},
    .divide = {1, 0, 0x5e},
    .least = {1, 0, 0x5d},
    .greatest = {1, 0, 0x5f},
    .square_root = {1, 0, 0x51},
    .bitwise_and = {1, 0, 0x54},
    .and_not = {1, 0, 0x55},
    .bitwise_or = {1, 0, 0x56},
    .bitwise_xor = {1, 0, 0x57},
    .integer_add = {1, 1, 0xfe},
    .integer_subtract = {1, 1, 0xfa},
    .integer_multiply = {2, 1, 0x40},
    .integer_least = {2, 1, 0x39},
    .integer_greatest = {2, 1, 0x3d},
    .integer_compare = {3, 1, 0x1f},
    .integer_equal = {1, 1, 0x76},
    .integer_greater = {1, 1, 0x66},
    .to_float = {1, 0, 0x5b},
    .to_integer = {1, 2, 0x5b},
    .shift = {1, 1, 0x72},
    .shift_sign = {1, 1, 0x72},
    .round = {3, 1, 0x08},
    .compare = {1, 0, 0xc2},
    .blend_by_mask = {2, 1, 0x65},
    .blend_by_vector = {3, 1, 0x4a},
    .mask_to_vector = {2, 2, 0x38},
    .vector_to_mask = {2, 2, 0x39},
    .scale = {2, 1, 0x2c},
    .fix_up = {3, 1, 0x54},
    .mantissa = {3, 1, 0x26},
    .exponent = {2, 1, 0x42},
    .w = 0,
};
inline constexpr LaneOpcodes opcodes_of_doubles{
    .load = {1, 1, 0x10, 1},
    .store = {1, 1, 0x11, 1},
    .broadcast = {2, 1, 0x19, 1},
    .masked_load = {2, 1, 0x2d},
    .masked_store = {2, 1, 0x2f},
    .load_bytes = {2, 1, 0x32},
    .store_bytes = {2, 2, 0x32},
    .interleave = {1, 1, 0x61},
    .store_lower = {1, 1, 0x7e},
    .add = {1, 1, 0x58, 1},
    .subtract = {1, 1, 0x5c, 1},
    .multiply = {1, 1, 0x59, 1},
    .divide = {1, 1, 0x5e, 1},
    .least = {1, 1, 0x5d, 1},
    .greatest = {1, 1, 0x5f, 1},
    .square_root = {1, 1, 0x51, 1},
    .bitwise_and = {1, 1, 0x54, 1},
    .and_not = {1, 1, 0x55, 1},
    .bitwise_or = {1, 1, 0x56, 1},
    .bitwise_xor = {1, 1, 0x57, 1},
    .integer_add = {1, 1, 0xd4, 1},
    .integer_subtract = {1, 1, 0xfb, 1},
    .integer_multiply = {2, 1, 0x40, 1},
    .integer_least = {2, 1, 0x39, 1},
    .integer_greatest = {2, 1, 0x3d, 1},
    .integer_compare = {3, 1, 0x1f, 1},
    .integer_equal = {2, 1, 0x29},
    .integer_greater = {2, 1, 0x37},
    .to_float = {1, 2, 0xe6, 1},
    .to_integer = {1, 1, 0x7a, 1},
    .shift = {1, 1, 0x73, 1},
    .shift_sign = {1, 1, 0x72, 1},
    .round = {3, 1, 0x09, 1},
    .compare = {1, 1, 0xc2, 1},
    .blend_by_mask = {2, 1, 0x65, 1},
    .blend_by_vector = {3, 1, 0x4b},
    .mask_to_vector = {2, 2, 0x38, 1},
    .vector_to_mask = {2, 2, 0x39, 1},
    .scale = {2, 1, 0x2c, 1},
    .fix_up = {3, 1, 0x54, 1},
    .mantissa = {3, 1, 0x26, 1},
    .exponent = {2, 1, 0x42, 1},
    .w = 1,
};

struct Binary {
  Opcode opcode;
  bool commutes;
};
inline Binary binary(const LaneOpcodes& lane, Kind kind) {
  switch (kind) {
    case Kind::add: return {lane.add, true};
    case Kind::subtract: return {lane.subtract, false};
    case Kind::multiply: return {lane.multiply, true};
    case Kind::divide: return {lane.divide, false};
    // minimum and maximum are not commutative, because they return the second operand if either is NaN
    case Kind::least: return {lane.least, false};
    case Kind::greatest: return {lane.greatest, false};
    case Kind::bitwise_and: return {lane.bitwise_and, true};
    case Kind::and_not: return {lane.and_not, false};
    case Kind::bitwise_or: return {lane.bitwise_or, true};
    case Kind::bitwise_xor: return {lane.bitwise_xor, true};
    case Kind::integer_add: return {lane.integer_add, true};
    case Kind::integer_subtract: return {lane.integer_subtract, false};
    case Kind::integer_multiply: return {lane.integer_multiply, true};
    case Kind::integer_least: return {lane.integer_least, true};
    case Kind::integer_greatest: return {lane.integer_greatest, true};
    default: return {lane.scale, false};
  }
}

}  // namespace mpsgraph::cpu::jit::x86_64
