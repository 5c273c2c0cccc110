// Compiler pass simplify: applies algebra, merges duplicates, forwards variable reads, and resolves branches, until
// nothing changes.
//
//   %a = addition(%x, %zero)                     %a: %x
//   %b = exponent(%x); %c = exponent(%x)   ->    %c: %b
//   assign(%v, %y); %r = read(%v)                %r: %y
// Each round rebuilds the program once. The number of rounds is limited. If the limit is reached, the program is valid
// but might not be fully simplified.
#include <algorithm>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/passes.h"
#include "compiler/rule.h"
#include "core/definition.h"

namespace mpsgraph::compiler {
namespace {

constexpr int max_rounds = 16;

size_t mix(size_t hash, size_t value) { return hash * 0x9e3779b97f4a7c15u + value; }

size_t hash_of(const Operation& op) {
  size_t hash = std::hash<const void*>()(op.definition);
  size_t inputs = 0;
  for (const Tensor* input : op.inputs) {
    size_t value = std::hash<const void*>()(input);
    inputs = commutes(op) ? inputs + value : mix(inputs, value);
  }
  hash = mix(hash, inputs);
  for (const auto& [key, value] : op.attributes.items()) {
    if (const auto* ints = std::get_if<Ints>(&value)) {
      for (int64_t i : *ints) hash = mix(hash, static_cast<size_t>(i));
    } else if (const auto* data = std::get_if<ConstantPtr>(&value)) {
      hash = mix(hash, static_cast<size_t>((*data)->elements()));
      if (const auto digest = (*data)->digest())
        hash = mix(hash, *digest);
      else if ((*data)->elements() > 0)
        hash = mix(hash, std::hash<double>()((*data)->scalar()));
    }
  }
  return hash;
}

bool same_operation(const Operation& a, const Operation& b) {
  if (a.definition != b.definition || a.outputs.size() != b.outputs.size()) return false;
  const bool swapped = commutes(a) && a.inputs[0] == b.inputs[1] && a.inputs[1] == b.inputs[0];
  return (a.inputs == b.inputs || swapped) && a.attributes == b.attributes;
}

// Whether an operation is pure, i.e. it is not a placeholder or variable, and neither reads nor changes a variable.
bool is_pure(const Operation& op) {
  return !op.is({"placeholder", "variable", "argument", "undefined", "read"}) && !is_effect(op) && op.blocks.empty();
}

// Operations by hash, in a table with open addressing.
class Entered {
 public:
  // The first operation with this hash for which `same` returns true; null if there is none.
  template <class Same>
  const Operation* find(size_t hash, const Same& same) const {
    for (size_t i = start(hash); !slots_.empty() && slots_[i].operation; i = next(i))
      if (slots_[i].hash == hash && same(*slots_[i].operation)) return slots_[i].operation;
    return nullptr;
  }

  void enter(size_t hash, const Operation* operation) {
    if (2 * ++count_ > slots_.size()) {
      const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(std::max<size_t>(64, 4 * slots_.size())));
      for (const Slot& slot : old)
        if (slot.operation) place(slot);
    }
    place({hash, operation});
  }

  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const Slot& slot : slots_)
      if (slot.operation) visit(slot.operation);
  }

 private:
  struct Slot {
    size_t hash = 0;
    const Operation* operation = nullptr;  // null if the slot is free
  };

  // Multiplies, because the hashes of similar operations are close to each other and would share a long run of slots.
  size_t start(size_t hash) const { return (mix(hash, 0) >> 32) & (slots_.size() - 1); }
  size_t next(size_t i) const { return (i + 1) & (slots_.size() - 1); }
  void place(const Slot& slot) {
    size_t i = start(slot.hash);
    while (slots_[i].operation) i = next(i);
    slots_[i] = slot;
  }

  std::vector<Slot> slots_;  // their number is a power of 2, or 0
  size_t count_ = 0;
};

