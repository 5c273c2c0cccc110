// Emits AVX-512 or AVX2 code. The generated function uses the System V calling convention, with `streams` in rdi,
// `whole` in rsi, `tail` in rdx, and `accumulators` in rcx; rax counts elements. The tail is masked.
#include "backends/cpu/jit/generator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "backends/cpu/jit/x86_64/opcodes.h"

namespace mpsgraph::cpu::jit::x86_64 {
namespace {

constexpr int count = rax, streams = rdi, whole = rsi, tail_lanes = rdx, sums = rcx, scratch = r11, frame = r15;
constexpr int stream_registers[] = {r8, r9, r10, rbx, rbp, r12, r13, r14};
constexpr int saved_registers[] = {rbx, rbp, r12, r13, r14, r15};
constexpr int prefetch_distance = 4096;  // bytes; far enough ahead to hide memory latency, near enough to stay in L1
constexpr int choice = 1, tail_mask = 7;  // AVX-512 mask registers

std::vector<int> vector_registers(VectorSet set) {
  std::vector<int> registers(set == VectorSet::avx512 ? 32 : 15);  // AVX2's last register holds the mask of the tail
  std::iota(registers.begin(), registers.end(), 0);
  return registers;
}

class X86Generator final : public Generator {
 public:
  explicit X86Generator(const VectorCode& code)
      : Generator(code, {.registers = vector_registers(code.set),
                         .stream_registers = std::size(stream_registers),
                         .constants_are_operands = true,
                         .fuses_comparisons = code.set == VectorSet::avx512}),
        wide_(code.set == VectorSet::avx512),
        lane_(lane_bytes_ == 8 ? opcodes_of_doubles : opcodes_of_floats),
        as_(code.set, lane_bytes_) {}

 private:
  static constexpr int tail_vector = 15;  // AVX2 register that holds the mask of the tail

  // ---- prologue, loop, and epilogue

  void begin() override {
    find_near_roots();
    for (int reg : saved_registers) as_.push(reg);
    as_.move(frame, rsp);
    as_.bitwise_and(rsp, -64);
    stack_ = as_.add(rsp, 0);  // space for spilled vectors; the size is known at the end
    for (size_t i = 0; i < in_registers_.size(); i++) as_.load(stream_registers[i], streams, in_registers_[i] * 8);
    for (int i = 0; i < code_.accumulators; i++) {
      owner_[i] = pinned;
      as_.vector(move_whole, i, -1, Operand::at(sums, i * 64));
    }
  }
  void begin_loop() override {
    as_.clear(count);
    as_.test(whole);
    no_whole_ = as_.jump_ahead(Assembler::equal);
    as_.align(32);
    loop_ = as_.here();
  }
  void end_loop() override {
    as_.add(count, lanes_of(code_.set, lane_bytes_));
    as_.compare(count, whole);
    as_.jump_back(Assembler::below, loop_);
    as_.land(no_whole_);
  }
  void begin_tail() override {
    as_.test(tail_lanes);
    no_tail_ = as_.jump_ahead(Assembler::equal);
    if (wide_)
      as_.mask_from(tail_mask, tail_lanes);
    else
      as_.vector(move_whole, tail_vector, -1, Operand::at(tail_lanes));
  }
  void end_tail() override { as_.land(no_tail_); }
  std::vector<uint8_t> end() override {
    as_.patch(stack_, -64 * most_slots_);
    for (int i = 0; i < code_.accumulators; i++) as_.vector(store_whole, i, -1, Operand::at(sums, i * 64));
    as_.zero_upper();
    as_.move(rsp, frame);
    for (size_t i = std::size(saved_registers); i-- > 0;) as_.pop(saved_registers[i]);
    as_.ret();
    return as_.finish();
  }

  std::vector<int> nodes_to_pin(const std::vector<int>& candidates) override {
    const int most = static_cast<int>(owner_.size()) - (wide_ ? 20 : 10) - code_.accumulators;
    const auto count = std::clamp<size_t>(std::max(most, 0), 0, candidates.size());
    return {candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count)};
  }

  int instructions() const override { return as_.instructions(); }
  void prefetch(int stream) override { as_.prefetch(address(stream, lane_bytes_, prefetch_distance)); }
  void load_constant(int reg, uint64_t bits) override { as_.vector(lane_.broadcast, reg, -1, Operand::of(bits)); }
  void load_slot(int reg, int slot) override { as_.vector(move_whole, reg, -1, Operand::at(rsp, 64 * slot)); }
  void store_slot(int reg, int slot) override { as_.vector(store_whole, reg, -1, Operand::at(rsp, 64 * slot)); }

