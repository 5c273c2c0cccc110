// Measures the machine's peak rates. Each rate is the highest of a few short measurements.
#include "backends/cpu/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <vector>

#include "backends/cpu/amx.h"
#include "backends/cpu/flush_to_zero.h"
#include "backends/cpu/instruction_set.h"
#include "backends/cpu/parallel.h"
#include "mpsgraph/runtime/ndarray.h"
#include "runtime/backend.h"

namespace mpsgraph::cpu {
namespace {

constexpr int repetitions = 5;
constexpr int64_t rounds = 200'000;           // rounds of the arithmetic loops, which take a few milliseconds
constexpr int64_t copied = int64_t{1} << 27;  // bytes to copy, more than the caches of most machines hold

// Return the amount of work divided by the shortest time.
template <class Work>
double best_rate(const Work& work) {
  double rate = 0;
  for (int i = 0; i < repetitions; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const double amount = work();
    rate = std::max(rate, amount / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return rate;
}

double arithmetic_rate(double (*loop)(int64_t)) {
  return best_rate([loop] {
    std::vector<double> flops(thread_count());
    parallel_parts(thread_count(), [&](int64_t thread) { flops[thread] = loop(rounds); });
    return std::accumulate(flops.begin(), flops.end(), 0.0);
  });
}

double copy_rate() {
  const auto from = runtime::Buffer::allocate(copied), to = runtime::Buffer::allocate(copied);
  const auto each = [](int64_t thread, const auto& work) {
    const int64_t begin = copied * thread / thread_count(), end = copied * (thread + 1) / thread_count();
    work(begin, static_cast<size_t>(end - begin));
  };
  parallel_parts(thread_count(), [&](int64_t thread) {
    each(thread, [&](int64_t begin, size_t bytes) { std::memset(from->data() + begin, 1, bytes); });
  });
  return best_rate([&] {
    parallel_parts(thread_count(), [&](int64_t thread) {
      each(thread, [&](int64_t begin, size_t bytes) { std::memcpy(to->data() + begin, from->data() + begin, bytes); });
    });
    return 2.0 * copied;
  });
}

}  // namespace

runtime::DeviceLimits measure_limits() {
  const FlushToZero flush;
  runtime::DeviceLimits limits;
  limits.bandwidth = copy_rate();
  limits.flops[DType::float32] = arithmetic_rate(arithmetic_loops().float32);
  limits.flops[DType::float64] = arithmetic_rate(arithmetic_loops().float64);
#if defined(__x86_64__)
  if (instruction_set() == "AVX-512" && __builtin_cpu_supports("avx512bf16"))
    limits.flops[DType::bfloat16] = arithmetic_rate(avx512::bfloat16_loop);
  if (instruction_set() == "AVX-512" && __builtin_cpu_supports("avx512vnni"))
    limits.flops[DType::int8] = limits.flops[DType::uint8] = arithmetic_rate(avx512::integer_loop);
  if (has_amx()) {
    limits.flops[DType::bfloat16] = arithmetic_rate(amx::bfloat16_loop);
    limits.flops[DType::int8] = limits.flops[DType::uint8] = arithmetic_rate(amx::integer_loop);
  }
#endif
  return limits;
}

}  // namespace mpsgraph::cpu
