// Profiler: when on, remembers what was compiled, encoded, run and copied, for the timeline viewers of browsers
// (chrome://tracing, ui.perfetto.dev). When off, a scope costs one relaxed load.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace mpsgraph::runtime {

class Profiler {
 public:
  using Clock = std::chrono::steady_clock;
  struct Record {
    std::string name;
    std::string_view category;  // "compile", "encode", "run", "copy"
    int thread = 0;             // small number, in order of first appearance
    double begin = 0;           // microseconds since start()
    double duration = 0;
  };

  static Profiler& get();
  void start(size_t capacity = 65536);     // forgets what was recorded; keeps the newest `capacity` records
  void stop();
  bool running() const { return running_.load(std::memory_order_relaxed); }
  void record(std::string_view name, std::string_view category, Clock::time_point begin, Clock::time_point end);
  std::vector<Record> records() const;     // oldest first
  uint64_t dropped() const;                // records that made room for newer ones
  std::string chrome_trace() const;        // JSON

 private:
  std::atomic<bool> running_{false};
  mutable std::mutex mutex_;
  Clock::time_point origin_;
  std::vector<Record> ring_;
  size_t capacity_ = 0;
  uint64_t count_ = 0;
};

// Records its lifetime. `name` must outlive it.
class ProfileScope {
 public:
  ProfileScope(std::string_view name, std::string_view category) : name_(name), category_(category) {
    if ((on_ = Profiler::get().running())) begin_ = Profiler::Clock::now();
  }
  ~ProfileScope() {
    if (on_) Profiler::get().record(name_, category_, begin_, Profiler::Clock::now());
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  std::string_view name_, category_;
  bool on_;
  Profiler::Clock::time_point begin_;
};

}  // namespace mpsgraph::runtime