  // Use approximate square roots if the loop also divides. Exact square roots and divisions would compete for the
  // processor's divider, which would then take longer than the memory accesses. A square root that is the divisor of a
  // quotient stays exact, so that its approximate reciprocal is as accurate as a quotient.
  void find_near_roots() {
    near_root_.assign(nodes_.size(), false);
    bool quotients = false;
    for (size_t i = 0; i < nodes_.size(); i++) {
      const bool in_loop = wide_ && lane_bytes_ == 4 && needed(i) && !invariant_[i];
      quotients |= in_loop && nodes_[i].kind == Kind::divide;
      near_root_[i] = in_loop && nodes_[i].kind == Kind::square_root;
    }
    for (const Node& node : nodes_)
      if (node.kind == Kind::divide) near_root_[node.b] = false;
    if (!quotients) near_root_.assign(nodes_.size(), false);
  }

  // Return the value of a node as an instruction's last operand: in a register, a spill slot, or constant memory.
  Operand where(int node) {
    if (is_constant(node)) return Operand::of(nodes_[node].bits);
    locked_.push_back(node);
    return register_[node] >= 0 ? Operand::in(register_[node]) : Operand::at(rsp, 64 * slot_of(node));
  }
  bool in_memory(int node) const { return register_[node] < 0; }

  // ---- code of a single node

  Operand address(int stream, int scale, int32_t displacement = 0) {
    const auto found = std::find(in_registers_.begin(), in_registers_.end(), stream);
    if (found != in_registers_.end())
      return Operand::at(stream_registers[found - in_registers_.begin()], count, scale, displacement);
    as_.load(scratch, streams, stream * 8);
    return Operand::at(scratch, count, scale, displacement);
  }

  void emit_node(int i) override {
    const Node node = nodes_[i];
    switch (node.kind) {
      case Kind::constant: return;
      case Kind::scalar: {
        const Opcode by_format[] = {lane_.broadcast, broadcast_floats, broadcast_floats,
                                    broadcast_words, broadcast_words,  broadcast_bytes};
        const int reg = result(i);
        as_.load(scratch, streams, node.stream * 8);
        as_.vector(by_format[static_cast<int>(node.format)], reg, -1, Operand::at(scratch));
        if (node.format == Format::float16) as_.vector(widen_halves, reg, -1, Operand::in(reg));
        if (node.format == Format::float32) as_.vector(floats_to_doubles, reg, -1, Operand::in(reg));
        if (node.format == Format::int32) as_.vector(integers_to_doubles, reg, -1, Operand::in(reg));
        return;
      }
      case Kind::load: return load(i, node);
      case Kind::store: return store(node);
      case Kind::accumulate: return accumulate(node);
      case Kind::square_root: return near_root_[i] ? near_root(i) : unary(i, lane_.square_root);
      case Kind::near_reciprocal: return reciprocal(i);
      case Kind::mantissa: return unary(i, lane_.mantissa, 3);
      case Kind::exponent: return unary(i, lane_.exponent);
      case Kind::logarithm: return logarithm(i);
      case Kind::to_float: return unary(i, lane_.to_float);
      case Kind::to_integer: return unary(i, lane_.to_integer);
      case Kind::to_bfloat16: {
        unary(i, floats_to_bfloat16);
        return as_.vector(extend_words, register_[i], -1, Operand::in(register_[i]));
      }
      case Kind::round: return unary(i, lane_.round, 8 | node.stream);
      case Kind::shift_left: return shift(i, lane_.shift, 6);
      case Kind::shift_right: return shift(i, lane_.shift, 2);
      case Kind::shift_right_sign: return shift(i, lane_.shift_sign, 4);
      case Kind::multiply_add: return fused_multiply(i, 0x98);
      case Kind::multiply_subtract: return fused_multiply(i, 0x9a);
      case Kind::negated_multiply_add: return fused_multiply(i, 0x9c);
      case Kind::look_up: return look_up(i);
      case Kind::compare: return compare(i);
      case Kind::integer_compare: return wide_ ? compare(i) : compare_integers(i);
      case Kind::choose: return choose(i);
      default: break;
    }
    const auto [opcode, commutes] = binary(lane_, node.kind);
    int a = node.a, b = node.b;
    if (commutes && in_memory(a)) std::swap(a, b);
    const int left = fetch(a);
    const Operand right = where(b);
    release({a, b});
    as_.vector(opcode, result(i), left, right);
  }

