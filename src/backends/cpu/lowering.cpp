// Lowering of a program to kernels: one walk over its operations, followed by decisions about memory.
#include "backends/cpu/lowering.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "backends/cpu/elementwise/fused_kernel.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/matrix/gradient_update.h"
#include "compiler/users.h"
#include "core/definition.h"
#include "runtime/memory_limit.h"

namespace mpsgraph::cpu {

size_t bytes_of(const TensorType& type) {
  return type.history ? sizeof(HistoryNode*) : static_cast<size_t>(type.shape.elements()) * size_of(type.dtype);
}

// ---- lowering of one operation

class ProgramLowering::OperationLowering final : public Lowering {
 public:
  OperationLowering(ProgramLowering& parent, const Operation& operation) : parent_(parent), operation_(operation) {}

  const Operation& operation() const override { return operation_; }
  Operand input(size_t i) const override {
    Tensor* tensor = operation_.inputs[i];
    return {parent_.slot_of(tensor), tensor->type.dtype, tensor->type.shape.dims()};
  }
  Operand output(size_t i) const override {
    Tensor* tensor = operation_.output(i);
    return {parent_.slot_of(tensor), tensor->type.dtype, tensor->type.shape.dims()};
  }
  Slot scratch(size_t bytes) override {
    const Slot slot = parent_.new_slot(bytes);
    parent_.touch(slot);
    return slot;
  }
  void may_share(size_t o, size_t i) override {
    const Slot in = parent_.slot_of(operation_.inputs[i]);
    // An operand that appears more than once in the input list can be overwritten only if every occurrence allows it,
    // but each call of may_share() covers only one occurrence.
    const auto places = std::count_if(operation_.inputs.begin(), operation_.inputs.end(),
                                      [&](Tensor* t) { return parent_.slot_of(t) == in; });
    parent_.shares_.push_back({parent_.slot_of(operation_.output(o)), in, parent_.position_, places == 1});
  }
  void enters_memory(size_t o) override {
    const Slot slot = parent_.slot_of(operation_.output(o));
    parent_.out_.slots[slot].home = Home::entered;
    parent_.out_.slots[slot].index = slot;
  }
  ConstantWeights constant(size_t i) override {
    ConstantWeights weights = Lowering::constant(i);
    const Slot slot = weights ? parent_.slot_of(operation_.inputs[i]) : 0;
    const auto is_it = [&](Tensor* t) { return parent_.slot_of(t) == slot; };
    // If another input of the kernel reads the same constant, the unpacked constant is still needed.
    if (!weights || std::ranges::count_if(operation_.inputs, is_it) > 1) return weights;
    weights.packed = [&parent = parent_, use = ConstantUse{slot, parent_.position_}] { parent.packed_.insert(use); };
    return weights;
  }
  bool reference_only() const override { return parent_.reference_only_; }

