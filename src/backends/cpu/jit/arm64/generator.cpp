// Emits NEON code. The generated function uses the AArch64 procedure call standard, with `streams` in x0, `whole` in
// x1, `tail` in x2, and `accumulators` in x3. In the loop, pointers to streams point to the end of the entire vectors,
// and x9 counts vectors from a negative number to zero. NEON has no masks, so the tail is a second loop, whose vectors
// hold a single element in lane 0.
#include "backends/cpu/jit/generator.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "backends/cpu/jit/arm64/assembler.h"
#include "backends/cpu/jit/arm64/opcodes.h"

namespace mpsgraph::cpu::jit::arm64 {
namespace {

constexpr int streams = x0, whole = x1, tail_elements = x2, sums = x3, constants = x8, count = x9;
constexpr int scratch = x16, scratch_2 = x17;
constexpr int stream_registers[] = {x4, x5, x6, x7, x10, x11, x12, x13, x14, x15};
constexpr int first_saved = 8, last_saved = 15;  // vector registers whose lower halves a function must preserve
constexpr int temporaries = 4;  // registers that a node may need besides those of its operands
constexpr int slot_bytes = 16;
constexpr int most_paired_entry = 64;  // of the constants; a load of two registers has a small offset
constexpr int nodes_ahead = 8;  // how many nodes ahead to look for a constant to load

std::vector<int> vector_registers() {
  std::vector<int> registers;
  for (int reg = 0; reg < 32; reg++)
    if (reg < first_saved || reg > last_saved) registers.push_back(reg);
  for (int reg = first_saved; reg <= last_saved; reg++) registers.push_back(reg);
  return registers;
}

class Arm64Generator final : public Generator {
 public:
  explicit Arm64Generator(VectorCode code)
      : Generator(std::move(code), {.registers = vector_registers(),
                                    .stream_registers = std::size(stream_registers),
                                    .constants_are_operands = false,
                                    .fuses_comparisons = false}),
        wide_(lane_bytes_ == 8),
        lane_bits_(8 * lane_bytes_),
        lanes_(lanes_of(VectorSet::neon, lane_bytes_)) {}

 private:
  // ---- rewriting

  void prepare() override {
    find_extremes();
    invert_comparisons();
  }

  // Values of `stream` of minima and maxima whose results for NaN the recorder composes of choices.
  static constexpr int propagates_nan = 1, ignores_nan = 2;

  // Replace compositions that take single instructions: a if a is NaN, otherwise the minimum, which is b if b is NaN;
  // and b if a is NaN, a if b is NaN, otherwise the minimum. The instructions order -0 before 0, whereas a composition
  // returns the second of two zeros, so one operand must be a constant other than zero.
  void find_extremes() {
    const auto is_nan = [&](int mask, int value) {
      const Node& node = nodes_[mask];
      return node.kind == Kind::compare && node.stream == unordered && node.a == value && node.b == value;
    };
    const auto is_extreme = [&](int node) {
      return (nodes_[node].kind == Kind::least || nodes_[node].kind == Kind::greatest) && nodes_[node].stream == 0;
    };
    const std::vector<Node> nodes = nodes_;
    for (Node& node : nodes_) {
      if (node.kind != Kind::choose) continue;
      const Node& rest = nodes[node.c];
      const Node& innermost = rest.kind == Kind::choose ? nodes[rest.c] : rest;
      if (!is_nonzero(innermost.a) && !is_nonzero(innermost.b)) continue;
      if (is_extreme(node.c) && rest.a == node.b && is_nan(node.a, rest.a)) {
        node = {.kind = rest.kind, .stream = propagates_nan, .a = rest.a, .b = rest.b};
      } else if (rest.kind == Kind::choose && is_extreme(rest.c) && nodes[rest.c].b == node.b &&
                 nodes[rest.c].a == rest.b && is_nan(node.a, rest.b) && is_nan(rest.a, node.b)) {
        node = {.kind = nodes[rest.c].kind, .stream = ignores_nan, .a = rest.b, .b = node.b};
      }
    }
  }

