// The few who hold something for threads: usually one, the CPU device. Read without a lock, with each command buffer.
#include "runtime/thread_holding.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

#include "mpsgraph/core/errors.h"

namespace mpsgraph::runtime {
namespace {

std::array<ThreadHolding, 8> holdings;
std::atomic<size_t> count{0};
std::mutex mutex;  // of those who register

}  // namespace

void register_thread_holding(ThreadHolding holding) {
  std::lock_guard lock(mutex);
  const size_t next = count;
  for (size_t i = 0; i < next; ++i)
    if (holdings[i].release == holding.release) return;
  if (next == holdings.size()) throw DeviceError("more than eight kinds of backends hold something for their threads");
  holdings[next] = holding;
  count.store(next + 1, std::memory_order_release);
}

void release_thread_holdings() {
  for (size_t i = 0, n = count.load(std::memory_order_acquire); i < n; ++i) holdings[i].release();
}

void make_way() {
  for (size_t i = 0, n = count.load(std::memory_order_acquire); i < n; ++i) holdings[i].make_way();
}

}  // namespace mpsgraph::runtime
