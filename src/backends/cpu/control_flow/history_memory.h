// Memory for loop histories: the lists of values that a loop saves for its gradient, one value per iteration. The
// number of iterations is known only at run time.
//
// A history is a chain of nodes from the last value to the first; an empty history is null. Nodes are immutable, so
// several histories may share their first values, and a popped value is read in place. Nodes are allocated in blocks
// that are kept across runs, and are released together after a run, or after an iteration of a loop that returns no
// history. Therefore only the first runs allocate memory, and later runs with as many iterations do not.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace mpsgraph::cpu {

struct alignas(64) HistoryNode {
  const HistoryNode* previous;

  std::byte* data() { return reinterpret_cast<std::byte*>(this) + sizeof(HistoryNode); }
  const std::byte* data() const { return const_cast<HistoryNode*>(this)->data(); }
};

class HistoryMemory {
 public:
  // Allocate an uninitialized node with room for `bytes` bytes.
  HistoryNode* node(const HistoryNode* previous, size_t bytes);

  struct Mark {
    size_t block = 0, used = 0;
  };
  Mark mark() const { return end_; }
  void release(Mark mark) { end_ = mark; }  // releases all nodes allocated since the mark was taken
  void clear() { end_ = {}; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  struct Block {
    std::unique_ptr<std::byte[], Free> bytes;
    size_t size;
  };
  std::vector<Block> blocks_;
  Mark end_;  // current block and position in it; later blocks are free
};

}  // namespace mpsgraph::cpu
