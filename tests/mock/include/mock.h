// Functions of the mock that Apple's frameworks do not have: queries for tests, and the simulated system version.
//
// They are plain C, so that Python's ctypes can call them. Code for Apple targets never includes this header.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Return the number of live Objective-C objects and heap blocks, not counting the process's singletons. Safe to call
// from any thread.
long mock_live_objects(void);
// Wait up to the given time until no dispatch queue has work, and return whether this happened. Blocks that have run,
// and the objects they captured, are then released, so call this function before counting live objects.
int mock_wait_until_idle(double seconds);
// Return lines of the form "class: count", sorted by name, for a test's failure message. The string is valid until the
// next call on the same thread.
const char* mock_live_objects_by_class(void);
// Return how many times an object was autoreleased on a thread without an autorelease pool. Such an object stays alive
// until its thread ends.
long mock_autoreleases_without_pool(void);

// Return the simulated macOS version, such as 14.0 or 26.4. The environment variable MPSGRAPH_MOCK_MACOS sets its
// initial value; the default is 26.4.
double mock_macos_version(void);
void mock_set_macos_version(double version);

// Return the simulated generation of Apple's GPUs: 7 is M1, 8 is M2, 9 is M3 and M4, 10 is M5. The environment variable
// MPSGRAPH_MOCK_GPU sets its initial value; the default is 10.
int mock_gpu_generation(void);

// Return whether executables of an MPSGraph share its variables. If not, each executable has a copy, made when it is
// compiled. The environment variable MPSGRAPH_MOCK_VARIABLES, "shared" (the default) or "separate", sets the answer.
int mock_executables_share_variables(void);
// Return whether reinterpretCast converts words to elements of 4 bits and back; if not, it raises. The environment
// variable MPSGRAPH_MOCK_FOUR_BITS, "accepted" (the default) or "refused", sets the answer.
int mock_reinterprets_four_bits(void);

// Records of os_signpost and os_log, oldest first. The last 8192 records are kept, with truncated text.
enum mock_signpost_kind { MOCK_SIGNPOST_EVENT, MOCK_SIGNPOST_BEGIN, MOCK_SIGNPOST_END, MOCK_LOG };
struct mock_signpost {
  uint64_t kind;
  uint64_t id;    // 0 for log messages
  uint64_t time;  // nanoseconds of the monotonic clock
  char name[32];  // empty for log messages
  char message[128];
  char subsystem[32];
  char category[32];
};
size_t mock_signpost_count(void);
// Return whether a record with this index exists, and store it in *out if so.
int mock_signpost_at(size_t index, struct mock_signpost* out);
void mock_clear_signposts(void);

#ifdef __cplusplus
}
#endif

#ifdef __OBJC__
// Permanently exclude an object that lives as long as the process from the count of live objects.
#ifdef __cplusplus
extern "C"
#endif
    void mock_make_immortal(id object);
#endif
