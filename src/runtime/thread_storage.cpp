// Uses each kind of thread-local storage once, and records in a pthread key that the thread has done so.
#include "runtime/thread_storage.h"

#include <pthread.h>

#include <cstdlib>
#include <exception>

#include "runtime/worker.h"

namespace mpsgraph::runtime {

bool reserve_thread_storage() {
  // A pthread key, because a thread-local flag would itself need the storage.
  static const struct Key {
    pthread_key_t key{};
    bool valid = pthread_key_create(&key, nullptr) == 0;
  } reserved;
  if (reserved.valid && pthread_getspecific(reserved.key)) return true;
  constexpr size_t most = 16 << 10;  // bytes; the storage of this library and of the C++ runtime is much smaller
  void* volatile enough = std::malloc(most);
  if (!enough) return false;
  std::free(enough);
  this_worker();  // a thread-local variable of this library
  [[maybe_unused]] const volatile int read = std::uncaught_exceptions();  // a thread-local variable of the C++ runtime
  if (reserved.valid) pthread_setspecific(reserved.key, &reserved);
  return true;
}

}  // namespace mpsgraph::runtime
