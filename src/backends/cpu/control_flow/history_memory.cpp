// Allocates blocks of history memory. Each new block is larger, so that few blocks suffice no matter how many
// iterations run.
#include "backends/cpu/control_flow/history_memory.h"

#include <algorithm>
#include <new>

namespace mpsgraph::cpu {
namespace {

constexpr size_t alignment = alignof(HistoryNode);
constexpr size_t first_block = size_t{1} << 16;

}  // namespace

void HistoryMemory::Free::operator()(std::byte* bytes) const { ::operator delete(bytes, std::align_val_t{alignment}); }

HistoryNode* HistoryMemory::node(const HistoryNode* previous, size_t bytes) {
  const size_t needed = sizeof(HistoryNode) + (bytes + alignment - 1) / alignment * alignment;
  while (end_.block < blocks_.size() && blocks_[end_.block].size - end_.used < needed) end_ = {end_.block + 1, 0};
  if (end_.block == blocks_.size()) {
    const size_t size = std::max(needed, blocks_.empty() ? first_block : 2 * blocks_.back().size);
    auto* memory = static_cast<std::byte*>(::operator new(size, std::align_val_t{alignment}));
    blocks_.push_back({std::unique_ptr<std::byte[], Free>(memory), size});
  }
  std::byte* place = blocks_[end_.block].bytes.get() + end_.used;
  end_.used += needed;
  return new (place) HistoryNode{previous};
}

}  // namespace mpsgraph::cpu
