// Sums in shared memory. The memory contains one counter for each pair of a member (a participating process) and a mark
// (SharedSum::Mark). On Linux, waiting for a counter uses a futex.
#include "mpsgraph/runtime/shared_sum.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <thread>
#include <vector>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#include "mpsgraph/core/errors.h"

namespace mpsgraph::runtime {

namespace {

using Clock = std::chrono::steady_clock;

// The members' contributions begin at multiples of this many bytes, even on processors with larger pages.
constexpr size_t boundary = 4096;
constexpr int marks = 3;
// Each member (process) sums one range of the elements. The length of a range is a multiple of this number, so that no
// two members write to the same cache line.
constexpr int64_t together = 32;
// Number of elements of a block, small enough that the block's sums stay in the L1 cache while the contributions of all
// processes are added.
constexpr int64_t block = 2048;

size_t rounded(size_t bytes) { return (bytes + boundary - 1) / boundary * boundary; }

template <class T>
void add_up(std::byte* total, const std::vector<const std::byte*>& parts, int64_t count) {
  T* to = reinterpret_cast<T*>(total);
  for (int64_t begin = 0; begin < count; begin += block) {
    const int64_t end = std::min(begin + block, count);
    const T* first = reinterpret_cast<const T*>(parts[0]);
    if (parts.size() == 1) {
      std::copy(first + begin, first + end, to + begin);
      continue;
    }
    const T* second = reinterpret_cast<const T*>(parts[1]);
    for (int64_t i = begin; i < end; ++i) to[i] = first[i] + second[i];
    for (size_t p = 2; p < parts.size(); ++p) {
      const T* next = reinterpret_cast<const T*>(parts[p]);
      for (int64_t i = begin; i < end; ++i) to[i] += next[i];
    }
  }
}

}  // namespace

struct SharedSum::Counter {
  std::atomic<uint32_t> round;
  static_assert(std::atomic<uint32_t>::is_always_lock_free, "a lock would not work across processes");

  bool reached(uint32_t wanted) const {  // The comparison remains correct when the round number wraps around.
    return static_cast<int32_t>(round.load(std::memory_order_acquire) - wanted) >= 0;
  }

  void set(uint32_t value) {
    round.store(value, std::memory_order_release);
#ifdef __linux__
    ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&round), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
#endif
  }

  // Waits until the counter reaches `wanted`, the number of a round. Returns false if the deadline passes first.
  bool wait(uint32_t wanted, std::optional<Clock::time_point> deadline) {
    while (!reached(wanted)) {
      std::chrono::nanoseconds left = std::chrono::milliseconds(100);
      if (deadline) left = std::min<std::chrono::nanoseconds>(left, *deadline - Clock::now());
      if (left.count() <= 0) return false;
#ifdef __linux__
      const uint32_t seen = round.load(std::memory_order_acquire);
      if (static_cast<int32_t>(seen - wanted) >= 0) return true;
      const timespec time{static_cast<time_t>(left.count() / 1000000000), static_cast<long>(left.count() % 1000000000)};
      ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&round), FUTEX_WAIT, seen, &time, nullptr, 0);
#else
      std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(left, std::chrono::microseconds(50)));
#endif
    }
    return true;
  }
};

size_t SharedSum::bytes(DType dtype, int64_t elements, int members) {
  if (members < 1 || elements < 0)
    throw OutOfRangeError(cat("[shared sum] there must be at least 1 member and at least 0 elements, got ", members,
                              " member(s) and ", elements, " element(s)"));
  const size_t one = rounded(static_cast<size_t>(elements) * size_of(dtype));
  return rounded(static_cast<size_t>(members) * marks * line) + one * (static_cast<size_t>(members) + 1);
}