  // Whether a value is a constant other than 0 and -0.
  bool is_nonzero(int value) const { return value >= 0 && is_constant(value) && (nodes_[value].bits & ~sign()) != 0; }

  // Turn comparisons that take two instructions into their inverse and swap the operands of the choices that they
  // decide, unless they have other uses. A value is ordered or unordered with itself if it equals itself or not.
  void invert_comparisons() {
    const std::vector<int> uses = uses_of(nodes_);
    std::vector<int> as_mask(nodes_.size(), 0);
    for (size_t i = 0; i < nodes_.size(); i++)
      if (uses[i] > 0 && nodes_[i].kind == Kind::choose) as_mask[nodes_[i].a]++;
    std::vector<bool> inverted(nodes_.size(), false);
    for (size_t i = 0; i < nodes_.size(); i++) {
      Node& node = nodes_[i];
      if (is_comparison(node.kind)) {
        if (node.a == node.b && node.stream == ordered) node.stream = equal;
        if (node.a == node.b && node.stream == unordered) node.stream = not_equal;
        inverted[i] = node.stream == not_equal && uses[i] > 0 && as_mask[i] == uses[i];
        if (inverted[i]) node.stream = equal;
      } else if (node.kind == Kind::choose && inverted[node.a]) {
        std::swap(node.b, node.c);
      }
    }
  }

  // ---- prologue, loops, and epilogue

  void begin() override {
    if (lanes_ > 1) as_.shift_right(whole, whole, std::countr_zero(static_cast<unsigned>(lanes_)));
    for (size_t i = 0; i < in_registers_.size(); i++) {
      const int pointer = stream_registers[i];
      as_.load(pointer, streams, in_registers_[i] * 8);
      as_.add(pointer, pointer, whole, std::countr_zero(static_cast<unsigned>(vector_width(in_registers_[i]))));
    }
    for (int i = 0; i < code_.accumulators; i++) {
      owner_[i] = pinned;
      taken_[i] = true;
      as_.load_vector(i, sums, i * 64);
    }
  }
  // Return how many bytes of a stream an entire vector of lanes takes.
  int vector_width(int stream) const {
    for (const Node& node : nodes_)
      if ((node.kind == Kind::load || node.kind == Kind::store) && node.stream == stream)
        return lanes_ * bytes_of(node.format, lane_bytes_);
    return 16;
  }

  void begin_loop() override {
    in_loop_ = true;
    as_.negate(count, whole);
    no_whole_ = as_.jump_ahead_if_zero(count);
    loop_ = as_.here();
  }
  void end_loop() override {
    as_.add(count, count, 1);
    as_.jump_back_unless_zero(count, loop_);
    as_.land(no_whole_);
  }
  void begin_tail() override {  // count is 0 here
    no_tail_ = as_.jump_ahead_if_zero(tail_elements);
    loop_ = as_.here();
  }
  void end_tail() override {
    as_.add(count, count, 1);
    as_.compare(count, tail_elements);
    as_.jump_back_if_below(loop_);
    as_.land(no_tail_);
  }

  std::vector<uint8_t> end() override {
    for (int i = 0; i < code_.accumulators; i++) as_.store_vector(i, sums, i * 64);
    const bool saves =
        std::any_of(taken_.begin() + first_saved, taken_.begin() + last_saved + 1, [](bool t) { return t; });
    constexpr int saved_bytes = 8 * (last_saved - first_saved + 1);
    const auto spilled_bytes = static_cast<uint32_t>(slot_bytes * most_slots_);
    Assembler start;
    if (saves) {
      start.subtract(sp, sp, saved_bytes);
      for (int reg = first_saved; reg <= last_saved; reg += 2) start.save_pair(reg, 8 * (reg - first_saved));
    }
    if (spilled_bytes) start.subtract(sp, sp, spilled_bytes);
    if (spilled_bytes) as_.add(sp, sp, spilled_bytes);
    if (saves) {
      for (int reg = first_saved; reg <= last_saved; reg += 2) as_.restore_pair(reg, 8 * (reg - first_saved));
      as_.add(sp, sp, saved_bytes);
    }
    as_.ret();
    // The constants follow the code, aligned to their size; the code is aligned to a page.
    const size_t address = start.here();
    size_t end = address + 1 + as_.here();
    const size_t padding = end % 4 ? 4 - end % 4 : 0;
    start.address_of(constants, static_cast<int64_t>(end + padding - address) * 4);
    start.append(as_);
    if (!start.fits() || !as_.fits()) return {};
    for (size_t i = 0; i < padding; i++) start.word(0);
    for (const uint64_t bits : pool_) {
      const uint64_t lane = wide_ ? bits : bits | bits << 32;
      for (int i = 0; i < 4; i++) start.word(static_cast<uint32_t>(i % 2 ? lane >> 32 : lane));
    }
    return start.bytes();
  }

