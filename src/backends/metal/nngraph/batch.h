// BatchEncoding holds the state of one batch while an MPSNNGraph encodes the batch.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "backends/metal/array_uses.h"
#include "mpsgraph/runtime/command_buffer.h"

namespace mpsgraph::metal {

// Collects exceptions of callbacks, because they must not propagate through Apple's frames. The first exception is kept
// and rethrown after the call.
class Failures {
 public:
  // Return false if `function` or an earlier function threw; after an exception, `function` is not called.
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

// A batch is encoded immediately into a separate MTLCommandBuffer. The MTLCommandBuffer is submitted when its turn in
// the queue comes, or dropped if encoding fails, so a failed encode has no effect.
struct BatchEncoding {
  MetalDevice& device;
  id<MTLCommandBuffer> commands;  // during a call of a data source, the buffer that Apple passed to it
  runtime::CommandBuffer& buffer;
  ArrayUses& uses;
  Failures& failures;

  // The batch that this thread encodes with MPSNNGraph; null outside of an encode.
  static BatchEncoding* current();
  // Return the batch that this thread encodes, for use in a callback of MPSNNGraph that received `commands`.
  static BatchEncoding& called_with(id<MTLCommandBuffer> commands);
  class Scope {
   public:
    explicit Scope(BatchEncoding& batch);
    ~Scope();

   private:
    BatchEncoding* const outer_;
  };
};

}  // namespace mpsgraph::metal