 private:
  ProgramLowering& parent_;
  const Operation& operation_;
};

Slot ProgramLowering::new_slot(size_t bytes) {
  runtime::require_memory(bytes);  // memory is checked before a kernel prepares its tables
  const Slot slot = static_cast<Slot>(out_.slots.size());
  SlotInfo info;
  info.bytes = bytes;
  info.first = info.last = position_;
  info.memory = slot;
  out_.slots.push_back(info);
  slot_depth_.push_back(depth_);
  return slot;
}

Slot ProgramLowering::slot_of(Tensor* tensor) {
  if (const Slot slot = bound(tensor); slot >= 0) {
    if (out_.slots[slot].home == Home::constant) add_use(slot);
    return slot;
  }
  if (!tensor->operation->is("constant"))
    throw GraphError(cat("[", tensor->operation->kind(), "] '", tensor->name(), "' is used before it is computed; ",
                         "operations must be in execution order"));
  const Slot slot = new_slot(bytes_of(tensor->type));
  out_.slots[slot].home = Home::constant;
  out_.slots[slot].index = static_cast<int>(out_.constants.size());
  out_.constants.push_back(tensor->operation->attributes.data("value"));
  bind(tensor, slot);
  add_use(slot);
  return slot;
}

void ProgramLowering::add_use(Slot constant) {
  if (const ConstantUse use{constant, use_}; used_.empty() || used_.back() != use) used_.push_back(use);
}

// Drop constants whose unpacked elements no kernel reads, because all kernels that use them hold packed copies.
void ProgramLowering::leave_packed_constants() {
  if (packed_.empty()) return;
  std::unordered_map<Slot, bool> read;
  for (const ConstantUse& use : used_) read[use.first] = read[use.first] || !packed_.contains(use);
  for (const auto& [slot, is_read] : read)
    if (ConstantPtr& constant = out_.constants[out_.slots[slot].index]; !is_read && constant->digest())
      constant = nullptr;
}

void ProgramLowering::touch(Slot slot) {
  SlotInfo& info = out_.slots[slot];
  info.last = std::max(info.last, position_);
  if (info.home == Home::variable) variable_uses_[slot].push_back(position_);
  if (!loop_touches_.empty()) loop_touches_.back().push_back(slot);
}

void ProgramLowering::begin_loop() { loop_touches_.emplace_back(); }
void ProgramLowering::end_loop() {
  std::vector<Slot> touched = std::move(loop_touches_.back());
  loop_touches_.pop_back();
  // Remove duplicate slots. The loop below records each slot for the enclosing loop as well, so duplicates would
  // multiply with the nesting depth.
  std::ranges::sort(touched);
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());  // clang 14 rejects std::ranges::unique
  for (Slot slot : touched)
    if (slot_depth_[slot] <= depth_) touch(slot);
}

std::unique_ptr<Kernel> ProgramLowering::registered(std::unique_ptr<Kernel> kernel, const Operation& operation) {
  if (kernel->operations.empty()) kernel->operations = {&operation};
  return registered(std::move(kernel), operation.name);
}

std::unique_ptr<Kernel> ProgramLowering::registered(std::unique_ptr<Kernel> kernel, std::string name) {
  kernel->name = std::move(name);
  kernel->index = static_cast<int>(out_.all_kernels.size());
  out_.all_kernels.push_back(kernel.get());
  position_of_.push_back(position_);
  return kernel;
}

std::unique_ptr<Kernel> ProgramLowering::copy_kernel(Slot from, Slot to, size_t bytes, std::string name) {
  touch(from);
  touch(to);
  auto copy = kernel([=](Frame& f) { std::memcpy(f.pointers[to], f.pointers[from], bytes); }, "copy");
  copy->copied_bytes = bytes;
  return registered(std::move(copy), std::move(name));
}

void ProgramLowering::lower_operation(Operation& operation, KernelList& list) {
  if (operation.is({"constant", "argument"}) || operation.is({"placeholder", "variable"})) return;
  next_position();
  if (operation.is("check_indices")) last_check_ = position_;
  if (operation.is("undefined")) {
    bind(operation.output(), new_slot(bytes_of(operation.output()->type)));
    return;
  }
  if (operation.is("read")) return lower_read(operation, list);
  if (operation.is("assign")) return lower_assign(operation, list);
  if (is_alias(operation)) {
    const Slot source = slot_of(operation.input(0));
    bind(operation.output(), source);
    touch(source);
    return;
  }
  if (!operation.outputs.empty() && awaited_.count(operation.output()))
    return bind(operation.output(), new_slot(0));  // the kernel of the variable's update computes this gradient, too
  for (Tensor* in : operation.inputs) touch(slot_of(in));
  for (const auto& output : operation.outputs)
    if (bound(output.get()) < 0) bind(output.get(), new_slot(bytes_of(output->type)));
  if (!operation.blocks.empty() && !operation.is("fused_elementwise")) {
    list.push_back(registered(lower_control_flow(operation), operation));
    return;
  }
  if (operation.is("call")) {
    list.push_back(registered(lower_call(operation), operation));
    return;
  }
  // Skip operations whose outputs are all empty. Otherwise, kernels that loop over outer axes would run these loops
  // although there are no elements to compute.
  const auto is_empty = [](const auto& output) { return bytes_of(output->type) == 0; };
  if (!operation.outputs.empty() && !is_effect(operation) && std::ranges::all_of(operation.outputs, is_empty)) return;
  OperationLowering lowering(*this, operation);
  auto kernel = make_kernel(lowering);
  if (operation.is("fused_elementwise")) kernel = with_gradient(std::move(kernel), operation, lowering, list);
  list.push_back(registered(std::move(kernel), operation));
}

