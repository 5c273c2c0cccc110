// ExecutableCache: the executables of one graph, looked up by the requested types and targets, with limits on their
// number and total size.
//
// The least recently used executable is evicted first; the newest is always kept. Executables may share arenas; of this
// shared memory, the total size includes only the largest amount that a single executable uses. An evicted executable
// remains usable for its holders.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "mpsgraph/runtime/device_graph.h"

namespace mpsgraph::runtime {

class ExecutableCache {
 public:
  // Returns the executable for this key, or null. If `count` is set, the statistics record a hit or a miss.
  std::shared_ptr<Executable> find(const CacheKey& key, bool count = true);
  void insert(CacheKey key, std::shared_ptr<Executable> executable);
  void set_limits(size_t count, size_t bytes);
  void clear();  // removes all executables; this does not count as evictions
  CacheStatistics statistics() const;  // statistics without compile counts and times

 private:
  struct Hash {
    size_t operator()(const CacheKey& key) const {
      uint64_t hash = key.size();
      for (uint64_t word : key) hash = (hash ^ word ^ (hash >> 29)) * 0x9e3779b97f4a7c15;
      return hash ^ (hash >> 32);
    }
  };
  struct Entry {
    CacheKey key;
    std::shared_ptr<Executable> executable;
  };
  size_t bytes() const;
  // Removes executables until the cache is within its limits. The caller destroys the returned executables after it has
  // released the lock.
  std::vector<std::shared_ptr<Executable>> evict();

  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // entries, most recently used first
  std::unordered_map<CacheKey, std::list<Entry>::iterator, Hash> by_key_;
  size_t count_limit_ = 64, byte_limit_ = size_t{1} << 30;
  uint64_t hits_ = 0, misses_ = 0, evictions_ = 0;
};

}  // namespace mpsgraph::runtime
