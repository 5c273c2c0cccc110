// Encodes instructions.
#include "backends/cpu/jit/arm64/assembler.h"

#include <bit>

#include "backends/cpu/jit/arm64/opcodes.h"

namespace mpsgraph::cpu::jit::arm64 {
namespace {

constexpr uint32_t is_load = 1 << 22;
constexpr uint32_t below = 3;  // condition code

// Return the size bits of a load or store of `width` bytes.
uint32_t size_bits(int width) {
  return width == 16 ? 1 << 23 : static_cast<uint32_t>(std::countr_zero(static_cast<unsigned>(width))) << 30;
}

}  // namespace

uint32_t Assembler::field(int64_t value, int width, int at, bool has_sign) {
  const int64_t least = has_sign ? -(int64_t{1} << (width - 1)) : 0, most = least + (int64_t{1} << width);
  if (value < least || value >= most) fits_ = false;
  return (static_cast<uint32_t>(value) & ((uint32_t{1} << width) - 1)) << at;
}

void Assembler::move_vector(int d, int n) { vector(bits_or, d, n, n); }

void Assembler::shift(uint32_t opcode, int d, int n, int count, int lane_bits) {
  vector(opcode | (opcode == shift_left ? lane_bits + count : 2 * lane_bits - count) << 16, d, n);
}
void Assembler::widen(int d, int n, int narrow_bits, bool has_sign) {
  vector((has_sign ? 0x0f00a400 : 0x2f00a400) | narrow_bits << 16, d, n);
}
void Assembler::narrow(int d, int n, int narrow_bits) {
  vector(0x0e212800 | (narrow_bits == 32 ? 2 : narrow_bits == 16 ? 1 : 0) << 22, d, n);
}

void Assembler::load_vector(int reg, Address from, int width) {
  const uint32_t scaled = width == 1 ? 0 : 1 << 12;
  word(0x3c206800 | size_bits(width) | is_load | from.index << 16 | scaled | from.base << 5 | reg);
}
void Assembler::store_vector(int reg, Address to, int width) {
  const uint32_t scaled = width == 1 ? 0 : 1 << 12;
  word(0x3c206800 | size_bits(width) | to.index << 16 | scaled | to.base << 5 | reg);
}
void Assembler::load_vector(int reg, int base, int offset) {
  word(0x3dc00000 | field(offset / 16, 12, 10) | base << 5 | reg);
}
void Assembler::store_vector(int reg, int base, int offset) {
  word(0x3d800000 | field(offset / 16, 12, 10) | base << 5 | reg);
}
void Assembler::load_pair(int reg, int other, int base, int offset) {
  word(0xad400000 | field(offset / 16, 7, 15, true) | other << 10 | base << 5 | reg);
}
void Assembler::load_repeated(int reg, int base, int element_bytes) {
  word(0x4d40c000 | std::countr_zero(static_cast<unsigned>(element_bytes)) << 10 | base << 5 | reg);
}
void Assembler::store_streaming(int lower, int upper, int base) { word(0x6c000000 | upper << 10 | base << 5 | lower); }
void Assembler::save_pair(int reg, int offset) {
  word(0x6d000000 | field(offset / 8, 7, 15, true) | (reg + 1) << 10 | sp << 5 | reg);
}
void Assembler::restore_pair(int reg, int offset) {
  word(0x6d400000 | field(offset / 8, 7, 15, true) | (reg + 1) << 10 | sp << 5 | reg);
}
void Assembler::lane_to_general(int general, int reg, int lane) { vector(0x4e083c00 | lane << 20, general, reg); }
void Assembler::general_to_lane(int reg, int lane, int general) { vector(0x4e081c00 | lane << 20, reg, general); }

bool Assembler::set_immediate(int reg, uint64_t bits, int lane_bytes) {
  const auto emit = [&](uint32_t opcode, uint32_t immediate) {  // eight bits, in two fields
    word(opcode | immediate >> 5 << 16 | (immediate & 31) << 5 | reg);
    return true;
  };
  if (lane_bytes == 4) bits = (bits & 0xffffffff) | bits << 32;
  // a byte mask
  uint32_t mask = 0;
  bool is_mask = true;
  for (int i = 0; i < 8; i++) {
    const auto byte = static_cast<uint8_t>(bits >> 8 * i);
    is_mask = is_mask && (byte == 0 || byte == 0xff);
    mask |= (byte & 1u) << i;
  }
  if (is_mask) return emit(0x6f00e400, mask);
  // a float with four bits of mantissa and an exponent from -3 to 4
  const auto low = static_cast<uint32_t>(bits), high = static_cast<uint32_t>(bits >> 32);
  const uint32_t sign = high >> 31;
  if (low == high) {
    const uint32_t exponent = low >> 25 & 63;  // six upper bits of the exponent but one
    if ((low & 0x7ffff) == 0 && (exponent == 0x1f || exponent == 0x20))
      return emit(0x4f00f400, sign << 7 | (exponent == 0x1f) << 6 | (low >> 19 & 63));
    for (int byte = 0; byte < 4; byte++) {  // one byte of each 32 bits, or of their complement
      const uint32_t value = low >> 8 * byte & 0xff, others = ~(uint32_t{0xff} << 8 * byte);
      if ((low & others) == 0) return emit(0x4f000400 | byte << 13, value);
      if ((~low & others) == 0) return emit(0x6f000400 | byte << 13, ~value & 0xff);
    }
  }
  const uint32_t exponent = high >> 22 & 0x1ff;
  if (lane_bytes == 8 && (bits & 0xffffffffffff) == 0 && (exponent == 0xff || exponent == 0x100))
    return emit(0x6f00f400, sign << 7 | (exponent == 0xff) << 6 | (high >> 16 & 63));
  return false;
}

void Assembler::load(int reg, int base, int offset) { word(0xf9400000 | field(offset / 8, 12, 10) | base << 5 | reg); }
void Assembler::add(int d, int n, uint32_t immediate) {
  if (immediate >> 12) {
    word(0x91400000 | field(immediate >> 12, 12, 10) | n << 5 | d);
    n = d;
  }
  if ((immediate & 0xfff) || immediate == 0) word(0x91000000 | (immediate & 0xfff) << 10 | n << 5 | d);
}
void Assembler::subtract(int d, int n, uint32_t immediate) {
  if (immediate >> 12) {
    word(0xd1400000 | field(immediate >> 12, 12, 10) | n << 5 | d);
    n = d;
  }
  if ((immediate & 0xfff) || immediate == 0) word(0xd1000000 | (immediate & 0xfff) << 10 | n << 5 | d);
}
void Assembler::add(int d, int n, int m, int shift) { word(0x8b000000 | m << 16 | shift << 10 | n << 5 | d); }
void Assembler::multiply(int d, int n, int m) { word(0x9b007c00 | m << 16 | n << 5 | d); }
void Assembler::negate(int d, int n) { word(0xcb0003e0 | n << 16 | d); }
void Assembler::shift_right(int d, int n, int count) { word(0xd340fc00 | count << 16 | n << 5 | d); }
void Assembler::compare(int n, int m) { word(0xeb00001f | m << 16 | n << 5); }

Assembler::Label Assembler::jump_ahead_if_zero(int reg) {
  word(0xb4000000 | reg);
  return words_.size() - 1;
}
void Assembler::land(Label jump) { words_[jump] |= field(static_cast<int64_t>(words_.size() - jump), 19, 5, true); }
void Assembler::jump_back_unless_zero(int reg, Label to) {
  word(0xb5000000 | field(static_cast<int64_t>(to) - static_cast<int64_t>(words_.size()), 19, 5, true) | reg);
}
void Assembler::jump_back_if_below(Label to) {
  word(0x54000000 | field(static_cast<int64_t>(to) - static_cast<int64_t>(words_.size()), 19, 5, true) | below);
}
void Assembler::address_of(int reg, int64_t distance) {
  const uint32_t value = field(distance, 21, 0, true);
  word(0x10000000 | (value & 3) << 29 | value >> 2 << 5 | reg);
}

std::vector<uint8_t> Assembler::bytes() const {
  std::vector<uint8_t> bytes;
  for (const uint32_t word : words_)
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<uint8_t>(word >> shift));
  return bytes;
}

}  // namespace mpsgraph::cpu::jit::arm64
