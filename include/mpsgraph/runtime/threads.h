// The number of threads that the kernels of the CPU device use, over all queues together.
#pragma once

#include "mpsgraph/export.h"

namespace mpsgraph::runtime {

// The number that was set. If it is automatic, OMP_NUM_THREADS or the number of processors available to the process.
MPSGRAPH_API int thread_count();

// Sets the number of threads from the next loop on; 0 means automatic. The first compilation fixes the partition of
// kernels at the number of threads of that time, so that a program gives identical bits with fewer threads. Throws
// DeviceError if the number is negative or greater than that.
MPSGRAPH_API void set_thread_count(int count);

// During its lifetime, programs of the CPU device that this thread runs itself may use another library's team of
// threads, such as OpenMP's. While such threads wait for this thread's next loop, they keep their processors busy; the
// library's own threads would first have to wake up and would compete with them. A team smaller than thread_count() is
// not used.
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
  static Fork current();                             // null if no team is lent to this thread, or if it is too small

 private:
  const LentTeam* const before_;
  const Fork fork_;
  const Size size_;
};

}  // namespace mpsgraph::runtime