// Find weight gradients whose only user is one fused element-wise kernel, usually the optimizer's update. Such a
// gradient is deferred, so that it and the fused kernel can become a single kernel.
void ProgramLowering::find_updates(Block& block) {
  const auto is_gradient = [](const auto& operation) { return computes_in_blocks(*operation); };
  if (std::ranges::none_of(block.operations, is_gradient)) return;
  const compiler::Users users(out_.program);
  std::unordered_map<const Operation*, int> awaiting;  // at most one gradient is deferred per update
  for (auto& operation : block.operations) {
    if (!computes_in_blocks(*operation)) continue;
    const Operation* user = users.only(operation->output());
    // Do not defer a gradient whose operand is the result of a `read` operation. This result may alias the memory of a
    // variable, which the update would overwrite while the gradient is still being computed.
    const bool of_variables = std::any_of(operation->inputs.begin(), operation->inputs.end(), [](const Tensor* in) {
      while (is_alias(*in->operation)) in = in->operation->input(0);
      return in->operation->is("read");
    });
    if (user && user->is("fused_elementwise") && !of_variables && awaiting[user]++ == 0)
      awaited_[operation->output()] = operation.get();
  }
}

// Combine a fused element-wise kernel with the gradient deferred for it. If the fused kernel cannot consume the
// gradient in blocks, the gradient gets a separate kernel, which runs first.
std::unique_ptr<Kernel> ProgramLowering::with_gradient(std::unique_ptr<Kernel> update, Operation& operation,
                                                       Lowering& lowering, KernelList& list) {
  const auto found = std::find_if(operation.inputs.begin(), operation.inputs.end(),
                                  [&](const Tensor* in) { return awaited_.count(in) > 0; });
  if (found == operation.inputs.end()) return update;
  Operation& product = *awaited_.at(*found);
  const Slot gradient = slot_of(*found);
  for (Tensor* in : product.inputs) touch(slot_of(in));
  if (auto both =
          gradient_update(lowering, product, slot_of(product.input(0)), slot_of(product.input(1)), gradient, update)) {
    both->operations = {&product, &operation};
    return both;
  }
  out_.slots[gradient].bytes = bytes_of((*found)->type);
  OperationLowering of_product(*this, product);
  list.push_back(registered(make_kernel(of_product), product));
  return update;
}

void ProgramLowering::lower_read(Operation& operation, KernelList& list) {
  const Slot variable = slot_of(operation.input(0));
  if (!copied_reads_.count(&operation)) {
    bind(operation.output(), variable);
    touch(variable);
    return;
  }
  const size_t bytes = bytes_of(operation.output()->type);
  const Slot copy = new_slot(bytes);
  bind(operation.output(), copy);
  list.push_back(copy_kernel(variable, copy, bytes, operation.name));
}

void ProgramLowering::lower_assign(Operation& operation, KernelList& list) {
  const Slot variable = slot_of(operation.input(0)), value = slot_of(operation.input(1));
  const size_t bytes = bytes_of(operation.input(1)->type);
  touch(value);
  auto copy = registered(
      kernel([=](Frame& f) { std::memmove(f.pointers[variable], f.pointers[value], bytes); }, "copy into variable"),
      operation);
  // a failed check must leave the variable unchanged
  const bool may_end_between = out_.slots[value].first < last_check_;
  assigns_.push_back({value, variable, copy.get(), depth_ > 0 || may_end_between});
  list.push_back(std::move(copy));
}

