// Exchange: passes arrays from a running program to another thread, and back to the program later in the same run.
//
// A slot is memory for several arrays of one dtype, stored one after the other; large arrays begin at multiples of 64
// bytes. A program `call`s two callables per slot: the giver and the taker. The giver copies its operands into the slot
// and returns. The taker waits until the other thread has finished its work on the slot, and copies the results out;
// programs that do not write to the results read them in place. Work of the other thread, such as a sum over processes,
// thus overlaps with the program's kernels. The other thread receives the slots in the order in which they were given,
// by calling next(), memory(), and done().
//
// If processes of one machine sum the arrays of a slot, a SharedSum provides the slot's memory. The giver then
// announces its contribution as soon as it has copied the operands. The taker waits until this process's thread is
// done, and then for the other processes (members). The sum has its own memory, so a run can compute operands directly
// in the slot where possible.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "mpsgraph/compiler/threaded_callable.h"
#include "mpsgraph/core/types.h"
#include "mpsgraph/export.h"
#include "mpsgraph/runtime/ndarray.h"
#include "mpsgraph/runtime/process.h"
#include "mpsgraph/runtime/shared_sum.h"

namespace mpsgraph::runtime {

// Slots through which running programs exchange arrays with another thread.
class MPSGRAPH_API Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  struct Statistics {
    uint64_t given = 0;  // number of times a slot was given
    double worked = 0;  // seconds between next() and done(), summed over all slots
    double waited = 0;  // seconds for which takers waited
    double copied = 0;  // seconds that givers and takers spent copying
    uint64_t copied_bytes = 0;
  };

  static std::shared_ptr<Exchange> create();
  // Adds a slot and returns its index. `name` labels the work on the slot in profiles. Throws ShapeError if a shape is
  // not static, DTypeError if the dtypes differ, and GraphError if there are no types.
  size_t add(std::string name, std::vector<TensorType> types);
  // Return callables that give, take, or give and then immediately take. Their operands and results have the slot's
  // types.
  std::shared_ptr<compiler::Callable> giver(size_t slot);
  std::shared_ptr<compiler::Callable> taker(size_t slot);
  std::shared_ptr<compiler::Callable> through(size_t slot);

  // For the working thread: returns the next slot that was given. Returns nullopt after the timeout, or after close().
  std::optional<size_t> next(Timeout timeout);
  NDArray memory(size_t slot) const;  // all elements as a rank-1 array, to be used between next() and done()
  // Makes givers write to a contribution of `sum`, and takers read the total of `sum`, from now on. Call this function
  // between next() and done(). Operands that were already given are copied and posted. Throws ShapeError or DTypeError
  // if `sum` does not match the slot, and GraphError if the slot is not between next() and done().
  void share(size_t slot, std::shared_ptr<SharedSum> sum);
  void done(size_t slot);  // throws GraphError for a slot that next() did not return
  // Makes all current and later runs that give or take fail with a DeviceError that states `reason`. Only the first
  // call has an effect.
  void fail(std::string reason);
  bool failed() const;
  bool waiting() const;  // whether a taker is waiting for other members of the sum
  void close() { fail("the exchange was closed while a run was using it; end all runs before close()"); }
  Statistics statistics() const;

 private:
  using Clock = std::chrono::steady_clock;
  enum class State { idle, given, working, ready };
  struct Slot {
    std::string name;
    std::vector<TensorType> types;
    std::vector<size_t> offsets;  // byte offset of each array
    NDArray memory, taken;  // `taken` equals `memory` unless the slot is shared
    std::shared_ptr<SharedSum> shared;
    bool others_read = false;  // whether other members may still be reading this contribution
    State state = State::idle;
    Clock::time_point begin;
  };
  class SlotCallable;

  Exchange() = default;
  Slot& slot(size_t number) const;  // the caller must hold mutex_; throws GraphError if the number is out of range
  void give(Slot& slot, size_t number, const std::vector<std::byte*>& operands, const compiler::ForEach& threads);
  void take(Slot& slot, const std::vector<std::byte*>& results, const compiler::ForEach& threads);
  std::byte* free_place(Slot& slot, size_t operand);
  void wait_until_free(std::unique_lock<std::mutex>& lock, const Slot& slot, bool ready);
  void wait_for_others(Slot& slot);
  std::shared_ptr<compiler::Callable> callable(size_t slot, bool gives, bool takes);

  const ForkGuard guard_;
  mutable std::mutex mutex_;
  std::condition_variable given_, done_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::deque<size_t> waiting_;  // slots that were given but not yet returned by next(), in order
  std::optional<std::string> failure_;
  std::atomic<int> waiting_for_others_{0};
  Statistics statistics_;
};

}  // namespace mpsgraph::runtime
