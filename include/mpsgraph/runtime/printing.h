// Where the text of operations `print` goes: to standard output, or to whoever asked for it.
#pragma once

#include <functional>
#include <string>

#include "mpsgraph/export.h"

namespace mpsgraph::runtime {

// Called with all of a tensor's text, a line break at its end, by the thread that runs the program or learns that it is
// done: in the order of a queue's runs, and within a run in the order in which the operations were created. What it
// throws ends the run.
using PrintHandler = std::function<void(const std::string& text)>;

// Empty: standard output.
MPSGRAPH_API void set_print_handler(PrintHandler handler);

}  // namespace mpsgraph::runtime
