// Classes, selectors, and method lookup. See abi.h for the data that the compiler emits.
//
// Tables only change while an image is loaded, under an exclusive lock. A message first checks a thread-local cache, so
// most messages take no lock. Loading an image increments a generation counter, which invalidates the caches.
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "abi.h"

namespace mock {

namespace {

struct Runtime {
  std::shared_mutex tables;
  std::mutex selectors_lock;
  std::unordered_map<std::string, objc_selector*> selectors;
  std::unordered_map<std::string, objc_class*> classes;
  std::recursive_mutex initialize;  // serializes +initialize; other threads wait for it
  std::atomic<unsigned> generation{1};
};

Runtime& runtime() {
  static Runtime* const instance = new Runtime;  // never destroyed, because threads may outlive main
  return *instance;
}

const char* intern(const char* name) { return selector(name)->name; }

void add_methods(objc_class* cls, MethodList* list) {
  for (; list; list = list->next) {
    for (int i = 0; i < list->count; ++i) {
      Method method = list->methods[i];
      method.selector->name = intern(method.selector->name);
      cls->table->methods[method.selector->name] = method;
    }
  }
}

// Place instance variables after those of the superclass, whose size the compiler cannot rely on.
void lay_out(objc_class* cls) {
  if (cls->instance_size > 0) return;
  long next = cls->super ? cls->super->instance_size : 0;
  if (!cls->ivars || cls->ivars->count == 0) {
    cls->instance_size = next - cls->instance_size;
    return;
  }
  long previous_declared = -1, previous = 0;
  for (int i = 0; i < cls->ivars->count; ++i) {
    const Ivar& ivar = cls->ivars->ivars[i];
    const long declared = *ivar.offset, alignment = 1L << (ivar.flags >> 3);
    if (declared == previous_declared) {  // bit-fields of one unit share an offset
      *ivar.offset = static_cast<int>(previous);
    } else {
      previous = (next + alignment - 1) / alignment * alignment;
      *ivar.offset = static_cast<int>(previous);
    }
    if (previous + static_cast<long>(ivar.size) > next) next = previous + static_cast<long>(ivar.size);
    previous_declared = declared;
  }
  cls->instance_size = (next + 7) / 8 * 8;
}

void resolve(objc_class* cls) {
  if (cls->table) return;
  if (cls->super) resolve(cls->super);
  objc_class* const meta = cls->isa;
  objc_class* root = cls;
  while (root->super) root = root->super;
  meta->isa = root->isa;
  meta->super = cls->super ? cls->super->isa : cls;
  cls->table = new MethodTable;
  meta->table = new MethodTable;
  cls->table->cls = meta->table->cls = cls;
  meta->table->is_meta = true;
  meta->table->lifetime = Lifetime::immortal;  // refers to the class object, which is an instance of the metaclass
  lay_out(cls);
  add_methods(cls, cls->methods);
  add_methods(meta, meta->methods);
  if (cls->protocols) cls->table->protocols.push_back(cls->protocols);
  if (cls->super) cls->table->lifetime = cls->super->table->lifetime;
  const auto own = [&](const char* name) {
    const auto found = cls->table->methods.find(intern(name));
    return found == cls->table->methods.end() ? nullptr : found->second.imp;
  };
  cls->table->construct = own(".cxx_construct");
  cls->table->destroy = own(".cxx_destruct");
  if (!runtime().classes.emplace(cls->name, cls).second) fatal("class %s is defined more than once", cls->name);
}

void add_category(const CategoryData& category) {
  const auto found = runtime().classes.find(category.class_name);
  if (found == runtime().classes.end()) {
    fatal("category %s extends class %s, which is not loaded", category.name, category.class_name);
  }
  add_methods(found->second, category.instance_methods);
  add_methods(found->second->isa, category.class_methods);
  if (category.protocols) found->second->table->protocols.push_back(category.protocols);
}

IMP find(objc_class* cls, const char* name) {
  for (; cls; cls = cls->super) {
    const auto found = cls->table->methods.find(name);
    if (found != cls->table->methods.end()) return found->second.imp;
  }
  return nullptr;
}

void ensure_initialized(objc_class* cls) {
  std::atomic<int>& state = cls->table->initialize_state;
  if (state.load(std::memory_order_acquire) == 2) return;
  const std::lock_guard lock(runtime().initialize);
  if (state.load(std::memory_order_relaxed) != 0) return;  // done by another thread, or running on this one
  if (cls->super) ensure_initialized(cls->super);
  state.store(1, std::memory_order_relaxed);
  static objc_selector* const initialize = selector("initialize");
  IMP imp = nullptr;
  {
    const std::shared_lock tables(runtime().tables);
    // an inherited +initialize runs again for a subclass, as on Apple's systems
    imp = find(cls->isa, initialize->name);
  }
  if (imp) reinterpret_cast<void (*)(id, SEL)>(imp)(reinterpret_cast<id>(cls), initialize);
  state.store(2, std::memory_order_release);
}

bool lists_protocol(const ProtocolList* list, const char* name) {
  for (; list; list = list->next) {
    for (long i = 0; i < list->count; ++i) {
      const ProtocolData* protocol = list->protocols[i];
      if (std::strcmp(protocol->name, name) == 0 || lists_protocol(protocol->inherited, name)) return true;
    }
  }
  return false;
}

struct CacheEntry {
  objc_class* cls = nullptr;
  const char* name = nullptr;
  IMP imp = nullptr;
  unsigned generation = 0;
};
thread_local std::array<CacheEntry, 512> cache;

CacheEntry& cache_entry(objc_class* cls, const char* name) {
  return cache[((reinterpret_cast<uintptr_t>(cls) >> 4) ^ (reinterpret_cast<uintptr_t>(name) >> 3)) % cache.size()];
}

}  // namespace

void fatal(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fputs("mock of Apple's runtime: ", stderr);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
  std::abort();
}

objc_selector* selector(const char* name) {
  const std::lock_guard lock(runtime().selectors_lock);
  const auto [entry, is_new] = runtime().selectors.try_emplace(name, nullptr);
  if (is_new) entry->second = new objc_selector{entry->first.c_str(), nullptr};
  return entry->second;
}

IMP own_implementation(objc_class* cls, const char* interned_name) {
  const std::shared_lock lock(runtime().tables);
  const auto found = cls->table->methods.find(interned_name);
  return found == cls->table->methods.end() ? nullptr : found->second.imp;
}

IMP find_implementation(id receiver, objc_selector* sel) {
  objc_class* const cls = class_of(receiver);
  const unsigned generation = runtime().generation.load(std::memory_order_acquire);
  CacheEntry& entry = cache_entry(cls, sel->name);
  if (entry.cls == cls && entry.name == sel->name && entry.generation == generation) return entry.imp;
  ensure_initialized(cls->table->cls);
  IMP imp = nullptr;
  {
    const std::shared_lock lock(runtime().tables);
    imp = find(cls, sel->name);
  }
  if (imp) {
    cache_entry(cls, sel->name) = {cls, sel->name, imp, generation};
    return imp;
  }
  static objc_selector* const unrecognized = selector("doesNotRecognizeSelector:");
  if (sel->name == unrecognized->name) fatal("class %s does not derive from a root class", cls->name);
  reinterpret_cast<void (*)(id, SEL, SEL)>(find_implementation(receiver, unrecognized))(receiver, unrecognized, sel);
  fatal("doesNotRecognizeSelector: must not return");
}

std::vector<objc_class*> loaded_classes() {
  const std::shared_lock lock(runtime().tables);
  std::vector<objc_class*> classes;
  for (const auto& [name, cls] : runtime().classes) classes.push_back(cls);
  return classes;
}

}  // namespace mock

