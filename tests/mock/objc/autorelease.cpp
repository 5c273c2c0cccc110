// Autorelease pools, with one stack per thread, and the ARC functions that autorelease.
//
// As on Apple's systems, an object that is autoreleased without an open pool lives until its thread ends. The mock
// counts such objects, because a worker thread without a pool leaks memory gradually.
#include <vector>

#include "abi.h"
#include "mock.h"

namespace {

std::atomic<long> without_pool{0};

struct Pools {
  std::vector<id> objects;
  std::vector<size_t> beginnings;

  void drain_to(size_t size) {
    while (objects.size() > size) {
      const id object = objects.back();
      objects.pop_back();
      objc_release(object);
    }
  }

  ~Pools() { drain_to(0); }
};

Pools& pools() {
  thread_local Pools instance;
  return instance;
}

}  // namespace

extern "C" {

void* objc_autoreleasePoolPush(void) {
  Pools& mine = pools();
  mine.beginnings.push_back(mine.objects.size());
  return reinterpret_cast<void*>(mine.beginnings.size());
}

// Popping a pool also pops the pools inside it, which an exception may have left open.
void objc_autoreleasePoolPop(void* pool) {
  Pools& mine = pools();
  const size_t index = reinterpret_cast<size_t>(pool) - 1;
  if (index >= mine.beginnings.size())
    mock::fatal("an autorelease pool must be popped once, on the thread that pushed it");
  mine.drain_to(mine.beginnings[index]);
  mine.beginnings.resize(index);
}

id objc_autorelease(id object) {
  if (!object || mock::lifetime_of(object) == mock::Lifetime::immortal) return object;
  Pools& mine = pools();
  if (mine.beginnings.empty()) without_pool.fetch_add(1, std::memory_order_relaxed);
  mine.objects.push_back(object);
  return object;
}

id objc_retainAutorelease(id object) { return objc_autorelease(objc_retain(object)); }
id objc_autoreleaseReturnValue(id object) { return objc_autorelease(object); }
id objc_retainAutoreleaseReturnValue(id object) { return objc_autorelease(objc_retain(object)); }
id objc_retainAutoreleasedReturnValue(id object) { return objc_retain(object); }
id objc_unsafeClaimAutoreleasedReturnValue(id object) { return object; }

long mock_autoreleases_without_pool(void) { return without_pool.load(std::memory_order_relaxed); }

}  // extern "C"
