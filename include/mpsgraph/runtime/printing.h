// The destination of the text that `print` operations produce: standard output, or a handler.
#pragma once

#include <functional>
#include <string>

#include "mpsgraph/export.h"

namespace mpsgraph::runtime {

// A handler is called with the complete text of a tensor, including a final newline, by the thread that runs the
// program or observes its completion. Calls are in the order of a queue's runs and, within a run, in the creation order
// of the operations. An exception from the handler fails the run.
using PrintHandler = std::function<void(const std::string& text)>;

// Sets the handler for the whole process; an empty handler restores standard output.
MPSGRAPH_API void set_print_handler(PrintHandler handler);

}  // namespace mpsgraph::runtime
