// ArrayUses keeps the arrays that a piece of work reads and writes, from the encoding of the work to its completion.
#pragma once

#include <memory>
#include <vector>

#include "backends/metal/queue.h"

namespace mpsgraph::metal {

enum class Access { reads, writes, both };

class ArrayUses {
 public:
  explicit ArrayUses(MetalDevice& device) : device_(device) {}

  // Return the device buffer through which the work accesses the array. An array outside device memory is staged; the
  // same array always maps to the same staging buffer.
  BufferView view(const runtime::NDArray& array, Access access);
  ArrayData data(const runtime::NDArray& array, Access access);
  // Add an array for which the caller already has a view in device memory.
  void add(const runtime::NDArray& array, Access access, BufferView view);
  // Add an array that the host writes after the work completes (written_by_host), or one that the host reads after
  // begin() (read_by_host).
  void written_by_host(const runtime::NDArray& array) { uses_.emplace_back(array, true, false); }
  void read_by_host(const runtime::NDArray& array) { uses_.emplace_back(array, false, false); }

  // Called before the work is submitted with `commands`: waits for conflicting uses in flight and fills the staging
  // buffers. The arrays stay alive until the work completes.
  void begin(MetalCommands& commands);

 private:
  struct Entry {
    runtime::NDArray array;
    BufferView view;
    bool reads = false, writes = false;
  };
  void use(const runtime::NDArray& array, Access access, bool tracked);
  MetalDevice& device_;
  std::vector<Entry> entries_;
  std::vector<PendingUses::Use> uses_;
};

}  // namespace mpsgraph::metal
