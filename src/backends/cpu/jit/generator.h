// Compiles VectorCode to machine code. Generator does what all processors have in common: it hoists invariants out of
// the loop and allocates vector registers in a linear scan that evicts the value whose next use is farthest away
// (Belady). A subclass for each processor emits the code of a node in the same scan. The loop body is emitted twice:
// for entire vectors, and for the tail.
#pragma once

#include <initializer_list>
#include <memory>
#include <vector>

#include "backends/cpu/jit/vector_code.h"

namespace mpsgraph::cpu::jit {

class Generator {
 public:
  virtual ~Generator() = default;
  std::vector<uint8_t> run();
  // Return the number of instructions that the loop executes per vector, after run().
  int loop_instructions() const { return loop_instructions_; }

 protected:
  struct Target {
    std::vector<int> registers;  // vector registers, in order of preference
    int stream_registers;  // number of general-purpose registers that hold pointers to streams
    bool constants_are_operands;  // whether instructions read constants from memory; if not, they occupy registers
    bool fuses_comparisons;  // whether to emit comparisons right before the choices that they decide
  };
  Generator(VectorCode code, Target target);

  // ---- provided by the processor

  virtual void prepare() {}  // rewrites nodes after contraction
  virtual void begin() = 0;
  virtual void begin_loop() = 0;
  virtual void end_loop() = 0;
  virtual void begin_tail() = 0;
  virtual void end_tail() = 0;
  virtual std::vector<uint8_t> end() = 0;
  virtual int instructions() const = 0;  // number of instructions emitted so far
  virtual void prefetch(int stream) = 0;
  virtual void emit_node(int i) = 0;
  virtual void load_constant(int reg, uint64_t bits) = 0;
  virtual void load_slot(int reg, int slot) = 0;
  virtual void store_slot(int reg, int slot) = 0;
  // Return the hoisted nodes that keep a register for the whole loop. `candidates` are the invariants that the loop
  // uses, and the constants that it uses if they occupy registers.
  virtual std::vector<int> nodes_to_pin(const std::vector<int>& candidates) = 0;

  // ---- registers

  static constexpr int pinned = -2, busy = -3;

  bool is_constant(int node) const { return nodes_[node].kind == Kind::constant; }
  bool needed(size_t i) const { return uses_[i] > 0 && nodes_[i].kind != Kind::constant; }
  int next_use(int node, int from) const;
  int slot_of(int node);  // returns the spill slot of a node, assigning one if it has none
  int take();  // returns a free register, spilling a value if necessary
  int spare();  // returns a temporary register; the caller must release its owner
  int result(int node);
  void own(int node, int reg);
  // Return a register that holds the value of `node`, loading it if it is a constant or spilled.
  int fetch(int node);
  // Return whether a node has no later use in the loop body, so that its register may be overwritten.
  bool dies(int node) const;
  // Return whether a node's register is pinned for the whole loop, as for hoisted invariants.
  bool stays(int node) const { return register_[node] >= 0 && owner_[register_[node]] == pinned; }
  // Free the registers of operands that have no later use, so that the result may take one of these registers.
  void release(std::initializer_list<int> operands);

  VectorCode code_;
  std::vector<Node>& nodes_;
  const int lane_bytes_;
  const Target target_;
  std::vector<int> uses_;
  std::vector<bool> invariant_;  // nodes that do not change during the loop
  std::vector<bool> fused_;  // comparisons emitted right before their choices
  std::vector<std::vector<int>> positions_;  // positions in the code that use each node
  std::vector<int> in_registers_;  // streams whose pointer stays in a general-purpose register
  std::vector<int> register_, slot_;  // register and spill slot of each node; -1 if none
  std::vector<int> owner_;  // for each vector register: a node, -1 if free, pinned, or busy
  std::vector<bool> taken_;  // vector registers that were ever allocated
  std::vector<int> locked_, borrowed_;  // during one node: nodes not to evict, and registers to release afterwards
  int slots_ = 0, hoisted_slots_ = 0, most_slots_ = 0, now_ = 0, loop_instructions_ = 0;
  bool tail_ = false;

 private:
  void analyse();
  void hoist();
  void body(bool tail);
  void emit(int i);
  void spill(int node);
  bool locked(int node) const;
};

namespace x86_64 {
std::unique_ptr<Generator> generator(VectorCode code);
}
namespace arm64 {
std::unique_ptr<Generator> generator(VectorCode code);
}

}  // namespace mpsgraph::cpu::jit