  // Pin the nodes with the most uses to the registers that are free throughout the loop. The addend of a fused
  // multiply-add is copied before it is overwritten, so loading it instead costs nothing.
  std::vector<int> nodes_to_pin(const std::vector<int>& candidates) override {
    std::vector<std::pair<int, int>> ranked;  // number of uses, node
    for (const int node : candidates) {
      int saved = 0;
      for (const int at : positions_[node]) {
        const Node& user = nodes_[at];
        const bool copied = is_multiply_add(user.kind) && user.c == node && user.a != node && user.b != node;
        if (!invariant_[at] && !copied && !is_immediate_operand(user, node)) saved++;
      }
      if (saved > 0) ranked.emplace_back(saved, node);
    }
    std::ranges::stable_sort(ranked, [](const auto& a, const auto& b) { return a.first > b.first; });
    const int free = static_cast<int>(owner_.size()) - code_.accumulators - most_live() - temporaries;
    ranked.resize(std::min(ranked.size(), static_cast<size_t>(std::max(free, 0))));
    std::vector<int> nodes;
    for (const auto& [saved, node] : ranked) nodes.push_back(node);
    return nodes;
  }
  // Return the largest number of values that the loop must hold at one time.
  int most_live() const {
    std::vector<int> change(nodes_.size() + 1, 0);
    for (size_t i = 0; i < nodes_.size(); i++) {
      if (!needed(i) || invariant_[i] || positions_[i].empty()) continue;
      change[i]++;
      change[positions_[i].back()]--;
    }
    int live = 0, most = 0;
    for (const int c : change) most = std::max(most, live += c);
    return most;
  }

  int instructions() const override { return static_cast<int>(as_.here()); }
  void prefetch(int) override {}  // the recorder requests none
  void load_constant(int reg, uint64_t bits) override {
    if (as_.set_immediate(reg, bits, lane_bytes_)) return;
    const int entry = pool_entry(bits);
    if (entry == static_cast<int>(pool_.size())) pool_.push_back(bits);
    const int next = entry < most_paired_entry ? next_constant(bits) : -1;
    const int other = next < 0 ? -1 : free_register(reg);
    if (other < 0 || pool_entry(nodes_[next].bits) != entry + 1) return as_.load_vector(reg, constants, entry * 16);
    if (entry + 1 == static_cast<int>(pool_.size())) pool_.push_back(nodes_[next].bits);
    as_.load_pair(reg, other, constants, entry * 16);
    taken_[other] = true;
    own(next, other);
  }
  int pool_entry(uint64_t bits) const {
    return static_cast<int>(std::find(pool_.begin(), pool_.end(), bits) - pool_.begin());
  }
  // Return a free register other than `reg`, unless the function would have to save it, or -1.
  int free_register(int reg) const {
    for (const int other : target_.registers)
      if (owner_[other] == -1 && other != reg && (other < first_saved || other > last_saved || taken_[other]))
        return other;
    return -1;
  }
  // Return the constant that one of the next nodes loads from the pool first, or -1. One instruction then loads both
  // constants.
  int next_constant(uint64_t bits) const {
    const size_t end = std::min(nodes_.size(), static_cast<size_t>(now_ + 1 + nodes_ahead));
    for (size_t i = in_loop_ ? static_cast<size_t>(now_) + 1 : end; i < end; i++) {
      const Node& node = nodes_[i];
      if (!needed(i) || invariant_[i]) continue;
      for (const int in : {node.a, node.b, node.c}) {
        if (in < 0 || !is_constant(in) || register_[in] >= 0 || nodes_[in].bits == bits) continue;
        if (is_immediate_operand(node, in) || (node.kind == Kind::multiply_subtract && in == node.c)) continue;
        if (!Assembler().set_immediate(0, nodes_[in].bits, lane_bytes_)) return in;
      }
    }
    return -1;
  }
  void load_slot(int reg, int slot) override { as_.load_vector(reg, sp, slot_bytes * slot); }
  void store_slot(int reg, int slot) override { as_.store_vector(reg, sp, slot_bytes * slot); }

