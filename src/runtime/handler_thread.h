// The one thread that runs the scheduled and completed handlers of all command buffers, in order.
//
// A handler may do anything but wait for another handler: encode, commit, signal, wait for work.
#pragma once

#include <functional>

namespace mpsgraph::runtime {

void start_handler_thread();                    // before the first queue, so that it ends after the last
void post_handler(std::function<void()> task);  // the task throws nothing
bool on_handler_thread();

}  // namespace mpsgraph::runtime
