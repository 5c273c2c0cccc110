// The profiler: a ring buffer of records protected by a mutex, and the conversion to Chrome's trace event format.
#include "mpsgraph/runtime/profiler.h"

#include <algorithm>

#include "mpsgraph/core/errors.h"
#include "runtime/json.h"

namespace mpsgraph::runtime {

namespace {

struct ThreadIdentity {
  int number;
  std::string name;
};

ThreadIdentity& this_thread() {
  static std::atomic<int> next{1};
  static thread_local ThreadIdentity identity{next.fetch_add(1), {}};
  return identity;
}

}  // namespace

Profiler& Profiler::get() {
  static Profiler& instance = *new Profiler;
  return instance;
}

void Profiler::start(size_t capacity) {
  std::lock_guard lock(mutex_);
  if (session())
    throw DeviceError("[profiler] a profile is already being recorded; stop it before you start another one");
  ring_.clear();
  threads_.clear();
  capacity_ = std::max<size_t>(capacity, 1);
  count_ = 0;
  origin_ = Clock::now();
  session_.store(++last_, std::memory_order_relaxed);
}

Profile Profiler::stop() {
  std::lock_guard lock(mutex_);
  if (!session()) throw DeviceError("[profiler] no profile is being recorded; start one first");
  session_.store(0, std::memory_order_relaxed);
  Profile profile;
  profile.duration = std::chrono::nanoseconds(Clock::now() - origin_).count();
  profile.dropped = count_ - ring_.size();
  if (profile.dropped)
    std::rotate(ring_.begin(), ring_.begin() + static_cast<int64_t>(count_ % capacity_), ring_.end());
  profile.records = std::exchange(ring_, {});
  profile.threads = std::exchange(threads_, {});
  return profile;
}

void Profiler::record(Session session, ProfileRecord record, Clock::time_point begin, Clock::time_point end) {
  const ThreadIdentity& thread = this_thread();
  record.thread = thread.number;
  record.duration = std::chrono::nanoseconds(end - begin).count();
  std::lock_guard lock(mutex_);
  if (session != this->session()) return;
  record.begin = std::chrono::nanoseconds(begin - origin_).count();
  if (std::string& name = threads_[thread.number]; name.empty())
    name = thread.name.empty() ? cat("thread ", thread.number) : thread.name;
  if (ring_.size() < capacity_)
    ring_.push_back(std::move(record));
  else
    ring_[count_ % capacity_] = std::move(record);
  ++count_;
}

void Profiler::name_this_thread(std::string name) { this_thread().name = std::move(name); }

void ProfileScope::begin(std::string_view name, std::string_view category, uint64_t command_buffer) {
  name_ = name;
  category_ = category;
  command_buffer_ = command_buffer;
  begin_ = Profiler::Clock::now();
}

void ProfileScope::end() noexcept {
  const auto now = Profiler::Clock::now();
  try {
    Profiler::get().record(
        session_, {.name = std::string(name_), .category = category_, .command_buffer = command_buffer_, .kernel = {}},
        begin_, now);
  } catch (...) {  // If there is no memory for the record, only the record is lost, not the work that it describes.
  }
}

void profile_instant(std::string_view name, std::string_view category, uint64_t command_buffer) {
  const auto session = Profiler::get().session();
  if (!session) return;
  const auto now = Profiler::Clock::now();
  Profiler::get().record(session,
                         {.name = std::string(name),
                          .category = category,
                          .shape = ProfileRecord::Shape::instant,
                          .command_buffer = command_buffer,
                          .kernel = {}},
                         now, now);
}

// ---- export ---------------------------------------------------------------------------------------------------------

namespace {

Json arguments(const ProfileRecord& record) {
  Json args = Json::object();
  if (record.command_buffer) args["command buffer"] = record.command_buffer;
  if (!record.kernel) return args;
  const KernelDescription& kernel = *record.kernel;
  args["kind"] = kernel.kind;
  args["types"] = kernel.types;
  args["implementation"] = kernel.implementation;
  if (!kernel.location.empty()) args["built at"] = kernel.location;
  args["flops"] = kernel.flops;
  args["bytes read"] = kernel.bytes_read;
  args["bytes written"] = kernel.bytes_written;
  return args;
}

}  // namespace

std::string Profile::chrome_trace() const {
  constexpr int process = 1;
  Json events = Json::array();
  const auto metadata = [&](std::string_view what, int thread, std::string_view name) {
    events.push_back({{"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}});
  };
  metadata("process_name", 0, "mpsgraph");
  for (const auto& [thread, name] : threads) metadata("thread_name", thread, name);
  uint64_t next = 1;
  for (const ProfileRecord& record : records) {
    Json event = {{"name", record.kernel ? record.kernel->name : record.name},
                  {"cat", record.category},
                  {"pid", process},
                  {"tid", record.thread},
                  {"ts", static_cast<double>(record.begin) / 1e3},
                  {"args", arguments(record)}};
    const auto with = [&](std::string_view phase) {
      event["ph"] = phase;
      return event;
    };
    switch (record.shape) {
      case ProfileRecord::Shape::interval:
        event["dur"] = static_cast<double>(record.duration) / 1e3;
        events.push_back(with("X"));
        break;
      case ProfileRecord::Shape::instant:
        event["s"] = "t";  // drawn in the row of its thread
        events.push_back(with("i"));
        break;
      case ProfileRecord::Shape::overlapping:
        event["id"] = next++;
        events.push_back(with("b"));
        event["ts"] = static_cast<double>(record.begin + record.duration) / 1e3;
        events.push_back(with("e"));
        break;
    }
    // In the trace, an arrow leads from the commit of a command buffer to its run.
    const bool commit = record.category == "commit", run = record.category == "run";
    if (!record.command_buffer || !(commit || run)) continue;
    Json arrow = {{"name", "command buffer"},
                  {"cat", "flow"},
                  {"ph", commit ? "s" : "f"},
                  {"id", record.command_buffer},
                  {"pid", process},
                  {"tid", record.thread},
                  {"ts", static_cast<double>(record.begin) / 1e3}};
    if (run) arrow["bp"] = "e";
    events.push_back(std::move(arrow));
  }
  return Json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}, {"otherData", {{"dropped", dropped}}}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace mpsgraph::runtime
