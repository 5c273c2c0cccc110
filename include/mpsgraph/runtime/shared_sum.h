// SharedSum: the sum of arrays of several processes (members) on one machine, in memory that all of them map.
//
// Each member writes its contribution to its own part of the memory. Once all contributions are posted, each member
// sums one range of the elements over all members, in order, and writes the sum to a total that all members read. Every
// byte thus crosses memory only once, the result is identical in all members and in every run, and no messages are
// sent. Waiting members sleep. A member that must detect that another member has died can wait repeatedly with a short
// timeout.
//
// A round consists of post(), wait(posted), add() or other work on the member's own range, reach(added), and
// wait(added). One member may then modify the total and call reach(spread), and the other members call wait(spread).
// The next round may be posted after the total has been read.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "mpsgraph/core/types.h"
#include "mpsgraph/export.h"
#include "mpsgraph/runtime/ndarray.h"
#include "mpsgraph/runtime/process.h"

namespace mpsgraph::runtime {

// One process's view of a sum over several processes.
class MPSGRAPH_API SharedSum {
 public:
  // The progress of a member within a round.
  enum class Mark : uint8_t { posted, added, spread };

  // Returns the required size of the file in bytes. The file must initially be filled with zeros. Throws
  // OutOfRangeError if there are no members.
  static size_t bytes(DType dtype, int64_t elements, int members);
  // Maps the file, whose descriptor may be closed afterwards. `own` is the index of this member. Throws OutOfRangeError
  // if `own` is out of range, and DeviceError if the file is too small or cannot be mapped.
  SharedSum(int descriptor, DType dtype, int64_t elements, int members, int own);

  NDArray contribution() const;  // contribution of this member
  NDArray total() const;
  NDArray own_part_of(int member) const;  // the range of the given member's contribution that this member sums
  NDArray own_part() const;  // this member's range of the total

  void post();  // begins a round: announces this member's contribution
  void reach(Mark mark);  // announces progress in this round; members that wait for the mark see all earlier writes
  // Wait until all members, or the given member, have reached the mark in this round. Return false after the timeout.
  bool wait(Mark mark, Timeout timeout) const;
  bool wait_for(int member, Mark mark, Timeout timeout) const;
  void add();  // throws UnsupportedError unless the dtype is float32 or float64

 private:
  static constexpr size_t line = 128;  // bytes between counters, so that two counters never share a cache line
  struct Counter;
  Counter& counter(int member, Mark mark) const;
  NDArray array(size_t offset, int64_t first, int64_t count) const;
  std::pair<int64_t, int64_t> part() const;  // this member's range: its first element and the number of elements
  // Returns the byte offset of a member's contribution, or of the total if `member` equals the number of members.
  size_t place(int member) const;

  std::shared_ptr<Buffer> memory_;
  DType dtype_;
  int64_t elements_;
  int members_, own_;
  uint32_t round_ = 0;
};

}  // namespace mpsgraph::runtime
