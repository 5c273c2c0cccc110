// EncodeTransaction: what an encode changes besides its command buffer, so that a failure changes nothing.
//
// While a data source updates its parameters by itself, its optimizers count a step. If that source, or one after it,
// throws, the graph takes the commands out of the buffer again (CommandBuffer::rewind) and the transaction the counts.
#pragma once

#include <functional>
#include <vector>

#include "mpsgraph/export.h"

namespace mpsgraph::nngraph {

class MPSGRAPH_API EncodeTransaction {
 public:
  EncodeTransaction();
  ~EncodeTransaction();  // undoes, last first, unless keep() was called
  EncodeTransaction(const EncodeTransaction&) = delete;
  EncodeTransaction& operator=(const EncodeTransaction&) = delete;
  void keep() { undo_.clear(); }
  // In the transaction of this thread, if there is one.
  static void on_failure(std::function<void()> undo);

 private:
  std::vector<std::function<void()>> undo_;
  EncodeTransaction* const outer_;
};

}  // namespace mpsgraph::nngraph
