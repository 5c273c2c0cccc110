// The current batch, which callbacks of MPSNNGraph access during encoding.
#include "backends/metal/nngraph/batch.h"

#include "backends/metal/guarded.h"

namespace mpsgraph::metal {

void Failures::guarded_run(const std::function<void()>& function) { guarded(function); }

namespace {

thread_local BatchEncoding* encoding = nullptr;

}  // namespace

BatchEncoding* BatchEncoding::current() { return encoding; }

BatchEncoding& BatchEncoding::called_with(id<MTLCommandBuffer> commands) {
  encoding->commands = commands;
  return *encoding;
}

BatchEncoding::Scope::Scope(BatchEncoding& batch) : outer_(encoding) { encoding = &batch; }
BatchEncoding::Scope::~Scope() { encoding = outer_; }

}  // namespace mpsgraph::metal
