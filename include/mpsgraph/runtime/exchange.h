// Exchange: arrays that a run hands to another thread in its middle, and takes back further on.
//
// A slot is memory for arrays of one element type, one behind the other, large ones at multiples of 64 bytes. Graphs
// `call` its two callables: the giver copies its operands in and goes on; the taker waits until the other thread has
// done its work on the memory, and copies it out. So what is done between them, such as a sum over processes, is done
// beside the run's kernels. A run reads results where they are, if nothing writes to them meanwhile.
// The other thread asks for the slots in the order in which they were given: next(), memory(), done().
//
// A slot whose arrays processes of one machine add up has a SharedSum for its memory. Then the giver posts what it has
// copied, so that the others know at once, and the taker waits for their parts when the thread has done its own. As the
// sum lies elsewhere, a run computes its operands in the slot, where it can.
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

class MPSGRAPH_API Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  struct Statistics {
    uint64_t given = 0;  // slots, each time that one was
    double worked = 0;  // seconds between next() and done(), of all of them
    double waited = 0;  // seconds that takers have waited
    double copied = 0;  // seconds that givers and takers have copied
    uint64_t copied_bytes = 0;
  };

  static std::shared_ptr<Exchange> create();
  // A new slot; its number. `name` is what profiles call the work on it. ShapeError for types that have unknown sizes,
  // DTypeError for several element types, GraphError without any.
  size_t add(std::string name, std::vector<TensorType> types);
  // What gives, takes, or gives and at once takes: operands and results are of the slot's types.
  std::shared_ptr<compiler::Callable> giver(size_t slot);
  std::shared_ptr<compiler::Callable> taker(size_t slot);
  std::shared_ptr<compiler::Callable> through(size_t slot);

  // The slot that was given next, for the thread that works; none when the time is over, or after close().
  std::optional<size_t> next(Timeout timeout);
  NDArray memory(size_t slot) const;  // all its elements, of rank 1; to be used between next() and done()
  // From now on givers write to a contribution, and takers read the total. Between next() and done(): what was given
  // before is copied and posted. ShapeError, DTypeError, GraphError.
  void share(size_t slot, std::shared_ptr<SharedSum> sum);
  void done(size_t slot);  // GraphError for one that next() has not given out
  // Runs that give or take, now or later, raise a DeviceError with this reason; the first one counts.
  void fail(std::string reason);
  bool failed() const;
  bool waiting() const;  // does a run wait for other members?
  void close() { fail("the exchange is closed"); }
  Statistics statistics() const;

 private:
  using Clock = std::chrono::steady_clock;
  enum class State { idle, given, working, ready };
  struct Slot {
    std::string name;
    std::vector<TensorType> types;
    std::vector<size_t> offsets;  // in bytes
    NDArray memory, taken;  // the same, unless it is shared
    std::shared_ptr<SharedSum> shared;
    bool others_read = false;  // may other members still read what was given?
    State state = State::idle;
    Clock::time_point begin;
  };
  class SlotCallable;

  Exchange() = default;
  Slot& slot(size_t number) const;  // with mutex_ held. GraphError for a number that there is not
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
  std::deque<size_t> waiting_;  // given, in order
  std::optional<std::string> failure_;
  std::atomic<int> waiting_for_others_{0};
  Statistics statistics_;
};

}  // namespace mpsgraph::runtime
