// Weak references: a table from each object to the variables that refer to it, protected by one lock.
//
// All accesses to weak variables hold the lock, and so does clearing them, which happens before the object's memory is
// freed. A load therefore finds either nil or an object whose header is still readable, and retaining the object fails
// once its last strong reference is gone. String literals and classes are never deallocated and are not in the table.
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "abi.h"

namespace mock {

namespace {

struct WeakTable {
  std::mutex lock;
  std::unordered_map<id, std::unordered_set<id*>> places;
};

WeakTable& table() {
  static WeakTable* const instance = new WeakTable;
  return *instance;
}

bool is_counted(id object) {
  return lifetime_of(object) == Lifetime::counted || (lifetime_of(object) == Lifetime::block && is_heap_block(object));
}

// Callers of forget and remember must hold the lock.
void forget(id* place) {
  const auto found = *place ? table().places.find(*place) : table().places.end();
  if (found == table().places.end()) return;
  found->second.erase(place);
  if (found->second.empty()) table().places.erase(found);
}

void remember(id* place, id object) {
  *place = object;
  if (!object || !is_counted(object)) return;
  header_of(object).weakly_referenced.store(true, std::memory_order_relaxed);
  table().places[object].insert(place);
}

}  // namespace

void clear_weak_references(id object) {
  const std::lock_guard lock(table().lock);
  const auto found = table().places.find(object);
  if (found == table().places.end()) return;
  for (id* place : found->second) *place = nullptr;
  table().places.erase(found);
}

}  // namespace mock

using namespace mock;

extern "C" {

id objc_storeWeak(id* place, id object) {
  if (object && is_counted(object) && header_of(object).extra_references.load(std::memory_order_relaxed) < 0) {
    fatal("cannot form a weak reference to an instance of %s that is being deallocated", object_getClassName(object));
  }
  const std::lock_guard lock(table().lock);
  forget(place);
  remember(place, object);
  return object;
}

id objc_initWeak(id* place, id object) {
  *place = nullptr;
  return objc_storeWeak(place, object);
}

void objc_destroyWeak(id* place) {
  const std::lock_guard lock(table().lock);
  forget(place);
  *place = nullptr;
}

id objc_loadWeakRetained(id* place) {
  const std::lock_guard lock(table().lock);
  const id object = *place;
  if (!object || !is_counted(object) || try_retain_counted(object)) return object;
  return nullptr;
}

id objc_loadWeak(id* place) { return objc_autorelease(objc_loadWeakRetained(place)); }

void objc_copyWeak(id* to, id* from) {
  const id object = objc_loadWeakRetained(from);
  objc_initWeak(to, object);
  objc_release(object);
}

void objc_moveWeak(id* to, id* from) {
  const std::lock_guard lock(table().lock);
  const id object = *from;
  forget(from);
  *from = nullptr;
  // Do not copy a reference to an object that is being deallocated: its references have been cleared or soon will be.
  const bool goes =
      object && is_counted(object) && header_of(object).extra_references.load(std::memory_order_relaxed) < 0;
  remember(to, goes ? nullptr : object);
}

}  // extern "C"
