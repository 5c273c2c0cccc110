// Compiler pass schedule: runs an operation as early as possible if it frees more memory than it allocates.
//
//   %d = convolution2d_weights_gradient(%g, %x)        %d = convolution2d_weights_gradient(%g, %x)
//   %h = convolution2d_data_gradient(%g, %w)           %h = convolution2d_data_gradient(%g, %w)
//   ... the gradients of all layers before      ->     %u = fused_elementwise(%w, %rate, %d) { ... }
//   %u = fused_elementwise(%w, %rate, %d) { ... }               %update = assign(%v, %u)
//   %update = assign(%v, %u)                           ... the gradients of all layers before
//
// The memory of a gradient can then be reused for the next gradient, whereas otherwise all gradients would stay alive
// until the end. The update also finds the gradient in cache. Only large values are considered: many small updates stay
// together, because a backend merges them into one kernel.
//
// A call without results passes values to another thread or process, which can process them in the meantime. Such a
// call runs as soon as its operands are available. A call without operands waits for another thread or process. Such a
// call runs after all operations that depend on no call of this kind, and directly before the updates that depend on no
// later call.
#include <algorithm>
#include <deque>
#include <numeric>

#include "compiler/dependencies.h"
#include "compiler/passes.h"
#include "core/definition.h"

namespace mpsgraph::compiler {
namespace {

// The smallest amount of memory, in bytes, that is worth freeing early. For smaller amounts, an additional kernel
// launch costs more than reusing the memory saves.
constexpr int64_t worthwhile = int64_t{256} << 10;
constexpr int64_t negligible = 1024;

int64_t bytes_of(const TensorType& type) {
  return type.history ? 0 : type.shape.elements() * static_cast<int64_t>(size_of(type.dtype));
}

// Computes the order of the root block's operations.
class Schedule {
 public:
  explicit Schedule(const Program& program)
      : block_(program.graph->root()),
        dependencies_(block_),
        users_(dependencies_.users()),
        memory_(*program.graph),
        readers_(block_.operations.size()),
        touched_(block_.operations.size()),
        early_(block_.operations.size(), false),
        hasty_(block_.operations.size(), false),
        late_(block_.operations.size(), -1),
        waiting_(block_.operations.size()),
        done_(block_.operations.size(), false) {
    for (int i = 0; i < size(); i++) enter(i);
    for (int i = size() - 1; i >= 0; i--) hasty_[i] = hands_over(i) || leads_to_hasty(i);
    for (const Tensor* target : program.targets) memories_[memory_of(target)].bytes = 0;
  }

  // Whether the order of some program might change, judging by each operation alone.
  static bool may_be_worthwhile(const Block& block) {
    return std::ranges::any_of(block.operations, [](const auto& operation) {
      if (operation->is("call")) return true;
      return std::ranges::any_of(operation->outputs, [](const auto& out) { return bytes_of(out->type) >= worthwhile; });
    });
  }

  bool is_worthwhile() const {
    for (int i = 0; i < size(); i++)
      if (hasty_[i]) return true;
    return std::ranges::any_of(memories_, [](const Memory& m) { return m.bytes >= worthwhile; });
  }

  std::vector<int> order() {
    std::vector<int> places(static_cast<size_t>(size()));
    std::iota(places.begin(), places.end(), 0);
    std::ranges::stable_sort(places, [&](int a, int b) { return late_[a] < late_[b]; });
    for (int i : places) {
      if (!done_[i]) run_with_needs(i);
      while (!candidates_.empty()) {
        const int next = candidates_.front();
        candidates_.pop_front();
        if (!done_[next] && waiting_[next].count == 0 && should_run_now(next)) run_with_needs(next);
      }
    }
    return std::move(order_);
  }

 private:
  // The memory that holds a value and all its aliases.
  struct Memory {
    int64_t bytes;  // 0 if the memory is not freed, as for variables, constants, feeds, and targets
    int left = 0;  // number of operations that use the memory and have not run yet
    int64_t sum = 0;  // sum of the positions of these operations; if one operation is left, this is its position
  };
  // For an operation: the number of operations that must still run before it, and the sum of their positions. Early
  // operations (early_) are not counted.
  struct Waiting {
    int count = 0;
    int64_t sum = 0;
  };

  int size() const { return static_cast<int>(block_.operations.size()); }
  const Operation& operation(int i) const { return *block_.operations[i]; }
  int memory_of(const Tensor* value) const { return memory_[value] - 1; }
  bool hands_over(int i) const { return operation(i).is("call") && operation(i).outputs.empty(); }
  bool waits_for_others(int i) const { return operation(i).is("call") && operation(i).inputs.empty(); }
  bool is_cheap(int i) const {
    return operation(i).definition->elementwise || operation(i).is("fused_elementwise") || is_alias(operation(i));
  }
  bool leads_to_hasty(int i) const {
    return is_cheap(i) && !readers_[i].empty() &&
           std::ranges::all_of(readers_[i], [&](int reader) { return hasty_[reader]; });
  }

