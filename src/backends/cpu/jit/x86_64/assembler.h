// An assembler for the few x86-64 instructions that fused element-wise kernels need: vector arithmetic in AVX-512
// (EVEX) or AVX2 (VEX) encoding, and the instructions of a counted loop over pointers. The assembler only writes bytes
// and executes nothing, so it builds on any platform.
//
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, chapter 2 (prefixes) and the pages of
// the individual instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/jit/vector_code.h"

namespace mpsgraph::cpu::jit::x86_64 {

enum General : int { rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15 };

// Opcode of a vector instruction. `map` is 1 for 0F, 2 for 0F38, and 3 for 0F3A. `prefix` is 0 for none, 1 for 66, 2
// for F3, and 3 for F2. `w` is the W bit, usually set for 64-bit elements.
struct Opcode {
  uint8_t map, prefix, code, w = 0;
};

// An instruction's operand: a vector register, memory, or an entry of the constant pool that follows the code.
struct Operand {
  enum Kind { vector, memory, constant } kind = vector;
  int reg = 0;  // vector: register number; memory: base register
  int index = -1;
  int scale = 1;
  int32_t displacement = 0;
  uint64_t bits = 0;  // constant: the bits that are repeated in every lane

  static Operand in(int reg) { return {vector, reg}; }
  static Operand at(int base, int32_t displacement = 0) { return {memory, base, -1, 1, displacement}; }
  static Operand at(int base, int index, int scale, int32_t displacement = 0) {
    return {memory, base, index, scale, displacement};
  }
  static Operand of(uint64_t bits) { return {constant, 0, -1, 1, 0, bits}; }
};

class Assembler {
 public:
  Assembler(VectorSet set, int lane_bytes) : set_(set), lane_bytes_(lane_bytes) {}

  struct Extra {
    int immediate = -1;
    int mask = 0;  // number of the k register; AVX-512 only
    bool zero = false;  // set masked-out lanes to 0 instead of keeping their values
    bool broadcast = false;  // the memory operand is one element for all lanes; AVX-512 only
    bool half = false;  // use half of the vector length, as on the narrow side of a conversion
  };
  // Emit reg <- source op operand. `source` is -1 if the instruction has no second source.
  void vector(Opcode opcode, int reg, int source, Operand operand, Extra extra);
  void vector(Opcode opcode, int reg, int source, Operand operand) { vector(opcode, reg, source, operand, Extra{}); }

  void push(int reg);
  void pop(int reg);
  void load(int reg, int base, int32_t displacement);  // loads a 64-bit general-purpose register
  void move(int to, int from);
  void set(int reg, uint64_t value);
  void clear(int reg);
  void bitwise_and(int reg, int32_t value);
  void test(int reg);
  void compare(int a, int b);
  void prefetch(Operand memory);
  // copies the low 16 bits of a general-purpose register to a k register; AVX-512 only
  void mask_from(int k, int general);
  void zero_upper();
  void ret();

  enum Condition : uint8_t { equal = 4, not_equal = 5, below = 2 };
  using Label = size_t;  // a code position, usually the end of a jump whose last 32 bits are filled in later
  Label add(int reg, int32_t value);
  void patch(Label end, int32_t value);
  Label here();
  void align(size_t bytes);
  void jump_back(Condition condition, Label to);
  Label jump_ahead(Condition condition);  // the target is set by land()
  void land(Label jump);

  int instructions() const { return instructions_; }  // number of instructions emitted so far
  // Return the machine code, followed by its constants.
  std::vector<uint8_t> finish();

 private:
  struct Fixup {
    size_t position;  // position of the 32-bit displacement
    size_t end;  // end of the instruction, to which the displacement is relative
    uint64_t bits;
  };
  void byte(int value) { bytes_.push_back(static_cast<uint8_t>(value)); }
  void word(uint64_t value, int bytes = 4);
  void rex_w(int reg, int rm);
  void address(int reg, const Operand& operand, bool immediate_follows);

  VectorSet set_;
  int instructions_ = 0;
  int lane_bytes_;  // bytes per lane of a constant
  std::vector<uint8_t> bytes_;
  std::vector<Fixup> fixups_;
};

}  // namespace mpsgraph::cpu::jit::x86_64
