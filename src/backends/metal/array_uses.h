// The arrays that one piece of work reads and writes, from its encoding to its end.
#pragma once

#include <memory>
#include <vector>

#include "backends/metal/queue.h"

namespace mpsgraph::metal {

enum class Access { reads, writes, both };

class ArrayUses {
 public:
  explicit ArrayUses(MetalDevice& device) : device_(device) {}

  // The array as the work takes it; what has no memory of the device's own is the same buffer for the same array.
  BufferView view(const runtime::NDArray& array, Access access);
  ArrayData data(const runtime::NDArray& array, Access access);
  // The same with a view of the device's that the caller has.
  void add(const runtime::NDArray& array, Access access, BufferView view);
  // Written by the host when the work is done; read by it behind begin().
  void written_by_host(const runtime::NDArray& array) { uses_.emplace_back(array, true, false); }
  void read_by_host(const runtime::NDArray& array) { uses_.emplace_back(array, false, false); }

  // Before the work is submitted with `commands`: waits for the uses in flight that it must not meet, and fills what
  // is staged. The arrays live until the work is done.
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
