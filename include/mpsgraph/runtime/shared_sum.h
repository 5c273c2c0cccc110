// SharedSum: the sum of the arrays of several processes of one machine, in memory that all of them map.
//
// Each member writes its contribution into a place of its own; when all have posted theirs, each adds up one part of
// the elements, in the order of the members, into a total that all read. So every byte crosses the memory once, the sum
// is the same in all members and in every run, and nobody sends anything. A member that waits sleeps; whoever wants to
// know meanwhile whether the others still live waits for a short time, and again.
//
// A round is post(), wait(posted), add() or the member's own work on its part, reach(added), wait(added). A total may
// be changed in between by one member, which then says reach(spread), for which the others wait(spread). The next round
// may be posted when the total has been read.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "mpsgraph/core/types.h"
#include "mpsgraph/export.h"
#include "mpsgraph/runtime/ndarray.h"
#include "mpsgraph/runtime/process.h"

namespace mpsgraph::runtime {

class MPSGRAPH_API SharedSum {
 public:
  // What a member has done in a round.
  enum class Mark : uint8_t { posted, added, spread };

  // How large the file must be, and zero at first. OutOfRangeError without members.
  static size_t bytes(DType dtype, int64_t elements, int members);
  // Maps the file, which may be closed afterwards. OutOfRangeError for a member that there is not; DeviceError when it
  // cannot be mapped.
  SharedSum(int descriptor, DType dtype, int64_t elements, int members, int own);

  NDArray contribution() const;  // this member's
  NDArray total() const;
  NDArray own_part_of(int member) const;  // of a member's contribution, the elements that this one adds up
  NDArray own_part() const;  // of the total

  void post();  // this member's contribution is there: a round begins
  void reach(Mark mark);  // in this round; what was written before is seen by those who wait for it
  // Until all members have reached the mark in this round. False when the time is over.
  bool wait(Mark mark, Timeout timeout) const;
  bool wait_for(int member, Mark mark, Timeout timeout) const;
  void add();  // UnsupportedError for other types than float32 and float64

 private:
  static constexpr size_t line = 128;  // bytes: neighbours in one cache line would take it from each other
  struct Counter;
  Counter& counter(int member, Mark mark) const;
  NDArray array(size_t offset, int64_t first, int64_t count) const;
  std::pair<int64_t, int64_t> part() const;  // the first of this member's elements, and how many
  size_t place(int member) const;  // of its contribution, in bytes; of the total for `members`

  std::shared_ptr<Buffer> memory_;
  DType dtype_;
  int64_t elements_;
  int members_, own_;
  uint32_t round_ = 0;
};

}  // namespace mpsgraph::runtime
