// The subset of the runtime's C interface that applications use: classes, selectors, and associated objects.
#if defined(__APPLE__)
#include_next <objc/runtime.h>
#else
#pragma once
#include <objc/objc.h>

#ifdef __OBJC__
@class Protocol;
#else
typedef struct objc_object Protocol;
#endif

OBJC_EXPORT Class objc_getClass(const char* name);
OBJC_EXPORT Class object_getClass(id object);
OBJC_EXPORT const char* class_getName(Class cls);
OBJC_EXPORT Class class_getSuperclass(Class cls);
OBJC_EXPORT size_t class_getInstanceSize(Class cls);
OBJC_EXPORT BOOL class_respondsToSelector(Class cls, SEL sel);
OBJC_EXPORT BOOL class_conformsToProtocol(Class cls, Protocol* protocol);
OBJC_EXPORT IMP class_getMethodImplementation(Class cls, SEL sel);
OBJC_EXPORT const char* protocol_getName(Protocol* protocol);

enum objc_AssociationPolicy : uintptr_t {
  OBJC_ASSOCIATION_ASSIGN = 0,
  OBJC_ASSOCIATION_RETAIN_NONATOMIC = 1,
  OBJC_ASSOCIATION_COPY_NONATOMIC = 3,
  OBJC_ASSOCIATION_RETAIN = 01401,
  OBJC_ASSOCIATION_COPY = 01403
};
OBJC_EXPORT void objc_setAssociatedObject(id object, const void* key, id value, objc_AssociationPolicy policy);
OBJC_EXPORT id objc_getAssociatedObject(id object, const void* key);
OBJC_EXPORT void objc_removeAssociatedObjects(id object);
#endif
