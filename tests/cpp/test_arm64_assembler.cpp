// Encodings of the AArch64 assembler, compared with the words that GNU as 2.40 assembles from the text of each
// instruction. The assembler runs on every platform, so these tests do, too.
#include "backends/cpu/jit/arm64/assembler.h"
#include "backends/cpu/jit/arm64/opcodes.h"
#include "check.h"

using namespace mpsgraph::cpu::jit::arm64;

namespace {

struct Encoding {
  const char* text;
  uint32_t word;
  void (*emit)(Assembler& a);
};

const Encoding encodings[] = {
    {"fadd v3.4s, v17.4s, v30.4s", 0x4e3ed623, [](Assembler& a) { a.vector(float_add, 3, 17, 30); }},
    {"fadd v3.2d, v17.2d, v30.2d", 0x4e7ed623, [](Assembler& a) { a.vector(float_add | wide_lanes, 3, 17, 30); }},
    {"fsub v3.4s, v17.4s, v30.4s", 0x4ebed623, [](Assembler& a) { a.vector(float_subtract, 3, 17, 30); }},
    {"fsub v3.2d, v17.2d, v30.2d", 0x4efed623, [](Assembler& a) { a.vector(float_subtract | wide_lanes, 3, 17, 30); }},
    {"fmul v3.4s, v17.4s, v30.4s", 0x6e3ede23, [](Assembler& a) { a.vector(float_multiply, 3, 17, 30); }},
    {"fmul v3.2d, v17.2d, v30.2d", 0x6e7ede23, [](Assembler& a) { a.vector(float_multiply | wide_lanes, 3, 17, 30); }},
    {"fdiv v3.4s, v17.4s, v30.4s", 0x6e3efe23, [](Assembler& a) { a.vector(float_divide, 3, 17, 30); }},
    {"fdiv v3.2d, v17.2d, v30.2d", 0x6e7efe23, [](Assembler& a) { a.vector(float_divide | wide_lanes, 3, 17, 30); }},
    {"fmla v3.4s, v17.4s, v30.4s", 0x4e3ece23, [](Assembler& a) { a.vector(float_multiply_add, 3, 17, 30); }},
    {"fmla v3.2d, v17.2d, v30.2d", 0x4e7ece23,
     [](Assembler& a) { a.vector(float_multiply_add | wide_lanes, 3, 17, 30); }},
    {"fmls v3.4s, v17.4s, v30.4s", 0x4ebece23, [](Assembler& a) { a.vector(float_multiply_subtract, 3, 17, 30); }},
    {"fmls v3.2d, v17.2d, v30.2d", 0x4efece23,
     [](Assembler& a) { a.vector(float_multiply_subtract | wide_lanes, 3, 17, 30); }},
    {"fmin v3.4s, v17.4s, v30.4s", 0x4ebef623, [](Assembler& a) { a.vector(float_least, 3, 17, 30); }},
    {"fmin v3.2d, v17.2d, v30.2d", 0x4efef623, [](Assembler& a) { a.vector(float_least | wide_lanes, 3, 17, 30); }},
    {"fmax v3.4s, v17.4s, v30.4s", 0x4e3ef623, [](Assembler& a) { a.vector(float_greatest, 3, 17, 30); }},
    {"fmax v3.2d, v17.2d, v30.2d", 0x4e7ef623, [](Assembler& a) { a.vector(float_greatest | wide_lanes, 3, 17, 30); }},
    {"fminnm v3.4s, v17.4s, v30.4s", 0x4ebec623, [](Assembler& a) { a.vector(float_least_number, 3, 17, 30); }},
    {"fminnm v3.2d, v17.2d, v30.2d", 0x4efec623,
     [](Assembler& a) { a.vector(float_least_number | wide_lanes, 3, 17, 30); }},
    {"fmaxnm v3.4s, v17.4s, v30.4s", 0x4e3ec623, [](Assembler& a) { a.vector(float_greatest_number, 3, 17, 30); }},
    {"fmaxnm v3.2d, v17.2d, v30.2d", 0x4e7ec623,
     [](Assembler& a) { a.vector(float_greatest_number | wide_lanes, 3, 17, 30); }},
    {"fcmeq v3.4s, v17.4s, v30.4s", 0x4e3ee623, [](Assembler& a) { a.vector(float_equal, 3, 17, 30); }},
    {"fcmeq v3.2d, v17.2d, v30.2d", 0x4e7ee623, [](Assembler& a) { a.vector(float_equal | wide_lanes, 3, 17, 30); }},
    {"fcmge v3.4s, v17.4s, v30.4s", 0x6e3ee623, [](Assembler& a) { a.vector(float_greater_or_equal, 3, 17, 30); }},
    {"fcmge v3.2d, v17.2d, v30.2d", 0x6e7ee623,
     [](Assembler& a) { a.vector(float_greater_or_equal | wide_lanes, 3, 17, 30); }},
    {"fcmgt v3.4s, v17.4s, v30.4s", 0x6ebee623, [](Assembler& a) { a.vector(float_greater, 3, 17, 30); }},
    {"fcmgt v3.2d, v17.2d, v30.2d", 0x6efee623, [](Assembler& a) { a.vector(float_greater | wide_lanes, 3, 17, 30); }},
    {"add v3.4s, v17.4s, v30.4s", 0x4ebe8623, [](Assembler& a) { a.vector(integer_add, 3, 17, 30); }},
    {"add v3.2d, v17.2d, v30.2d", 0x4efe8623, [](Assembler& a) { a.vector(integer_add | wide_lanes, 3, 17, 30); }},
    {"sub v3.4s, v17.4s, v30.4s", 0x6ebe8623, [](Assembler& a) { a.vector(integer_subtract, 3, 17, 30); }},
    {"sub v3.2d, v17.2d, v30.2d", 0x6efe8623, [](Assembler& a) { a.vector(integer_subtract | wide_lanes, 3, 17, 30); }},
    {"cmeq v3.4s, v17.4s, v30.4s", 0x6ebe8e23, [](Assembler& a) { a.vector(integer_equal, 3, 17, 30); }},
    {"cmeq v3.2d, v17.2d, v30.2d", 0x6efe8e23, [](Assembler& a) { a.vector(integer_equal | wide_lanes, 3, 17, 30); }},
    {"cmgt v3.4s, v17.4s, v30.4s", 0x4ebe3623, [](Assembler& a) { a.vector(integer_greater, 3, 17, 30); }},
    {"cmgt v3.2d, v17.2d, v30.2d", 0x4efe3623, [](Assembler& a) { a.vector(integer_greater | wide_lanes, 3, 17, 30); }},
    {"cmge v3.4s, v17.4s, v30.4s", 0x4ebe3e23, [](Assembler& a) { a.vector(integer_greater_or_equal, 3, 17, 30); }},
    {"cmge v3.2d, v17.2d, v30.2d", 0x4efe3e23,
     [](Assembler& a) { a.vector(integer_greater_or_equal | wide_lanes, 3, 17, 30); }},
    {"mul v31.4s, v1.4s, v16.4s", 0x4eb09c3f, [](Assembler& a) { a.vector(integer_multiply, 31, 1, 16); }},
    {"smin v31.4s, v1.4s, v16.4s", 0x4eb06c3f, [](Assembler& a) { a.vector(integer_least, 31, 1, 16); }},
    {"smax v31.4s, v1.4s, v16.4s", 0x4eb0643f, [](Assembler& a) { a.vector(integer_greatest, 31, 1, 16); }},
    {"and v9.16b, v21.16b, v2.16b", 0x4e221ea9, [](Assembler& a) { a.vector(bits_and, 9, 21, 2); }},
    {"bic v9.16b, v21.16b, v2.16b", 0x4e621ea9, [](Assembler& a) { a.vector(bits_and_not, 9, 21, 2); }},
    {"orr v9.16b, v21.16b, v2.16b", 0x4ea21ea9, [](Assembler& a) { a.vector(bits_or, 9, 21, 2); }},
    {"eor v9.16b, v21.16b, v2.16b", 0x6e221ea9, [](Assembler& a) { a.vector(bits_xor, 9, 21, 2); }},
    {"bsl v9.16b, v21.16b, v2.16b", 0x6e621ea9, [](Assembler& a) { a.vector(select_bits, 9, 21, 2); }},
    {"bit v9.16b, v21.16b, v2.16b", 0x6ea21ea9, [](Assembler& a) { a.vector(insert_if_true, 9, 21, 2); }},
    {"bif v9.16b, v21.16b, v2.16b", 0x6ee21ea9, [](Assembler& a) { a.vector(insert_if_false, 9, 21, 2); }},
    {"fabs v8.4s, v25.4s", 0x4ea0fb28, [](Assembler& a) { a.vector(float_absolute, 8, 25); }},
    {"fabs v8.2d, v25.2d", 0x4ee0fb28, [](Assembler& a) { a.vector(float_absolute | wide_lanes, 8, 25); }},
    {"fneg v8.4s, v25.4s", 0x6ea0fb28, [](Assembler& a) { a.vector(float_negate, 8, 25); }},
    {"fneg v8.2d, v25.2d", 0x6ee0fb28, [](Assembler& a) { a.vector(float_negate | wide_lanes, 8, 25); }},
    {"fsqrt v8.4s, v25.4s", 0x6ea1fb28, [](Assembler& a) { a.vector(float_square_root, 8, 25); }},
    {"fsqrt v8.2d, v25.2d", 0x6ee1fb28, [](Assembler& a) { a.vector(float_square_root | wide_lanes, 8, 25); }},
    {"frintn v8.4s, v25.4s", 0x4e218b28, [](Assembler& a) { a.vector(round_nearest, 8, 25); }},
    {"frintn v8.2d, v25.2d", 0x4e618b28, [](Assembler& a) { a.vector(round_nearest | wide_lanes, 8, 25); }},
    {"frintm v8.4s, v25.4s", 0x4e219b28, [](Assembler& a) { a.vector(round_down, 8, 25); }},
    {"frintm v8.2d, v25.2d", 0x4e619b28, [](Assembler& a) { a.vector(round_down | wide_lanes, 8, 25); }},
    {"frintp v8.4s, v25.4s", 0x4ea18b28, [](Assembler& a) { a.vector(round_up, 8, 25); }},
    {"frintp v8.2d, v25.2d", 0x4ee18b28, [](Assembler& a) { a.vector(round_up | wide_lanes, 8, 25); }},
    {"frintz v8.4s, v25.4s", 0x4ea19b28, [](Assembler& a) { a.vector(round_to_zero, 8, 25); }},
    {"frintz v8.2d, v25.2d", 0x4ee19b28, [](Assembler& a) { a.vector(round_to_zero | wide_lanes, 8, 25); }},
    {"scvtf v8.4s, v25.4s", 0x4e21db28, [](Assembler& a) { a.vector(integers_to_floats, 8, 25); }},
    {"scvtf v8.2d, v25.2d", 0x4e61db28, [](Assembler& a) { a.vector(integers_to_floats | wide_lanes, 8, 25); }},
    {"fcvtzs v8.4s, v25.4s", 0x4ea1bb28, [](Assembler& a) { a.vector(floats_to_integers, 8, 25); }},
    {"fcvtzs v8.2d, v25.2d", 0x4ee1bb28, [](Assembler& a) { a.vector(floats_to_integers | wide_lanes, 8, 25); }},
    {"fcmeq v5.4s, v18.4s, #0.0", 0x4ea0da45, [](Assembler& a) { a.vector(float_equal_zero, 5, 18); }},
    {"fcmeq v5.2d, v18.2d, #0.0", 0x4ee0da45, [](Assembler& a) { a.vector(float_equal_zero | wide_lanes, 5, 18); }},
    {"fcmgt v5.4s, v18.4s, #0.0", 0x4ea0ca45, [](Assembler& a) { a.vector(float_greater_zero, 5, 18); }},
    {"fcmgt v5.2d, v18.2d, #0.0", 0x4ee0ca45, [](Assembler& a) { a.vector(float_greater_zero | wide_lanes, 5, 18); }},
    {"fcmge v5.4s, v18.4s, #0.0", 0x6ea0ca45, [](Assembler& a) { a.vector(float_greater_or_equal_zero, 5, 18); }},
    {"fcmge v5.2d, v18.2d, #0.0", 0x6ee0ca45,
     [](Assembler& a) { a.vector(float_greater_or_equal_zero | wide_lanes, 5, 18); }},
    {"fcmlt v5.4s, v18.4s, #0.0", 0x4ea0ea45, [](Assembler& a) { a.vector(float_less_zero, 5, 18); }},
    {"fcmlt v5.2d, v18.2d, #0.0", 0x4ee0ea45, [](Assembler& a) { a.vector(float_less_zero | wide_lanes, 5, 18); }},
    {"fcmle v5.4s, v18.4s, #0.0", 0x6ea0da45, [](Assembler& a) { a.vector(float_less_or_equal_zero, 5, 18); }},
    {"fcmle v5.2d, v18.2d, #0.0", 0x6ee0da45,
     [](Assembler& a) { a.vector(float_less_or_equal_zero | wide_lanes, 5, 18); }},
    {"cmeq v5.4s, v18.4s, #0", 0x4ea09a45, [](Assembler& a) { a.vector(integer_equal_zero, 5, 18); }},
    {"cmeq v5.2d, v18.2d, #0", 0x4ee09a45, [](Assembler& a) { a.vector(integer_equal_zero | wide_lanes, 5, 18); }},
    {"cmgt v5.4s, v18.4s, #0", 0x4ea08a45, [](Assembler& a) { a.vector(integer_greater_zero, 5, 18); }},
    {"cmgt v5.2d, v18.2d, #0", 0x4ee08a45, [](Assembler& a) { a.vector(integer_greater_zero | wide_lanes, 5, 18); }},
    {"cmge v5.4s, v18.4s, #0", 0x6ea08a45, [](Assembler& a) { a.vector(integer_greater_or_equal_zero, 5, 18); }},
    {"cmge v5.2d, v18.2d, #0", 0x6ee08a45,
     [](Assembler& a) { a.vector(integer_greater_or_equal_zero | wide_lanes, 5, 18); }},
    {"cmlt v5.4s, v18.4s, #0", 0x4ea0aa45, [](Assembler& a) { a.vector(integer_less_zero, 5, 18); }},
    {"cmlt v5.2d, v18.2d, #0", 0x4ee0aa45, [](Assembler& a) { a.vector(integer_less_zero | wide_lanes, 5, 18); }},
    {"cmle v5.4s, v18.4s, #0", 0x6ea09a45, [](Assembler& a) { a.vector(integer_less_or_equal_zero, 5, 18); }},
    {"cmle v5.2d, v18.2d, #0", 0x6ee09a45,
     [](Assembler& a) { a.vector(integer_less_or_equal_zero | wide_lanes, 5, 18); }},
    {"mvn v1.16b, v29.16b", 0x6e205ba1, [](Assembler& a) { a.vector(bits_not, 1, 29); }},
    {"mov v12.16b, v23.16b", 0x4eb71eec, [](Assembler& a) { a.move_vector(12, 23); }},
    {"fcvtl v4.4s, v20.4h", 0x0e217a84, [](Assembler& a) { a.vector(halves_to_floats, 4, 20); }},
    {"fcvtn v4.4h, v20.4s", 0x0e216a84, [](Assembler& a) { a.vector(floats_to_halves, 4, 20); }},
    {"fcvtl v4.2d, v20.2s", 0x0e617a84, [](Assembler& a) { a.vector(floats_to_doubles, 4, 20); }},
    {"fcvtn v4.2s, v20.2d", 0x0e616a84, [](Assembler& a) { a.vector(doubles_to_floats, 4, 20); }},
    {"bfcvtn v4.4h, v20.4s", 0x0ea16a84, [](Assembler& a) { a.vector(floats_to_bfloat16, 4, 20); }},
    {"fmov s6, s19", 0x1e204266, [](Assembler& a) { a.vector(move_float, 6, 19); }},
    {"dup d6, v19.d[1]", 0x5e180666, [](Assembler& a) { a.vector(upper_half, 6, 19); }},
    {"shl v7.4s, v22.4s, #1", 0x4f2156c7, [](Assembler& a) { a.shift(shift_left, 7, 22, 1, 32); }},
    {"shl v7.4s, v22.4s, #31", 0x4f3f56c7, [](Assembler& a) { a.shift(shift_left, 7, 22, 31, 32); }},
    {"shl v7.2d, v22.2d, #1", 0x4f4156c7, [](Assembler& a) { a.shift(shift_left, 7, 22, 1, 64); }},
    {"shl v7.2d, v22.2d, #52", 0x4f7456c7, [](Assembler& a) { a.shift(shift_left, 7, 22, 52, 64); }},
    {"shl v7.2d, v22.2d, #63", 0x4f7f56c7, [](Assembler& a) { a.shift(shift_left, 7, 22, 63, 64); }},
    {"ushr v7.4s, v22.4s, #1", 0x6f3f06c7, [](Assembler& a) { a.shift(shift_right, 7, 22, 1, 32); }},
    {"ushr v7.4s, v22.4s, #31", 0x6f2106c7, [](Assembler& a) { a.shift(shift_right, 7, 22, 31, 32); }},
    {"ushr v7.2d, v22.2d, #1", 0x6f7f06c7, [](Assembler& a) { a.shift(shift_right, 7, 22, 1, 64); }},
    {"ushr v7.2d, v22.2d, #52", 0x6f4c06c7, [](Assembler& a) { a.shift(shift_right, 7, 22, 52, 64); }},
    {"ushr v7.2d, v22.2d, #63", 0x6f4106c7, [](Assembler& a) { a.shift(shift_right, 7, 22, 63, 64); }},
    {"sshr v7.4s, v22.4s, #1", 0x4f3f06c7, [](Assembler& a) { a.shift(shift_right_sign, 7, 22, 1, 32); }},
    {"sshr v7.4s, v22.4s, #31", 0x4f2106c7, [](Assembler& a) { a.shift(shift_right_sign, 7, 22, 31, 32); }},
    {"sshr v7.2d, v22.2d, #1", 0x4f7f06c7, [](Assembler& a) { a.shift(shift_right_sign, 7, 22, 1, 64); }},
    {"sshr v7.2d, v22.2d, #52", 0x4f4c06c7, [](Assembler& a) { a.shift(shift_right_sign, 7, 22, 52, 64); }},
    {"sshr v7.2d, v22.2d, #63", 0x4f4106c7, [](Assembler& a) { a.shift(shift_right_sign, 7, 22, 63, 64); }},
    {"ushll v11.8h, v28.8b, #0", 0x2f08a78b, [](Assembler& a) { a.widen(11, 28, 8, false); }},
    {"sshll v11.8h, v28.8b, #0", 0x0f08a78b, [](Assembler& a) { a.widen(11, 28, 8, true); }},
    {"xtn v11.8b, v28.8h", 0x0e212b8b, [](Assembler& a) { a.narrow(11, 28, 8); }},
    {"ushll v11.4s, v28.4h, #0", 0x2f10a78b, [](Assembler& a) { a.widen(11, 28, 16, false); }},
    {"sshll v11.4s, v28.4h, #0", 0x0f10a78b, [](Assembler& a) { a.widen(11, 28, 16, true); }},
    {"xtn v11.4h, v28.4s", 0x0e612b8b, [](Assembler& a) { a.narrow(11, 28, 16); }},
    {"ushll v11.2d, v28.2s, #0", 0x2f20a78b, [](Assembler& a) { a.widen(11, 28, 32, false); }},
    {"sshll v11.2d, v28.2s, #0", 0x0f20a78b, [](Assembler& a) { a.widen(11, 28, 32, true); }},
    {"xtn v11.2s, v28.2d", 0x0ea12b8b, [](Assembler& a) { a.narrow(11, 28, 32); }},
    {"ldr b24, [x15, x9]", 0x3c6969f8, [](Assembler& a) { a.load_vector(24, Address{x15, x9}, 1); }},
    {"str b24, [x15, x9]", 0x3c2969f8, [](Assembler& a) { a.store_vector(24, Address{x15, x9}, 1); }},
    {"ldr h24, [x15, x9, lsl #1]", 0x7c6979f8, [](Assembler& a) { a.load_vector(24, Address{x15, x9}, 2); }},
    {"str h24, [x15, x9, lsl #1]", 0x7c2979f8, [](Assembler& a) { a.store_vector(24, Address{x15, x9}, 2); }},
    {"ldr s24, [x15, x9, lsl #2]", 0xbc6979f8, [](Assembler& a) { a.load_vector(24, Address{x15, x9}, 4); }},
    {"str s24, [x15, x9, lsl #2]", 0xbc2979f8, [](Assembler& a) { a.store_vector(24, Address{x15, x9}, 4); }},
    {"ldr d24, [x15, x9, lsl #3]", 0xfc6979f8, [](Assembler& a) { a.load_vector(24, Address{x15, x9}, 8); }},
    {"str d24, [x15, x9, lsl #3]", 0xfc2979f8, [](Assembler& a) { a.store_vector(24, Address{x15, x9}, 8); }},
    {"ldr q24, [x15, x9, lsl #4]", 0x3ce979f8, [](Assembler& a) { a.load_vector(24, Address{x15, x9}, 16); }},
    {"str q24, [x15, x9, lsl #4]", 0x3ca979f8, [](Assembler& a) { a.store_vector(24, Address{x15, x9}, 16); }},
    {"ldr q10, [x8, #65520]", 0x3dfffd0a, [](Assembler& a) { a.load_vector(10, x8, 65520); }},
    {"ldr q10, [sp, #16]", 0x3dc007ea, [](Assembler& a) { a.load_vector(10, sp, 16); }},
    {"str q10, [sp, #48]", 0x3d800fea, [](Assembler& a) { a.store_vector(10, sp, 48); }},
    {"str q7, [x3, #448]", 0x3d807067, [](Assembler& a) { a.store_vector(7, x3, 448); }},
    {"ldp q21, q30, [x8, #1008]", 0xad5ff915, [](Assembler& a) { a.load_pair(21, 30, x8, 1008); }},
    {"ld1r {v13.16b}, [x16]", 0x4d40c20d, [](Assembler& a) { a.load_repeated(13, x16, 1); }},
    {"ld1r {v13.8h}, [x16]", 0x4d40c60d, [](Assembler& a) { a.load_repeated(13, x16, 2); }},
    {"ld1r {v13.4s}, [x16]", 0x4d40ca0d, [](Assembler& a) { a.load_repeated(13, x16, 4); }},
    {"ld1r {v13.2d}, [x16]", 0x4d40ce0d, [](Assembler& a) { a.load_repeated(13, x16, 8); }},
    {"stnp d14, d27, [x16]", 0x6c006e0e, [](Assembler& a) { a.store_streaming(14, 27, x16); }},
    {"stp d8, d9, [sp]", 0x6d0027e8, [](Assembler& a) { a.save_pair(8, 0); }},
    {"stp d14, d15, [sp, #48]", 0x6d033fee, [](Assembler& a) { a.save_pair(14, 48); }},
    {"ldp d10, d11, [sp, #16]", 0x6d412fea, [](Assembler& a) { a.restore_pair(10, 16); }},
    {"mov x16, v26.d[0]", 0x4e083f50, [](Assembler& a) { a.lane_to_general(x16, 26, 0); }},
    {"mov v26.d[0], x17", 0x4e081e3a, [](Assembler& a) { a.general_to_lane(26, 0, x17); }},
    {"mov x16, v26.d[1]", 0x4e183f50, [](Assembler& a) { a.lane_to_general(x16, 26, 1); }},
    {"mov v26.d[1], x17", 0x4e181e3a, [](Assembler& a) { a.general_to_lane(26, 1, x17); }},
    {"movi v15.2d, #0", 0x6f00e40f, [](Assembler& a) { a.set_immediate(15, 0, 4); }},
    {"movi v15.2d, #0xffffffffffffffff", 0x6f07e7ef, [](Assembler& a) { a.set_immediate(15, 0xffffffff, 4); }},
    {"fmov v15.4s, #1.0", 0x4f03f60f, [](Assembler& a) { a.set_immediate(15, 0x3f800000, 4); }},
    {"fmov v15.4s, #-0.5", 0x4f07f40f, [](Assembler& a) { a.set_immediate(15, 0xbf000000, 4); }},
    {"fmov v15.4s, #31.0", 0x4f01f7ef, [](Assembler& a) { a.set_immediate(15, 0x41f80000, 4); }},
    {"fmov v15.4s, #0.125", 0x4f02f40f, [](Assembler& a) { a.set_immediate(15, 0x3e000000, 4); }},
    {"movi v15.4s, #0x7f", 0x4f0307ef, [](Assembler& a) { a.set_immediate(15, 127, 4); }},
    {"movi v15.4s, #0x80, lsl #24", 0x4f04640f, [](Assembler& a) { a.set_immediate(15, 0x80000000, 4); }},
    {"mvni v15.4s, #0x80, lsl #24", 0x6f04640f, [](Assembler& a) { a.set_immediate(15, 0x7fffffff, 4); }},
    {"movi v15.4s, #0x12, lsl #8", 0x4f00264f, [](Assembler& a) { a.set_immediate(15, 0x1200, 4); }},
    {"mvni v15.4s, #0x34, lsl #16", 0x6f01468f, [](Assembler& a) { a.set_immediate(15, 0xffcbffff, 4); }},
    {"fmov v15.2d, #2.0", 0x6f00f40f, [](Assembler& a) { a.set_immediate(15, 0x4000000000000000, 8); }},
    {"fmov v15.2d, #-1.9375", 0x6f07f7ef, [](Assembler& a) { a.set_immediate(15, 0xbfff000000000000, 8); }},
    {"movi v15.2d, #0x00000000ffffffff", 0x6f00e5ef, [](Assembler& a) { a.set_immediate(15, 0xffffffff, 8); }},
    {"movi v15.2d, #0xff000000000000ff", 0x6f04e42f, [](Assembler& a) { a.set_immediate(15, 0xff000000000000ff, 8); }},
    {"ldr x13, [x0, #32760]", 0xf97ffc0d, [](Assembler& a) { a.load(x13, x0, 32760); }},
    {"add x9, x9, #1", 0x91000529, [](Assembler& a) { a.add(x9, x9, 1); }},
    {"sub sp, sp, #64", 0xd10103ff, [](Assembler& a) { a.subtract(sp, sp, 64); }},
    {"add sp, sp, #3, lsl #12", 0x91400fff, [](Assembler& a) { a.add(sp, sp, 0x3000); }},
    {"add x16, x4, x9, lsl #4", 0x8b091090, [](Assembler& a) { a.add(x16, x4, x9, 4); }},
    {"mul x16, x16, x17", 0x9b117e10, [](Assembler& a) { a.multiply(x16, x16, x17); }},
    {"neg x9, x1", 0xcb0103e9, [](Assembler& a) { a.negate(x9, x1); }},
    {"lsr x1, x1, #2", 0xd342fc21, [](Assembler& a) { a.shift_right(x1, x1, 2); }},
    {"cmp x9, x2", 0xeb02013f, [](Assembler& a) { a.compare(x9, x2); }},
    {"ret", 0xd65f03c0, [](Assembler& a) { a.ret(); }},
    {"adr x8, .+1048572", 0x107fffe8, [](Assembler& a) { a.address_of(x8, 1048572); }},
    {"adr x8, .+7", 0x70000028, [](Assembler& a) { a.address_of(x8, 7); }},
};

std::vector<uint8_t> bytes_of(uint32_t word) {
  std::vector<uint8_t> bytes;
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<uint8_t>(word >> shift));
  return bytes;
}
std::vector<uint8_t> bytes_of(std::initializer_list<uint32_t> words) {
  std::vector<uint8_t> bytes;
  for (const uint32_t word : words)
    for (const uint8_t byte : bytes_of(word)) bytes.push_back(byte);
  return bytes;
}

}  // namespace

