// Assertions for the C programs of these tests, which print the failed expression and exit.
#ifndef MPSGRAPH_TESTS_C_INTERFACE_CHECKS_H
#define MPSGRAPH_TESTS_C_INTERFACE_CHECKS_H

#include <mpsgraph/mpsgraph.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                                  \
  do {                                                                                                               \
    const mpsgraph_status status_ = (call);                                                                          \
    if (status_ != MPSGRAPH_OK) {                                                                                    \
      fprintf(stderr, "%d: %s: %s: %s\n", __LINE__, #call, mpsgraph_status_name(status_), mpsgraph_error_message()); \
      exit(1);                                                                                                       \
    }                                                                                                                \
  } while (0)
#define REQUIRE(what)                                       \
  do {                                                      \
    if (!(what)) {                                          \
      fprintf(stderr, "%d: failed: %s\n", __LINE__, #what); \
      exit(1);                                              \
    }                                                       \
  } while (0)

#endif
