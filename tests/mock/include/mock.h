// What the mock offers beyond Apple's interfaces: the questions that tests ask, and the simulated system version.
// Plain C, so that Python's ctypes can call it. Never included when the target is Apple's.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Objective-C objects and heap blocks that are alive, without the process's singletons. Safe from any thread.
long mock_live_objects(void);
// Waits, at most this long, until no dispatch queue has anything to run; whether it came to that. Blocks that have run
// and what they held are then gone: ask before counting.
int mock_wait_until_idle(double seconds);
// "class: count" lines, sorted by name, for a test's message. Valid until this thread asks again.
const char* mock_live_objects_by_class(void);
// How often the process autoreleased an object on a thread that had no pool: such an object lives as long as its
// thread.
long mock_autoreleases_without_pool(void);

// The simulated macOS, as 14.0 or 26.4: what the environment variable MPSGRAPH_MOCK_MACOS says, else 26.4.
double mock_macos_version(void);
void mock_set_macos_version(double version);

// What os_signpost and os_log recorded, oldest first: the last 8192 records, with texts cut to fit.
enum mock_signpost_kind { MOCK_SIGNPOST_EVENT, MOCK_SIGNPOST_BEGIN, MOCK_SIGNPOST_END, MOCK_LOG };
struct mock_signpost {
  uint64_t kind;
  uint64_t id;    // 0 for a log message
  uint64_t time;  // nanoseconds of the steady clock
  char name[32];  // "" for a log message
  char message[128];
  char subsystem[32];
  char category[32];
};
size_t mock_signpost_count(void);
// Whether there is a record with this index; then it is in *out.
int mock_signpost_at(size_t index, struct mock_signpost* out);
void mock_clear_signposts(void);

#ifdef __cplusplus
}
#endif

#ifdef __OBJC__
// Takes an object that is meant to live as long as the process out of the count of live objects, for good.
#ifdef __cplusplus
extern "C"
#endif
    void mock_make_immortal(id object);
#endif
