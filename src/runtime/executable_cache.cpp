// The executable cache: a list in order of recency, and a map from keys into the list.
#include "runtime/executable_cache.h"

#include <algorithm>

namespace mpsgraph::runtime {

std::shared_ptr<Executable> ExecutableCache::find(const CacheKey& key, bool count) {
  std::lock_guard lock(mutex_);
  auto found = by_key_.find(key);
  if (found == by_key_.end()) {
    misses_ += count;
    return nullptr;
  }
  hits_ += count;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->executable;
}

void ExecutableCache::insert(CacheKey key, std::shared_ptr<Executable> executable) {
  std::vector<std::shared_ptr<Executable>> evicted;
  std::lock_guard lock(mutex_);
  auto [place, fresh] = by_key_.try_emplace(key);
  if (!fresh) {
    std::swap(place->second->executable, executable);
    entries_.splice(entries_.begin(), entries_, place->second);
  } else {
    entries_.push_front({std::move(key), std::move(executable)});
    place->second = entries_.begin();
  }
  evicted = evict();
}

void ExecutableCache::set_limits(size_t count, size_t bytes) {
  std::vector<std::shared_ptr<Executable>> evicted;
  std::lock_guard lock(mutex_);
  count_limit_ = count;
  byte_limit_ = bytes;
  evicted = evict();
}

void ExecutableCache::clear() {
  std::list<Entry> gone;
  std::lock_guard lock(mutex_);
  by_key_.clear();
  gone.swap(entries_);
}

CacheStatistics ExecutableCache::statistics() const {
  std::lock_guard lock(mutex_);
  CacheStatistics result;
  result.count = entries_.size();
  result.bytes = bytes();
  result.count_limit = count_limit_;
  result.byte_limit = byte_limit_;
  result.hits = hits_;
  result.misses = misses_;
  result.evictions = evictions_;
  return result;
}

size_t ExecutableCache::bytes() const {
  size_t total = 0, most = 0;
  for (auto& entry : entries_) {
    total += entry.executable->own_bytes();
    most = std::max(most, entry.executable->shared_bytes());
  }
  return total + most;
}

std::vector<std::shared_ptr<Executable>> ExecutableCache::evict() {
  std::vector<std::shared_ptr<Executable>> evicted;
  while (entries_.size() > 1 && (entries_.size() > count_limit_ || bytes() > byte_limit_)) {
    auto& oldest = entries_.back();
    by_key_.erase(oldest.key);
    evicted.push_back(std::move(oldest.executable));
    entries_.pop_back();
    ++evictions_;
  }
  return evicted;
}

}  // namespace mpsgraph::runtime
