// A ring of records under a mutex, and its export in Chrome's trace event format.
#include "runtime/profiler.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace mpsgraph::runtime {

namespace {

int thread_number() {
  static std::atomic<int> next{0};
  static thread_local const int number = next.fetch_add(1);
  return number;
}

double microseconds(Profiler::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

Profiler& Profiler::get() {
  static Profiler& instance = *new Profiler;
  return instance;
}

void Profiler::start(size_t capacity) {
  std::lock_guard lock(mutex_);
  ring_.clear();
  capacity_ = std::max<size_t>(capacity, 1);
  count_ = 0;
  origin_ = Clock::now();
  running_.store(true, std::memory_order_relaxed);
}

void Profiler::stop() { running_.store(false, std::memory_order_relaxed); }

void Profiler::record(std::string_view name, std::string_view category, Clock::time_point begin,
                      Clock::time_point end) {
  std::lock_guard lock(mutex_);
  if (capacity_ == 0) return;
  Record record{std::string(name), category, thread_number(), microseconds(begin - origin_), microseconds(end - begin)};
  if (ring_.size() < capacity_)
    ring_.push_back(std::move(record));
  else
    ring_[count_ % capacity_] = std::move(record);
  ++count_;
}

std::vector<Profiler::Record> Profiler::records() const {
  std::lock_guard lock(mutex_);
  std::vector<Record> result = ring_;
  if (count_ > ring_.size()) std::rotate(result.begin(), result.begin() + count_ % capacity_, result.end());
  return result;
}

uint64_t Profiler::dropped() const {
  std::lock_guard lock(mutex_);
  return count_ - ring_.size();
}

std::string Profiler::chrome_trace() const {
  auto events = nlohmann::json::array();
  for (auto& record : records())
    events.push_back({{"name", record.name},
                      {"cat", record.category},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", record.thread},
                      {"ts", record.begin},
                      {"dur", record.duration}});
  return nlohmann::json{{"traceEvents", events}, {"displayTimeUnit", "ms"}, {"otherData", {{"dropped", dropped()}}}}
      .dump();
}

}  // namespace mpsgraph::runtime