KernelList ProgramLowering::lower_block(Block& block) {
  KernelList list;
  depth_++;
  for (auto& operation : block.operations) lower_operation(*operation, list);
  depth_--;
  return list;
}

// ---- variables and memory

// Find the `read` operations that need a copy, because their result is still in use after an assignment to the
// variable. The result of any other read normally aliases the variable's memory.
void ProgramLowering::find_overwritten_reads(Block& block) {
  for (auto& operation : block.operations)
    for (auto& inner : operation->blocks) find_overwritten_reads(*inner);
  const auto is_read = [](const auto& operation) { return operation->is("read"); };
  if (std::ranges::none_of(block.operations, is_read)) return;
  // positions in this block at which each variable is assigned
  std::unordered_map<const Tensor*, std::vector<int>> assigned_at;
  const compiler::Positions position(block);
  const int end = static_cast<int>(block.operations.size());
  // For each operation of this block, the position of the last use of its results and their aliases; -1 if unused.
  std::vector<int> last_use(block.operations.size(), -1);
  const auto use = [&](const Tensor* value, int at) {
    if (const int made = position(value->operation); made >= 0) last_use[made] = std::max(last_use[made], at);
  };
  // Operations inside a block count as being at the position of the operation that contains the block.
  const std::function<void(Operation&, int)> visit = [&](Operation& operation, int at) {
    for (Tensor* in : operation.inputs) use(in, at);
    if (operation.is("assign")) assigned_at[operation.input(0)].push_back(at);
    for (auto& inner : operation.blocks) {
      for (auto& nested : inner->operations) visit(*nested, at);
      for (Tensor* result : inner->results) use(result, at);
    }
  };
  for (int i = 0; i < end; i++) visit(*block.operations[i], i);
  for (Tensor* result : block.results) use(result, end);
  if (!block.owner)
    for (Tensor* target : out_.program.targets) use(target, end);
  for (int i = end; i-- > 0;) {  // uses of an alias count as uses of its source
    const Operation& operation = *block.operations[i];
    if (is_alias(operation)) use(operation.input(0), last_use[i]);
    if (!operation.is("read")) continue;
    const std::vector<int>& assigns = assigned_at[operation.input(0)];  // in ascending order
    const auto next = std::ranges::upper_bound(assigns, i);
    if (next != assigns.end() && last_use[i] > *next) copied_reads_[&operation] = true;
  }
}

// Let the kernel that computes a variable's next value write directly into the variable, if the old value is no longer
// needed.
void ProgramLowering::write_assigns_in_place() {
  if (assigns_.empty()) return;
  std::unordered_map<Slot, int> count;
  for (const Assign& assign : assigns_) count[assign.variable]++;
  std::vector<Share> shares = shares_;
  std::ranges::sort(shares, {}, &Share::output);
  for (const Assign& assign : assigns_) {
    SlotInfo& value = out_.slots[assign.value];
    const SlotInfo& variable = out_.slots[assign.variable];
    if (assign.fixed || count[assign.variable] > 1 || value.home != Home::arena || slot_depth_[assign.value] > 0 ||
        value.bytes != variable.bytes)
      continue;
    const int made = value.first;
    bool needed = false;
    for (int use : variable_uses_[assign.variable]) {
      if (use < made) continue;
      const auto of_value = std::ranges::equal_range(shares, assign.value, {}, &Share::output);
      const bool harmless = use == made && std::ranges::any_of(of_value, [&](const Share& s) {
                              return s.input == assign.variable && s.position == made && s.only_offer;
                            });
      needed |= !harmless;
    }
    if (needed) continue;
    value.home = Home::variable;
    value.index = variable.index;
    idle_.insert(assign.kernel);
  }
}

