// Logs and signposts, stored as a list of the newest records, which tests read through mock.h.
#include <os/signpost.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <deque>
#include <mutex>
#include <string>

#include "foundation/support.h"

namespace {

constexpr size_t kMaximalRecords = 8192;

struct Records {
  std::mutex lock;
  std::deque<mock_signpost> newest;
};

Records& records() {
  static Records* const instance = new Records;
  return *instance;
}

}  // namespace

@interface MockLog : NSObject <OS_os_log> {
 @public
  std::string _subsystem, _category;
}
@end
@implementation MockLog
@end

static void record(os_log_t log, uint64_t kind, uint64_t id, const char* name, const char* format, va_list arguments) {
  if (!log) mock::fatal("a signpost or log message requires a log, got nil");
  const MockLog* const to = static_cast<MockLog*>(log);
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  mock_signpost made{};
  made.kind = kind;
  made.id = id;
  made.time = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  std::snprintf(made.name, sizeof made.name, "%s", name);
  std::snprintf(made.message, sizeof made.message, "%s", mock::formatted(format, arguments).c_str());
  std::snprintf(made.subsystem, sizeof made.subsystem, "%s", to->_subsystem.c_str());
  std::snprintf(made.category, sizeof made.category, "%s", to->_category.c_str());
  const std::lock_guard lock(records().lock);
  records().newest.push_back(made);
  if (records().newest.size() > kMaximalRecords) records().newest.pop_front();
}

os_log_t os_log_create(const char* subsystem, const char* category) {
  MockLog* const log = [[MockLog alloc] init];
  log->_subsystem = subsystem;
  log->_category = category;
  return log;
}

BOOL os_log_type_enabled(os_log_t log, os_log_type_t) { return log != nil; }
BOOL os_signpost_enabled(os_log_t log) { return log != nil; }

os_signpost_id_t os_signpost_id_generate(os_log_t) {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

os_signpost_id_t os_signpost_id_make_with_pointer(os_log_t, const void* pointer) {
  return reinterpret_cast<os_signpost_id_t>(pointer);
}

void mock_os_log(os_log_t log, os_log_type_t, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  record(log, MOCK_LOG, 0, "", format, arguments);
  va_end(arguments);
}

// Apple's system silently ignores a signpost with the ID 0 or ~0; the mock aborts, because such an ID is a mistake.
void mock_os_signpost(os_log_t log, os_signpost_type_t type, os_signpost_id_t id, const char* name, const char* format,
                      ...) {
  if (id == OS_SIGNPOST_ID_NULL || id == OS_SIGNPOST_ID_INVALID)
    mock::fatal("signpost %s has no id; use os_signpost_id_generate", name);
  va_list arguments;
  va_start(arguments, format);
  record(log, type, id, name, format, arguments);
  va_end(arguments);
}

size_t mock_signpost_count(void) {
  const std::lock_guard lock(records().lock);
  return records().newest.size();
}

int mock_signpost_at(size_t index, mock_signpost* out) {
  const std::lock_guard lock(records().lock);
  if (index >= records().newest.size()) return 0;
  *out = records().newest[index];
  return 1;
}

void mock_clear_signposts(void) {
  const std::lock_guard lock(records().lock);
  records().newest.clear();
}
