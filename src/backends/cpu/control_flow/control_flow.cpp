// Kernels of the operations if, while, and for, each of which owns the kernels of its blocks.
//
// Values cross block boundaries by copies into slots that live as long as the operation: a branch's results are copied
// into the operation's results, and the values that a loop carries are copied from one iteration to the next. A carried
// value, such as a sum, is not copied if an iteration updates it in place or passes it on unchanged.
#include <algorithm>
#include <cstring>

#include "backends/cpu/kernel_profile.h"
#include "backends/cpu/lowering.h"

namespace mpsgraph::cpu {
namespace {

struct Copy {
  Slot from, to;
  size_t bytes;
};
using Copies = std::vector<Copy>;

void run_all(const Copies& copies, Frame& frame) {
  for (const Copy& copy : copies) std::memcpy(frame.pointers[copy.to], frame.pointers[copy.from], copy.bytes);
}

struct Body {
  KernelList kernels;
  Copies results;
  void run(Frame& frame) const {
    run_kernels(kernels, frame);
    run_all(results, frame);
  }
};

struct IfKernel final : Kernel {
  Slot predicate;
  Body then_body, else_body;
  void run(Frame& frame) const override { (*frame.at<uint8_t>(predicate) ? then_body : else_body).run(frame); }
  std::string description() const override {
    return cat("if: ", then_body.kernels.size(), " kernels, else ", else_body.kernels.size());
  }
};

struct LoopKernel : Kernel {
  Copies start;  // copies of the initial values into the carried slots
  std::vector<std::pair<Slot, size_t>> from_zero;  // slots to clear, with their sizes in bytes
  Copies end;  // copies of the carried values into the operation's results
  bool keeps_history = false;  // whether the loop returns a history, whose nodes must outlive the iterations

  void begin(Frame& frame) const {
    run_all(start, frame);
    for (const auto& [slot, bytes] : from_zero) std::memset(frame.pointers[slot], 0, bytes);
  }
};

// A while loop: before(arguments) returns a condition and results. While the condition holds, after(results) returns
// the next arguments.
struct WhileKernel final : LoopKernel {
  Body before, after;
  Slot condition;
  void run(Frame& frame) const override {
    begin(frame);
    const HistoryMemory::Mark mark = frame.history.mark();
    for (;;) {
      frame.poll();
      before.run(frame);
      if (!*frame.at<uint8_t>(condition)) break;
      after.run(frame);
      if (!keeps_history) frame.history.release(mark);
    }
    run_all(end, frame);
  }
  std::string description() const override {
    return cat("while: ", before.kernels.size() + after.kernels.size(), " kernels");
  }
};

struct ForKernel final : LoopKernel {
  Slot lower, upper, step, index;
  Body body;
  void run(Frame& frame) const override {
    begin(frame);
    const int64_t last = *frame.at<int32_t>(upper), by = *frame.at<int32_t>(step);
    if (by == 0)
      throw GraphError("[for] step must not be 0, because the loop would never end; pass a positive or negative step");
    const HistoryMemory::Mark mark = frame.history.mark();
    for (int64_t i = *frame.at<int32_t>(lower); by > 0 ? i < last : i > last; i += by) {
      frame.poll();
      *frame.at<int32_t>(index) = static_cast<int32_t>(i);
      body.run(frame);
      if (!keeps_history) frame.history.release(mark);
    }
    run_all(end, frame);
  }
  std::string description() const override { return cat("for: ", body.kernels.size(), " kernels"); }
};

}  // namespace

// Lowers one control flow operation (if, while, or for). The class is nested in ProgramLowering, so that it can assign
// slots.
class ProgramLowering::ControlFlow {
 public:
  ControlFlow(ProgramLowering& walk, Operation& operation) : walk_(walk), operation_(operation) {
    for (const auto& output : operation.outputs) results_.push_back(walk.slot_of(output.get()));
  }

  std::unique_ptr<Kernel> lower_if() {
    auto kernel = std::make_unique<IfKernel>();
    kernel->predicate = walk_.slot_of(operation_.input(0));
    for (int branch : {0, 1}) {
      Block& block = *operation_.blocks[branch];
      Body& body = branch == 0 ? kernel->then_body : kernel->else_body;
      body.kernels = walk_.lower_block(block);
      walk_.next_position();
      for (size_t i = 0; i < block.results.size(); i++) {
        Tensor* result = block.results[i];
        if (result->operation->is("undefined")) continue;  // an undefined result is never read, so it is not copied
        body.results.push_back({touched(result), results_[i], bytes_of(result->type)});
      }
    }
    keep_alive(results_);
    return kernel;
  }

  std::unique_ptr<Kernel> lower_for() {
    auto loop = std::make_unique<ForKernel>();
    Block& body = *operation_.blocks[0];
    begin(*loop, 3, {body.arguments.begin() + 1, body.arguments.end()});
    loop->lower = walk_.slot_of(operation_.input(0));
    loop->upper = walk_.slot_of(operation_.input(1));
    loop->step = walk_.slot_of(operation_.input(2));
    loop->index = walk_.new_slot(sizeof(int32_t));
    walk_.bind(body.arguments[0], loop->index);
    loop->body.kernels = walk_.lower_block(body);
    compute_in_place(body, 0, carried_);
    loop->body.results = handed_on(body, 0, carried_);
    for (size_t i = 0; i < results_.size(); i++)
      loop->end.push_back({carried_[i], results_[i], bytes_of(operation_.output(i)->type)});
    keep_alive({loop->lower, loop->upper, loop->step, loop->index});
    return finish(std::move(loop));
  }

