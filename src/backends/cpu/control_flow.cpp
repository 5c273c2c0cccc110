// if, while and for as kernels that own the kernels of their blocks.
//
// Values cross block borders by copies into slots that live as long as the operation: results of a
// branch into the operation's results, carried values from one iteration into the next.
#include <cstring>

#include "backends/cpu/lowering.h"

namespace mpsgraph::cpu {
namespace {

struct Copy {
  Slot from, to;
  size_t bytes;
};
using Copies = std::vector<Copy>;

void run_all(const KernelList& list, Frame& frame) {
  for (const auto& kernel : list) kernel->run(frame);
}
void run_all(const Copies& copies, Frame& frame) {
  for (const Copy& copy : copies) std::memcpy(frame.pointers[copy.to], frame.pointers[copy.from], copy.bytes);
}

struct Body {
  KernelList kernels;
  Copies results;
  void run(Frame& frame) const {
    run_all(kernels, frame);
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

// before(arguments) -> condition, results; while the condition holds, after(results) -> arguments.
struct WhileKernel final : Kernel {
  Copies start;
  Body before, after;
  Slot condition;
  void run(Frame& frame) const override {
    run_all(start, frame);
    for (;;) {
      before.run(frame);
      if (!*frame.at<uint8_t>(condition)) return;
      after.run(frame);
    }
  }
  std::string description() const override {
    return cat("while: ", before.kernels.size() + after.kernels.size(), " kernels");
  }
};

struct ForKernel final : Kernel {
  Slot lower, upper, step, index;
  Copies start, carry;  // initial values -> results; results -> arguments, before each iteration
  Body body;            // its results go to the operation's results
  void run(Frame& frame) const override {
    run_all(start, frame);
    const int64_t end = *frame.at<int32_t>(upper), by = *frame.at<int32_t>(step);
    if (by == 0) throw GraphError("[for] the step is 0, the loop would never end; give a positive or negative step");
    for (int64_t i = *frame.at<int32_t>(lower); by > 0 ? i < end : i > end; i += by) {
      *frame.at<int32_t>(index) = static_cast<int32_t>(i);
      run_all(carry, frame);
      body.run(frame);
    }
  }
  std::string description() const override { return cat("for: ", body.kernels.size(), " kernels"); }
};

size_t bytes_of(const Tensor* tensor) {
  return static_cast<size_t>(tensor->type.shape.elements()) * size_of(tensor->type.dtype);
}

}  // namespace

std::unique_ptr<Kernel> ProgramLowering::lower_control_flow(Operation& operation) {
  // Results of a block into given slots; what is undefined is never looked at.
  const auto copies_to = [&](Block& block, size_t first, const std::vector<Slot>& to) {
    Copies copies;
    next_position();
    for (size_t i = first; i < block.results.size(); i++) {
      Tensor* result = block.results[i];
      if (result->operation->is("undefined")) continue;
      touch(slot_of(result));
      copies.push_back({slot_of(result), to[i - first], bytes_of(result)});
    }
    return copies;
  };
  std::vector<Slot> results;
  for (const auto& output : operation.outputs) results.push_back(slot_of(output.get()));
  const auto keep_alive = [&](const std::vector<Slot>& slots) {
    for (Slot slot : slots) touch(slot);
  };

  if (operation.is("if")) {
    auto kernel = std::make_unique<IfKernel>();
    kernel->predicate = slot_of(operation.input(0));
    for (int branch : {0, 1}) {
      Body& body = branch == 0 ? kernel->then_body : kernel->else_body;
      body.kernels = lower_block(*operation.blocks[branch]);
      body.results = copies_to(*operation.blocks[branch], 0, results);
    }
    keep_alive(results);
    return kernel;
  }

  const size_t first_carried = operation.is("for") ? 3 : 0;
  std::vector<Slot> arguments, initial;
  for (size_t i = first_carried; i < operation.inputs.size(); i++) {
    arguments.push_back(new_slot(bytes_of(operation.input(i))));
    initial.push_back(slot_of(operation.input(i)));
  }
  std::unique_ptr<Kernel> kernel;
  depth_++;
  begin_loop();
  if (operation.is("while")) {
    auto loop = std::make_unique<WhileKernel>();
    Block &before = *operation.blocks[0], &after = *operation.blocks[1];
    for (size_t i = 0; i < arguments.size(); i++) {
      loop->start.push_back({initial[i], arguments[i], bytes_of(operation.input(i))});
      bind(before.arguments[i], arguments[i]);
    }
    for (size_t i = 0; i < results.size(); i++) bind(after.arguments[i], results[i]);
    loop->before.kernels = lower_block(before);
    loop->before.results = copies_to(before, 1, results);
    loop->condition = slot_of(before.results[0]);
    touch(loop->condition);
    loop->after.kernels = lower_block(after);
    loop->after.results = copies_to(after, 0, arguments);
    kernel = std::move(loop);
  } else {
    auto loop = std::make_unique<ForKernel>();
    Block& body = *operation.blocks[0];
    loop->lower = slot_of(operation.input(0));
    loop->upper = slot_of(operation.input(1));
    loop->step = slot_of(operation.input(2));
    loop->index = new_slot(sizeof(int32_t));
    bind(body.arguments[0], loop->index);
    for (size_t i = 0; i < arguments.size(); i++) {
      const size_t bytes = bytes_of(operation.input(first_carried + i));
      loop->start.push_back({initial[i], results[i], bytes});
      loop->carry.push_back({results[i], arguments[i], bytes});
      bind(body.arguments[i + 1], arguments[i]);
    }
    loop->body.kernels = lower_block(body);
    loop->body.results = copies_to(body, 0, results);
    touch(loop->index);
    for (int i : {0, 1, 2}) touch(slot_of(operation.input(i)));
    kernel = std::move(loop);
  }
  depth_--;
  next_position();
  end_loop();
  keep_alive(results);
  keep_alive(arguments);
  keep_alive(initial);
  return kernel;
}

}  // namespace mpsgraph::cpu