using namespace mock;

extern "C" {

// Tables of one image: the beginnings and ends of its sections, as passed by the constructor that clang adds to it.
struct ImageTables {
  long version;
  objc_selector *selectors, *selectors_end;
  objc_class **classes, **classes_end;
  objc_class **class_references, **class_references_end;
  CategoryData *categories, *categories_end;
  ProtocolData *protocols, *protocols_end;
  ProtocolData **protocol_references, **protocol_references_end;
  void *aliases, *aliases_end;
  void *strings, *strings_end;
};

void __objc_load(ImageTables* image) {
  std::vector<objc_class*> fresh;
  {
    const std::unique_lock lock(runtime().tables);
    for (objc_selector* sel = image->selectors; sel < image->selectors_end; ++sel) {
      if (sel->name) sel->name = intern(sel->name);
    }
    for (objc_class** cls = image->classes; cls < image->classes_end; ++cls) {
      if (!*cls) continue;
      resolve(*cls);
      fresh.push_back(*cls);
    }
    for (CategoryData* category = image->categories; category < image->categories_end; ++category) {
      if (category->class_name) add_category(*category);
    }
    const auto protocol_class = runtime().classes.find("Protocol");
    for (ProtocolData* protocol = image->protocols; protocol < image->protocols_end; ++protocol) {
      if (protocol->name && protocol_class != runtime().classes.end()) protocol->isa = protocol_class->second;
    }
    runtime().generation.fetch_add(1, std::memory_order_release);
  }
  static objc_selector* const load = selector("load");
  for (objc_class* cls : fresh) {
    if (const IMP imp = own_implementation(cls->isa, load->name)) {
      reinterpret_cast<void (*)(id, SEL)>(imp)(reinterpret_cast<id>(cls), load);
    }
  }
}

// Mark classes whose instances the compiler emits into the image, without a header.
void mock_make_instances_immortal(Class cls) {
  const std::unique_lock lock(runtime().tables);
  for (const auto& [name, other] : runtime().classes) {
    for (objc_class* ancestor = other; ancestor; ancestor = ancestor->super) {
      if (ancestor == cls) other->table->lifetime = Lifetime::immortal;
    }
  }
}

void mock_install_tiny_string_class(Class cls) { tiny_string_class = cls; }

// Called by message_send.S; the receiver is never nil.
IMP mock_lookup(id receiver, objc_selector* sel) { return find_implementation(receiver, sel); }

struct objc_super {
  id receiver;
  objc_class* cls;  // class where the lookup starts
};

static id answer_nil(id, SEL, ...) { return nullptr; }

IMP objc_msg_lookup_super(objc_super* super, objc_selector* sel) {
  if (!super->receiver) return answer_nil;
  {
    const std::shared_lock lock(runtime().tables);
    if (const IMP imp = find(super->cls, sel->name)) return imp;
  }
  return find_implementation(super->receiver, sel);
}

Class objc_getClass(const char* name) {
  const std::shared_lock lock(runtime().tables);
  const auto found = runtime().classes.find(name);
  return found == runtime().classes.end() ? nullptr : found->second;
}

Class object_getClass(id object) { return object ? class_of(object) : nullptr; }
const char* object_getClassName(id object) { return class_getName(object_getClass(object)); }
const char* class_getName(Class cls) { return cls ? cls->name : "nil"; }
Class class_getSuperclass(Class cls) { return cls ? cls->super : nullptr; }
size_t class_getInstanceSize(Class cls) { return cls ? static_cast<size_t>(cls->instance_size) : 0; }

IMP class_getMethodImplementation(Class cls, SEL sel) {
  if (!cls || !sel) return nullptr;
  const char* const name = intern(sel->name);
  const std::shared_lock lock(runtime().tables);
  return find(cls, name);
}

BOOL class_respondsToSelector(Class cls, SEL sel) { return class_getMethodImplementation(cls, sel) != nullptr; }

// Each image has its own copy of a protocol, so protocols are compared by name.
BOOL class_conformsToProtocol(Class cls, Protocol* protocol) {
  const std::shared_lock lock(runtime().tables);
  for (; cls; cls = cls->super) {
    for (const ProtocolList* list : cls->table->protocols) {
      if (lists_protocol(list, protocol_getName(protocol))) return true;
    }
  }
  return false;
}

const char* protocol_getName(Protocol* protocol) { return reinterpret_cast<ProtocolData*>(protocol)->name; }
SEL sel_registerName(const char* name) { return selector(name); }
const char* sel_getName(SEL sel) { return sel ? sel->name : "<null selector>"; }

void objc_enumerationMutation(id collection) {
  fatal("%s was changed while it was enumerated", object_getClassName(collection));
}

}  // extern "C"
