// The number of threads to use: from the available processors, the container's CPU quota, and OMP_NUM_THREADS.
#include "runtime/thread_count.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif

#include "mpsgraph/core/errors.h"

namespace mpsgraph::runtime {
namespace {

constexpr int most = 1024;

std::atomic<int> asked{0};  // number set by the user; 0 if automatic
std::atomic<int> cut{0};  // number of threads that kernels are partitioned for; 0 before the first kernel is compiled
std::mutex mutex;  // protects changes of the two counts

int processors() {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(CPU_COUNT(&set), 1);
#endif
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

// The number of processors whose time a container may use. The file contains a quota and a period, for example "max
// 100000" or "150000 100000". With more threads than that number, all threads would be suspended for the rest of each
// period.
int quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double time = 0, period = 0;
  if (!(file >> time >> period) || time <= 0 || period <= 0) return most;
  return std::max(static_cast<int>(std::ceil(time / period)), 1);
}

// The first number in OMP_NUM_THREADS, which sets the number of threads for many libraries; 0 if it is unset or
// invalid.
int of_environment() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (!text) return 0;
  const std::string_view view(text);
  int count = 0;
  const size_t first = std::min(view.find_first_not_of(" \t"), view.size());
  const auto [end, error] = std::from_chars(view.data() + first, view.data() + view.size(), count);
  return error == std::errc() && count > 0 ? std::min(count, most) : 0;
}

int automatic() {
  static const int count = of_environment() > 0 ? of_environment() : std::min({processors(), quota(), most});
  return count;
}

}  // namespace

int thread_count() {
  const int count = asked.load(std::memory_order_relaxed);
  if (count > 0) return count;
  const int known = cut.load(std::memory_order_relaxed);
  return known > 0 ? known : automatic();
}

void set_thread_count(int count) {
  const std::lock_guard lock(mutex);
  if (count < 0 || count > most)
    throw DeviceError(
        cat("[set_num_threads] the number of threads must be between 0 (automatic) and ", most, ", got ", count));
  if (cut > 0 && count > cut)
    throw DeviceError(cat("[set_num_threads] the number of threads must be at most ", cut.load(),
                          " (the number for which kernels have already been compiled), got ", count,
                          "; set the number before the first compilation, or set OMP_NUM_THREADS=", count,
                          " before the process starts"));
  asked = count;
}

namespace {

thread_local const LentTeam* lent_here = nullptr;

}  // namespace

LentTeam::LentTeam(Fork fork, Size size) : before_(lent_here), fork_(fork), size_(size) { lent_here = this; }
LentTeam::~LentTeam() { lent_here = before_; }

bool LentTeam::lent() { return lent_here; }

LentTeam::Fork LentTeam::current() {
  return lent() && thread_count() > 1 && lent_here->size_() >= thread_count() ? lent_here->fork_ : nullptr;
}

int most_threads() {
  if (const int known = cut.load(std::memory_order_relaxed); known > 0) return known;
  const std::lock_guard lock(mutex);
  if (cut == 0) cut = asked > 0 ? asked.load() : automatic();
  return cut;
}

}  // namespace mpsgraph::runtime
