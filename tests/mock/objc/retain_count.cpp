// Instances and their reference counts: creation, retain, release, deallocation, and the number of live objects.
//
// A header in front of each object holds its count (abi.h). The last release sets the count far below zero, so that
// retains and releases during dealloc have no effect and weak loads on other threads fail from then on.
#include <Block.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>

#include "abi.h"
#include "mock.h"

namespace mock {

namespace {

constexpr int64_t kDeallocating = int64_t{-1} << 62;
constexpr int64_t kImmortal = int64_t{1} << 61;

void construct(objc_class* cls, id object) {
  if (cls->super) construct(cls->super, object);
  if (cls->table->construct) cls->table->construct(object, nullptr);
}

}  // namespace

void* allocate_counted(size_t size) {
  void* const memory = std::calloc(1, sizeof(Header) + size);
  if (!memory) throw std::bad_alloc();
  return new (memory) Header{} + 1;
}

void free_counted(void* object) { std::free(&header_of(object)); }

void retain_counted(const void* object) { header_of(object).extra_references.fetch_add(1, std::memory_order_relaxed); }

bool try_retain_counted(const void* object) {
  std::atomic<int64_t>& extra = header_of(object).extra_references;
  int64_t now = extra.load(std::memory_order_relaxed);
  while (now >= 0) {
    if (extra.compare_exchange_weak(now, now + 1, std::memory_order_acquire, std::memory_order_relaxed)) return true;
  }
  return false;
}

bool drop_counted(const void* object) {
  std::atomic<int64_t>& extra = header_of(object).extra_references;
  const int64_t before = extra.fetch_sub(1, std::memory_order_acq_rel);
  if (before > 0) return false;
  if (before < kDeallocating / 2) return false;
  if (before < 0) fatal("object %p was released more often than it was retained", object);
  extra.fetch_add(kDeallocating, std::memory_order_relaxed);
  return true;
}

}  // namespace mock

using namespace mock;

extern "C" {

id class_createInstance(Class cls, size_t extra_bytes) {
  const id object = static_cast<id>(allocate_counted(static_cast<size_t>(cls->instance_size) + extra_bytes));
  object->isa = cls;
  cls->table->live.fetch_add(1, std::memory_order_relaxed);
  construct(cls, object);
  return object;
}

// Final part of NSObject's dealloc.
void object_dispose(id object) {
  for (objc_class* cls = object->isa; cls; cls = cls->super) {
    if (cls->table->destroy) cls->table->destroy(object, nullptr);
  }
  if (header_of(object).has_associations.load(std::memory_order_relaxed)) remove_associations(object);
  object->isa->table->live.fetch_sub(1, std::memory_order_relaxed);
  free_counted(object);
}

id objc_retain(id object) {
  if (!object) return object;
  switch (lifetime_of(object)) {
    case Lifetime::counted: retain_counted(object); break;
    case Lifetime::block:
      if (is_heap_block(object)) retain_counted(object);
      break;
    case Lifetime::immortal: break;
  }
  return object;
}

void objc_release(id object) {
  if (!object) return;
  switch (lifetime_of(object)) {
    case Lifetime::counted: {
      if (!drop_counted(object)) return;
      if (header_of(object).weakly_referenced.load(std::memory_order_relaxed)) clear_weak_references(object);
      static objc_selector* const dealloc = selector("dealloc");
      send(object, dealloc);
      return;
    }
    case Lifetime::block: _Block_release(object); return;
    case Lifetime::immortal: return;
  }
}

NSUInteger mock_retain_count(id object) {
  if (lifetime_of(object) != Lifetime::counted) return 1;
  return static_cast<NSUInteger>(header_of(object).extra_references.load(std::memory_order_relaxed) + 1);
}

void objc_storeStrong(id* slot, id value) {
  const id old = *slot;
  if (old == value) return;
  objc_retain(value);
  *slot = value;
  objc_release(old);
}

void mock_make_immortal(id object) {
  if (!object || lifetime_of(object) != Lifetime::counted) return;
  if (header_of(object).extra_references.fetch_add(kImmortal, std::memory_order_relaxed) >= kImmortal / 2) return;
  object->isa->table->live.fetch_sub(1, std::memory_order_relaxed);
}

long mock_live_objects(void) {
  long total = live_blocks();
  for (const objc_class* cls : loaded_classes()) total += cls->table->live.load(std::memory_order_relaxed);
  return total;
}

const char* mock_live_objects_by_class(void) {
  std::vector<std::string> lines;
  for (const objc_class* cls : loaded_classes()) {
    const long live = cls->table->live.load(std::memory_order_relaxed);
    if (live != 0) lines.push_back(std::string(cls->name) + ": " + std::to_string(live) + "\n");
  }
  if (live_blocks() != 0) lines.push_back("(block): " + std::to_string(live_blocks()) + "\n");
  std::sort(lines.begin(), lines.end());
  thread_local std::string text;
  text.clear();
  for (const std::string& line : lines) text += line;
  return text.c_str();
}

}  // extern "C"
