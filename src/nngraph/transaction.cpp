// Defines EncodeTransaction. The current transaction of a thread is the last one that the thread has created and not
// yet destroyed.
#include "nngraph/transaction.h"

namespace mpsgraph::nngraph {
namespace {
thread_local EncodeTransaction* current = nullptr;
}

EncodeTransaction::EncodeTransaction() : outer_(current) { current = this; }

EncodeTransaction::~EncodeTransaction() {
  current = outer_;
  for (size_t i = undo_.size(); i-- > 0;) undo_[i]();
}

void EncodeTransaction::on_failure(std::function<void()> undo) {
  if (current) current->undo_.push_back(std::move(undo));
}

}  // namespace mpsgraph::nngraph
