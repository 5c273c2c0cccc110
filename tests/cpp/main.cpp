// Runs the tests of the file named on the command line, or all: mpsgraph_tests test_core
#include <cstdlib>

#include "check.h"

int main(int count, char** arguments) {
  // Tests of the thread pool use four threads. In a process that runs all tests, others compile first, which fixes the
  // number of threads.
  if (count == 1) setenv("OMP_NUM_THREADS", "4", 0);
  return check::run_all(count > 1 ? arguments[1] : "");
}
