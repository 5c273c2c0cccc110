// An assembler for the few AArch64 instructions that fused element-wise kernels need: Advanced SIMD (NEON) on 128-bit
// vectors, and the instructions of a counted loop over pointers. Each instruction is 32 bits. The assembler only writes
// bytes and executes nothing, so it builds on any platform.
//
// Source: Arm Architecture Reference Manual for A-profile, chapter C4 (encodings) and the pages of the individual
// instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mpsgraph::cpu::jit::arm64 {

// General-purpose registers. Number 31 is the stack pointer as a base and in additions of immediates, and zero
// elsewhere.
enum General : int {
  x0,
  x1,
  x2,
  x3,
  x4,
  x5,
  x6,
  x7,
  x8,
  x9,
  x10,
  x11,
  x12,
  x13,
  x14,
  x15,
  x16,
  x17,
  sp = 31,
  xzr = 31
};

// Memory operand: base + index * width of the access.
struct Address {
  int base, index;
};

class Assembler {
 public:
  void word(uint32_t instruction) { words_.push_back(instruction); }

  // ---- vectors

  // Emit d <- opcode(n, m). The opcode may contain an immediate instead of m.
  void vector(uint32_t opcode, int d, int n, int m = 0) { word(opcode | m << 16 | n << 5 | d); }
  void move_vector(int d, int n);
  // Emit a shift by `count` bits of lanes of `lane_bits` bits; `opcode` is shift_left, shift_right, or so on.
  void shift(uint32_t opcode, int d, int n, int count, int lane_bits);
  // Widen the `narrow_bits`-bit integers in the lower half of n.
  void widen(int d, int n, int narrow_bits, bool has_sign);
  // Narrow integers to the `narrow_bits` lowest bits, in the lower half of d.
  void narrow(int d, int n, int narrow_bits);
  // Load or store an element or vector of `width` bytes: 1, 2, 4, 8, or 16.
  void load_vector(int reg, Address from, int width);
  void store_vector(int reg, Address to, int width);
  void load_vector(int reg, int base, int offset);  // 16 bytes; the offset is a multiple of 16
  void store_vector(int reg, int base, int offset);
  void load_pair(int reg, int other, int base, int offset);  // 16 bytes each
  void load_repeated(int reg, int base, int element_bytes);  // one element in all lanes
  // Store 16 bytes, whose halves are in the lower halves of two registers, with a hint not to keep them in the cache.
  void store_streaming(int lower, int upper, int base);
  void save_pair(int reg, int offset);  // lower halves of reg and reg + 1, at sp + offset
  void restore_pair(int reg, int offset);
  void lane_to_general(int general, int reg, int lane);  // 64-bit lanes
  void general_to_lane(int reg, int lane, int general);
  // Set all lanes to a constant in one instruction. Return false if no instruction has this constant as an immediate.
  bool set_immediate(int reg, uint64_t bits, int lane_bytes);

  // ---- general-purpose registers

  void load(int reg, int base, int offset);  // 64 bits; the offset is a multiple of 8
  void add(int d, int n, uint32_t immediate);  // at most 24 bits
  void subtract(int d, int n, uint32_t immediate);
  void add(int d, int n, int m, int shift);  // n + (m << shift)
  void multiply(int d, int n, int m);
  void negate(int d, int n);
  void shift_right(int d, int n, int count);
  void compare(int n, int m);
  void ret() { word(0xd65f03c0); }

  // ---- jumps

  using Label = size_t;  // index of an instruction
  Label here() const { return words_.size(); }
  Label jump_ahead_if_zero(int reg);  // the target is set by land()
  void land(Label jump);
  void jump_back_unless_zero(int reg, Label to);
  void jump_back_if_below(Label to);
  void address_of(int reg, int64_t distance);  // address of this instruction plus a distance below 1 MiB

  void append(const Assembler& other) { words_.insert(words_.end(), other.words_.begin(), other.words_.end()); }
  // Return whether every operand fit into its instruction.
  bool fits() const { return fits_; }
  std::vector<uint8_t> bytes() const;

 private:
  // Return a value as an instruction's field of `width` bits at position `at`.
  uint32_t field(int64_t value, int width, int at, bool has_sign = false);

  std::vector<uint32_t> words_;
  bool fits_ = true;
};

}  // namespace mpsgraph::cpu::jit::arm64