  // ---- operands

  uint32_t lane(uint32_t opcode) const { return wide_ ? opcode | wide_lanes : opcode; }

  // Return the address of the elements of a stream that this iteration processes, `width` bytes.
  Address address(int stream) {
    const auto found = std::find(in_registers_.begin(), in_registers_.end(), stream);
    if (found != in_registers_.end()) return {stream_registers[found - in_registers_.begin()], count};
    as_.load(scratch, streams, stream * 8);
    as_.add(scratch_2, count, whole, tail_ ? std::countr_zero(static_cast<unsigned>(lanes_)) : 0);
    return {scratch, scratch_2};
  }
  int width_of(const Node& node) const { return (tail_ ? 1 : lanes_) * bytes_of(node.format, lane_bytes_); }

  uint64_t sign() const { return wide_ ? uint64_t{1} << 63 : uint64_t{1} << 31; }
  uint64_t all_ones() const { return wide_ ? ~uint64_t{0} : 0xffffffff; }
  bool is_zero(int node) const { return is_constant(node) && nodes_[node].bits == 0; }
  static bool is_multiply_add(Kind kind) {
    return kind == Kind::multiply_add || kind == Kind::multiply_subtract || kind == Kind::negated_multiply_add;
  }
  // Return the opcode of an instruction with one operand that replaces a bitwise operation with a constant, or 0.
  uint32_t single_operand(Kind kind, int constant) const {
    if (constant < 0 || !is_constant(constant)) return 0;
    const uint64_t bits = nodes_[constant].bits;
    if (kind == Kind::bitwise_xor && bits == sign()) return lane(float_negate);
    if (kind == Kind::bitwise_xor && bits == all_ones()) return bits_not;
    if (kind == Kind::bitwise_and && bits == all_ones() >> 1) return lane(float_absolute);
    return 0;
  }
  // Return whether the instructions of a node contain the given operand, which then needs no register.
  bool is_immediate_operand(const Node& user, int node) const {
    if (single_operand(user.kind, node)) return true;
    if (!is_zero(node)) return false;
    if (is_comparison(user.kind)) return zero_comparison(user, user.a == node) != 0;
    return user.kind == Kind::choose && (user.b == node || user.c == node) && user.a != node;
  }

  // Return whether the register of an operand may be overwritten.
  bool overwritable(int node) const { return register_[node] >= 0 && owner_[register_[node]] == node && dies(node); }
  // Return a temporary register with the value of an operand, which the caller may overwrite. `also_read` means that
  // the operand's register must keep its value.
  int writable(int node, bool also_read) {
    locked_.push_back(node);
    const int reg = register_[node];
    if (reg >= 0 && overwritable(node) && !also_read) {
      register_[node] = -1;
      owner_[reg] = busy;
      return reg;
    }
    const int copy = spare();
    if (register_[node] >= 0)
      as_.move_vector(copy, register_[node]);
    else if (is_constant(node))
      load_constant(copy, nodes_[node].bits);
    else
      load_slot(copy, slot_of(node));
    return copy;
  }

  // ---- code of a single node

