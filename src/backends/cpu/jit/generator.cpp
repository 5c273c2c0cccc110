// Analysis of VectorCode, hoisting, and register allocation.
#include "backends/cpu/jit/generator.h"

#include <algorithm>
#include <limits>

namespace mpsgraph::cpu::jit {
namespace {

constexpr int never = std::numeric_limits<int>::max();

std::unique_ptr<Generator> generator(VectorCode code) {
  return code.set == VectorSet::neon ? arm64::generator(std::move(code)) : x86_64::generator(std::move(code));
}

}  // namespace

std::vector<uint8_t> generate(VectorCode code) { return generator(std::move(code))->run(); }

int loop_instructions(VectorCode code) {
  const auto made = generator(std::move(code));
  made->run();
  return made->loop_instructions();
}

Generator::Generator(VectorCode code, Target target)
    : code_(std::move(code)), nodes_(code_.nodes), lane_bytes_(code_.lane_bytes), target_(std::move(target)) {}

std::vector<uint8_t> Generator::run() {
  contract(nodes_);
  prepare();
  uses_ = uses_of(nodes_);
  analyse();
  begin();
  hoist();
  begin_loop();
  const int before = instructions();
  body(false);
  end_loop();
  loop_instructions_ = instructions() - before;
  begin_tail();
  body(true);
  end_tail();
  return end();
}

// ---- analysis

void Generator::analyse() {
  const size_t n = nodes_.size();
  invariant_.assign(n, false);
  fused_.assign(n, false);
  positions_.assign(n, {});
  register_.assign(n, -1);
  slot_.assign(n, -1);
  std::vector<int> as_mask(n, 0);  // for each node, the number of choices that use it as their mask
  for (size_t i = 0; i < n; i++) {
    const Node& node = nodes_[i];
    const bool acts = node.kind == Kind::store || node.kind == Kind::accumulate || node.kind == Kind::load;
    invariant_[i] = !acts;
    for (int in : {node.a, node.b, node.c})
      if (in >= 0) invariant_[i] = invariant_[i] && invariant_[in];
    if (needed(i) && node.kind == Kind::choose) as_mask[node.a]++;
  }
  for (size_t i = 0; i < n; i++)
    fused_[i] = target_.fuses_comparisons && is_comparison(nodes_[i].kind) && as_mask[i] == uses_[i] && !invariant_[i];
  for (size_t i = 0; i < n; i++) {
    if (!needed(i) || fused_[i]) continue;
    const auto use = [&](int in) {
      if (in >= 0) positions_[in].push_back(static_cast<int>(i));
    };
    const Node& node = nodes_[i];
    if (node.kind == Kind::choose && fused_[node.a]) {
      use(nodes_[node.a].a);
      use(nodes_[node.a].b);
    } else {
      use(node.a);
    }
    use(node.b);
    use(node.c);
  }
  for (size_t i = 0; i < n; i++) {
    const Node& node = nodes_[i];
    if (!needed(i) || (node.kind != Kind::load && node.kind != Kind::store)) continue;
    if (std::find(in_registers_.begin(), in_registers_.end(), node.stream) == in_registers_.end() &&
        static_cast<int>(in_registers_.size()) < target_.stream_registers)
      in_registers_.push_back(node.stream);
  }
  const auto most = std::max_element(target_.registers.begin(), target_.registers.end());
  owner_.assign(*most + 1, -1);
  taken_.assign(owner_.size(), false);
}

// ---- the loop

// Compute loop invariants before the loop, into vector registers that the loop does not need and then into memory.
void Generator::hoist() {
  std::vector<int> candidates;
  for (size_t i = 0; i < nodes_.size(); i++) {
    const bool in_loop = std::any_of(positions_[i].begin(), positions_[i].end(), [&](int p) { return !invariant_[p]; });
    if (in_loop && (is_constant(static_cast<int>(i)) ? !target_.constants_are_operands : needed(i) && invariant_[i]))
      candidates.push_back(static_cast<int>(i));
  }
  const std::vector<int> pins = nodes_to_pin(candidates);
  const auto contains = [](const std::vector<int>& in, int node) {
    return std::find(in.begin(), in.end(), node) != in.end();
  };
  tail_ = false;
  for (int i = 0; i < static_cast<int>(nodes_.size()); i++) {
    if (is_constant(i)) {
      if (!contains(pins, i)) continue;
      locked_.clear();
      fetch(i);
    } else {
      if (!needed(i) || !invariant_[i]) continue;
      emit(i);
    }
    if (contains(pins, i))
      owner_[register_[i]] = pinned;
    else if (contains(candidates, i))
      spill(i);
  }
  hoisted_slots_ = slots_;
}

void Generator::body(bool tail) {
  tail_ = tail;
  slots_ = hoisted_slots_;
  for (int& owner : owner_)
    if (owner >= 0) register_[owner] = -1, owner = -1;
  for (size_t i = 0; i < nodes_.size(); i++)
    if (!invariant_[i]) register_[i] = slot_[i] = -1;
  if (!tail)
    for (int stream : code_.prefetched) prefetch(stream);
  for (size_t i = 0; i < nodes_.size(); i++)
    if (needed(i) && !invariant_[i] && !fused_[i]) emit(static_cast<int>(i));
}

void Generator::emit(int i) {
  now_ = i;
  locked_.clear();
  emit_node(i);
}

// ---- registers

int Generator::next_use(int node, int from) const {
  const auto& at = positions_[node];
  const auto next = std::lower_bound(at.begin(), at.end(), from);
  return next == at.end() ? never : *next;
}

int Generator::slot_of(int node) {
  if (slot_[node] < 0) slot_[node] = slots_++;
  most_slots_ = std::max(most_slots_, slots_);
  return slot_[node];
}

void Generator::spill(int node) {
  if (slot_[node] < 0 && !is_constant(node)) store_slot(register_[node], slot_of(node));
  owner_[register_[node]] = -1;
  register_[node] = -1;
}

bool Generator::locked(int node) const { return std::find(locked_.begin(), locked_.end(), node) != locked_.end(); }

int Generator::take() {
  for (int reg : target_.registers)
    if (owner_[reg] == -1) {
      taken_[reg] = true;
      return reg;
    }
  int victim = -1, farthest = -1;
  for (size_t r = 0; r < owner_.size(); r++) {
    if (owner_[r] < 0 || locked(owner_[r])) continue;
    const int use = next_use(owner_[r], now_);  // operands of this node are evicted last
    if (use > farthest) farthest = use, victim = static_cast<int>(r);
  }
  spill(owner_[victim]);
  return victim;
}

int Generator::spare() {
  const int reg = take();
  owner_[reg] = busy;
  return reg;
}

int Generator::result(int node) {
  const int reg = take();
  own(node, reg);
  return reg;
}

void Generator::own(int node, int reg) {
  owner_[reg] = node;
  register_[node] = reg;
}

int Generator::fetch(int node) {
  locked_.push_back(node);
  if (register_[node] >= 0) return register_[node];
  const int reg = take();
  if (!is_constant(node)) {
    load_slot(reg, slot_of(node));
  } else {
    load_constant(reg, nodes_[node].bits);
    if (target_.constants_are_operands) {
      owner_[reg] = busy;
      borrowed_.push_back(reg);
      return reg;
    }
  }
  own(node, reg);
  return reg;
}

bool Generator::dies(int node) const {
  if (is_constant(node) && target_.constants_are_operands) return true;
  return !stays(node) && next_use(node, now_ + 1) == never;
}

void Generator::release(std::initializer_list<int> operands) {
  for (int node : operands)
    if (node >= 0 && register_[node] >= 0 && owner_[register_[node]] == node && dies(node)) {
      owner_[register_[node]] = -1;
      register_[node] = -1;
    }
  for (int reg : borrowed_) owner_[reg] = -1;
  borrowed_.clear();
}

}  // namespace mpsgraph::cpu::jit
