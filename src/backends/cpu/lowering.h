// Lowering of a Program to kernels over slots: aliases, liveness, in-place updates, and control flow.
//
// One walk in execution order assigns each kernel a position and records the first and last use of each slot.
// Afterwards, assignments write directly into variables, targets are computed in the caller's result memory, and
// outputs overwrite inputs that are no longer needed, wherever this is possible. Finally, the lowering plans the arena.
#pragma once

#include <memory>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backends/cpu/kernel.h"
#include "backends/cpu/memory_plan.h"
#include "backends/cpu/prepacked_weights.h"
#include "compiler/dependencies.h"
#include "compiler/program.h"
#include "compiler/tables.h"
#include "mpsgraph/compiler/threaded_callable.h"

namespace mpsgraph::cpu {

using KernelList = std::vector<std::unique_ptr<Kernel>>;

using compiler::is_alias;  // aliases have no kernel

// Return the bytes a value occupies in its slot. A loop history occupies one pointer, to its last value.
size_t bytes_of(const TensorType& type);

// An arena slot that may instead be placed in memory provided by the ThreadedCallable that consumes it.
struct LentPlace {
  Slot slot;
  std::shared_ptr<compiler::ThreadedCallable> callable;
  size_t operand;
};

struct LoweredProgram {
  compiler::Program program;  // owns types, constants, and names that kernels refer to
  KernelList kernels;
  std::vector<SlotInfo> slots;
  std::vector<ConstantPtr> constants;  // an entry is null if kernels use only packed forms of the constant
  std::vector<const Kernel*> all_kernels;  // indexed by Kernel::index, including nested kernels
  std::vector<LentPlace> lent;
  std::vector<int> assigned;  // indices of the variables that the kernels write
  size_t first_write = 0;  // index in `kernels` of the first kernel that writes variables
  bool loops_later = false;  // whether that kernel or a later one may contain a loop
  size_t arena_bytes = 0;
};

// Lower a program to kernels.
LoweredProgram lower(compiler::Program program, bool reference_only);

// State of the walk over the program. The public part is the interface for lowering control flow (control_flow.cpp).
class ProgramLowering {
 public:
  explicit ProgramLowering(LoweredProgram& result, bool reference_only)
      : out_(result), reference_only_(reference_only), slots_(*result.program.graph) {}
  void run();

  Slot slot_of(Tensor* tensor);  // allocates a slot for a constant on first use
  // allocates in the arena; the slot is alive from the current position on
  Slot new_slot(size_t bytes);
  void bind(Tensor* tensor, Slot slot) { slots_[tensor] = slot + 1; }
  void touch(Slot slot);  // records a use of the slot at the current position
  int position() const { return position_; }
  int next_position() { return use_ = ++position_; }
  KernelList lower_block(Block& block);
  // Mark the beginning and the end of a loop. Values created before the loop and used in it stay alive until its end.
  void begin_loop();
  void end_loop();
  // Create a kernel that copies `bytes` bytes between slots.
  std::unique_ptr<Kernel> copy_kernel(Slot from, Slot to, size_t bytes, std::string name);
  std::unique_ptr<Kernel> registered(std::unique_ptr<Kernel> kernel, const Operation& operation);

 private:
  std::unique_ptr<Kernel> registered(std::unique_ptr<Kernel> kernel, std::string name);
  class OperationLowering;
  class ControlFlow;
  struct Share {
    Slot output, input;
    int position;
    bool only_offer;
  };
  struct Assign {
    Slot value, variable;
    Kernel* kernel;
    bool fixed;
  };  // fixed: whether the copy must remain

  Slot bound(const Tensor* tensor) const { return slots_[tensor] - 1; }  // -1 if the tensor has no slot yet
  void add_use(Slot constant);
  void lower_operation(Operation& operation, KernelList& list);
  void find_updates(Block& block);
  std::unique_ptr<Kernel> with_gradient(std::unique_ptr<Kernel> update, Operation& operation, Lowering& lowering,
                                        KernelList& list);
  std::unique_ptr<Kernel> lower_control_flow(Operation& operation);
  std::unique_ptr<Kernel> lower_call(Operation& operation);
  void lower_read(Operation& operation, KernelList& list);
  void lower_assign(Operation& operation, KernelList& list);
  void find_overwritten_reads(Block& block);
  void write_assigns_in_place();
  void place_results(KernelList& list);
  void lend_places();
  void share_memory();
  void remove_idle(KernelList& list);
  void merge_fused_elementwise(KernelList& list);
  void leave_packed_constants();
  void find_writes();

  LoweredProgram& out_;
  bool reference_only_;
  int position_ = 0;
  int depth_ = 0;
  int last_check_ = -1;  // position of the last kernel that may abort the run
  compiler::TensorTable<Slot> slots_;  // the slot of each tensor, plus 1; 0 if it has none yet
  std::unordered_map<const Operation*, bool> copied_reads_;  // reads that must be copied
  std::unordered_map<const Tensor*, Operation*> awaited_;  // deferred gradients, keyed by result
  std::vector<Share> shares_;
  std::vector<Assign> assigns_;
  std::vector<LentPlace> offered_;  // operands for which a ThreadedCallable can provide memory
  std::unordered_map<Slot, std::vector<int>> variable_uses_;
  std::vector<int> slot_depth_;
  std::vector<std::vector<Slot>> loop_touches_;
  // A ConstantUse is the slot of a constant and the position of a kernel that uses it. `used_` holds all uses, and
  // `packed_` those for which the kernel took a packed copy instead.
  using ConstantUse = std::pair<Slot, int>;
  static constexpr int after_all = -1;
  int use_ = 0;
  std::vector<ConstantUse> used_;
  std::set<ConstantUse> packed_;
  std::unordered_set<const Kernel*> idle_;  // copies to variables that are not needed
  const Kernel* first_writer_ = nullptr;  // the first kernel that writes a variable, in the list of all kernels
  std::vector<int> position_of_;  // indexed by Kernel::index
};

}  // namespace mpsgraph::cpu