// Compute the program's targets, the tensors that a run returns, directly in the caller's result memory where possible.
// Otherwise, copy them into this memory at the end.
void ProgramLowering::place_results(KernelList& list) {
  next_position();
  for (size_t i = 0; i < out_.program.targets.size(); i++) {
    Tensor* target = out_.program.targets[i];
    const Slot slot = slot_of(target);
    SlotInfo& info = out_.slots[slot];
    if (info.home == Home::arena && slot_depth_[slot] == 0 && info.bytes == bytes_of(target->type)) {
      info.home = Home::result;
      info.index = static_cast<int>(i);
      continue;
    }
    const Slot result = new_slot(bytes_of(target->type));
    out_.slots[result].home = Home::result;
    out_.slots[result].index = static_cast<int>(i);
    list.push_back(copy_kernel(slot, result, bytes_of(target->type), target->name()));
  }
}

// Compute the operands of a ThreadedCallable directly in the memory it provides, if no other slot shares that memory.
void ProgramLowering::lend_places() {
  std::vector<int> sharers(out_.slots.size(), 0);  // for each slot, the number of slots in its memory
  for (const SlotInfo& info : out_.slots) sharers[info.memory]++;
  for (const LentPlace& offer : offered_) {
    SlotInfo& info = out_.slots[offer.slot];
    if (info.home != Home::arena || info.memory != offer.slot || slot_depth_[offer.slot] > 0 || info.alone ||
        sharers[offer.slot] > 1)
      continue;
    info.alone = true;
    out_.lent.push_back(offer);
  }
}

void ProgramLowering::share_memory() {
  for (const Share& share : shares_) {
    SlotInfo& output = out_.slots[share.output];
    if (!share.only_offer || output.home != Home::arena || output.memory != share.output ||
        output.first != share.position)
      continue;
    const Slot root = out_.slots[share.input].memory;
    SlotInfo& memory = out_.slots[root];
    if (memory.home != Home::arena || out_.slots[share.input].home != Home::arena) continue;
    if (output.alone || memory.alone) continue;
    if (memory.last != share.position || output.bytes > memory.bytes || root == share.output) continue;
    output.memory = root;
    memory.last = std::max(memory.last, output.last);
  }
}

// Merge adjacent fused element-wise kernels that do not depend on each other, so that updating all variables needs one
// parallel loop. The merged kernels run concurrently, so the slots they touch stay alive throughout.
void ProgramLowering::merge_fused_elementwise(KernelList& list) {
  // Number the memory of all slots: slots in the arena each have their own memory, other slots share the memory of
  // their kind (such as feed or variable) and index.
  std::map<std::pair<Home, int>, int> outside;
  std::vector<int> memory(out_.slots.size());
  int memories = 0;
  for (size_t slot = 0; slot < memory.size(); slot++) {
    const SlotInfo& info = out_.slots[slot];
    const bool fresh = info.home == Home::arena || outside.try_emplace({info.home, info.index}, memories).second;
    memory[slot] = fresh ? memories++ : outside.at({info.home, info.index});
  }
  KernelList merged;
  // For each memory, the number of kernels in `merged` when it was last read or written.
  std::vector<size_t> read(memories), written(memories);
  std::vector<std::pair<int, int>> runs;  // first and last position of each kernel that remains
  FusedElementwiseKernel* last = nullptr;  // the last kernel of `merged`, if it can be merged
  for (auto& kernel : list) {
    auto* next = dynamic_cast<FusedElementwiseKernel*>(kernel.get());
    if (next && !next->can_merge()) next = nullptr;
    bool join = next && last;
    const std::vector<Slot> reads = next ? next->reads() : std::vector<Slot>();
    const std::vector<Slot> writes = next ? next->writes() : std::vector<Slot>();
    if (join) {
      const auto now = merged.size();
      for (Slot slot : writes) join = join && read[memory[slot]] != now && written[memory[slot]] != now;
      for (Slot slot : reads) join = join && written[memory[slot]] != now;
    }
    const size_t place = merged.size() + !join;
    for (Slot slot : reads) read[memory[slot]] = place;
    for (Slot slot : writes) written[memory[slot]] = place;
    const int position = position_of_[kernel->index];
    if (kernel.get() == first_writer_ && join) first_writer_ = last;
    if (join) {
      last->merge(*next);
      last->operations.insert(last->operations.end(), next->operations.begin(), next->operations.end());
      runs.back().second = position;
      out_.all_kernels[kernel->index] = nullptr;
    } else {
      runs.push_back({position, position});
      merged.push_back(std::move(kernel));
      last = next;
    }
  }
  list = std::move(merged);
  const auto is_writer = [&](const auto& kernel) { return kernel.get() == first_writer_; };
  out_.first_write = static_cast<size_t>(std::ranges::find_if(list, is_writer) - list.begin());
  for (SlotInfo& info : out_.slots) {
    const auto run_of = [&](int position) {
      auto run = std::upper_bound(runs.begin(), runs.end(), position, [](int p, const auto& r) { return p < r.first; });
      return run == runs.begin() ? std::pair(position, position) : *std::prev(run);
    };
    if (info.home != Home::arena || info.first < 0) continue;
    if (const auto [begin, end] = run_of(info.first); info.first <= end) info.first = begin;
    if (const auto [begin, end] = run_of(info.last); info.last <= end) info.last = end;
  }
}

