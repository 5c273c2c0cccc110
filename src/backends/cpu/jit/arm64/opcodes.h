// Opcodes of the vector instructions that the code generator emits, without their register numbers.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu::jit::arm64 {

// Opcodes for 32-bit lanes. Bit 22 selects 64-bit lanes, which integer_multiply, integer_least, and integer_greatest do
// not support.
inline constexpr uint32_t wide_lanes = 1 << 22;
inline constexpr uint32_t float_add = 0x4e20d400, float_subtract = 0x4ea0d400, float_multiply = 0x6e20dc00,
                          float_divide = 0x6e20fc00, float_multiply_add = 0x4e20cc00,  // d + n m
    float_multiply_subtract = 0x4ea0cc00,  // d - n m
    float_least = 0x4ea0f400, float_greatest = 0x4e20f400;  // NaN if either operand is NaN
inline constexpr uint32_t float_least_number = 0x4ea0c400, float_greatest_number = 0x4e20c400;  // the other operand
inline constexpr uint32_t float_equal = 0x4e20e400, float_greater_or_equal = 0x6e20e400, float_greater = 0x6ea0e400;
inline constexpr uint32_t float_equal_zero = 0x4ea0d800, float_greater_zero = 0x4ea0c800,
                          float_greater_or_equal_zero = 0x6ea0c800, float_less_zero = 0x4ea0e800,
                          float_less_or_equal_zero = 0x6ea0d800;
inline constexpr uint32_t float_absolute = 0x4ea0f800, float_negate = 0x6ea0f800, float_square_root = 0x6ea1f800;
inline constexpr uint32_t round_nearest = 0x4e218800, round_down = 0x4e219800, round_up = 0x4ea18800,
                          round_to_zero = 0x4ea19800;
inline constexpr uint32_t integers_to_floats = 0x4e21d800, floats_to_integers = 0x4ea1b800;
inline constexpr uint32_t integer_add = 0x4ea08400, integer_subtract = 0x6ea08400, integer_multiply = 0x4ea09c00,
                          integer_least = 0x4ea06c00, integer_greatest = 0x4ea06400;
inline constexpr uint32_t integer_equal = 0x6ea08c00, integer_greater = 0x4ea03400,
                          integer_greater_or_equal = 0x4ea03c00;
inline constexpr uint32_t integer_equal_zero = 0x4ea09800, integer_greater_zero = 0x4ea08800,
                          integer_greater_or_equal_zero = 0x6ea08800, integer_less_zero = 0x4ea0a800,
                          integer_less_or_equal_zero = 0x6ea09800;

// Opcodes that do not depend on the lane width.
inline constexpr uint32_t bits_and = 0x4e201c00, bits_and_not = 0x4e601c00,  // n & ~m
    bits_or = 0x4ea01c00, bits_xor = 0x6e201c00, bits_not = 0x6e205800;
inline constexpr uint32_t select_bits = 0x6e601c00,  // d ? n : m
    insert_if_true = 0x6ea01c00,  // m ? n : d
    insert_if_false = 0x6ee01c00;  // m ? d : n
inline constexpr uint32_t shift_left = 0x4f005400, shift_right = 0x6f000400, shift_right_sign = 0x4f000400;
inline constexpr uint32_t halves_to_floats = 0x0e217800, floats_to_halves = 0x0e216800, floats_to_doubles = 0x0e617800,
                          doubles_to_floats = 0x0e616800,
                          floats_to_bfloat16 = 0x0ea16800;  // floats_to_bfloat16 requires FEAT_BF16
inline constexpr uint32_t move_float = 0x1e204000;  // lane 0; clears the other lanes
inline constexpr uint32_t upper_half = 0x5e180400;  // 64 bits; clears the upper half of the result

}  // namespace mpsgraph::cpu::jit::arm64
