// The gnustep-2.0 binary interface as clang emits it (lib/CodeGen/CGObjCGNU.cpp), and what this runtime hangs onto it.
//
// A class, a method list or a selector is data in the program's image; __objc_load (runtime.cpp) receives each image's
// tables once, makes the name of every selector unique, lays out instance variables, and builds a MethodTable a class.
// Not ours to change: the order and the types of the members of everything above MethodTable.
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
  uint32_t flags;  // bits 0-1 ownership, bit 2 extended, from bit 3 log2 of the alignment
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

// How retain and release treat the instances of a class.
enum class Lifetime : uint8_t {
  counted,   // a header before the object counts (retain_count.cpp)
  block,     // the block counts itself (blocks.cpp)
  immortal,  // classes, string literals
};

struct MethodTable {
  objc_class* cls = nullptr;
  bool is_meta = false;
  Lifetime lifetime = Lifetime::counted;
  IMP construct = nullptr, destroy = nullptr;  // of this class's own C++ and strong instance variables
  std::unordered_map<const char*, Method> methods;
  std::vector<ProtocolList*> protocols;
  std::atomic<int> initialize_state{0};  // 0 not yet, 1 running, 2 done
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

// The class of string literals of up to eight ASCII characters, which clang packs into the pointer (low bits 4).
inline std::atomic<objc_class*> tiny_string_class{nullptr};

inline bool is_tagged(id object) { return (reinterpret_cast<uintptr_t>(object) & 7) != 0; }

inline objc_class* class_of(id object) {
  return is_tagged(object) ? tiny_string_class.load(std::memory_order_relaxed) : object->isa;
}

inline Lifetime lifetime_of(id object) { return is_tagged(object) ? Lifetime::immortal : object->isa->table->lifetime; }

// The selector of this name, made if it is new: its name can be compared as a pointer.
objc_selector* selector(const char* name);

// The implementation that a message finds. Raises NSInvalidArgumentException through doesNotRecognizeSelector:.
IMP find_implementation(id receiver, objc_selector* selector);

// The implementation that the class itself, without its superclasses, has; or null.
IMP own_implementation(objc_class* cls, const char* interned_name);

// Sends a message without arguments.
inline id send(id receiver, objc_selector* sel) {
  return reinterpret_cast<id (*)(id, SEL)>(find_implementation(receiver, sel))(receiver, sel);
}

// Every class that is loaded, in no order.
std::vector<objc_class*> loaded_classes();

[[noreturn]] void fatal(const char* format, ...) __attribute__((format(printf, 1, 2)));

// The word pair before every object, heap block and heap __block variable.
struct Header {
  std::atomic<bool> weakly_referenced;
  std::atomic<bool> has_associations;
  std::atomic<int64_t> extra_references;  // one less than the references; far below zero once it is being deallocated
};
static_assert(sizeof(Header) == 16);

inline Header& header_of(const void* object) { return const_cast<Header*>(static_cast<const Header*>(object))[-1]; }

// Zeroed memory of this size behind a header with one reference; and its end.
void* allocate_counted(size_t size);
void free_counted(void* object);

// The same for anything that has a header. drop: whether this was the last reference; then the caller destroys.
void retain_counted(const void* object);
bool try_retain_counted(const void* object);
bool drop_counted(const void* object);

// blocks.cpp
bool is_heap_block(id block);
long live_blocks();

// weak.cpp: whatever points weakly at the object becomes nil, before its memory goes.
void clear_weak_references(id object);

// associations.cpp
void remove_associations(id object);

}  // namespace mock

extern "C" {
id objc_retain(id object);
void objc_release(id object);
id objc_autorelease(id object);
id objc_retainBlock(id block);
}
