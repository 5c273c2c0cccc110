// From a Program to kernels over slots: aliases, liveness, in-place updates, control flow.
//
// One walk in execution order gives each kernel a position and each slot its first and last use;
// then assigns are let write into their variables, targets into the caller's results, and outputs over inputs
// that die; at last the arena is planned.
#pragma once

#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/cpu/kernel.h"
#include "backends/cpu/memory_plan.h"
#include "backends/cpu/prepacked_weights.h"
#include "backends/cpu/variable_layouts.h"
#include "compiler/dependencies.h"
#include "compiler/program.h"
#include "mpsgraph/compiler/threaded_callable.h"

namespace mpsgraph::cpu {

using KernelList = std::vector<std::unique_ptr<Kernel>>;

using compiler::is_alias;  // such an operation has no kernel

// Of a value in a slot. A history is a reference to its last value.
size_t bytes_of(const TensorType& type);

// A slot of the arena that a run may compute in the memory of a callable that takes it.
struct LentPlace {
  Slot slot;
  std::shared_ptr<compiler::ThreadedCallable> callable;
  size_t operand;
};

struct LoweredProgram {
  compiler::Program program;      // types, constants and names that kernels refer to
  KernelList kernels;
  std::vector<SlotInfo> slots;
  std::vector<ConstantPtr> constants;  // null: kernels have their own form of it
  std::vector<const Kernel*> all_kernels;  // nested ones too, by Kernel::index
  std::vector<LentPlace> lent;
  std::vector<LayoutPtr> variable_layouts; // what the kernels expect, by variable
  size_t arena_bytes = 0;
};

// `present`: the layouts that the variables have now.
LoweredProgram lower(compiler::Program program, std::vector<LayoutPtr> present, bool reference_only);

// What lowering control flow needs of the walk over the program (control_flow.cpp).
class ProgramLowering {
 public:
  explicit ProgramLowering(LoweredProgram& result, bool reference_only)
      : out_(result), reference_only_(reference_only) {}
  void run();

  Slot slot_of(Tensor* tensor);                       // materialises constants
  Slot new_slot(size_t bytes);                        // arena, alive from here
  void bind(Tensor* tensor, Slot slot) { slots_[tensor] = slot; }
  void touch(Slot slot);                              // read or written here
  int position() const { return position_; }
  int next_position() { return use_ = ++position_; }
  KernelList lower_block(Block& block);
  // Within a loop: what was made before it and is used in it stays alive to its end.
  void begin_loop();
  void end_loop();
  // Copies between memory of the same size; into or out of a variable's home layout when its layouts say so.
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
  };  // fixed: the copy cannot be saved

  void lower_operation(Operation& operation, KernelList& list);
  void find_updates(Block& block);
  std::unique_ptr<Kernel> with_gradient(std::unique_ptr<Kernel> update, Operation& operation, Lowering& lowering,
                                        KernelList& list);
  std::unique_ptr<Kernel> lower_control_flow(Operation& operation);
  std::unique_ptr<Kernel> lower_call(Operation& operation);
  LayoutPtr layout_of(const Tensor* tensor) const;
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

  LoweredProgram& out_;
  bool reference_only_;
  Layouts layouts_;                             // of values
  std::unordered_map<const Tensor*, LayoutPtr> homes_;  // of variables
  int position_ = 0;
  int depth_ = 0;
  int last_check_ = -1;  // where the last kernel stands that may end the run
  std::unordered_map<const Tensor*, Slot> slots_;
  std::unordered_map<const Operation*, bool> copied_reads_;  // reads whose variable changes while they are in use
  std::unordered_map<const Tensor*, Operation*> awaited_;  // gradients that their update computes, by result
  std::vector<Share> shares_;
  std::vector<Assign> assigns_;
  std::vector<LentPlace> offered_;  // what callables take
  std::unordered_map<Slot, std::vector<int>> variable_uses_;
  std::vector<int> slot_depth_;
  std::vector<std::vector<Slot>> loop_touches_;
  // Where the slots of constants were asked for, and where a form of the constant was taken instead.
  using ConstantUse = std::pair<Slot, int>;
  static constexpr int after_all = -1;
  int use_ = 0;
  std::set<ConstantUse> used_, packed_;
  std::unordered_map<const Kernel*, bool> idle_;
  std::unordered_map<const Kernel*, int> position_of_;
};

}  // namespace mpsgraph::cpu
