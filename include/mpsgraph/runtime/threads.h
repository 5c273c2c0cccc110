// The number of threads that the kernels of the CPU device use. All queues share these threads.
#pragma once

#include "mpsgraph/export.h"

namespace mpsgraph::runtime {

// Returns the number that was set. If the number is automatic, returns OMP_NUM_THREADS or the number of processors
// available to the process.
MPSGRAPH_API int thread_count();

// Sets the number of threads from the next parallel loop on; 0 means automatic. The first compilation fixes how kernels
// are partitioned, according to the number of threads at that time, so that results are bitwise identical with fewer
// threads. Throws DeviceError if the number is negative or exceeds the number of threads at the first compilation.
MPSGRAPH_API void set_thread_count(int count);

// During the lifetime of a LentTeam, programs of the CPU device that this thread runs itself may use another library's
// team of threads, such as OpenMP's. Threads of that team keep their processors busy while they wait for this thread's
// next parallel loop. The library's own threads would first have to wake up and would compete with them. A team smaller
// than thread_count() is not used.
class MPSGRAPH_API LentTeam {
 public:
  // Runs f(data) on all threads of the team, including the calling thread, and returns when all have finished; for
  // example GOMP_parallel.
  using Fork = void (*)(void (*f)(void* data), void* data, unsigned threads, unsigned flags);
  // Returns the number of threads in the team; for example omp_get_max_threads.
  using Size = int (*)();

  LentTeam(Fork fork, Size size);
  ~LentTeam();
  LentTeam(const LentTeam&) = delete;
  LentTeam& operator=(const LentTeam&) = delete;

  static bool lent();                                // whether a team is lent to this thread
  // null if no team is lent to this thread, or if the team is too small
  static Fork current();

 private:
  const LentTeam* const before_;
  const Fork fork_;
  const Size size_;
};

}  // namespace mpsgraph::runtime
