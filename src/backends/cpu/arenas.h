// Arenas: the memory in which programs keep what lives during one run.
//
// All programs take turns in the same few arenas, as many as runs ever overlapped: executables for a thousand batch
// sizes, or for training and for evaluation, take no more memory than the largest of them, and what one run has just
// touched is in the caches for the next.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "mpsgraph/runtime/ndarray.h"
#include "mpsgraph/runtime/process.h"

namespace mpsgraph::cpu {

class Arenas {
 public:
  static Arenas& get();

  // A program of this size comes, for which an arena is made when none is large enough (DeviceError when it cannot be),
  // or goes: arenas much larger than what is left needs are freed.
  void join(size_t bytes);
  void leave(size_t bytes);

  // For one run. Of those that are free, the one at `preferred`, where the program ran last, comes first, then the
  // smallest.
  std::shared_ptr<runtime::Buffer> take(size_t bytes, const std::byte* preferred);
  void give_back(std::shared_ptr<runtime::Buffer> arena);

 private:
  using Arena = std::shared_ptr<runtime::Buffer>;
  size_t needed() const { return sizes_.empty() ? 0 : *sizes_.rbegin(); }
  bool too_large(const Arena& arena) const { return arena->bytes() > 2 * needed(); }
  Arena fitting(size_t bytes, const std::byte* preferred);  // none: null
  Arena replaced(size_t bytes);                             // a new one for one that is free and too small

  const runtime::ForkGuard guard_;  // in a forked child another thread may have held the mutex for ever
  std::mutex mutex_;
  std::multiset<size_t> sizes_;  // of all programs
  std::vector<Arena> free_;
};

}  // namespace mpsgraph::cpu
