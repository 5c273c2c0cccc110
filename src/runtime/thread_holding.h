// What kernels hold for the thread that runs them, such as a team of threads that waits for its next loop.
//
// A command queue's thread and a thread that waits for a result take turns in running kernels. Each would keep a team
// of its own, so the queue says when one of them has nothing more to do.
#pragma once

namespace mpsgraph::runtime {

struct ThreadHolding {
  void (*release)();  // this thread has had nothing to do for a while: it gives up what it holds
  void (*make_way)();  // another thread goes on: this one gives it up if that one holds the same
};
void register_thread_holding(ThreadHolding holding);  // by who brings kernels; a second time is harmless

void release_thread_holdings();
void make_way();

}  // namespace mpsgraph::runtime