TEST(instructions_are_encoded_like_gnu_as) {
  for (const Encoding& encoding : encodings) {
    Assembler a;
    encoding.emit(a);
    if (a.bytes() != bytes_of(encoding.word)) check::fail(__FILE__, __LINE__, encoding.text);
    CHECK(a.fits());
  }
}

TEST(large_immediates_take_two_instructions) {
  Assembler a;
  a.subtract(sp, sp, 0x5010);
  CHECK(a.bytes() == bytes_of({0xd14017ff, 0xd10043ff}));  // sub sp, sp, #5, lsl #12; sub sp, sp, #16
}

TEST(jumps_reach_their_targets) {
  Assembler a;
  const auto loop = a.here();
  const auto ahead = a.jump_ahead_if_zero(x2);
  a.add(x9, x9, 1);
  a.jump_back_unless_zero(x9, loop);
  a.jump_back_if_below(loop);
  a.land(ahead);
  // cbz x2, .+16; add x9, x9, #1; cbnz x9, .-8; b.lo .-12
  CHECK(a.bytes() == bytes_of({0xb4000082, 0x91000529, 0xb5ffffc9, 0x54ffffa3}));
}

TEST(constants_without_an_instruction_are_refused) {
  Assembler a;
  CHECK(!a.set_immediate(0, 0x3f8ccccd, 4));  // 1.1f
  CHECK(!a.set_immediate(0, 0x42010000, 4));  // 32.25f, whose exponent is too large
  CHECK(!a.set_immediate(0, 0x3ff8000000000001, 8));
  CHECK(a.bytes().empty());
}

TEST(operands_beyond_their_field_are_reported) {
  Assembler a;
  a.load_vector(0, x8, 65520);
  CHECK(a.fits());
  a.load_vector(0, x8, 65536);
  CHECK(!a.fits());
}