class Round {
 public:
  Rewriter::Replacement operator()(Rewriter& r, const Operation& source) {
    if (source.is("read")) return read(r, source);
    if (source.is("assign")) return assign(source);
    if (!source.blocks.empty()) return control_flow(r, source);
    if (!is_pure(source)) return {};
    if (auto constants = folded(r, source)) return changed(std::move(constants));
    if (auto simpler = simplified(r, source)) return changed(std::move(simpler));
    return merged(r, source);
  }

  bool any_change() const { return changed_; }

 private:
  struct Value {
    const Tensor* source;
    const Block* block;  // the value is known in this block and in all blocks nested in it
  };

  Rewriter::Replacement changed(Rewriter::Replacement replacement) {
    changed_ = true;
    return replacement;
  }

  // Until the Rewriter has copied an operation, operations are compared in the source graph. Afterwards they are
  // compared in the new graph, where two operations also have the same operands if their original operands were merged.
  Rewriter::Replacement merged(Rewriter& r, const Operation& source) {
    if (r.is_untouched()) {
      const Operation* same = same_or_enter(source, source.parent);
      if (!same) return {};
      return changed(r.now(results_of(*same)));
    }
    if (of_source_) begin_anew(r);
    Operation* copy = r.clone(source);
    if (const Operation* same = same_or_enter(*copy, &r.graph().current_block())) return changed(results_of(*same));
    return results_of(*copy);
  }

  // Returns an equal operation in the block or an enclosing one. If there is none, keeps the operation for comparison
  // and returns null.
  const Operation* same_or_enter(const Operation& operation, const Block* block) {
    const size_t hash = hash_of(operation);
    const Operation* same = made_.find(hash, [&](const Operation& other) {
      return other.parent->encloses(block) && same_operation(other, operation);
    });
    if (!same) made_.enter(hash, &operation);
    return same;
  }

  // From now on, operations are compared in the new graph: the operations collected so far, which belong to the source
  // graph, are replaced with their copies.
  void begin_anew(Rewriter& r) {
    Entered copies;
    made_.for_each([&](const Operation* source) {
      const Operation* copy = r.now(source);
      copies.enter(hash_of(*copy), copy);
    });
    made_ = std::move(copies);
    of_source_ = false;
  }

  Rewriter::Replacement read(Rewriter& r, const Operation& source) {
    const auto [known, is_first] = values_.try_emplace(source.input(0), Value{source.output(), source.parent});
    if (!is_first && known->second.block->encloses(source.parent))
      return changed(std::vector<Tensor*>{r.now(known->second.source)});
    known->second = {source.output(), source.parent};
    return {};
  }

  Rewriter::Replacement assign(const Operation& source) {
    values_[source.input(0)] = {source.input(1), source.parent};
    return {};
  }

  // Forgets the values of variables that are assigned in blocks of control flow, because a block may run any number of
  // times.
  Rewriter::Replacement control_flow(Rewriter& r, const Operation& source) {
    if (auto taken = taken_branch(r, source)) return changed(std::move(taken));
    forget_assigned(source);
    Operation* copy = r.clone(source);
    forget_assigned(source);
    return results_of(*copy);
  }

  void forget_assigned(const Operation& source) {
    if (source.is("assign")) values_.erase(source.input(0));
    for (const auto& block : source.blocks) {
      for (const auto& inner : block->operations) forget_assigned(*inner);
    }
  }

  bool changed_ = false, of_source_ = true;
  // Operations kept for comparison. They belong to the source graph or, once something has been copied, to the new
  // graph.
  Entered made_;
  std::unordered_map<const Tensor*, Value> values_;         // known values of variables, as tensors of the source
};

}  // namespace

void simplify(Program& program) {
  for (int i = 0; i < max_rounds; ++i) {
    Round round;
    rewrite(program, std::ref(round));
    if (!round.any_change()) return;
  }
}

}  // namespace mpsgraph::compiler
