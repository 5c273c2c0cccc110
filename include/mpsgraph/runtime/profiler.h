// Profiler: records compilations, commits, runs, copies, waits, and the kernels of programs that a backend reports.
// While no profile is being recorded, a scope costs only one relaxed atomic load.
//
// Code that records events first gets the current session and passes it with each record. Records of a different
// session, or without a session, are dropped. A Profile is the immutable result of a session.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "mpsgraph/export.h"

namespace mpsgraph::runtime {

// The properties of a kernel that are known before it runs.
struct KernelDescription {
  std::string name;  // name of the operation, unique within its program
  std::string kind;  // kind of the operation
  std::string types;  // "float32[8,32], float32[32,10] -> float32[8,10]"
  std::string implementation;  // how the kernel computes, and why others were not chosen
  std::string location;  // where the operation was built, e.g. "model.py:41", or empty
  double flops = 0;  // see compiler/operation_cost.h
  double bytes_read = 0, bytes_written = 0;
};

// One event of a profile.
struct ProfileRecord {
  // interval: on a thread, nested in the enclosing interval; overlapping: not on a thread; instant: without duration
  enum class Shape : uint8_t { interval, overlapping, instant };
  std::string name;  // empty for a kernel, whose description contains its name
  std::string_view category;  // "compile", "pass", "encode", "commit", "queue", "run", "kernel", "copy", ...
  Shape shape = Shape::interval;
  int thread = 0;  // small thread number, in order of first appearance in the process
  int64_t begin = 0;  // nanoseconds since the start of the profile
  int64_t duration = 0;
  uint64_t command_buffer = 0;  // number of the command buffer; 0 if the record belongs to none
  std::shared_ptr<const KernelDescription> kernel;
};

// The records of one profiling session.
struct MPSGRAPH_API Profile {
  std::vector<ProfileRecord> records;  // records in the order in which they ended, oldest first
  std::map<int, std::string> threads;  // names of the threads that appear
  uint64_t dropped = 0;  // number of records that were overwritten by newer ones
  int64_t duration = 0;  // nanoseconds from start to stop
  std::string chrome_trace() const;  // JSON for chrome://tracing and ui.perfetto.dev
};

// The process-wide profiler. Its functions may be called from several threads.
class MPSGRAPH_API Profiler {
 public:
  using Clock = std::chrono::steady_clock;
  using Session = uint64_t;  // 0 means that no profile is being recorded

  static Profiler& get();
  // Starts a profile that keeps the newest `capacity` records. Throws DeviceError if a profile is already being
  // recorded.
  void start(size_t capacity = 262144);
  Profile stop();  // throws DeviceError if no profile is being recorded
  Session session() const { return session_.load(std::memory_order_relaxed); }

  // Adds an interval or instant of this thread, or an overlapping interval. Sets the thread, begin and duration of
  // `record`.
  void record(Session session, ProfileRecord record, Clock::time_point begin, Clock::time_point end);
  static void name_this_thread(std::string name);

 private:
  std::atomic<Session> session_{0};
  mutable std::mutex mutex_;
  Session last_ = 0;
  Clock::time_point origin_;
  std::vector<ProfileRecord> ring_;
  std::map<int, std::string> threads_;
  size_t capacity_ = 0;
  uint64_t count_ = 0;
};

// Records its own lifetime as an interval. The text of `name` must outlive the scope.
class MPSGRAPH_API ProfileScope {
 public:
  ProfileScope(std::string_view name, std::string_view category, uint64_t command_buffer = 0)
      : session_(Profiler::get().session()) {
    if (session_) begin(name, category, command_buffer);
  }
  ~ProfileScope() {
    if (session_) end();
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  void begin(std::string_view name, std::string_view category, uint64_t command_buffer);
  void end() noexcept;
  const Profiler::Session session_;
  std::string_view name_, category_;
  uint64_t command_buffer_ = 0;
  Profiler::Clock::time_point begin_;
};

// Records an instant on this thread.
MPSGRAPH_API void profile_instant(std::string_view name, std::string_view category, uint64_t command_buffer = 0);

}  // namespace mpsgraph::runtime