  void load(int i, const Node& node) {
    const int reg = result(i);
    const Operand from = address(node.stream, bytes_of(node.format, lane_bytes_));
    if (tail_ && !wide_ && node.format == Format::lane) return as_.vector(lane_.masked_load, reg, tail_vector, from);
    const Opcode by_format[] = {lane_.load,   floats_to_doubles, integers_to_doubles,
                                widen_halves, extend_words,      lane_.load_bytes};
    as_.vector(by_format[static_cast<int>(node.format)], reg, -1, from,
               {.mask = tail_ && wide_ ? tail_mask : 0, .zero = tail_ && wide_});
  }

  void store(const Node& node) {
    const int reg = fetch(node.a);
    const Operand to = address(node.stream, bytes_of(node.format, lane_bytes_));
    if (node.format == Format::float32 || node.format == Format::int32) {
      store_converted(reg, node.format == Format::int32 ? doubles_to_integers : doubles_to_floats, to);
    } else if (!wide_ && (node.format == Format::bits16 || node.format == Format::bits8)) {
      store_narrow(reg, node.format, to);
    } else if (tail_ && !wide_ && node.format == Format::lane) {
      as_.vector(lane_.masked_store, reg, tail_vector, to);
    } else if (node.streaming && !tail_) {
      as_.vector(move_past, reg, -1, to);
    } else {
      const Opcode opcode = node.format == Format::float16  ? narrow_to_halves
                            : node.format == Format::bits16 ? narrow_to_words
                            : node.format == Format::bits8  ? lane_.store_bytes
                                                            : lane_.store;
      as_.vector(opcode, reg, -1, to,
                 {.immediate = node.format == Format::float16 ? 0 : -1, .mask = tail_ && wide_ ? tail_mask : 0});
    }
    release({node.a});
  }

  // AVX2 narrows the two halves of a register separately and then joins them. For bits16, a pack instruction narrows;
  // it cannot saturate because the upper 16 bits are 0. For bits8, the lowest byte of each lane is gathered.
  void store_narrow(int reg, Format format, Operand to) {
    const int upper = spare();
    if (format == Format::bits16) {
      as_.vector(extract_upper, reg, -1, Operand::in(upper), {.immediate = 1});
      as_.vector(pack_words, upper, reg, Operand::in(upper), {.half = true});
      as_.vector(store_whole, upper, -1, to, {.half = true});
    } else {
      const int bytes = spare();
      as_.vector(shuffle_bytes, bytes, reg, Operand::of(lane_bytes_ == 8 ? 0x0800 : 0x0c080400));
      as_.vector(extract_upper, bytes, -1, Operand::in(upper), {.immediate = 1});
      as_.vector(lane_.interleave, bytes, bytes, Operand::in(upper), {.half = true});
      as_.vector(lane_.store_lower, bytes, -1, to, {.half = true});
      owner_[bytes] = -1;
    }
    owner_[upper] = -1;
  }

  void store_converted(int reg, Opcode opcode, Operand to) {  // reg has 64-bit lanes
    const int narrow = spare();
    as_.vector(opcode, narrow, -1, Operand::in(reg));
    as_.vector(store_whole, narrow, -1, to, {.mask = tail_ && wide_ ? tail_mask : 0, .half = true});
    owner_[narrow] = -1;
  }

  void accumulate(const Node& node) {
    const int sum = node.stream;
    if (tail_ && !wide_) {
      const int value = fetch(node.a), masked = take();
      as_.vector(lane_.bitwise_and, masked, tail_vector, Operand::in(value));
      as_.vector(lane_.add, sum, sum, Operand::in(masked));
    } else {
      as_.vector(lane_.add, sum, sum, where(node.a), {.mask = tail_ ? tail_mask : 0});
    }
    release({node.a});
  }

  void unary(int i, Opcode opcode, int immediate = -1) {
    const int a = nodes_[i].a;
    const Operand from = where(a);
    release({a});
    as_.vector(opcode, result(i), -1, from, {.immediate = immediate});
  }