  void emit_node(int i) override {
    const Node node = nodes_[i];
    switch (node.kind) {
      case Kind::constant: return;
      case Kind::scalar: return scalar(i, node);
      case Kind::load: return load(i, node);
      case Kind::store: return store(node);
      case Kind::accumulate: return accumulate(node);
      case Kind::add: return binary(i, lane(float_add));
      case Kind::subtract: return binary(i, lane(float_subtract));
      case Kind::multiply: return binary(i, lane(float_multiply));
      case Kind::divide: return binary(i, lane(float_divide));
      case Kind::least:
      case Kind::greatest: return extreme(i);
      case Kind::square_root: return unary(i, lane(float_square_root));
      case Kind::multiply_add:
      case Kind::multiply_subtract:
      case Kind::negated_multiply_add: return fused_multiply(i);
      case Kind::round: {
        static constexpr uint32_t by_mode[] = {round_nearest, round_down, round_up, round_to_zero};
        return unary(i, lane(by_mode[node.stream]));
      }
      case Kind::bitwise_and: return binary(i, bits_and);
      case Kind::bitwise_or: return binary(i, bits_or);
      case Kind::bitwise_xor: return binary(i, bits_xor);
      case Kind::and_not: return binary(i, bits_and_not, true);
      case Kind::integer_add: return binary(i, lane(integer_add));
      case Kind::integer_subtract: return binary(i, lane(integer_subtract));
      case Kind::integer_multiply: return wide_ ? multiply_wide(i) : binary(i, integer_multiply);
      case Kind::integer_least: return binary(i, integer_least);
      case Kind::integer_greatest: return binary(i, integer_greatest);
      case Kind::shift_left: return shift(i, shift_left);
      case Kind::shift_right: return shift(i, shift_right);
      case Kind::shift_right_sign: return shift(i, shift_right_sign);
      case Kind::to_float: return unary(i, lane(integers_to_floats));
      case Kind::to_integer: return unary(i, lane(floats_to_integers));
      case Kind::to_bfloat16: {
        unary(i, floats_to_bfloat16);
        return as_.widen(register_[i], register_[i], 16, false);
      }
      case Kind::integer_compare:
      case Kind::compare: return compare(i);
      case Kind::choose: return choose(i);
      // the recorder uses these only for AVX-512
      case Kind::scale:
      case Kind::near_reciprocal:
      case Kind::mantissa:
      case Kind::exponent:
      case Kind::logarithm:
      case Kind::look_up: return;
    }
  }

  void scalar(int i, const Node& node) {
    const int reg = result(i);
    as_.load(scratch, streams, node.stream * 8);
    as_.load_repeated(reg, scratch, bytes_of(node.format, lane_bytes_));
    if (node.format != Format::bits16 && node.format != Format::bits8) convert_loaded(reg, node.format);
  }
  void load(int i, const Node& node) {
    const int reg = result(i);
    as_.load_vector(reg, address(node.stream), width_of(node));
    convert_loaded(reg, node.format);
  }
  // Convert loaded elements to lanes.
  void convert_loaded(int reg, Format format) {
    switch (format) {
      case Format::lane: return;
      case Format::float32: return as_.vector(floats_to_doubles, reg, reg);
      case Format::float16: return as_.vector(halves_to_floats, reg, reg);
      case Format::int32: as_.widen(reg, reg, 32, true); return as_.vector(lane(integers_to_floats), reg, reg);
      case Format::bits16:
      case Format::bits8:
        for (int bits = 8 * bytes_of(format, lane_bytes_); bits < lane_bits_; bits *= 2)
          as_.widen(reg, reg, bits, false);
    }
  }

  void store(const Node& node) {
    const int value = fetch(node.a);
    if (node.format == Format::lane) {
      if (node.streaming && !tail_) {
        store_streaming(value, node.stream);
      } else {
        as_.store_vector(value, address(node.stream), width_of(node));
      }
      return release({node.a});
    }
    const int narrow = spare();
    switch (node.format) {
      case Format::float32: as_.vector(doubles_to_floats, narrow, value); break;
      case Format::float16: as_.vector(floats_to_halves, narrow, value); break;
      case Format::int32:
        as_.vector(lane(floats_to_integers), narrow, value);
        as_.narrow(narrow, narrow, 32);
        break;
      default: {
        int from = value;
        for (int bits = lane_bits_ / 2; bits >= 8 * bytes_of(node.format, lane_bytes_); bits /= 2) {
          as_.narrow(narrow, from, bits);
          from = narrow;
        }
      }
    }
    as_.store_vector(narrow, address(node.stream), width_of(node));
    owner_[narrow] = -1;
    release({node.a});
  }
  void store_streaming(int value, int stream) {
    const int upper = spare();
    const Address to = address(stream);
    as_.add(scratch, to.base, to.index, 4);
    as_.vector(upper_half, upper, value);
    as_.store_streaming(value, upper, scratch);
    owner_[upper] = -1;
  }

