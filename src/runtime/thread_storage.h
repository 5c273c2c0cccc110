// Allocation of a thread's local storage at a time when failure can be reported.
#pragma once

namespace mpsgraph::runtime {

// Allocates the calling thread's storage for thread-local variables of this library and of the C++ runtime, and returns
// false if there is too little memory. The C library allocates the storage on first use and ends the process if it
// cannot, and the C++ runtime first uses it when it throws, which is often when memory has run out. Cheap if the thread
// has called it before.
bool reserve_thread_storage();

}  // namespace mpsgraph::runtime