// Find the first kernel that writes a variable. Until then, a cancelled run has nothing to restore.
void ProgramLowering::find_writes() {
  int first = position_ + 1;
  for (const Assign& assign : assigns_) {
    out_.assigned.push_back(out_.slots[assign.variable].index);
    const bool idle = idle_.contains(assign.kernel);
    first = std::min(first, idle ? out_.slots[assign.value].first : position_of_[assign.kernel->index]);
  }
  std::ranges::sort(out_.assigned);
  const auto duplicates = std::ranges::unique(out_.assigned);
  out_.assigned.erase(duplicates.begin(), duplicates.end());
  for (const auto& kernel : out_.kernels) {
    if (idle_.contains(kernel.get()) || position_of_[kernel->index] < first) continue;
    if (!first_writer_) first_writer_ = kernel.get();
    for (const Operation* operation : kernel->operations)
      out_.loops_later |= !operation->blocks.empty() && !operation->is("fused_elementwise");
  }
}

void ProgramLowering::remove_idle(KernelList& list) {
  std::erase_if(list, [&](const std::unique_ptr<Kernel>& kernel) {
    if (!idle_.contains(kernel.get())) return false;
    out_.all_kernels[kernel->index] = nullptr;
    return true;
  });
}

void ProgramLowering::run() {
  compiler::Program& program = out_.program;
  for (size_t i = 0; i < program.feeds.size(); i++) {
    const Slot slot = new_slot(bytes_of(program.feeds[i]->type));
    out_.slots[slot].home = Home::feed;
    out_.slots[slot].index = static_cast<int>(i);
    bind(program.feeds[i], slot);
  }
  for (size_t i = 0; i < program.variables.size(); i++) {
    const Slot slot = new_slot(bytes_of(program.variables[i]->type));
    out_.slots[slot].home = Home::variable;
    out_.slots[slot].index = static_cast<int>(i);
    bind(program.variables[i], slot);
  }
  find_overwritten_reads(program.graph->root());
  if (!reference_only_) find_updates(program.graph->root());
  depth_ = -1;
  out_.kernels = lower_block(program.graph->root());
  depth_ = 0;
  use_ = after_all;
  write_assigns_in_place();
  place_results(out_.kernels);
  find_writes();
  remove_idle(out_.kernels);
  merge_fused_elementwise(out_.kernels);
  lend_places();
  share_memory();
  leave_packed_constants();
  out_.arena_bytes = plan_arena(out_.slots);
}

LoweredProgram lower(compiler::Program program, bool reference_only) {
  LoweredProgram result;
  result.program = std::move(program);
  ProgramLowering(result, reference_only).run();
  return result;
}

}  // namespace mpsgraph::cpu
