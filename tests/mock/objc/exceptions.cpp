// Objective-C exceptions are C++ exceptions of a single type, id, so that they unwind through frames of both languages.
//
// For @catch (Class* e), clang emits a type_info with the virtual table defined below and the name of the class. The
// C++ runtime calls it to decide whether the handler matches. C++ code catches such exceptions with catch (...).
#include <cxxabi.h>
#include <unwind.h>

#include <cstring>
#include <typeinfo>

#include "abi.h"

namespace gnustep::libobjc {

struct __objc_type_info : std::type_info {
  explicit __objc_type_info(const char* name) : std::type_info(name) {}
  ~__objc_type_info() override;
  bool __is_pointer_p() const override { return true; }
};
__objc_type_info::~__objc_type_info() = default;

struct __objc_id_type_info : __objc_type_info {
  __objc_id_type_info() : __objc_type_info("@id") {}
  ~__objc_id_type_info() override;
  bool __do_catch(const std::type_info* thrown, void** object, unsigned) const override;
};
__objc_id_type_info::~__objc_id_type_info() = default;

struct __objc_class_type_info : __objc_type_info {
  explicit __objc_class_type_info(const char* name) : __objc_type_info(name) {}
  ~__objc_class_type_info() override;
  bool __do_catch(const std::type_info* thrown, void** object, unsigned) const override;
};
__objc_class_type_info::~__objc_class_type_info() = default;

}  // namespace gnustep::libobjc

extern "C" gnustep::libobjc::__objc_id_type_info __objc_id_type_info;
gnustep::libobjc::__objc_id_type_info __objc_id_type_info;

namespace gnustep::libobjc {

bool __objc_id_type_info::__do_catch(const std::type_info* thrown, void**, unsigned) const {
  return thrown == &::__objc_id_type_info;
}

bool __objc_class_type_info::__do_catch(const std::type_info* thrown, void** object, unsigned) const {
  if (thrown != &::__objc_id_type_info) return false;
  for (objc_class* cls = mock::class_of(static_cast<id>(*object)); cls; cls = cls->super) {
    if (std::strcmp(cls->name, name()) == 0) return true;
  }
  return false;
}

}  // namespace gnustep::libobjc

extern "C" {

static void release_thrown(void* exception) { objc_release(*static_cast<id*>(exception)); }

void objc_exception_throw(id object) {
  void* const exception = abi::__cxa_allocate_exception(sizeof(id));
  *static_cast<id*>(exception) = objc_retain(object);
  abi::__cxa_throw(exception, &__objc_id_type_info, release_thrown);
}

_Unwind_Reason_Code __gxx_personality_v0(int, _Unwind_Action, _Unwind_Exception_Class, _Unwind_Exception*,
                                         _Unwind_Context*);

_Unwind_Reason_Code __gnustep_objcxx_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class cls,
                                                    _Unwind_Exception* exception, _Unwind_Context* context) {
  return __gxx_personality_v0(version, actions, cls, exception, context);
}

}  // extern "C"
