// The single thread that runs the scheduled and completed handlers of all command buffers, in order.
//
// A handler may do anything except wait for another handler: it may encode, commit, signal, and wait for work.
#pragma once

#include <functional>

namespace mpsgraph::runtime {

// Starts the handler thread. Called before the first queue is created, so that the thread ends after the last queue.
void start_handler_thread();
void post_handler(std::function<void()> task);  // the task must not throw
bool on_handler_thread();

}  // namespace mpsgraph::runtime