  void accumulate(const Node& node) {
    const int sum = node.stream, value = fetch(node.a);
    if (tail_) {
      const int element = spare();
      as_.vector(move_float, element, value);
      as_.vector(lane(float_add), sum, sum, element);
      owner_[element] = -1;
    } else {
      as_.vector(lane(float_add), sum, sum, value);
    }
    release({node.a});
  }

  void unary(int i, uint32_t opcode) {
    const int a = nodes_[i].a, from = fetch(a);
    release({a});
    as_.vector(opcode, result(i), from);
  }
  void binary(int i, uint32_t opcode, bool reversed = false) {
    const Node node = nodes_[i];
    for (const auto& [value, constant] : {std::pair(node.a, node.b), std::pair(node.b, node.a)})
      if (const uint32_t single = single_operand(node.kind, constant)) {
        const int from = fetch(value);
        release({value});
        return as_.vector(single, result(i), from);
      }
    const int a = fetch(node.a), b = fetch(node.b);
    release({node.a, node.b});
    as_.vector(opcode, result(i), reversed ? b : a, reversed ? a : b);
  }
  void shift(int i, uint32_t opcode) {
    const int a = nodes_[i].a, from = fetch(a);
    release({a});
    as_.shift(opcode, result(i), from, nodes_[i].stream, lane_bits_);
  }

  // Emit a minimum or maximum. An instruction that returns NaN if either operand is NaN also fits if the first operand
  // is a constant other than zero. Otherwise, compare, because the second operand must be returned if the first is NaN
  // or both are zeros.
  void extreme(int i) {
    const Node node = nodes_[i];
    const bool least = node.kind == Kind::least;
    if (node.stream == ignores_nan) return binary(i, lane(least ? float_least_number : float_greatest_number));
    if (node.stream == propagates_nan || is_nonzero(node.a))
      return binary(i, lane(least ? float_least : float_greatest));
    const int a = fetch(node.a), b = fetch(node.b), mask = spare();
    as_.vector(lane(float_greater), mask, least ? b : a, least ? a : b);
    as_.vector(select_bits, mask, a, b);
    release({node.a, node.b});
    own(i, mask);
  }

  // NEON has no product of 64-bit lanes.
  void multiply_wide(int i) {
    const Node node = nodes_[i];
    const int a = fetch(node.a), b = fetch(node.b), product = spare();
    for (int lane = 0; lane < 2; lane++) {
      as_.lane_to_general(scratch, a, lane);
      as_.lane_to_general(scratch_2, b, lane);
      as_.multiply(scratch, scratch, scratch_2);
      as_.general_to_lane(product, lane, scratch);
    }
    release({node.a, node.b});
    own(i, product);
  }

  // A fused multiply-add overwrites its addend.
  void fused_multiply(int i) {
    const Node node = nodes_[i];
    const int c = node.c, a = fetch(node.a), b = fetch(node.b);
    const bool also_factor = c == node.a || c == node.b;
    int target;
    if (node.kind != Kind::multiply_subtract) {
      target = writable(c, also_factor);
    } else if (is_constant(c)) {
      target = spare();
      load_constant(target, nodes_[c].bits ^ sign());
    } else if (register_[c] >= 0 && (also_factor || !overwritable(c))) {
      locked_.push_back(c);
      target = spare();
      as_.vector(lane(float_negate), target, register_[c]);
    } else {
      target = writable(c, false);
      as_.vector(lane(float_negate), target, target);
    }
    const bool subtracts = node.kind == Kind::negated_multiply_add;
    as_.vector(lane(subtracts ? float_multiply_subtract : float_multiply_add), target, a, b);
    release({node.a, node.b, c});
    own(i, target);
  }

