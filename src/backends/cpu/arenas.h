// Arenas: the memory for values that live only during one run of a program.
//
// All programs share a few arenas; their number is the largest number of runs that were ever in progress at the same
// time. A thousand executables for different batch sizes, or one for training and one for evaluation, therefore need no
// more memory than the largest of them. In addition, memory that one run has just touched is still in cache for the
// next run.
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

  // Register (join) or unregister (leave) a program that needs an arena of `bytes` bytes.
  //
  // join() allocates an arena if none is large enough, and throws DeviceError if the allocation fails. leave() frees
  // arenas that are much larger than the remaining programs need.
  void join(size_t bytes);
  void leave(size_t bytes);

  // Take an arena of at least `bytes` bytes for one run: preferably the free arena at address `preferred`, which the
  // program's previous run used, otherwise the smallest free arena that is large enough. Allocate one if there is none.
  std::shared_ptr<runtime::Buffer> take(size_t bytes, const std::byte* preferred);
  void give_back(std::shared_ptr<runtime::Buffer> arena);

 private:
  using Arena = std::shared_ptr<runtime::Buffer>;
  size_t needed() const { return sizes_.empty() ? 0 : *sizes_.rbegin(); }
  bool too_large(const Arena& arena) const { return arena->bytes() > 2 * needed(); }
  Arena fitting(size_t bytes, const std::byte* preferred);  // null if no free arena is large enough
  Arena replaced(size_t bytes);  // allocates an arena, after freeing one that is too small

  // a forked child must not lock the mutex, because another thread of the parent may have held it
  const runtime::ForkGuard guard_;
  std::mutex mutex_;
  std::multiset<size_t> sizes_;  // required arena sizes of all live programs
  std::vector<Arena> free_;
};

}  // namespace mpsgraph::cpu
