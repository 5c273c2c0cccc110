// EncodeTransaction: undoes the changes that an encode makes outside its command buffer, so that a failed encode
// changes nothing.
//
// When a data source updates its own parameters, its optimizers count a step. If that source or a later one throws, the
// graph removes the commands from the buffer (CommandBuffer::rewind) and the transaction restores the step counts.
#pragma once

#include <functional>
#include <vector>

#include "mpsgraph/export.h"

namespace mpsgraph::nngraph {

class MPSGRAPH_API EncodeTransaction {
 public:
  EncodeTransaction();
  ~EncodeTransaction();  // undoes all changes in reverse order unless keep() was called
  EncodeTransaction(const EncodeTransaction&) = delete;
  EncodeTransaction& operator=(const EncodeTransaction&) = delete;
  void keep() { undo_.clear(); }
  // Register an undo function with the current transaction of this thread, if there is one.
  static void on_failure(std::function<void()> undo);

 private:
  std::vector<std::function<void()>> undo_;
  EncodeTransaction* const outer_;
};

}  // namespace mpsgraph::nngraph