SharedSum::SharedSum(int descriptor, DType dtype, int64_t elements, int members, int own)
    : dtype_(dtype), elements_(elements), members_(members), own_(own) {
  const size_t size = bytes(dtype, elements, members);
  if (own < 0 || own >= members)
    throw OutOfRangeError(cat("[shared sum] the member index must be between 0 and ", members - 1, ", got ", own));
  const off_t there = ::lseek(descriptor, 0, SEEK_END);
  if (there < 0 || static_cast<size_t>(there) < size)
    throw DeviceError(
        cat("[shared sum] the file must have at least ", size, " bytes, got ", std::max<off_t>(there, 0)));
  int flags = MAP_SHARED;
#ifdef MAP_POPULATE
  flags |= MAP_POPULATE;  // avoids page faults for all members in the first round
#endif
  void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  if (mapped == MAP_FAILED) throw DeviceError(cat("[shared sum] cannot map ", size, " bytes: ", std::strerror(errno)));
  memory_ = Buffer::borrow(mapped, size, [mapped, size] { ::munmap(mapped, size); });
}

SharedSum::Counter& SharedSum::counter(int member, Mark mark) const {
  const size_t number = static_cast<size_t>(member) * marks + static_cast<size_t>(mark);
  return *reinterpret_cast<Counter*>(memory_->data() + number * line);
}

size_t SharedSum::place(int member) const {
  const size_t one = rounded(static_cast<size_t>(elements_) * size_of(dtype_));
  return rounded(static_cast<size_t>(members_) * marks * line) + one * static_cast<size_t>(member);
}

std::pair<int64_t, int64_t> SharedSum::part() const {
  const auto edge = [&](int64_t member) {
    return member == members_ ? elements_ : elements_ / together * member / members_ * together;
  };
  return {edge(own_), edge(own_ + 1) - edge(own_)};
}

NDArray SharedSum::array(size_t offset, int64_t first, int64_t count) const {
  return NDArray(memory_, dtype_, {count}, {1}, offset + static_cast<size_t>(first) * size_of(dtype_));
}

NDArray SharedSum::contribution() const { return array(place(own_), 0, elements_); }
NDArray SharedSum::total() const { return array(place(members_), 0, elements_); }
NDArray SharedSum::own_part() const { return array(place(members_), part().first, part().second); }

NDArray SharedSum::own_part_of(int member) const {
  if (member < 0 || member >= members_)
    throw OutOfRangeError(cat("[shared sum] the member index must be between 0 and ", members_ - 1, ", got ", member));
  return array(place(member), part().first, part().second);
}

void SharedSum::post() {
  ++round_;
  reach(Mark::posted);
}

void SharedSum::reach(Mark mark) { counter(own_, mark).set(round_); }

bool SharedSum::wait(Mark mark, Timeout timeout) const {
  const auto begin = Clock::now();
  for (int member = 0; member < members_; ++member) {
    Timeout left;
    if (timeout) left = *timeout - std::chrono::duration<double>(Clock::now() - begin).count();
    if (!wait_for(member, mark, left)) return false;
  }
  return true;
}

bool SharedSum::wait_for(int member, Mark mark, Timeout timeout) const {
  if (member < 0 || member >= members_)
    throw OutOfRangeError(cat("[shared sum] the member index must be between 0 and ", members_ - 1, ", got ", member));
  std::optional<Clock::time_point> deadline;
  if (timeout && *timeout < 1e9)
    deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*timeout));
  return counter(member, mark).wait(round_, deadline);
}

void SharedSum::add() {
  const auto [first, count] = part();
  std::vector<const std::byte*> parts;
  for (int member = 0; member < members_; ++member) parts.push_back(own_part_of(member).data());
  std::byte* const to = own_part().data();
  if (dtype_ == DType::float32)
    add_up<float>(to, parts, count);
  else if (dtype_ == DType::float64)
    add_up<double>(to, parts, count);
  else
    throw UnsupportedError(cat("[shared sum] the dtype must be float32 or float64 to be summed, got ", dtype_));
}

}  // namespace mpsgraph::runtime
