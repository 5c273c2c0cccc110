// An assembler for the few x86-64 instructions that fused element-wise kernels need: vector arithmetic in AVX-512 (EVEX) or AVX2
// (VEX) encoding, and what a counted loop over pointers takes. It writes bytes and runs nothing, so it builds anywhere.
//
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, chapter 2 (prefixes) and the pages of
// the instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mpsgraph::cpu::jit {

enum class VectorSet { avx2, avx512 };

enum General : int { rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15 };

// prefix: 0 none, 1 66, 2 F3, 3 F2; map: 1 0F, 2 0F38, 3 0F3A; w: the prefix's bit W, mostly elements of 64 bits.
struct Opcode {
  uint8_t map, prefix, code, w = 0;
};

// A vector register, memory, or an entry of the pool of constants behind the code.
struct Operand {
  enum Kind { vector, memory, constant } kind = vector;
  int reg = 0;  // vector: its number; memory: the base
  int index = -1;
  int scale = 1;
  int32_t displacement = 0;
  uint64_t bits = 0;  // constant: the same in every lane

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
    int mask = 0;  // k register; only AVX-512
    bool zero = false;  // lanes that are masked out become 0 instead of staying
    bool broadcast = false;  // the memory operand is one element for all lanes; only AVX-512
    bool half = false;  // the instruction's vector length is half of a register, as the narrow side of a conversion
  };
  // reg <- source op operand. `source` is -1 where the instruction has none.
  void vector(Opcode opcode, int reg, int source, Operand operand, Extra extra);
  void vector(Opcode opcode, int reg, int source, Operand operand) { vector(opcode, reg, source, operand, Extra{}); }

  void push(int reg);
  void pop(int reg);
  void load(int reg, int base, int32_t displacement);  // 64 bits
  void move(int to, int from);
  void set(int reg, uint64_t value);
  void clear(int reg);
  void bitwise_and(int reg, int32_t value);
  void test(int reg);
  void compare(int a, int b);
  void prefetch(Operand memory);
  void mask_from(int k, int general);  // k <- low 16 bits; only AVX-512
  void zero_upper();
  void ret();

  enum Condition : uint8_t { equal = 4, not_equal = 5, below = 2 };
  using Label = size_t;  // a position, mostly the end of an instruction whose last 32 bits come later
  Label add(int reg, int32_t value);
  void patch(Label end, int32_t value);
  Label here();
  void align(size_t bytes);
  void jump_back(Condition condition, Label to);
  Label jump_ahead(Condition condition);  // filled in by land
  void land(Label jump);

  // The code, its constants behind it.
  std::vector<uint8_t> finish();

 private:
  struct Fixup {
    size_t position;  // of the 32-bit displacement
    size_t end;  // of the instruction, from which the displacement counts
    uint64_t bits;
  };
  void byte(int value) { bytes_.push_back(static_cast<uint8_t>(value)); }
  void word(uint64_t value, int bytes = 4);
  void rex_w(int reg, int rm);
  void address(int reg, const Operand& operand, bool immediate_follows);

  VectorSet set_;
  int lane_bytes_;  // of a constant
  std::vector<uint8_t> bytes_;
  std::vector<Fixup> fixups_;
};

}  // namespace mpsgraph::cpu::jit
