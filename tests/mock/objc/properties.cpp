// Functions for synthesized accessors, @synchronized, and associated objects.
#include <array>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "abi.h"

namespace mock {

namespace {

// Locks of atomic properties, selected by address.
std::mutex& property_lock(const void* address) {
  static std::array<std::mutex, 64> locks;
  return locks[(reinterpret_cast<uintptr_t>(address) >> 4) % locks.size()];
}

id copied(id object) {
  static objc_selector* const copy = selector("copy");
  return object ? send(object, copy) : object;
}

void set(id object, ptrdiff_t offset, id value, bool copies) {
  id* const place = reinterpret_cast<id*>(reinterpret_cast<char*>(object) + offset);
  value = copies ? copied(value) : objc_retain(value);
  id old = nullptr;
  {
    const std::lock_guard lock(property_lock(place));
    old = *place;
    *place = value;
  }
  objc_release(old);
}

struct Association {
  id value = nullptr;
  bool retained = false;
};

struct Associations {
  std::mutex lock;
  std::unordered_map<id, std::unordered_map<const void*, Association>> objects;
};

Associations& associations() {
  static Associations* const instance = new Associations;
  return *instance;
}

struct Monitor {
  std::recursive_mutex mutex;
  int users = 0;
};

struct Monitors {
  std::mutex lock;
  std::unordered_map<id, Monitor> objects;
};

Monitors& monitors() {
  static Monitors* const instance = new Monitors;
  return *instance;
}

}  // namespace

void remove_associations(id object) {
  std::unordered_map<const void*, Association> removed;
  {
    const std::lock_guard lock(associations().lock);
    const auto found = associations().objects.find(object);
    if (found == associations().objects.end()) return;
    removed.swap(found->second);
    associations().objects.erase(found);
  }
  for (const auto& [key, association] : removed) {
    if (association.retained) objc_release(association.value);
  }
}

}  // namespace mock

using namespace mock;

extern "C" {

id objc_getProperty(id object, SEL, ptrdiff_t offset, BOOL atomic) {
  id* const place = reinterpret_cast<id*>(reinterpret_cast<char*>(object) + offset);
  if (!atomic) return *place;
  id value = nullptr;
  {
    const std::lock_guard lock(property_lock(place));
    value = objc_retain(*place);
  }
  return objc_autorelease(value);
}

void objc_setProperty(id object, SEL, ptrdiff_t offset, id value, BOOL, BOOL copies) {
  set(object, offset, value, copies);
}
void objc_setProperty_atomic(id object, SEL, id value, ptrdiff_t offset) { set(object, offset, value, false); }
void objc_setProperty_nonatomic(id object, SEL, id value, ptrdiff_t offset) { set(object, offset, value, false); }
void objc_setProperty_atomic_copy(id object, SEL, id value, ptrdiff_t offset) { set(object, offset, value, true); }
void objc_setProperty_nonatomic_copy(id object, SEL, id value, ptrdiff_t offset) { set(object, offset, value, true); }

// Getters copy from the instance variable, and setters copy to it.
void objc_getPropertyStruct(void* to, const void* from, ptrdiff_t size, BOOL, BOOL) {
  const std::lock_guard lock(property_lock(from));
  std::memcpy(to, from, static_cast<size_t>(size));
}
void objc_setPropertyStruct(void* to, const void* from, ptrdiff_t size, BOOL, BOOL) {
  const std::lock_guard lock(property_lock(to));
  std::memcpy(to, from, static_cast<size_t>(size));
}
void objc_getCppObjectAtomic(void* to, const void* from, void (*copy)(void*, const void*)) {
  const std::lock_guard lock(property_lock(from));
  copy(to, from);
}
void objc_setCppObjectAtomic(void* to, const void* from, void (*copy)(void*, const void*)) {
  const std::lock_guard lock(property_lock(to));
  copy(to, from);
}

int objc_sync_enter(id object) {
  if (!object) return 0;
  Monitor* monitor = nullptr;
  {
    const std::lock_guard lock(monitors().lock);
    monitor = &monitors().objects[object];
    ++monitor->users;
  }
  monitor->mutex.lock();
  return 0;
}

int objc_sync_exit(id object) {
  if (!object) return 0;
  const std::lock_guard lock(monitors().lock);
  const auto found = monitors().objects.find(object);
  if (found == monitors().objects.end()) fatal("@synchronized was exited without having been entered");
  found->second.mutex.unlock();
  if (--found->second.users == 0) monitors().objects.erase(found);
  return 0;
}

void objc_setAssociatedObject(id object, const void* key, id value, objc_AssociationPolicy policy) {
  if (!object) return;
  if (is_tagged(object) || lifetime_of(object) != Lifetime::counted) {
    fatal("a %s does not support associated objects; use a reference-counted object", object_getClassName(object));
  }
  const bool retained = (policy & OBJC_ASSOCIATION_RETAIN_NONATOMIC) != 0;
  const bool copies = (policy & OBJC_ASSOCIATION_COPY_NONATOMIC) == OBJC_ASSOCIATION_COPY_NONATOMIC;
  if (copies)
    value = copied(value);
  else if (retained)
    objc_retain(value);
  Association old;
  {
    const std::lock_guard lock(associations().lock);
    header_of(object).has_associations.store(true, std::memory_order_relaxed);
    auto& of_object = associations().objects[object];
    old = of_object[key];
    if (value)
      of_object[key] = {value, retained};
    else
      of_object.erase(key);
  }
  if (old.retained) objc_release(old.value);
}

id objc_getAssociatedObject(id object, const void* key) {
  id value = nullptr;
  {
    const std::lock_guard lock(associations().lock);
    const auto of_object = associations().objects.find(object);
    if (of_object == associations().objects.end()) return nullptr;
    const auto found = of_object->second.find(key);
    if (found == of_object->second.end()) return nullptr;
    if (!found->second.retained) return found->second.value;
    value = objc_retain(found->second.value);
  }
  return objc_autorelease(value);
}

void objc_removeAssociatedObjects(id object) { remove_associations(object); }

}  // extern "C"
