// Memory for the histories of loops: a value for each iteration, as many as there are when it runs.
//
// A history is a chain of nodes from the last value to the first; null is the empty one. Nodes never change, so several
// histories may share their beginnings, and a value that is taken back is read in place. Nodes are taken from
// blocks that stay from run to run, and all given back at once: after a run, or after an iteration of a loop out of
// which no history comes. So the first runs allocate, and later ones of the same lengths do not.
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
  // A node with room for so many bytes, not initialised.
  HistoryNode* node(const HistoryNode* previous, size_t bytes);

  struct Mark {
    size_t block = 0, used = 0;
  };
  Mark mark() const { return end_; }
  void release(Mark mark) { end_ = mark; }  // everything that was taken since
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
  Mark end_;  // what is used of which block; those behind it are free
};

}  // namespace mpsgraph::cpu