  // Compute the square root s = x r, where r = 1 / sqrt(x) is accurate to 14 bits, and apply two corrections. Adding s
  // (1 - s r) / 2 reduces the error to 0.8 ulp for any x. Adding r (x - s s) / 2 makes roots of squares exact, but has
  // no effect for tiny x. Zeros and infinity are their own roots.
  void near_root(int i) {
    constexpr uint32_t itself = 1, own_root = itself << 2 * 4 | itself << 5 * 4;  // 0 and infinity are their own roots
    constexpr auto half = std::bit_cast<uint32_t>(0.5f), one = std::bit_cast<uint32_t>(1.f);
    const Opcode times = lane_.multiply;
    const int a = nodes_[i].a, x = fetch(a);
    const int r = spare(), s = spare(), u = spare(), v = spare();
    as_.vector(near_reciprocal_root, r, -1, Operand::in(x));
    as_.vector(times, s, r, Operand::in(x));
    as_.vector(times, v, s, Operand::of(half));
    as_.vector(move_register, u, -1, Operand::in(r));
    as_.vector(one_minus, u, s, Operand::of(one));
    as_.vector(plus_product, s, v, Operand::in(u));
    as_.vector(times, r, r, Operand::of(half));
    as_.vector(move_register, u, -1, Operand::in(x));
    as_.vector(minus_square, u, s, Operand::in(s));
    as_.vector(plus_product, s, u, Operand::in(r));
    as_.vector(lane_.fix_up, s, x, Operand::of(own_root), {.immediate = 0});
    owner_[r] = owner_[u] = owner_[v] = -1;
    release({a});
    own(i, s);
  }

  // Compute the reciprocal: an estimate r of 1 / x to 14 bits, followed by a Newton iteration that adds r (1 - x r).
  void reciprocal(int i) {
    constexpr auto one = std::bit_cast<uint32_t>(1.f);
    const int a = nodes_[i].a, x = fetch(a), r = spare(), u = spare();
    as_.vector(near_reciprocal, r, -1, Operand::in(x));
    as_.vector(move_register, u, -1, Operand::in(x));
    as_.vector(one_minus, u, r, Operand::of(one));
    as_.vector(plus_product, r, r, Operand::in(u));
    owner_[u] = -1;
    release({a});
    own(i, r);
  }

  void look_up(int i) {
    const int a = nodes_[i].a, place = fetch(a), entries = spare();
    as_.set(scratch, nodes_[i].bits);
    as_.vector(move_whole, entries, -1, Operand::at(scratch));
    as_.vector(look_up_doubles, entries, place, Operand::at(scratch, 64));
    release({a});
    own(i, entries);
  }

  void logarithm(int i) {
    constexpr uint32_t nan = 3, minus_infinity = 4, infinity = 5;  // result codes of the fix_up instruction
    constexpr uint32_t by_kind = nan | nan << 1 * 4 | minus_infinity << 2 * 4 | nan << 4 * 4 | infinity << 5 * 4 |
                                 nan << 6 * 4;  // for quiet NaN, signaling NaN, 0, -inf, inf, and negative numbers
    const int a = nodes_[i].a, b = nodes_[i].b, x = fetch(a);
    const Operand value = where(b);
    const int r = spare();
    as_.vector(move_whole, r, -1, value);
    as_.vector(lane_.fix_up, r, x, Operand::of(by_kind), {.immediate = 0});
    release({a, b});
    own(i, r);
  }

  void shift(int i, Opcode opcode, int extension) {  // the encoding puts the result in place of the first source
    const int a = nodes_[i].a, from = fetch(a);
    release({a});
    as_.vector(opcode, extension, result(i), Operand::in(from), {.immediate = nodes_[i].stream});
  }

