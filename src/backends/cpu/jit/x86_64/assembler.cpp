// Encodes instructions. The bits R, X, B, and V' extend register numbers and are stored inverted in the prefixes.
#include "backends/cpu/jit/x86_64/assembler.h"

#include <algorithm>
#include <cstring>

namespace mpsgraph::cpu::jit::x86_64 {

void Assembler::word(uint64_t value, int bytes) {
  for (int shift = 0; shift < 8 * bytes; shift += 8) byte(value >> shift & 0xff);
}

// Emit ModRM, SIB, and displacement. The displacement always has 32 bits, which avoids EVEX's scaled 8-bit form.
void Assembler::address(int reg, const Operand& operand, bool immediate_follows) {
  const int middle = (reg & 7) << 3;
  switch (operand.kind) {
    case Operand::vector: byte(0xc0 | middle | (operand.reg & 7)); return;
    case Operand::constant:
      byte(middle | 5);  // the displacement is relative to the next instruction
      fixups_.push_back({bytes_.size(), bytes_.size() + 4 + (immediate_follows ? 1 : 0), operand.bits});
      word(0);
      return;
    case Operand::memory: break;
  }
  if (operand.index < 0 && (operand.reg & 7) != rsp) {
    byte(0x80 | middle | (operand.reg & 7));
  } else {
    const int log = operand.scale == 8 ? 3 : operand.scale == 4 ? 2 : operand.scale == 2 ? 1 : 0;
    byte(0x80 | middle | 4);
    byte(log << 6 | ((operand.index < 0 ? rsp : operand.index) & 7) << 3 | (operand.reg & 7));
  }
  word(static_cast<uint32_t>(operand.displacement));
}

void Assembler::vector(Opcode opcode, int reg, int source, Operand operand, Extra extra) {
  instructions_++;
  const bool memory = operand.kind == Operand::memory;
  const int base = operand.kind == Operand::constant ? 0 : operand.reg;
  const int index = memory && operand.index >= 0 ? operand.index : 0;
  const int from = source < 0 ? 0 : source;
  // vbroadcastss and vbroadcastsd need no broadcast bit
  const bool spreads = opcode.map == 2 && (opcode.code & ~1) == 0x18;
  if (set_ == VectorSet::avx512) {
    const int x = memory ? index >> 3 & 1 : base >> 4 & 1;
    const int b = base >> 3 & 1;
    const bool broadcast = extra.broadcast || (operand.kind == Operand::constant && !spreads);
    byte(0x62);
    byte((~reg >> 3 & 1) << 7 | (~x & 1) << 6 | (~b & 1) << 5 | (~reg >> 4 & 1) << 4 | opcode.map);
    byte(opcode.w << 7 | (~from & 15) << 3 | 1 << 2 | opcode.prefix);
    byte((extra.zero ? 1 : 0) << 7 | (extra.half ? 1 : 2) << 5 | (broadcast ? 1 : 0) << 4 | (~from >> 4 & 1) << 3 |
         extra.mask);
  } else {
    byte(0xc4);
    byte((~reg >> 3 & 1) << 7 | (~index >> 3 & 1) << 6 | (~base >> 3 & 1) << 5 | opcode.map);
    const int w = spreads ? 0 : opcode.w;
    byte(w << 7 | (~from & 15) << 3 | (extra.half ? 0 : 1) << 2 | opcode.prefix);
  }
  byte(opcode.code);
  address(reg, operand, extra.immediate >= 0);
  if (extra.immediate >= 0) byte(extra.immediate);
}

void Assembler::rex_w(int reg, int rm) { byte(0x48 | (reg >> 3) << 2 | rm >> 3); }

void Assembler::push(int reg) {
  instructions_++;
  if (reg >= 8) byte(0x41);
  byte(0x50 | (reg & 7));
}
void Assembler::pop(int reg) {
  instructions_++;
  if (reg >= 8) byte(0x41);
  byte(0x58 | (reg & 7));
}
void Assembler::load(int reg, int base, int32_t displacement) {
  instructions_++;
  rex_w(reg, base);
  byte(0x8b);
  address(reg, Operand::at(base, displacement), false);
}
void Assembler::move(int to, int from) {
  instructions_++;
  rex_w(from, to);
  byte(0x89);
  byte(0xc0 | (from & 7) << 3 | (to & 7));
}
void Assembler::set(int reg, uint64_t value) {
  instructions_++;
  rex_w(0, reg);
  byte(0xb8 | (reg & 7));
  word(value, 8);
}
void Assembler::clear(int reg) {
  instructions_++;
  rex_w(reg, reg);
  byte(0x31);
  byte(0xc0 | (reg & 7) << 3 | (reg & 7));
}
Assembler::Label Assembler::add(int reg, int32_t value) {
  instructions_++;
  rex_w(0, reg);
  byte(0x81);
  byte(0xc0 | (reg & 7));
  word(static_cast<uint32_t>(value));
  return bytes_.size();
}
void Assembler::patch(Label end, int32_t value) { std::memcpy(&bytes_[end - 4], &value, 4); }
void Assembler::bitwise_and(int reg, int32_t value) {
  instructions_++;
  rex_w(0, reg);
  byte(0x81);
  byte(0xc0 | 4 << 3 | (reg & 7));
  word(static_cast<uint32_t>(value));
}
void Assembler::test(int reg) {
  instructions_++;
  rex_w(reg, reg);
  byte(0x85);
  byte(0xc0 | (reg & 7) << 3 | (reg & 7));
}
void Assembler::compare(int a, int b) {
  instructions_++;
  rex_w(b, a);
  byte(0x39);
  byte(0xc0 | (b & 7) << 3 | (a & 7));
}
void Assembler::prefetch(Operand memory) {  // prefetcht0
  instructions_++;
  byte(0x40 | (std::max(memory.index, 0) >> 3) << 1 | memory.reg >> 3);
  byte(0x0f);
  byte(0x18);
  address(1, memory, false);
}
void Assembler::mask_from(int k, int general) {  // kmovw k, r32
  instructions_++;
  byte(0xc4);
  byte(0xc0 | (~general >> 3 & 1) << 5 | 1);
  byte(0x78);
  byte(0x92);
  byte(0xc0 | k << 3 | (general & 7));
}
void Assembler::zero_upper() {
  instructions_++;
  byte(0xc5);
  byte(0xf8);
  byte(0x77);
}
void Assembler::ret() {
  instructions_++;
  byte(0xc3);
}

Assembler::Label Assembler::here() { return bytes_.size(); }
void Assembler::align(size_t bytes) {
  while (bytes_.size() % bytes) byte(0x90);
}
void Assembler::jump_back(Condition condition, Label to) {
  instructions_++;
  byte(0x0f);
  byte(0x80 | condition);
  word(static_cast<uint32_t>(to - (bytes_.size() + 4)));
}
Assembler::Label Assembler::jump_ahead(Condition condition) {
  instructions_++;
  byte(0x0f);
  byte(0x80 | condition);
  word(0);
  return bytes_.size();
}
void Assembler::land(Label jump) { patch(jump, static_cast<int32_t>(bytes_.size() - jump)); }

std::vector<uint8_t> Assembler::finish() {
  align(64);
  std::vector<uint64_t> pool;
  const size_t begin = bytes_.size();
  const int lanes = set_ == VectorSet::avx512 ? 1 : 32 / lane_bytes_;  // AVX2 loads a constant as an entire vector
  for (const Fixup& fixup : fixups_) {
    const size_t entry = std::find(pool.begin(), pool.end(), fixup.bits) - pool.begin();
    if (entry == pool.size()) {
      pool.push_back(fixup.bits);
      for (int i = 0; i < lanes; i++) word(fixup.bits, lane_bytes_);
    }
    patch(fixup.position + 4, static_cast<int32_t>(begin + entry * lanes * lane_bytes_ - fixup.end));
  }
  return std::move(bytes_);
}

}  // namespace mpsgraph::cpu::jit::x86_64
