// Profiler: while a profile is taken, remembers what was compiled, committed, run, copied and waited for, and each
// kernel of a program that a backend reports. When none is taken, a scope costs one relaxed load.
//
// Whoever reports asks for the session first and hands it in with each record: what belongs to another session, or
// to none, is dropped. A Profile is what is left at the end; it changes no more.
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

// What is known of a kernel before it runs.
struct KernelDescription {
  std::string name;  // of the operation, unique in its program
  std::string kind;  // of the operation
  std::string types;  // "float32[8,32], float32[32,10] -> float32[8,10]"
  std::string implementation;  // what computes it, e.g. a oneDNN implementation
  std::string location;  // where it was built: "model.py:41", or empty
  double flops = 0;  // compiler/operation_cost.h
  double bytes_read = 0, bytes_written = 0;
};

struct ProfileRecord {
  // interval: on a thread, nested in what runs there; overlapping: on no thread; instant: without duration.
  enum class Shape : uint8_t { interval, overlapping, instant };
  std::string name;  // empty for a kernel, which has its own
  std::string_view category;  // "compile", "pass", "encode", "commit", "queue", "run", "kernel", "copy", ...
  Shape shape = Shape::interval;
  int thread = 0;  // small number, in order of first appearance in the process
  int64_t begin = 0;  // nanoseconds since the profile was started
  int64_t duration = 0;
  uint64_t command_buffer = 0;  // number; 0: belongs to none
  std::shared_ptr<const KernelDescription> kernel;
};

struct MPSGRAPH_API Profile {
  std::vector<ProfileRecord> records;  // in the order in which they ended, oldest first
  std::map<int, std::string> threads;  // names of those that appear
  uint64_t dropped = 0;  // records that made room for newer ones
  int64_t duration = 0;  // nanoseconds from start to stop
  std::string chrome_trace() const;  // JSON, for chrome://tracing and ui.perfetto.dev
};

class MPSGRAPH_API Profiler {
 public:
  using Clock = std::chrono::steady_clock;
  using Session = uint64_t;  // 0: no profile is taken

  static Profiler& get();
  void start(size_t capacity = 262144);  // keeps the newest `capacity` records. DeviceError when one is taken already
  Profile stop();  // DeviceError when none is taken
  Session session() const { return session_.load(std::memory_order_relaxed); }

  // An interval or instant of this thread, or an overlapping one. `record` gets thread, begin and duration here.
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

// Records its lifetime as an interval. `name` must outlive it.
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

// Records that something happened now, on this thread.
MPSGRAPH_API void profile_instant(std::string_view name, std::string_view category, uint64_t command_buffer = 0);

}  // namespace mpsgraph::runtime