  // Return the opcode of a comparison with zero, which is the first operand if `reversed`, or 0 if none exists.
  uint32_t zero_comparison(const Node& node, bool reversed) const {
    const bool floats = node.kind == Kind::compare;
    switch (node.stream) {
      case equal:
      case not_equal: return floats ? float_equal_zero : integer_equal_zero;
      case less:
        if (reversed) return floats ? float_greater_zero : integer_greater_zero;
        return floats ? float_less_zero : integer_less_zero;
      case less_or_equal:
        if (reversed) return floats ? float_greater_or_equal_zero : integer_greater_or_equal_zero;
        return floats ? float_less_or_equal_zero : integer_less_or_equal_zero;
      default: return 0;
    }
  }
  void compare(int i) {
    const Node node = nodes_[i];
    const bool floats = node.kind == Kind::compare;
    if (node.stream == unordered || node.stream == ordered) {
      const int a = fetch(node.a), b = fetch(node.b), mask = spare(), other = spare();
      as_.vector(lane(float_equal), mask, a, a);
      as_.vector(lane(float_equal), other, b, b);
      as_.vector(bits_and, mask, mask, other);
      owner_[other] = -1;
      release({node.a, node.b});
      own(i, mask);
    } else if (is_zero(node.a) || is_zero(node.b)) {
      const bool reversed = is_zero(node.a);
      const int value = reversed ? node.b : node.a, from = fetch(value);
      release({value});
      as_.vector(lane(zero_comparison(node, reversed)), result(i), from);
    } else {
      const int a = fetch(node.a), b = fetch(node.b);
      release({node.a, node.b});
      if (node.stream == equal || node.stream == not_equal)
        as_.vector(lane(floats ? float_equal : integer_equal), result(i), a, b);
      else if (node.stream == less)
        as_.vector(lane(floats ? float_greater : integer_greater), result(i), b, a);
      else
        as_.vector(lane(floats ? float_greater_or_equal : integer_greater_or_equal), result(i), b, a);
    }
    if (node.stream == not_equal || node.stream == unordered) as_.vector(bits_not, register_[i], register_[i]);
  }

  void choose(int i) {
    const Node node = nodes_[i];
    const auto [a, b, c] = std::tuple(node.a, node.b, node.c);
    if (is_zero(b) || is_zero(c)) {
      const int mask = fetch(a), value = fetch(is_zero(c) ? b : c);
      release({a, is_zero(c) ? b : c});
      return is_zero(c) ? as_.vector(bits_and, result(i), mask, value)
                        : as_.vector(bits_and_not, result(i), value, mask);
    }
    // Overwrite the operand that has no later use or must be loaded anyway.
    const auto free = [&](int node, int other, int another) {
      return node != other && node != another && (register_[node] < 0 || overwritable(node));
    };
    const bool into_c = !free(a, b, c) && free(c, a, b), into_b = !into_c && !free(a, b, c) && free(b, a, c);
    int target;
    if (into_c) {
      const int mask = fetch(a), value = fetch(b);
      target = writable(c, false);
      as_.vector(insert_if_true, target, value, mask);
    } else if (into_b) {
      const int mask = fetch(a), value = fetch(c);
      target = writable(b, false);
      as_.vector(insert_if_false, target, value, mask);
    } else {
      const int if_true = fetch(b), if_false = fetch(c);
      target = writable(a, a == b || a == c);
      as_.vector(select_bits, target, if_true, if_false);
    }
    release({a, b, c});
    own(i, target);
  }

  const bool wide_;
  const int lane_bits_, lanes_;
  bool in_loop_ = false;
  Assembler as_;
  std::vector<uint64_t> pool_;  // constants that follow the code
  Assembler::Label loop_ = 0, no_whole_ = 0, no_tail_ = 0;
};

}  // namespace

std::unique_ptr<Generator> generator(VectorCode code) { return std::make_unique<Arm64Generator>(std::move(code)); }

}  // namespace mpsgraph::cpu::jit::arm64