  std::unique_ptr<Kernel> lower_while() {
    auto loop = std::make_unique<WhileKernel>();
    Block &before = *operation_.blocks[0], &after = *operation_.blocks[1];
    begin(*loop, 0, before.arguments);
    loop->before.kernels = walk_.lower_block(before);
    loop->condition = walk_.slot_of(before.results[0]);
    std::vector<Slot> between;  // slots of the results of `before`, which are the arguments of `after`
    for (size_t i = 1; i < before.results.size(); i++) between.push_back(place_of(before, i, between));
    loop->before.results = handed_on(before, 1, between);
    walk_.touch(loop->condition);
    for (size_t i = 0; i < between.size(); i++) {
      walk_.bind(after.arguments[i], between[i]);
      loop->end.push_back({between[i], results_[i], bytes_of(operation_.output(i)->type)});
    }
    loop->after.kernels = walk_.lower_block(after);
    loop->after.results = handed_on(after, 0, carried_);
    keep_alive(between);
    return finish(std::move(loop));
  }

 private:
  void begin(LoopKernel& loop, size_t first, const std::vector<Tensor*>& arguments) {
    walk_.depth_++;
    walk_.begin_loop();
    for (size_t i = 0; i < arguments.size(); i++) {
      const TensorType& type = arguments[i]->type;
      carried_.push_back(walk_.new_slot(bytes_of(type)));
      walk_.bind(arguments[i], carried_[i]);
      if (first + i < operation_.inputs.size())
        loop.start.push_back({walk_.slot_of(operation_.input(first + i)), carried_[i], bytes_of(type)});
      else
        loop.from_zero.push_back({carried_[i], bytes_of(type)});
      loop.keeps_history |= type.history > 0;
    }
  }

  std::unique_ptr<Kernel> finish(std::unique_ptr<LoopKernel> loop) {
    walk_.depth_--;
    walk_.next_position();
    walk_.end_loop();
    keep_alive(results_);
    keep_alive(carried_);
    return loop;
  }

  Slot touched(Tensor* tensor) {
    const Slot slot = walk_.slot_of(tensor);
    walk_.touch(slot);
    return slot;
  }

  void keep_alive(const std::vector<Slot>& slots) {
    for (Slot slot : slots) walk_.touch(slot);
  }

  // Let the kernel that computes a result overwrite the carried value, if the kernel allows that and the old value is
  // no longer needed. Return whether the kernel does so.
  bool compute_in_place(const Block& block, size_t result, Slot carried) {
    const Slot value = walk_.slot_of(block.results[result]);
    SlotInfo &made = walk_.out_.slots[value], &old = walk_.out_.slots[carried];
    const auto hands_on = [&](Tensor* t) { return walk_.slot_of(t) == carried; };
    if (made.home != Home::arena || made.memory != value || made.bytes != old.bytes || old.last > made.first ||
        std::any_of(block.results.begin(), block.results.end(), hands_on))
      return false;
    const bool offered = std::any_of(walk_.shares_.begin(), walk_.shares_.end(), [&](const Share& share) {
      return share.output == value && share.input == carried && share.position == made.first && share.only_offer;
    });
    if (offered) made.memory = carried;
    return offered;
  }

  void compute_in_place(const Block& block, size_t first, const std::vector<Slot>& carried) {
    for (size_t i = 0; i < carried.size(); i++) compute_in_place(block, first + i, carried[i]);
  }

  // Return the slot that holds this result of `before` until `after` uses the result. If `before` returns an argument
  // unchanged, or computes the result in the memory of an argument, this is the slot of that argument; otherwise, it is
  // a new slot.
  Slot place_of(const Block& before, size_t result, const std::vector<Slot>& taken) {
    const Slot value = walk_.slot_of(before.results[result]);
    for (Slot carried : carried_) {
      if (std::find(taken.begin(), taken.end(), carried) != taken.end()) continue;
      if (value == carried || compute_in_place(before, result, carried)) return carried;
    }
    return walk_.new_slot(bytes_of(before.results[result]->type));
  }

  // Return copies that behave as if they were made simultaneously: if a copy would overwrite a value that another copy
  // still has to read, that value is first copied to a temporary slot.
  Copies handed_on(Block& block, size_t first, const std::vector<Slot>& to) {
    walk_.next_position();
    Copies aside, direct, back;
    for (size_t i = 0; i < to.size(); i++) {
      Tensor* result = block.results[first + i];
      Slot from = touched(result);
      if (walk_.out_.slots[from].memory == to[i]) from = to[i];
      if (from == to[i]) continue;
      const size_t bytes = bytes_of(result->type);
      if (std::find(to.begin(), to.end(), walk_.out_.slots[from].memory) == to.end()) {
        direct.push_back({from, to[i], bytes});
        continue;
      }
      const Slot beside = walk_.new_slot(bytes);
      aside.push_back({from, beside, bytes});
      back.push_back({beside, to[i], bytes});
    }
    aside.insert(aside.end(), direct.begin(), direct.end());
    aside.insert(aside.end(), back.begin(), back.end());
    return aside;
  }

  ProgramLowering& walk_;
  Operation& operation_;
  std::vector<Slot> results_, carried_;  // slots of the operation's results, and of the arguments of an iteration
};

std::unique_ptr<Kernel> ProgramLowering::lower_control_flow(Operation& operation) {
  ControlFlow lowering(*this, operation);
  return operation.is("if") ? lowering.lower_if() : operation.is("for") ? lowering.lower_for() : lowering.lower_while();
}

}  // namespace mpsgraph::cpu