  // The three forms of a fused multiply-add differ in the operand that they overwrite: form 132 computes a = a c + b,
  // form 213 a = b a + c, and form 231 a = b c + a. In each form, c may be in memory. `code` is the opcode of form 132,
  // and the opcodes of forms 213 and 231 are higher by 16 and 32.
  void fused_multiply(int i, uint8_t code) {
    const Node& node = nodes_[i];
    int a = node.a, b = node.b;
    const int c = node.c;
    if (in_memory(a)) std::swap(a, b);
    const int ra = fetch(a);
    const auto form = [&](int number) { return Opcode{2, 1, static_cast<uint8_t>(code + 16 * number), lane_.w}; };
    const auto overwrite = [&](int operand, int reg) {  // a register that holds the operand and may be overwritten
      if (owner_[reg] == operand && dies(operand)) {
        register_[operand] = -1;
        return reg;
      }
      if (owner_[reg] == busy) {
        borrowed_.erase(std::find(borrowed_.begin(), borrowed_.end(), reg));
        return reg;
      }
      const int copy = take();
      as_.vector(move_register, copy, -1, Operand::in(reg));
      return copy;
    };
    int target;
    if (in_memory(c)) {  // 213
      if (!in_memory(b) && !dies(a) && dies(b) && a != b) std::swap(a, b);
      const int rb = fetch(b), left = fetch(a);
      const Operand addend = where(c);
      target = overwrite(a, left);
      as_.vector(form(1), target, a == b ? target : rb, addend);
    } else {
      const int rc = fetch(c);
      const Operand factor = where(b);
      if (!dies(c) && dies(a) && a != c && !stays(a) && a != b) {  // 132
        target = overwrite(a, ra);
        as_.vector(form(0), target, rc, factor);
      } else {  // 231
        const bool also_factor = c == a || c == b;
        target = also_factor ? copy_of(rc) : overwrite(c, rc);
        as_.vector(form(2), target, ra, factor);
      }
    }
    owner_[target] = busy;
    release({a, b, c});
    own(i, target);
  }
  int copy_of(int reg) {
    const int copy = take();
    as_.vector(move_register, copy, -1, Operand::in(reg));
    return copy;
  }

  void compare(int i) {
    const Node& node = nodes_[i];
    const int a = fetch(node.a);
    const Operand b = where(node.b);
    release({node.a, node.b});
    if (wide_) {
      as_.vector(comparison(node), choice, a, b, {.immediate = node.stream});
      as_.vector(lane_.mask_to_vector, result(i), -1, Operand::in(choice));
    } else {
      as_.vector(lane_.compare, result(i), a, b, {.immediate = node.stream});
    }
  }

  Opcode comparison(const Node& node) const {  // opcode of a comparison into a mask register, or of a float comparison
    return node.kind == Kind::compare ? lane_.compare : lane_.integer_compare;
  }
  void compare_integers(int i) {  // AVX2 supports only equal and greater
    const bool turned = nodes_[i].stream == less;
    const int first = turned ? nodes_[i].b : nodes_[i].a, second = turned ? nodes_[i].a : nodes_[i].b;
    const int left = fetch(first);
    const Operand right = where(second);
    release({first, second});
    as_.vector(turned ? lane_.integer_greater : lane_.integer_equal, result(i), left, right);
  }

  void choose(int i) {
    const Node& node = nodes_[i];
    const bool or_zero = is_constant(node.c) && nodes_[node.c].bits == 0;
    if (!wide_) {
      const int mask = fetch(node.a);
      if (or_zero) {
        const Operand b = where(node.b);
        release({node.a, node.b});
        return as_.vector(lane_.bitwise_and, result(i), mask, b);
      }
      const int c = fetch(node.c);
      const Operand b = where(node.b);
      release({node.a, node.b, node.c});
      return as_.vector(lane_.blend_by_vector, result(i), c, b, {.immediate = mask << 4});
    }
    int compared_a = -1, compared_b = -1;
    if (fused_[node.a]) {
      compared_a = nodes_[node.a].a, compared_b = nodes_[node.a].b;
      const int a = fetch(compared_a);
      as_.vector(comparison(nodes_[node.a]), choice, a, where(compared_b), {.immediate = nodes_[node.a].stream});
    } else {
      as_.vector(lane_.vector_to_mask, choice, -1, Operand::in(fetch(node.a)));
    }
    if (or_zero) {
      const Operand b = where(node.b);
      release({node.a, compared_a, compared_b, node.b});
      const bool constant = b.kind == Operand::constant;
      return as_.vector(constant ? lane_.broadcast : lane_.load, result(i), -1, b, {.mask = choice, .zero = true});
    }
    const int c = fetch(node.c);
    const Operand b = where(node.b);
    release({node.a, compared_a, compared_b, node.b, node.c});
    as_.vector(lane_.blend_by_mask, result(i), c, b, {.mask = choice});
  }

  const bool wide_;
  const LaneOpcodes& lane_;
  Assembler as_;
  std::vector<bool> near_root_;  // square roots that are approximated
  Assembler::Label stack_ = 0, loop_ = 0, no_whole_ = 0, no_tail_ = 0;
};

}  // namespace

std::unique_ptr<Generator> generator(VectorCode code) { return std::make_unique<X86Generator>(code); }

}  // namespace mpsgraph::cpu::jit::x86_64
