// One batch of nodes while it is encoded.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "backends/metal/array_uses.h"
#include "mpsgraph/runtime/command_buffer.h"

namespace mpsgraph::metal {

// What callbacks throw must not pass through Apple's frames: the first is kept, and thrown behind the call.
class Failures {
 public:
  // False when `function` threw, or anything has before.
  template <class Function>
  bool run(const Function& function) noexcept {
    if (first_) return false;
    try {
      guarded_run(function);
    } catch (...) {
      first_ = std::current_exception();
    }
    return !first_;
  }
  void rethrow() {
    if (first_) std::rethrow_exception(std::exchange(first_, nullptr));
  }

 private:
  static void guarded_run(const std::function<void()>& function);
  std::exception_ptr first_;
};

// The batch is encoded at once, into a command buffer of Metal's that is submitted when its turn has come, or dropped
// when something went wrong. So nothing has happened until everything is encoded.
struct BatchEncoding {
  MetalDevice& device;
  const id<MTLCommandBuffer> commands;
  runtime::CommandBuffer& buffer;
  ArrayUses& uses;
  Failures& failures;

  // Of this thread, while MPSNNGraph encodes; null otherwise.
  static BatchEncoding* current();
  class Scope {
   public:
    explicit Scope(BatchEncoding& batch);
    ~Scope();

   private:
    BatchEncoding* const outer_;
  };
};

}  // namespace mpsgraph::metal
