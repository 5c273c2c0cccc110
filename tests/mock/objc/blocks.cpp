// Blocks: copies from the stack to the heap, __block variables, and classes that let blocks receive messages.
//
// Blocks and __block variables have the layout that clang defines (docs/Block-ABI-Apple.rst). Copies on the heap have
// the same reference-counting header as objects, instead of a count in their flags.
#include <Block.h>

#include <cstring>

#include "abi.h"

namespace mock {

namespace {

enum BlockFlags : int { kNeedsFree = 1 << 24, kHasCopyDispose = 1 << 25, kIsGlobal = 1 << 28 };
enum FieldFlags : int { kFieldKind = 15, kFieldIsBlock = 7, kFieldIsByref = 8, kByrefCaller = 128 };

struct BlockDescriptor {
  unsigned long reserved, size;
  void (*copy)(void* to, const void* from);  // present if kHasCopyDispose is set
  void (*dispose)(const void* block);
};

struct Block {
  const void* isa;
  int flags;
  int reserved;
  void* invoke;
  BlockDescriptor* descriptor;
};

struct Byref {
  void* isa;
  Byref* forwarding;  // points to itself or to the copy on the heap
  int flags;
  int size;
  void (*keep)(Byref* to, Byref* from);  // present if kHasCopyDispose is set
  void (*destroy)(Byref* variable);
};

std::atomic<long> live{0};

// Move a __block variable to the heap when the first block that captures it is copied; later copies share it.
Byref* copy_byref(Byref* variable) {
  Byref* const shared = variable->forwarding;
  if (shared->flags & kNeedsFree) {
    retain_counted(shared);
    return shared;
  }
  const auto size = static_cast<size_t>(variable->size);
  Byref* const copy = static_cast<Byref*>(allocate_counted(size));
  std::memcpy(static_cast<void*>(copy), variable, size);
  copy->flags |= kNeedsFree;
  copy->forwarding = copy;
  variable->forwarding = copy;
  retain_counted(copy);  // one reference for the block, one for the declaring scope
  if (variable->flags & kHasCopyDispose) variable->keep(copy, variable);
  return copy;
}

void release_byref(Byref* variable) {
  Byref* const shared = variable->forwarding;
  if (!(shared->flags & kNeedsFree) || !drop_counted(shared)) return;
  if (shared->flags & kHasCopyDispose) shared->destroy(shared);
  free_counted(shared);
}

}  // namespace

bool is_heap_block(id block) { return (reinterpret_cast<const Block*>(block)->flags & kNeedsFree) != 0; }

long live_blocks() { return live.load(std::memory_order_relaxed); }

}  // namespace mock

using namespace mock;

extern "C" {

// Targets of the isa pointer that the compiler stores in blocks. They become classes when NSBlock is loaded.
objc_class _NSConcreteStackBlock, _NSConcreteGlobalBlock, _NSConcreteMallocBlock;

void mock_install_block_class(Class base) {
  const auto install = [base](objc_class& cls, const char* name) {
    cls = *base;
    cls.super = base;
    cls.name = name;
    cls.table = new MethodTable;
    cls.table->cls = &cls;
    cls.table->lifetime = Lifetime::block;
    cls.table->initialize_state = 2;
  };
  install(_NSConcreteStackBlock, "NSStackBlock");
  install(_NSConcreteGlobalBlock, "NSGlobalBlock");
  install(_NSConcreteMallocBlock, "NSMallocBlock");
}

void* _Block_copy(const void* pointer) {
  Block* const block = static_cast<Block*>(const_cast<void*>(pointer));
  if (!block || (block->flags & kIsGlobal)) return block;
  if (block->flags & kNeedsFree) {
    retain_counted(block);
    return block;
  }
  Block* const copy = static_cast<Block*>(allocate_counted(block->descriptor->size));
  std::memcpy(static_cast<void*>(copy), block, block->descriptor->size);
  copy->isa = &_NSConcreteMallocBlock;
  copy->flags |= kNeedsFree;
  live.fetch_add(1, std::memory_order_relaxed);
  if (block->flags & kHasCopyDispose) block->descriptor->copy(copy, block);
  return copy;
}

void _Block_release(const void* pointer) {
  Block* const block = static_cast<Block*>(const_cast<void*>(pointer));
  if (!block || !(block->flags & kNeedsFree) || !drop_counted(block)) return;
  if (header_of(block).weakly_referenced.load(std::memory_order_relaxed)) {
    clear_weak_references(reinterpret_cast<id>(block));
  }
  if (block->flags & kHasCopyDispose) block->descriptor->dispose(block);
  live.fetch_sub(1, std::memory_order_relaxed);
  free_counted(block);
}

id objc_retainBlock(id block) { return static_cast<id>(_Block_copy(block)); }

// Called by copy helpers for each captured object, block, or __block variable.
void _Block_object_assign(void* to, const void* object, const int flags) {
  void* const captured = const_cast<void*>(object);
  void** const place = static_cast<void**>(to);
  if (flags & kByrefCaller)
    *place = captured;  // objects in __block variables are not retained without ARC
  else if ((flags & kFieldKind) == kFieldIsByref)
    *place = copy_byref(static_cast<Byref*>(captured));
  else if ((flags & kFieldKind) == kFieldIsBlock)
    *place = _Block_copy(captured);
  else
    *place = objc_retain(static_cast<id>(captured));
}

void _Block_object_dispose(const void* object, const int flags) {
  void* const captured = const_cast<void*>(object);
  if (flags & kByrefCaller) return;
  if ((flags & kFieldKind) == kFieldIsByref)
    release_byref(static_cast<Byref*>(captured));
  else if ((flags & kFieldKind) == kFieldIsBlock)
    _Block_release(captured);
  else
    objc_release(static_cast<id>(captured));
}

}  // extern "C"
