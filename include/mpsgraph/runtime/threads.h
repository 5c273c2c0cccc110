// How many threads the CPU device's kernels use together, those of all queues.
#pragma once

#include "mpsgraph/export.h"

namespace mpsgraph::runtime {

// As set, else automatic: OMP_NUM_THREADS, or the processors that the process may use.
MPSGRAPH_API int thread_count();

// From the next loop on; 0: automatic. Kernels are cut into parts by the number of threads at the first compilation, so
// that the same program gives the same bits with fewer. DeviceError for a negative number, and for more than that.
MPSGRAPH_API void set_thread_count(int count);

// While it lives, the CPU device's programs that this thread runs itself may use a team of somebody else's threads,
// which wait for this thread's next loop with their processors in hand, as OpenMP's do. Threads of our own would have
// to be woken, and to take processors from those. A team of fewer threads than thread_count() is left alone.
class MPSGRAPH_API LentTeam {
 public:
  // f(data) on each thread of the team at once, this one among them; comes back when all have. GOMP_parallel.
  using Fork = void (*)(void (*f)(void* data), void* data, unsigned threads, unsigned flags);
  // How many they are: omp_get_max_threads.
  using Size = int (*)();

  LentTeam(Fork fork, Size size);
  ~LentTeam();
  LentTeam(const LentTeam&) = delete;
  LentTeam& operator=(const LentTeam&) = delete;

  static bool lent();                                // to this thread
  static Fork current();                             // null: none is lent to this thread, or it is too small

 private:
  const LentTeam* const before_;
  const Fork fork_;
  const Size size_;
};

}  // namespace mpsgraph::runtime