  void enter(int i) {
    const Operation& op = operation(i);
    early_[i] = !is_effect(op) && (op.blocks.empty() || op.is("fused_elementwise"));
    if (waits_for_others(i) && !op.outputs.empty()) late_[i] = i;
    for (int d : dependencies_.before(i)) {
      if (is_cheap(i) || op.is("assign")) late_[i] = std::max(late_[i], late_[d]);
      early_[i] = early_[i] && early_[d];
      if (!early_[d]) waiting_[i].count++, waiting_[i].sum += d;
    }
    std::vector<int>& touched = touched_[i];
    for_each_operand(op, [&](const Tensor* in) {
      if (const int made = dependencies_.position(in->operation); made >= 0) readers_[made].push_back(i);
      if (memory_of(in) >= 0) touched.push_back(memory_of(in));
    });
    std::ranges::sort(touched);
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (int m : touched) memories_[m].left++, memories_[m].sum += i;
    const bool stays = op.is({"variable", "constant", "placeholder"});
    for (const auto& output : op.outputs) {
      if (op.is("read") || is_alias(op)) {
        memory_[output.get()] = memory_[op.input(0)];
        continue;
      }
      memory_[output.get()] = static_cast<int>(memories_.size()) + 1;
      memories_.push_back({stays ? 0 : bytes_of(output->type)});
      early_[i] = early_[i] && memories_.back().bytes <= negligible;
    }
  }

  // Runs everything that the operation needs and then the operation. An early operation runs at its original position,
  // or right before its first user if that comes sooner.
  void run_with_needs(int i) {
    std::vector<int> needs, look{i};
    while (!look.empty()) {
      const int next = look.back();
      look.pop_back();
      for (int d : dependencies_.before(next))
        if (!done_[d]) done_[d] = true, needs.push_back(d), look.push_back(d);
    }
    std::ranges::sort(needs);
    for (int d : needs) run(d);
    run(i);
  }

  void run(int i) {
    done_[i] = true;
    order_.push_back(i);
    std::vector<int> found;
    for (int m : touched_[i]) {
      Memory& memory = memories_[m];
      memory.sum -= i;
      if (--memory.left == 1 && memory.bytes >= worthwhile) found.push_back(static_cast<int>(memory.sum));
    }
    for (int user : users_[i]) {
      if (early_[i]) break;  // early operations are not counted in waiting_
      Waiting& waiting = waiting_[user];
      waiting.sum -= i;
      if (--waiting.count == 0) found.push_back(user);
      if (waiting.count == 1 && operation(user).is("assign")) found.push_back(static_cast<int>(waiting.sum));
    }
    // Place new candidates before all others. An assign then runs directly after the operation that computes its value.
    candidates_.insert(candidates_.begin(), found.begin(), found.end());
  }

  bool should_run_now(int i) const {
    if (is_alias(operation(i))) return true;  // aliases cost nothing, and an operation that frees memory may need one
    if (hasty_[i]) return true;
    int64_t gain = 0;
    for (int m : touched_[i])
      if (memories_[m].left == 1) gain += memories_[m].bytes;
    if (gain < worthwhile) return false;
    for (const auto& output : operation(i).outputs)
      if (!goes_into_variable(*output)) gain -= memories_[memory_of(output.get())].bytes;
    return gain >= worthwhile;
  }

  // Whether the only remaining use of a value is an assign that can run immediately. The value then needs no memory of
  // its own.
  bool goes_into_variable(const Tensor& value) const {
    const Memory& memory = memories_[memory_of(&value)];
    if (memory.left != 1) return false;
    const auto user = static_cast<int>(memory.sum);
    return operation(user).is("assign") && waiting_[user].count == 1;
  }

  const Block& block_;
  const Dependencies dependencies_;
  const Lists<int> users_;
  TensorTable<int> memory_;  // the index of each value in memories_, plus 1; 0 for values in nested blocks
  // For each operation, the operations that read its results. In contrast, users_ also contains operations that must
  // run later for other reasons, such as the order of assigns.
  std::vector<std::vector<int>> readers_;
  std::vector<Memory> memories_;
  std::vector<std::vector<int>> touched_;  // for each operation, the memories it uses, without duplicates
  // Whether an operation is early: its values are available when a run starts, or are small and computed from such
  // values, e.g. learning rates.
  std::vector<bool> early_;
  // Marks calls without results, which should run as soon as possible, and cheap operations that only such calls need.
  std::vector<bool> hasty_;
  // For a call that has results but no operands, which may wait for other processes: its own index. For a cheap
  // operation or an assign that depends on such calls: the index of the last of them. For all other operations: -1.
  std::vector<int> late_;
  std::vector<Waiting> waiting_;
  std::vector<bool> done_;
  std::deque<int> candidates_;  // operations that may have become worth running early
  std::vector<int> order_;
};

}  // namespace

void schedule(Program& program) {
  if (!Schedule::may_be_worthwhile(program.graph->root())) return;
  Schedule plan(program);
  if (!plan.is_worthwhile()) return;
  Block& root = program.graph->root();
  std::vector<std::unique_ptr<Operation>> sorted;
  for (int i : plan.order()) sorted.push_back(std::move(root.operations[i]));
  root.operations = std::move(sorted);
}

}  // namespace mpsgraph::compiler
