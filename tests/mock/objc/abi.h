// The gnustep-2.0 binary interface as clang emits it (lib/CodeGen/CGObjCGNU.cpp), and the data that this runtime
// attaches to it.
//
// Classes, method lists, and selectors are data in the program's image. __objc_load (runtime.cpp) receives the tables
// of each image once, makes selector names unique, lays out instance variables, and builds a MethodTable for each
// class. The ABI fixes the order and types of all members declared above MethodTable, so they must not change.
#pragma once
#include <objc/runtime.h>

#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <vector>

struct objc_selector {
  const char* name;
  const char* types;
};

struct objc_object {
  objc_class* isa;
};

namespace mock {

struct Method {
  IMP imp;
  objc_selector* selector;
  const char* types;
};

struct MethodList {
  MethodList* next;
  int count;
  size_t method_size;
  Method methods[1];
};

struct Ivar {
  const char* name;
  const char* type;
  int* offset;
  uint32_t size;
  uint32_t flags;  // bits 0-1: ownership; bit 2: extended; bits 3 and up: log2 of the alignment
};

struct IvarList {
  int count;
  size_t ivar_size;
  Ivar ivars[1];
};

struct ProtocolData;

struct ProtocolList {
  ProtocolList* next;
  long count;
  ProtocolData* protocols[1];
};

struct ProtocolData {
  objc_class* isa;
  const char* name;
  ProtocolList* inherited;
  void* methods_and_properties[8];
};

struct CategoryData {
  const char* name;
  const char* class_name;
  MethodList* instance_methods;
  MethodList* class_methods;
  ProtocolList* protocols;
  void* properties[2];
};

// How retain and release treat instances of a class.
enum class Lifetime : uint8_t {
  counted,   // a header before the object holds the count (retain_count.cpp)
  block,     // blocks are counted on the heap only (blocks.cpp)
  immortal,  // classes and string literals
};

struct MethodTable {
  objc_class* cls = nullptr;
  bool is_meta = false;
  Lifetime lifetime = Lifetime::counted;
  IMP construct = nullptr, destroy = nullptr;  // for C++ and strong instance variables of this class only
  std::unordered_map<const char*, Method> methods;
  std::vector<ProtocolList*> protocols;
  std::atomic<int> initialize_state{0};  // 0: not started, 1: running, 2: done
  std::atomic<long> live{0};
};

}  // namespace mock

struct objc_class {
  objc_class* isa;
  objc_class* super;
  const char* name;
  long version;
  unsigned long info;
  long instance_size;  // negative until the superclass's size is known
  mock::IvarList* ivars;
  mock::MethodList* methods;
  mock::MethodTable* table;
  IMP cxx_construct;
  IMP cxx_destruct;
  objc_class* subclasses;
  objc_class* sibling;
  mock::ProtocolList* protocols;
  void* extra;
  long abi_version;
  void* properties;
};

namespace mock {

// Class of string literals with up to eight ASCII characters, which clang packs into the pointer (low bits 4).
inline std::atomic<objc_class*> tiny_string_class{nullptr};

inline bool is_tagged(id object) { return (reinterpret_cast<uintptr_t>(object) & 7) != 0; }

inline objc_class* class_of(id object) {
  return is_tagged(object) ? tiny_string_class.load(std::memory_order_relaxed) : object->isa;
}

inline Lifetime lifetime_of(id object) { return is_tagged(object) ? Lifetime::immortal : object->isa->table->lifetime; }

// Return the unique selector with this name, creating it if needed. Names of unique selectors can be compared by
// pointer.
objc_selector* selector(const char* name);

// Return the method that handles a message. Calls doesNotRecognizeSelector:, which raises NSInvalidArgumentException,
// if there is none.
IMP find_implementation(id receiver, objc_selector* selector);

// Return the method that a class itself implements, ignoring its superclasses, or null.
IMP own_implementation(objc_class* cls, const char* interned_name);

// Send a message without arguments.
inline id send(id receiver, objc_selector* sel) {
  return reinterpret_cast<id (*)(id, SEL)>(find_implementation(receiver, sel))(receiver, sel);
}

// Return all loaded classes in unspecified order.
std::vector<objc_class*> loaded_classes();

[[noreturn]] void fatal(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Two words in front of each object, heap block, and __block variable on the heap.
struct Header {
  std::atomic<bool> weakly_referenced;
  std::atomic<bool> has_associations;
  std::atomic<int64_t> extra_references;  // reference count minus 1; far below zero during deallocation
};
static_assert(sizeof(Header) == 16);

inline Header& header_of(const void* object) { return const_cast<Header*>(static_cast<const Header*>(object))[-1]; }

// Allocate zeroed memory with a header and one reference, or free it.
void* allocate_counted(size_t size);
void free_counted(void* object);

// Retain or release anything with a header. drop_counted returns whether it released the last reference; the caller
// must then destroy the object.
void retain_counted(const void* object);
bool try_retain_counted(const void* object);
bool drop_counted(const void* object);

// Defined in blocks.cpp.
bool is_heap_block(id block);
long live_blocks();

// Set all weak references to an object to nil before its memory is freed (weak.cpp).
void clear_weak_references(id object);

// Defined in properties.cpp.
void remove_associations(id object);

}  // namespace mock

extern "C" {
id objc_retain(id object);
void objc_release(id object);
id objc_autorelease(id object);
id objc_retainBlock(id block);
}
